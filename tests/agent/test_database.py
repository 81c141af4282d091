"""The database under trouble: a lock that others hold, a connection that is cut, two bots, a killed migration."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, create_engine, insert, inspect, select, text

from agent import wire
from agent.domain.errors import Conflict, NotFound, Unavailable
from agent.domain.runs import RunState
from agent.ports import AttachedFile, Role
from agent.storage import database as module
from agent.storage import sql_stores
from agent.storage.database import Database, open_engine
from agent.storage.schema import MIGRATIONS, NEWEST, upgrade
from agent.storage.tables import metadata, session
from agent.stores import TurnKind
from tests.agent.engine import a_run
from tests.agent.postgres import cluster
from tests.fakes import ALICE, START, THREAD


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with cluster() as address:
        yield address


async def test_a_database_is_read_beside_its_bot_and_nothing_is_changed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}"
    beside = Database(url)
    with pytest.raises(NotFound, match=r"There is no database .*test\.db yet; a bot makes it"):
        await beside.start_reading()
    assert not (tmp_path / "test.db").exists()
    database = Database(url)
    await database.start()
    run = await a_run(sql_stores(database))
    await beside.start_reading()
    assert (await sql_stores(beside).runs.get(run.id)).id == run.id
    await beside.close()
    await database.write(lambda connection: connection.execute(text("UPDATE alembic_version SET version_num = '0001'")))
    with pytest.raises(Conflict, match="has the schema 0001, and this Trainyard reads"):
        await beside.start_reading()
    await beside.close()
    await database.close()


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
async def test_what_would_be_made_anew_does_not_wait_for_the_disk(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sqlite = where == "sqlite"
    file = f"sqlite:///{tmp_path / 'test.db'}"
    database = Database(file if sqlite else f"{request.getfixturevalue('postgres')}?options=-csynchronous_commit%3Don")
    asked = text("PRAGMA synchronous" if sqlite else "SHOW synchronous_commit")
    await database.start()
    flushed, quick, again = [
        await database.write(lambda connection: connection.execute(asked).scalar_one(), flushed=each)
        for each in (True, False, True)
    ]
    await database.close()
    assert (flushed, quick, again) == ((2, 1, 2) if sqlite else ("on", "off", "on"))


async def test_a_lock_that_somebody_holds_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_WAIT_MS", 300)
    database = Database(f"sqlite:///{tmp_path / 'test.db'}")
    await database.start()
    runs = sql_stores(database).runs
    run = await a_run(sql_stores(database))
    holder = sqlite3.connect(tmp_path / "test.db", isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.8, holder.execute, ["COMMIT"])  # longer than one wait, shorter than all trials
    release.start()
    moves = [runs.move(run.id, expect=RunState.QUEUED, to=RunState.PAUSED) for _ in range(5)]
    assert sorted(await asyncio.gather(*moves)) == [False] * 4 + [True]
    release.join()
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        await runs.move(run.id, expect=RunState.PAUSED, to=RunState.QUEUED)
    holder.execute("COMMIT")
    assert await runs.move(run.id, expect=RunState.PAUSED, to=RunState.QUEUED)
    holder.close()
    await database.close()


async def test_a_connection_cut_in_the_middle_of_a_transaction_loses_nothing(postgres: str) -> None:
    database = Database(postgres)
    await database.start()
    run = await a_run(sql_stores(database))
    cut = 0

    def cut_once(connection: Connection) -> bool:
        nonlocal cut
        connection.execute(insert(session).values(id=f"s-{cut}", created_at=START))
        if not cut:
            cut += 1
            own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with create_engine(postgres).connect() as other:
                other.execute(text(f"SELECT pg_terminate_backend({own})"))
        connection.execute(select(session))
        return True

    first = database.write(cut_once)
    dispatched = [sql_stores(database).runs.dispatch(run.id, host="gpu-1", gpus=["g"], at=START) for _ in range(5)]
    results = await asyncio.gather(first, *dispatched)
    assert sum(result is not None for result in results[1:]) == 1
    stored = await database.read(lambda connection: connection.execute(select(session.c.id)).scalars().all())
    assert "s-1" in stored
    assert "s-0" not in stored  # the first trial was undone as a whole
    assert len(await sql_stores(database).runs.leases()) == 1
    await _emptied(database)


async def test_a_second_bot_on_one_postgresql_is_refused_and_may_follow(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAKE_OVER_S", 0.3)
    first, second = Database(postgres), Database(postgres)
    await first.start()
    with pytest.raises(Conflict, match="Another Trainyard bot uses the database"):
        await second.start()
    await first.close()
    await second.start()
    await second.close()


async def test_a_bot_that_was_replaced_while_it_was_cut_off_writes_no_more(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAKE_OVER_S", 0.3)
    first, second = Database(postgres), Database(postgres)
    await first.start()
    with create_engine(postgres).connect() as other:
        other.execute(text("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"))
    await second.start()
    with pytest.raises(Unavailable, match="may not write any more"):
        await first.write(lambda connection: connection.execute(insert(session).values(id="x", created_at=START)))
    await second.close()
    await first.write(lambda connection: connection.execute(insert(session).values(id="x", created_at=START)))
    await _emptied(first)


KILLED = """
import os, signal, sys
from sqlalchemy import event
from agent.storage.database import open_engine
from agent.storage.schema import upgrade
engine, left = open_engine(sys.argv[1]), [int(sys.argv[2])]
@event.listens_for(engine, "after_cursor_execute")
def count(connection, cursor, statement, *_):
    if statement.strip().upper().startswith(("CREATE", "INSERT", "UPDATE")):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
