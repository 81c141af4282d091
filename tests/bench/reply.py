"""Row: from a Slack event to the first visible reply, against slack-bolt with nothing behind it.

Both bots are processes of their own and talk to local Slack servers over Socket Mode. The clock runs from the moment
when the server sends the event until the bot's chat.postMessage or chat.startStream comes in.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.processes import home_with_redis
from tests.bench.progress import say
from tests.bench.rows import Row, compared, median
from tests.bench.workspace import BARE, BOT, Workspace, connected_to

ASKED = "what can you do for us, {}"
NAMES = tuple(map("".join, itertools.product("bdfglmnrst", "aeiou", "lmnrs")))  # never the same words twice
WARM_UP, ROUNDS = 5, 60
AT_LEAST = 1 / 3  # we store the event before we acknowledge it, and the turn before we answer


def measure() -> Sequence[Row]:
    """A mention that the offline planner answers."""
    with home_with_redis() as (home, redis_url):
        ours, peer = asyncio.run(_both(home, redis_url))
    row = compared("event to first reply", ours=ours, peer=peer, peer_name="slack-bolt", unit="ms", at_least=AT_LEAST)
    return [row]


async def _both(home: Path, redis_url: str) -> tuple[float, float]:
    async with Workspace() as our_slack, Workspace() as peer_slack:
        settings = {"TRAINYARD_HOME": str(home), "TRAINYARD_REDIS_URL": redis_url}
        async with (
            connected_to(our_slack, BOT, home / "bot.log", **settings),
            connected_to(peer_slack, BARE, home / "peer.log"),
        ):
            await our_slack.until(lambda: our_slack.connected and peer_slack.connected)
            say(f"reply: {WARM_UP + ROUNDS} mentions each")
            ours, peer = [], []
            for number in range(WARM_UP + ROUNDS):
                ours.append(await _answered(our_slack, number))
                peer.append(await _answered(peer_slack, number))
    return median(ours[WARM_UP:]), median(peer[WARM_UP:])


async def _answered(slack: Workspace, number: int) -> float:
    """Milliseconds. Each mention has a channel of its own, as a channel takes one message a second."""
    channel = f"thread-{number}"
    slack.spoke.clear()
    slack.channel(channel)
    began = time.perf_counter()
    asked = slack.user("alice").mention(ASKED.format(NAMES[number]), channel=channel)
    await slack.until(lambda: slack.spoke)
    spoke_at = slack.spoke[0]
    await slack.until(lambda: len(slack.thread(asked.ts)) > 1)
    await asyncio.sleep(0.03)  # what a bot does after its answer belongs to no one's time
    return (spoke_at - began) * 1000
