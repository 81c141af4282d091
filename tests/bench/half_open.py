"""Rows: a connection to Redis that a firewall forgot, and a Redis that hangs.

Half-open: every connection of a worker stops forwarding and closes nothing; measured until a task that is sent
afterwards starts. Ours is Trainyard's worker with its settings, the peer Celery with its defaults, each behind a proxy
of its own, observed for at most `WATCHED_S` (a frozen peer counts as that). Hung: the server process is stopped
(SIGSTOP); measured until a launch fails, ours against `send_task` with Celery's defaults, which is left after the same.
"""

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import redis

from agent.domain.errors import Unavailable
from tests.bench.dispatch import HOST, NoopFleet, an_order
from tests.bench.noop_worker import DIRECT, PLAIN, STARTED, plain_app
from tests.bench.processes import clean_environment, home_with_redis, python
from tests.bench.progress import say
from tests.bench.rows import Row, limited
from tests.faults.proxy import Proxy, proxied
from worker.client.blobs import FolderBlobs
from worker.client.redis_url import for_client, socket_path

WATCHED_S = 45.0
CONSUMING_S, FAILS_S = 20.0, 6.0
LIMIT_S = 60.0


def measure() -> Sequence[Row]:
    """Both workers are seen to work before their connections go bad."""
    with home_with_redis() as (home, url), proxied(socket_path(url)) as ours, proxied(socket_path(url)) as peer:
        env = {"TRAINYARD_HOME": str(home), "TRAINYARD_HOST_ID": HOST, DIRECT: url}
        argv = ("-m", "tests.bench.noop_worker")
        ours_env, peer_env = (clean_environment(**env, TRAINYARD_REDIS_URL=proxy.url) for proxy in (ours, peer))
        with (
            python(*argv, "ours", log=home / "ours.log", env=ours_env),
            python(*argv, "plain", log=home / "plain.log", env=peer_env),
        ):
            half_open = asyncio.run(_half_open(home, url, ours, peer))
        hung = asyncio.run(_hung(home, url))
    return [
        limited(
            "consuming after a half-open connection",
            ours=half_open[0],
            peer=half_open[1],
            peer_name=f"plain Celery, watched for {WATCHED_S:.0f} s",
            unit="s",
            at_most=CONSUMING_S,
        ),
        limited(
            "launch to a Redis that hangs fails",
            ours=hung[0],
            peer=hung[1],
            peer_name=f"plain Celery, watched for {WATCHED_S:.0f} s",
            unit="s",
            at_most=FAILS_S,
        ),
    ]


async def _half_open(home: Path, url: str, ours: Proxy, peer: Proxy) -> tuple[float, float]:
    client = redis.Redis.from_url(for_client(url), socket_timeout=2 * LIMIT_S)
    fleet, plain, order = NoopFleet(url, home / "keys", FolderBlobs(home / "blobs")), plain_app(url), an_order()

    async def send_ours() -> None:
        await fleet.submit(order)

    async def send_plain() -> None:
        await asyncio.to_thread(plain.send_task, PLAIN, args=["run"], ignore_result=True)

    for send, which in ((send_ours, "ours"), (send_plain, "plain")):
        await send()
        if await asyncio.to_thread(client.brpop, [f"{STARTED}:{which}"], LIMIT_S) is None:
            raise RuntimeError(f"no task started on the worker: {which}")
    found = []
    for proxy, send, which in ((ours, send_ours, "ours"), (peer, send_plain, "plain")):
        client.delete(f"{STARTED}:{which}")
        count = proxy.half_open()
        began = time.monotonic()
        say(f"half-open: {count} connections of the worker {which} forward nothing any more")
        found.append(await _until_started(client, send, which, began))
        say(f"half-open: {which} after {found[-1]:.1f} s")
    await fleet.close()
    plain.close()
    client.close()
    return found[0], found[1]


async def _until_started(client: "redis.Redis", send: Callable[[], Awaitable[None]], which: str, began: float) -> float:
    """A task a second, as the first may vanish into the dead connection; seconds until one of them starts."""
    while time.monotonic() - began < WATCHED_S:
        await send()
        if await asyncio.to_thread(client.brpop, [f"{STARTED}:{which}"], 1) is not None:
            return time.monotonic() - began
    return WATCHED_S


async def _hung(home: Path, url: str) -> tuple[float, float]:
    client = redis.Redis.from_url(for_client(url))
    pid = int(client.info("server")["process_id"])
    client.close()
    fleet, order = NoopFleet(url, home / "keys", FolderBlobs(home / "blobs")), an_order()
    await fleet.submit(order)
    plain = plain_app(url)
    plain.send_task(PLAIN, args=["run"], ignore_result=True)
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        with contextlib.suppress(Unavailable):
            await fleet.submit(order)
        ours = time.monotonic() - began
        say(f"hung Redis: ours failed after {ours:.1f} s")
        peer = await asyncio.to_thread(_given_up, lambda: plain.send_task(PLAIN, args=["run"], ignore_result=True))
        say(f"hung Redis: plain Celery after {peer:.1f} s")
    finally:
        os.kill(pid, signal.SIGCONT)
    await fleet.close()
    return ours, peer


def _given_up(send: Callable[[], object]) -> float:
    """Seconds until `send` returns or fails, in a thread that is left behind after `WATCHED_S`."""
    thread = threading.Thread(target=send, daemon=True)
    began = time.monotonic()
    thread.start()
    thread.join(WATCHED_S)
    return time.monotonic() - began