upgrade(engine)
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("statement", [1, 7, 20, 30])
async def test_a_migration_killed_at_any_statement_is_completed_by_the_next_start(
    kind: str, statement: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}" if kind == "sqlite" else request.getfixturevalue("postgres")
    if kind == "postgres":
        with create_engine(url).begin() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", KILLED, url, str(statement)], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    database = Database(url)
    await database.start()
    names = await database.read(lambda connection: set(inspect(connection).get_table_names()))
    assert names == {*metadata.tables, "alembic_version"}
    assert (await a_run(sql_stores(database))).state is RunState.QUEUED
    await database.close()


def migrate(engine: Engine, how: Callable[[Config, str], None], revision: str) -> None:
    """To one version of the schema, down or up."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        how(config, revision)


async def test_notes_in_words_and_ids_of_an_older_bot_are_facts_after_the_upgrade(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}"
    engine = open_engine(url)
    migrate(engine, command.upgrade, "0007")
    said = (
        ("t-1", "user", "train on this\n[file: a b.csv, 12 bytes]\n[file refused: Too large.]"),
        ("t-1", "assistant", "12 rows. Shall I train a model for `churn`? Say “train a model that predicts `churn`”."),
        ("t-2", "user", "[monitor] is what I call it, and [file: x, 1 bytes] too"),
        ("n-3", "user", "[monitor] The loss is no number."),
        ("c-4", "user", "/train start churn"),
    )
    person = wire.encode(ALICE).decode()
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO session VALUES ('s', '2026-01-01')"))
        for number, turn_id in enumerate(dict.fromkeys(row[0] for row in said)):
            connection.execute(
                text("INSERT INTO inbox VALUES (:id, 'slack', :id, NULL, 'k', '', 'done', '2026-01-01')"),
                {"id": number},
            )
            connection.execute(
                text("INSERT INTO turn VALUES (:turn, 's', :id, :thread, :person, 'done', '2026-01-01')"),
                {"turn": turn_id, "id": number, "thread": wire.encode(THREAD).decode(), "person": person},
            )
        for turn_id, role, words in said:
            connection.execute(
                text(
                    "INSERT INTO message (session_id, turn_id, role, text, calls, call_id) "
                    "VALUES ('s', :turn, :role, :text, '', '')"
                ),
                {"turn": turn_id, "role": role, "text": words},
            )
    engine.dispose()
    database = Database(url)
    await database.start()
    stores = sql_stores(database)
    history = await stores.conversations.history("s")
    kinds = [(await stores.conversations.turn(turn_id)).kind for turn_id in ("t-1", "n-3", "c-4")]
    await database.close()
    assert [(m.text, m.speaker, m.noticed, m.files, m.refused) for m in history if m.role is Role.USER] == [
        ("train on this", "alice", False, (AttachedFile("a b.csv", 12),), ("Too large.",)),
        ("[monitor] is what I call it, and [file: x, 1 bytes] too", "alice", False, (), ()),
        ("The loss is no number.", "", True, (), ()),
        ("/train start churn", "alice", False, (), ()),
    ]
    assert history[1].offers == "churn"
    assert kinds == [TurnKind.ASKED, TurnKind.NOTICED, TurnKind.COMMANDED]


def test_what_a_session_was_allowed_stays_with_its_thread_if_it_has_one(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'test.db'}")
    migrate(engine, command.upgrade, "0017")
    with engine.begin() as connection:
        for number, threads in enumerate(("a", "bc", "")):
            facts = {"session": f"s-{number}"}
            connection.execute(text("INSERT INTO session VALUES (:session, '2026-01-01', '', '')"), facts)
            for thread in threads:
                connection.execute(text("INSERT INTO binding VALUES (:key, :session, '')"), {**facts, "key": thread})
            connection.execute(
                text("INSERT INTO allowance VALUES (:session, :session, 'start_training', NULL, 'u', 'alice', 'now')"),
                facts,
            )
    kept = text("SELECT thread_key, id, tool, name FROM allowance")
    for revision, how in ((NEWEST, command.upgrade), ("0017", command.downgrade), (NEWEST, command.upgrade)):
        migrate(engine, how, revision)
    with engine.connect() as connection:
        assert [tuple(row) for row in connection.execute(kept)] == [("a", "s-0", "start_training", "alice")]
    engine.dispose()


def test_down_and_up_again_with_data(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'test.db'}")
    upgrade(engine)

    with engine.begin() as connection:
        connection.execute(insert(session).values(id="s", created_at=START))
    migrate(engine, command.downgrade, "base")
    with engine.connect() as connection:
        assert set(inspect(connection).get_table_names()) == {"alembic_version"}
    migrate(engine, command.upgrade, NEWEST)
    with engine.begin() as connection:
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, "alembic_version"}
        connection.execute(insert(session).values(id="s", created_at=START + timedelta(1)))
    engine.dispose()


async def _emptied(database: Database) -> None:
    tables = ", ".join(table.name for table in metadata.sorted_tables)
    await database.write(lambda connection: connection.execute(text(f"TRUNCATE {tables} RESTART IDENTITY CASCADE")))
    await database.close()
