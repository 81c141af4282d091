"""A Celery worker whose tasks tell when they start. `ours` runs Trainyard's worker, `plain` Celery as it comes.

Both get the same signal handler, which runs in the pool's process right before the task: the clock is the machine's.
"""

import os
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

from worker.settings import remap_sigterm

remap_sigterm()

import redis  # noqa: E402 - Celery reads its environment when it is imported
from celery import Celery  # noqa: E402
from celery.signals import task_prerun  # noqa: E402

from worker.client.redis_url import for_celery, for_client  # noqa: E402

STARTED = "bench:started"
PLAIN = "plain.noop"
DIRECT = "BENCH_REDIS_URL"  # where the start of a task is told, when the worker's own way to Redis is to go bad


def plain_app(redis_url: str) -> Celery:
    """Celery with its defaults; keys of its own in the same Redis."""
    url = for_celery(re.sub(r"(db=|/)0$", r"\g<1>1", redis_url))
    app = Celery("plain", broker=url, backend=url, set_as_current=False)

    @app.task(name=PLAIN, ignore_result=True)  # type: ignore[untyped-decorator]
    def noop(text: str = "") -> None:
        del text

    return app


def main(which: str, redis_url: str) -> None:
    """Work until SIGTERM."""
    client = redis.Redis.from_url(for_client(os.environ.get(DIRECT, redis_url)))

    def started(args: Sequence[Any] = (), **_signal: Any) -> None:
        at = time.monotonic()
        if not args or "run" not in str(args[0]):
            return  # the worker's own word to itself
        client.lpush(f"{STARTED}:{which}", repr(at))

    task_prerun.connect(started, weak=False)
    if which == "ours":
        from worker.app import main as work

        work()
    else:
        plain_app(redis_url).worker_main(["worker", "--pool", "prefork", "-c", "2", "--loglevel", "WARNING"])


if __name__ == "__main__":
    main(sys.argv[1], os.environ["TRAINYARD_REDIS_URL"])
