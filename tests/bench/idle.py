"""Rows: what `trainyard up` takes of a machine on which nobody asks for anything.

Default settings: bot, chart worker, Redis, worker, and whatever the worker keeps ready; a gateway is there only where a
model is configured. Processor time is the kernel's count over `WATCH_S`, memory the proportional share of every process
(shared pages are divided among those who share them).
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.ending import end_all_of
from tests.bench.processes import clean_environment, python
from tests.bench.progress import say
from tests.bench.rows import Row, alone
from tests.bench.workspace import Workspace
from worker.host.processes import descendants_of

UP = ("-c", "from bot.cli import main; main()", "up")
SETTLE_S, WATCH_S = 60.0, 60.0
CORE_SHARE, MEMORY_MB = 0.5, 450.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Taken:
    """One process: what it executes, its memory, and its share of a core."""

    name: str
    memory_mb: float
    core_percent: float


def measure() -> Sequence[Row]:
    """One start; it is left alone for a minute and watched for another."""
    with tempfile.TemporaryDirectory(prefix="bench-idle-") as name:
        home = Path(name)
        try:
            found = asyncio.run(_watched(home))
        finally:
            end_all_of(home)
    for one in sorted(found, key=lambda one: -one.memory_mb):
        say(f"idle: {one.memory_mb:6.1f} MB, {one.core_percent:.2f} % of a core: {one.name}")
    busiest = max(one.core_percent for one in found)
    memory = sum(one.memory_mb for one in found)
    return [
        alone("idle: the busiest process of `trainyard up`", ours=busiest, unit="% of a core", at_most=CORE_SHARE),
        alone("idle: memory of all of `trainyard up` (PSS)", ours=memory, unit="MB", at_most=MEMORY_MB),
    ]


async def _watched(home: Path) -> list[Taken]:
    async with Workspace() as slack:
        tokens = {"SLACK_BOT_TOKEN": slack.bot_token, "SLACK_APP_TOKEN": slack.app_token, "SLACK_API_URL": slack.url}
        env = clean_environment(**tokens, TRAINYARD_HOME=str(home), TRAINYARD_HOST_ID="gpu-1")
        with python(*UP, log=home / "up.log", env=env) as process:
            await slack.until(lambda: slack.connected)
            await asyncio.sleep(SETTLE_S)
            before, began = _times(process.pid), time.monotonic()
            await asyncio.sleep(WATCH_S)
            after, seconds = _times(process.pid), time.monotonic() - began
            return [
                Taken(_name(pid), _memory_mb(pid), 100 * (spent - before.get(pid, 0.0)) / seconds)
                for pid, spent in after.items()
            ]


def _times(bot: int) -> dict[int, float]:
    """Processor seconds of the bot and everything below it, by process; its ended children count as its own."""
    found = {}
    for pid in (bot, *descendants_of(bot)):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[pid] = sum(map(int, fields[11:15])) / _TICKS
    return found


def _memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


def _name(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return " ".join(words)[-80:]
