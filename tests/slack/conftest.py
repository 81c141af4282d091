"""A real SlackAdapter on a local Slack. `Inbox` stands where the database stands in the bot."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.domain.inbound import Inbound, Thread
from bot.slack.adapter import SlackAdapter, Tuning
from bot.slack.limiter import RATES, Rate
from bot.slack.stream import Pace
from tests.platforms.slack_server import SlackServer

FAST = Tuning(
    rates={method: Rate(6_000, 100, by_channel=rate.by_channel) for method, rate in RATES.items()},
    pace=Pace(append_every_s=0.02, edit_every_s=0.02),
)


@dataclass
class Inbox:
    """Stores what arrives; refuses the first `broken` times, as a database that is down."""

    stored: list[Inbound] = field(default_factory=list)
    broken: int = 0
    acked_before: list[bool] = field(default_factory=list)
    server: SlackServer | None = None

    async def __call__(self, inbound: Inbound) -> bool:
        if self.broken > 0:
            self.broken -= 1
            raise ConnectionError("the database is down")
        await asyncio.sleep(0.02)  # long enough for an early acknowledgement to arrive
        if self.server is not None:
            same = [d for d in self.server.deliveries if d.payload.get("event_id") == inbound.event_id]
            self.acked_before.append(any(delivery.acked for delivery in same))
        self.stored.append(inbound)
        return True

    @property
    def acts(self) -> list[object]:
        return [inbound.act for inbound in self.stored]


@asynccontextmanager
async def listening(
    server: SlackServer, inbox: Inbox, *, tuning: Tuning = FAST, memory: Path | None = None
) -> AsyncIterator[SlackAdapter]:
    """An adapter that is connected by Socket Mode."""
    adapter = SlackAdapter(
        bot_token=server.bot_token, app_token=server.app_token, api_url=server.url, memory=memory, tuning=tuning
    )
    running = asyncio.create_task(adapter.run(inbox))
    ready = asyncio.create_task(adapter.ready())
    await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
    if running.done():
        ready.cancel()
        await running
    try:
        yield adapter
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
async def server() -> AsyncIterator[SlackServer]:
    async with SlackServer(rate_scale=100) as running:
        yield running


@pytest.fixture
def inbox(server: SlackServer) -> Inbox:
    return Inbox(server=server)


@pytest.fixture
async def adapter(server: SlackServer, inbox: Inbox) -> AsyncIterator[SlackAdapter]:
    async with listening(server, inbox) as running:
        yield running


@pytest.fixture
async def address(server: SlackServer) -> Thread:
    """A thread that somebody has begun."""
    question = server.user("alice").say("hello everybody")
    return Thread(platform="slack", tenant=server.team_id, channel=question.channel, thread_id=question.ts)
