"""The bot's mind over a real database, behind the real Slack adapter on a local Slack; hosts are stand-ins."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.brain import Brain, Surroundings, build
from agent.llm.acts import act_asked
from agent.storage import sql_stores
from bot.missed import catch_up
from bot.slack.adapter import SlackAdapter
from tests.agent.conftest import Harness
from tests.agent.databases import sqlite
from tests.fakes import FakeBundles, engines_of
from tests.platforms.slack_server import SlackServer
from tests.platforms.slack_world import Message
from tests.slack.conftest import FAST
from worker.client.blobs import FolderBlobs


class Chat(Harness):
    """A bot in a Slack workspace; `open` starts it, also a second time over the same database."""

    def __init__(self, folder: Path, slack: SlackServer) -> None:
        super().__init__(folder)
        self.slack = slack

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Brain]:
        database = self.database = sqlite(self.folder / "test.db")
        await database.start()
        slack = self.slack
        adapter = SlackAdapter(bot_token=slack.bot_token, app_token=slack.app_token, api_url=slack.url, tuning=FAST)
        brain = build(
            Surroundings(
                stores=sql_stores(database),
                adapters={"slack": adapter},
                engines=engines_of(self.fleet),
                blobs=FolderBlobs(self.folder / "blobs"),
                bundles=FakeBundles(),
                charts=self.charts,
                model=self.model,
                clock=self.clock,
                tokens=lambda nonce: f"token of {nonce}",
                acts=act_asked,
                options=self.options,
            )
        )
        await brain.recover()
        tasks = [asyncio.create_task(adapter.run(brain.router.accept)), asyncio.create_task(brain.cards.run())]
        tasks.append(asyncio.create_task(catch_up(adapter, brain)))
        try:
            await adapter.ready()
            yield brain
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await brain.close()
            await database.close()

    async def limit_pages(self, count: int) -> None:
        """Let the database grow to so many pages; it is full where it has them."""
        await self.database.write(lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count = {count}"))

    async def seen(self, ts: str, *words: str, count: int = 1) -> Message:
        """The newest message of a thread that shows all of `words` (buttons count), once there are `count`."""

        def found() -> list[Message]:
            return [m for m in self.slack.thread(ts) if all(word in m.shown + " ".join(m.buttons) for word in words)]

        await self.slack.wait_for(lambda: len(found()) >= count)
        return found()[-1]

    async def still(self, brain: Brain) -> None:
        """Wait until everything that was delivered is handled and shown."""
        await self.slack.wait_for(lambda: all(delivery.acked for delivery in self.slack.deliveries))
        await brain.router.idle()
        await brain.delivery.idle()


@pytest.fixture
async def slack() -> AsyncIterator[SlackServer]:
    async with SlackServer(rate_scale=100) as server:
        yield server


@pytest.fixture
def chat(tmp_path: Path, slack: SlackServer) -> Chat:
    return Chat(tmp_path, slack)
