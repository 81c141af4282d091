"""Rows: 100 live runs at 10 metrics a second each for 5 minutes. `python -m tests.bench.ingest [--seconds N]` alone.

A process of its own plays the hosts. `late_*` is from the making of an event to the commit of its transaction in the
bot's database. `rss_*` is the bot's memory after the first fifth, when all its work was done once, and at the end.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import redis

from agent.domain.events import Measured, MetricRow
from tests.bench.bot_side import bot, percentile, send
from tests.bench.processes import clean_environment, home_with_redis, python
from tests.bench.progress import say
from tests.bench.rows import Row, alone
from worker.client.redis_url import for_client

RUNS, EVERY_S = 100, 0.1
DRAIN_S = 60.0
SECONDS, LATE_P95_S, MEMORY_TIMES = 300.0, 1.0, 1.1


@dataclass(frozen=True, slots=True)
class Ingest:
    """What was measured; seconds, and MB of 10^6 bytes."""

    seconds: float
    sent: int
    stored: int
    lost: int
    doubled: int
    per_second: float
    late_p50_s: float
    late_p95_s: float
    late_max_s: float
    rss_first_mb: float
    rss_last_mb: float
    posts: int
    edits: int


def produce(redis_url: str, seconds: float, runs: list[str]) -> None:
    """One metric row of each run in every tenth of a second; prints how many events were sent."""
    client = redis.Redis.from_url(for_client(redis_url))
    began, rounds = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        rounds += 1
        row = MetricRow(step=rounds, at=time.time(), values={"train_loss": 1 / rounds, "valid_loss": 1.1 / rounds})
        body = Measured(rows=(row,))
        for start in range(0, len(runs), 10):
            send(client, [(run, rounds, body) for run in runs[start : start + 10]])
        time.sleep(max(0.0, began + rounds * EVERY_S - time.monotonic()))
    print(rounds * len(runs), flush=True)
    client.close()


def measure() -> Sequence[Row]:
    """Five minutes. Memory is that of the bot's process at the end, over that after the first minute."""
    found = run(SECONDS)
    say(f"ingest: {asdict(found)}")
    if found.per_second < 0.95 * RUNS / EVERY_S:
        say("ingest: the machine was too slow to send 1,000 events a second; the rows are of fewer")
    grown = found.rss_last_mb / found.rss_first_mb
    return [
        alone("events lost or doubled, 100 runs", ours=found.lost + found.doubled, unit=f"of {found.sent}", at_most=0),
        alone("event until durable in the bot, p95", ours=found.late_p95_s, unit="s", at_most=LATE_P95_S),
        alone("bot's memory, end over start", ours=grown, unit="times", at_most=MEMORY_TIMES),
    ]


def run(seconds: float) -> Ingest:
    """Run it once."""
    with home_with_redis() as (home, redis_url):
        return asyncio.run(_measure(home, redis_url, seconds))


async def _measure(home: Path, redis_url: str, seconds: float) -> Ingest:
    listens = asyncio.Event()
    listens.set()
    async with bot(home, redis_url, runs=RUNS, listens=listens) as made:
        argv = ("-m", "tests.bench.ingest", "--produce", redis_url, "--seconds", str(seconds), *made.runs)
        with python(*argv, log=home / "hosts.log", env=clean_environment()) as hosts:
            assert hosts.stdout is not None
            said = asyncio.create_task(asyncio.to_thread(hosts.stdout.readline))
            await asyncio.sleep(max(5.0, seconds / 5))
            process = psutil.Process()
            first = process.memory_info().rss
            sent = int(await said)
        end = time.monotonic() + DRAIN_S
        while made.stored < sent and time.monotonic() < end:
            await asyncio.sleep(0.1)
        last = process.memory_info().rss
        stored, distinct = await made.rows()
        return Ingest(
            seconds=seconds,
            sent=sent,
            stored=stored,
            lost=sent - distinct,
            doubled=stored - distinct,
            per_second=round(sent / seconds, 1),
            late_p50_s=round(percentile(made.late_s, 0.5), 4),
            late_p95_s=round(percentile(made.late_s, 0.95), 4),
            late_max_s=round(max(made.late_s), 4),
            rss_first_mb=round(first / 1e6, 1),
            rss_last_mb=round(last / 1e6, 1),
            posts=made.adapter.posts,
            edits=made.adapter.edits,
        )


def main() -> None:
    """Measure, or play the hosts."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.ingest")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--produce", metavar="REDIS_URL", help=argparse.SUPPRESS)
    parser.add_argument("runs", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.produce:
        produce(given.produce, given.seconds, given.runs)
    else:
        print(json.dumps(asdict(run(given.seconds)), indent=2))


if __name__ == "__main__":
    main()
