"""A local Discord, and an adapter to it whose inbox is a list."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from agent.conversation.backlog import Backlog
from agent.domain.inbound import Inbound, Thread
from agent.ports import Complete
from bot.discord.adapter import DiscordAdapter
from tests.platforms.discord_server import DiscordServer
from tests.platforms.discord_world import Channel, Interaction, Message


class Bot:
    """A running adapter. `came` is its inbox, behind a real backlog; `gate` may be cleared to make accepting slow."""

    def __init__(self, server: DiscordServer, **options: object) -> None:
        self.server = server
        settings: dict[str, object] = {"edit_pace_s": 0.05, "identify_pause_s": 0.0, **options}
        self.complete: Complete | None = None
        self.adapter = DiscordAdapter(
            str(settings.pop("token", server.token)),
            api_base=server.api_base,
            gateway_url=server.gateway_url,
            **settings,  # type: ignore[arg-type]
        )
        self.came: list[Inbound] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.entered = 0
        self.fail_with: list[Exception] = []
        self.task: asyncio.Task[None] | None = None
        self.backlog = Backlog(self._store)

    async def accept(self, inbound: Inbound) -> bool:
        """As the sessions do."""
        return await self.backlog.store(inbound)

    async def _store(self, inbound: Inbound) -> bool:
        """The inbox."""
        self.entered += 1
        await self.gate.wait()
        if self.fail_with:
            raise self.fail_with.pop(0)
        new = all(known.event_id != inbound.event_id for known in self.came)
        self.came.append(inbound)
        self.server.world.touch()
        return new

    async def start(self) -> "Bot":
        """Connect, and wait for the command tree to be in place."""
        self.task = asyncio.create_task(self.adapter.run(self.accept, self.complete))
        await self.server.connected()
        await self.server.wait_for(lambda: any("/commands 200" in line for line in self.server.requests))
        return self

    async def stop(self) -> None:
        """End, as a deploy does."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.backlog.close()

    async def next(self, n: int = 1) -> Inbound:
        """The n-th thing that came."""
        await self.server.wait_for(lambda: len(self.came) >= n)
        return self.came[n - 1]

    def address(self, channel: Channel, thread: Channel | Message | None = None) -> Thread:
        """The thread of a channel of the server, or of a thread in it."""
        tenant = str(self.server.guild_id)
        return Thread(
            platform="discord", tenant=tenant, channel=str(channel.id), thread_id=str(thread.id) if thread else ""
        )


@pytest.fixture
async def server() -> AsyncIterator[DiscordServer]:
    """A fresh local Discord."""
    async with DiscordServer() as running:
        yield running


@pytest.fixture
async def bot(server: DiscordServer) -> AsyncIterator[Bot]:
    """An adapter that is connected to it."""
    running = await Bot(server).start()
    yield running
    await running.stop()


def whispers(interaction: Interaction) -> list[str]:
    """What a person sees as private answers."""
    return [message.text for message in interaction.replies]
