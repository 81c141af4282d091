"""Row: from the start of the bot's process until it is connected to Slack, against slack-bolt with nothing behind it.

Ours starts as `trainyard bot` does where nothing is configured but tokens: its own Redis, SQLite in its home.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bot.ending import end_all_of
from tests.bench.progress import say
from tests.bench.rows import Row, compared, median
from tests.bench.workspace import BARE, BOT, Workspace, connected_to

ROUNDS = 5
AT_LEAST = 1 / 3  # of its speed


def measure() -> Sequence[Row]:
    """The first round of each, which fills caches and makes the database, does not count."""
    with tempfile.TemporaryDirectory(prefix="bench-start-") as name:
        home = Path(name)
        try:
            ours, peer = asyncio.run(_both(home))
        finally:
            end_all_of(home)
    name = "bot start to serving"
    return [compared(name, ours=ours, peer=peer, peer_name="slack-bolt", unit="s", at_least=AT_LEAST)]


async def _both(home: Path) -> tuple[float, float]:
    ours, peer = [], []
    for number in range(1 + ROUNDS):
        ours.append(await _started(BOT, home, TRAINYARD_HOME=str(home)))
        peer.append(await _started(BARE, home))
        say(f"start: round {number} of {ROUNDS}: ours {ours[-1]:.2f} s, slack-bolt {peer[-1]:.2f} s")
    return median(ours[1:]), median(peer[1:])


async def _started(argv: tuple[str, ...], home: Path, **settings: str) -> float:
    async with Workspace() as slack:
        began = time.perf_counter()
        async with connected_to(slack, argv, home / "start.log", **settings):
            await slack.until(lambda: slack.connected)
            return time.perf_counter() - began
