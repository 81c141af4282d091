"""The bot's way of events for a measurement: real Redis, relay, SQLite, live cards and monitor; a counting adapter.

Pictures are not drawn, because another process does that. Used by `tests.bench.ingest` and `tests.bench.backlog`.
"""

import asyncio
import contextlib
import time
from array import array
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import redis

from agent.brain import Brain, Options, Surroundings, build
from agent.clock import SystemClock
from agent.domain.content import Content
from agent.domain.datasets import DatasetRef
from agent.domain.events import EventBody, WorkerEvent
from agent.domain.inbound import Thread
from agent.domain.runs import RunSpec
from agent.llm.acts import act_asked
from agent.llm.offline import OfflinePlanner
from agent.ports import MessageRef, Whisper
from agent.runs.life.service import Timings
from agent.runs.queue.fair import Limits
from agent.storage import sql_stores
from agent.storage.database import Database
from agent.wire import encode
from bot.allocator import use_one_heap
from bot.relay import relay
from tests.fakes import THREAD, FakeAdapter, FakeBundles, FakeCharts, FakeFleet, engines_of, host
from worker.client.blobs import FolderBlobs
from worker.client.feed import RedisFeed

HOST = "gpu-1"
STREAM = f"trainyard:ev:{HOST}"
SPEC = RunSpec(
    task="tabular_classification",
    recipe="tabular_classification",
    dataset=DatasetRef(sha256="0" * 64, name="visits.csv", size_bytes=1),
    target="visited",
    host=HOST,
    bundle_sha256="b" * 64,
)


class CountingAdapter(FakeAdapter):
    """Takes everything and keeps only numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.posts = self.edits = 0

    async def post(self, thread: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        """A new message."""
        self.posts += 1
        self.keys[key] = f"m{self.posts}"
        return MessageRef(thread.channel, self.keys[key])

    async def edit(self, thread: Thread, ref: MessageRef, content: Content) -> MessageRef:
        """A changed message."""
        self.edits += 1
        return ref


@dataclass(slots=True)
class Bot:
    """What runs, and the seconds from each event's making to its commit."""

    brain: Brain
    database: Database
    adapter: CountingAdapter
    runs: list[str] = field(default_factory=list)
    late_s: "array[float]" = field(default_factory=lambda: array("f"))
    stored: int = 0

    async def rows(self) -> tuple[int, int]:
        """Rows of metrics that are stored, and how many of them are of different steps of a run."""
        runs = self.brain.stores.runs
        steps = [[row.step for row in await runs.metrics(run)] for run in self.runs]
        return sum(map(len, steps)), sum(len(set(of)) for of in steps)


@contextlib.asynccontextmanager
async def bot(home: Path, redis_url: str, *, runs: int, listens: asyncio.Event) -> AsyncIterator[Bot]:
    """A bot with live runs; it reads the streams as soon as `listens` is set."""
    use_one_heap()  # as the bot does at its start
    database = Database(f"sqlite:///{home / 'bench.db'}")
    await database.start()
    adapter, fleet, charts = CountingAdapter(), FakeFleet(), FakeCharts()
    charts.drawn = deque(maxlen=0)
    fleet.infos = (host(HOST, slots=runs),)
    limits = Limits(running_per_user=runs, queued_per_user=runs)
    brain = build(
        Surroundings(
            stores=sql_stores(database),
            adapters={"slack": adapter},
            engines=engines_of(fleet),
            blobs=FolderBlobs(home / "blobs"),
            bundles=FakeBundles(),
            charts=charts,
            model=OfflinePlanner(),
            clock=SystemClock(),
            tokens=lambda nonce: f"token of {nonce}",
            acts=act_asked,
            options=Options(pictures=home / "charts", timings=Timings(limits=limits)),
        )
    )
    assert brain.monitor is not None
    made = Bot(brain, database, adapter)
    session_id = await brain.stores.conversations.session_of(THREAD, create=True) or ""
    for number in range(runs):
        run = await brain.service.create(
            SPEC, session_id=session_id, requester="slack:T1:U1", thread=THREAD, token=str(number)
        )
        made.runs.append(run.id)
    _measured(made)
    feed = RedisFeed(redis_url)
    tasks = [
        asyncio.create_task(_relay(feed, brain, listens)),
        asyncio.create_task(brain.cards.run()),
        asyncio.create_task(_ticks(brain)),
        asyncio.create_task(brain.monitor.run()),
    ]
    try:
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await feed.close()
        await brain.close()
        await database.close()


async def _relay(feed: RedisFeed, brain: Brain, listens: asyncio.Event) -> None:
    await listens.wait()
    await relay(feed, brain.service)


async def _ticks(brain: Brain) -> None:
    while True:
        await brain.service.tick()
        await asyncio.sleep(2.0)


def _measured(made: Bot) -> None:
    """Note for each event when its transaction was durable."""
    take = made.brain.service.take

    async def timed(events: Sequence[WorkerEvent]) -> None:
        await take(events)
        now = time.time()
        made.late_s.extend(now - event.at.timestamp() for event in events)
        made.stored += len(events)

    made.brain.service.take = timed  # type: ignore[method-assign]


def send(client: "redis.Redis", events: Sequence[tuple[str, int, EventBody]]) -> None:
    """Put (run, seq, body) on the host's stream, as a supervisor's sender does."""
    pipeline = client.pipeline(transaction=False)
    for run, seq, body in events:
        event = WorkerEvent(run=run, attempt=1, seq=seq, host=HOST, at=datetime.now(UTC), body=body)
        pipeline.xadd(STREAM, {"e": encode(event)}, maxlen=100_000, approximate=True)
    pipeline.execute()


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
