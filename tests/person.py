"""Somebody at a terminal, and a bot with one host for them: the whole of Trainyard in this process and a worker's."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from rich.console import Console

from agent.domain.content import Content
from agent.domain.runs import Run
from bot.app import App
from bot.console.adapter import ConsoleAdapter
from bot.console.plain import PlainScreen
from bot.ending import end_all_of
from bot.settings import Settings

HANG_S = 600.0


class Person:
    """Somebody at a terminal."""

    def __init__(self, app: App, adapter: ConsoleAdapter) -> None:
        self.app, self._adapter, self._since = app, adapter, 0

    async def says(self, line: str) -> None:
        self._since = len(self._adapter.shown)
        await self._adapter.say(line)

    async def sees(self, seen: Callable[[Content], bool], what: str) -> Content:
        try:
            return await self._adapter.until(seen, limit_s=HANG_S, since=self._since)
        except TimeoutError:
            texts = [content.card.title if content.card else content.text for content in self._adapter.shown[-8:]]
            pytest.fail(f"no {what}; the last messages: {texts}")

    async def card(self, kind: str, begins: str = "") -> Content:
        return await self.sees(
            lambda content: (
                content.card is not None and content.card.kind == kind and content.card.title.startswith(begins)
            ),
            kind,
        )

    async def until(self, true: Callable[[Run], bool]) -> Run:
        """The newest run, once that is true of it."""
        async with asyncio.timeout(HANG_S):
            while True:
                for run in await self.app.brain.stores.runs.recent(1):
                    if true(run):
                        return run
                await asyncio.sleep(0.02)


@pytest_asyncio.fixture
async def person(tmp_path: Path) -> AsyncIterator[Person]:
    home = tmp_path / "home"
    settings = Settings(home=home, redis_url="", database_url="", models="", card_pace_s=0.5, _env_file=None)  # type: ignore[call-arg]
    adapter = ConsoleAdapter(
        thread_id="builds", person="you", files=home / "files", read=False, screen=PlainScreen(Console(quiet=True))
    )
    try:
        async with App(settings, [adapter], worker=True) as app:
            async with asyncio.timeout(60):
                while not await app.engines.hosts():
                    await asyncio.sleep(0.1)
            yield Person(app, adapter)
    finally:
        end_all_of(home)
