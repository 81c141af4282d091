"""Pictures that trainings log: what is kept of them, and what people see."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from agent.domain.events import Accepted, Pictured, Started
from agent.domain.runs import ExitClass, Run
from agent.storage.database import Database
from agent.storage.tables import metadata
from tests.agent.engine import Engine
from tests.agent.postgres import cluster
from tests.agent.test_run_life import failed, paused

A, B = "a" * 64, "b" * 64


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with cluster() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgres"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    sqlite = request.param == "sqlite"
    database = Database(f"sqlite:///{tmp_path / 'test.db'}" if sqlite else request.getfixturevalue("postgres"))
    await database.start()
    yield Engine(database)
    if not sqlite:
        tables = ", ".join(table.name for table in metadata.sorted_tables)
        await database.write(lambda connection: connection.execute(text(f"TRUNCATE {tables} RESTART IDENTITY CASCADE")))
    await database.close()


def told(name: str = "residuals", sha256: str = A, step: int = 1) -> Pictured:
    return Pictured(name=name, form="scatter", step=step, sha256=sha256)


async def kept(engine: Engine, run: Run) -> list[tuple[str, int, str, int]]:
    return [(one.name, one.step, one.sha256[0], one.attempt) for one in await engine.runs.pictures(run.id)]


async def test_the_newest_of_each_name_is_kept(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, Accepted(boot_id="b"), Started(model="m", total_steps=9), told(), told("map"), told(step=2))
    assert await kept(engine, run) == [("map", 1, "a", 1), ("residuals", 2, "a", 1)]
    await engine.says(run, told(sha256=B, step=1))  # back to a checkpoint: later said, not a higher step
    assert await kept(engine, run) == [("map", 1, "a", 1), ("residuals", 1, "b", 1)]
    assert engine.changed[-1] == run.id


async def test_what_is_sent_again_or_late_changes_nothing(engine: Engine) -> None:
    run = await engine.create()
    run = await engine.says(run, Accepted(boot_id="b"))
    events = [engine.event(run, told(step=step, sha256=sha)) for step, sha in ((1, A), (2, B), (3, A))]
    await engine.service.take([events[2]])
    assert await kept(engine, run) == [("residuals", 3, "a", 1)]
    await engine.service.take([*events, *events])
    assert await kept(engine, run) == [("residuals", 3, "a", 1)]
    engine.restart()
    await engine.service.take(events[::-1])
    assert await kept(engine, run) == [("residuals", 3, "a", 1)]


async def test_an_attempt_that_goes_on_keeps_those_of_earlier_ones(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, Accepted(boot_id="b"), Started(model="m", total_steps=9), told(step=5), told("map"))
    await engine.service.pause(run.id)
    await engine.says(run, paused())
    await engine.service.resume(run.id)
    run = await engine.says(run, Accepted(boot_id="b"), told(step=4, sha256=B))
    assert run.attempt == 2
    assert await kept(engine, run) == [("map", 1, "a", 1), ("residuals", 4, "b", 2)]
    await engine.says(run, told("map", step=9), attempt=1)  # of a superseded attempt
    assert await kept(engine, run) == [("map", 1, "a", 1), ("residuals", 4, "b", 2)]
    await engine.says(run, told("last", step=9), failed(ExitClass.USER_ERROR))
    assert [name for name, *_ in await kept(engine, run)] == ["last", "map", "residuals"]


async def test_a_step_that_no_database_holds_is_no_picture(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, Accepted(boot_id="b"), told(step=2**70), told("map"))
    assert [name for name, *_ in await kept(engine, run)] == ["map"]


@pytest.mark.parametrize("name", ["", "A", "a b", "a.b", "-a", "a" * 33, "a\n", "é", "../a"])
def test_names_are_fit_for_buttons(name: str) -> None:
    with pytest.raises(ValidationError):
        told(name)
