"""Row: from an order to the start of its task on a worker, against plain Celery on the same Redis.

Ours is signed and sent as a launch is (`CeleryFleet`), with our safe settings, to Trainyard's own worker; the task
does nothing. The peer sends the same text with `send_task` to a worker with Celery's defaults, prefork, two processes.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import redis

from agent.domain.datasets import DatasetRef
from agent.domain.orders import LaunchOrder
from agent.domain.runs import RunSpec
from agent.wire import encode
from tests.bench.noop_worker import PLAIN, STARTED, plain_app
from tests.bench.processes import clean_environment, home_with_redis, python
from tests.bench.progress import say
from tests.bench.rows import Row, compared, median
from worker.client.blobs import FolderBlobs
from worker.client.keys import load_or_create, sign
from worker.client.redis_url import for_client
from worker.engines.hosts.fleet import CeleryFleet

HOST = "gpu-1"
WARM_UP, ROUNDS = 20, 200
AT_LEAST = 1 / 1.3
LIMIT_S = 30


class NoopFleet(CeleryFleet):
    """Launches into a task that does nothing."""

    async def submit(self, order: LaunchOrder) -> None:
        """As the real one, but for the task's name."""
        key = await asyncio.to_thread(load_or_create, self._keys)
        await self._publish("trainyard.noop", sign(order, key), host=order.host)


def measure() -> Sequence[Row]:
    """Workers of both kinds run all the time; orders go to them in turn."""
    with home_with_redis() as (home, redis_url):
        own = {"TRAINYARD_HOME": str(home), "TRAINYARD_REDIS_URL": redis_url, "TRAINYARD_HOST_ID": HOST}
        env, argv = clean_environment(**own), ("-m", "tests.bench.noop_worker")
        with (
            python(*argv, "ours", log=home / "ours.log", env=env),
            python(*argv, "plain", log=home / "plain.log", env=env),
        ):
            ours, peer = asyncio.run(_both(home, redis_url))
    return [compared("dispatch", ours=ours, peer=peer, peer_name="plain Celery", unit="ms", at_least=AT_LEAST)]


async def _both(home: Path, redis_url: str) -> tuple[float, float]:
    client = redis.Redis.from_url(for_client(redis_url))
    fleet, plain, order = (
        NoopFleet(redis_url, home / "keys", FolderBlobs(home / "blobs")),
        plain_app(redis_url),
        an_order(),
    )
    text = encode(order).decode()

    async def send_ours() -> None:
        await fleet.submit(order)

    async def send_plain() -> None:
        plain.send_task(PLAIN, args=[text], ignore_result=True)

    say(f"dispatch: {WARM_UP + ROUNDS} orders each")
    ours: list[float] = []
    peer: list[float] = []
    for _ in range(WARM_UP + ROUNDS):
        for send, which, into in ((send_ours, "ours", ours), (send_plain, "plain", peer)):
            began = time.monotonic()
            await send()
            word = await asyncio.to_thread(client.brpop, [f"{STARTED}:{which}"], LIMIT_S)
            if word is None:
                raise RuntimeError(f"no task started on the worker: {which}")
            into.append((float(word[1]) - began) * 1000)
    await fleet.close()
    plain.close()
    client.close()
    return median(ours[WARM_UP:]), median(peer[WARM_UP:])


def an_order() -> LaunchOrder:
    spec = RunSpec(
        task="tabular_classification",
        recipe="tabular_classification",
        dataset=DatasetRef(sha256="0" * 64, name="visits.csv", size_bytes=1),
        target="visited",
        host=HOST,
        bundle_sha256="0" * 64,
    )
    return LaunchOrder(run="r-abc123", attempt=1, host=HOST, spec=spec, expires_at=datetime.now(UTC) + timedelta(1))
