"""The whole brain over a real database, with fakes around it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from agent.brain import Brain, Options, Surroundings, build
from agent.llm.acts import act_asked
from agent.llm.offline import OfflinePlanner
from agent.ports import Model, Models
from agent.storage import sql_stores
from agent.storage.database import Database
from agent.storage.tables import metadata
from agent.tools.tool import Toolset
from tests.agent.databases import sqlite
from tests.agent.postgres import cluster
from tests.fakes import FakeAdapter, FakeBundles, FakeCharts, FakeClock, FakeFleet, engines_of
from worker.client.blobs import FolderBlobs


class Harness:
    """One brain and what surrounds it; `restarted` gives a new brain over the same database and platform."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.adapter, self.fleet, self.clock = FakeAdapter(), FakeFleet(), FakeClock()
        self.others: tuple[FakeFleet, ...] = ()  # engines beside the usual one
        self.model: Model = OfflinePlanner()
        self.models: Models | None = None
        self.charts = FakeCharts()
        self.bundles = FakeBundles()
        self.toolsets: Sequence[Toolset] = ()
        self.options = Options(pictures=folder / "charts", card_pace_s=0.01)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Brain]:
        database = sqlite(self.folder / "test.db")
        await database.start()
        brain = build(
            Surroundings(
                stores=sql_stores(database),
                adapters={self.adapter.platform: self.adapter},
                engines=engines_of(self.fleet, *self.others),
                blobs=FolderBlobs(self.folder / "blobs"),
                bundles=self.bundles,
                charts=self.charts,
                model=self.model,
                models=self.models,
                clock=self.clock,
                tokens=lambda nonce: f"token of {nonce}",
                acts=act_asked,
                options=self.options,
                toolsets=self.toolsets,
            )
        )
        await brain.recover()
        cards = asyncio.create_task(brain.cards.run())
        try:
            yield brain
        finally:
            cards.cancel()
            await brain.close()
            await database.close()

    async def until(self, true: Callable[[], bool], limit_s: float = 10.0) -> None:
        """Wait for a state; the limit only ends a test that hangs."""
        async with asyncio.timeout(limit_s):
            while not true():
                await asyncio.sleep(0.005)


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text("age,health,visited_doctor\n30,good,yes\n")
    return path


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with cluster() as address:
        yield address


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.faults)])
async def either_database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    """SQLite, and PostgreSQL too in `make test-faults`; what is marked `on_both` has both in each suite."""
    if request.param == "sqlite":
        opened = sqlite(tmp_path / "test.db")
    else:
        opened = Database(request.getfixturevalue("postgres"))
    await opened.start()
    yield opened
    if request.param == "postgres":
        tables = ", ".join(table.name for table in metadata.sorted_tables)
        await opened.write(lambda connection: connection.execute(text(f"TRUNCATE {tables} RESTART IDENTITY CASCADE")))
    await opened.close()
