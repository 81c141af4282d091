"""Rows: what hosts reported while the bot was away is stored and told. `python -m tests.bench.backlog [--events N]`.

The latter prints JSON. `drained_s` is from the bot's first look at the streams until the last event is durable;
`told_s` until the thread shows how every run ended.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import redis

from agent.domain.events import Ended, EventBody, Logged, Measured, MetricRow, Started
from agent.domain.runs import Outcome, RunState
from tests.bench.bot_side import bot, send
from tests.bench.processes import home_with_redis
from tests.bench.progress import say
from tests.bench.rows import Row, alone
from worker.client.redis_url import for_client

RUNS, EVENTS = 20, 10_000
DRAINED_S, MESSAGES_A_RUN = 30.0, 4
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What was measured; seconds. `posts` and `edits` are messages in chat for all of it."""

    events: int
    stored: int
    drained_s: float
    told_s: float
    posts: int
    edits: int


def measure() -> Sequence[Row]:
    """Messages are those that the bot sent for all events, posted or edited."""
    found = run(EVENTS)
    say(f"backlog: {asdict(found)}")
    if found.stored < EVENTS:
        raise RuntimeError(f"only {found.stored} of {EVENTS} events were stored in {LIMIT_S:.0f} s")
    told = found.posts + found.edits
    return [
        alone("backlog of 10,000 events stored", ours=found.drained_s, unit="s", at_most=DRAINED_S),
        alone("messages in chat for all of it", ours=told, unit="of 10000", at_most=MESSAGES_A_RUN * RUNS),
    ]


def run(events: int) -> Backlog:
    """Run it once."""
    with home_with_redis() as (home, redis_url):
        return asyncio.run(_measure(home, redis_url, events))


def report(redis_url: str, runs: list[str], events: int) -> None:
    """The whole training of each run: a start, metrics and log lines in turn, an end."""
    client = redis.Redis.from_url(for_client(redis_url))
    each = events // len(runs)
    for seq in range(1, each + 1):
        row = MetricRow(step=seq, at=time.time(), values={"train_loss": 1 / seq})
        body: EventBody = Measured(rows=(row,)) if seq % 2 else Logged(lines=(f"step {seq}: all is well",))
        if seq == 1:
            body = Started(model="m", total_steps=each)
        elif seq == each:
            body = Ended(outcome=Outcome(state=RunState.FAILED, reason="The data ended."))
        send(client, [(run, seq, body) for run in runs])
    client.close()


async def _measure(home: Path, redis_url: str, events: int) -> Backlog:
    listens = asyncio.Event()
    async with bot(home, redis_url, runs=RUNS, listens=listens) as made:
        await asyncio.to_thread(report, redis_url, made.runs, events)
        posts, edits = made.adapter.posts, made.adapter.edits
        began = time.monotonic()
        listens.set()
        while made.stored < events and time.monotonic() - began < LIMIT_S:
            await asyncio.sleep(0.01)
        drained_s = time.monotonic() - began
        outbox = made.brain.stores.outbox
        while time.monotonic() - began < LIMIT_S:
            ends = [await outbox.get(f"result:{run}") for run in made.runs]
            if all(end is not None and end.shown == end.version for end in ends):
                break
            await asyncio.sleep(0.05)
        told_s = time.monotonic() - began
        return Backlog(
            events=events,
            stored=made.stored,
            drained_s=round(drained_s, 3),
            told_s=round(told_s, 3),
            posts=made.adapter.posts - posts,
            edits=made.adapter.edits - edits,
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.backlog")
    parser.add_argument("--events", type=int, default=10_000)
    print(json.dumps(asdict(run(parser.parse_args().events)), indent=2))


if __name__ == "__main__":
    main()
