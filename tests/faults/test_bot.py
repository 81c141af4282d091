"""Rows 28 to 30 and 27 by half: the bot comes twice, its database is locked, it dies while the schema is made."""

import contextlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from agent.storage.series import rows_between
from tests.agent.postgres import cluster
from tests.faults import killer
from tests.faults.site import Site, eventually


@pytest.mark.faults
def test_row_28_a_second_bot_refuses(own_site: Site) -> None:
    own_site.start_bot()
    argv = [sys.executable, "-m", "tests.faults.botproc"]
    second = subprocess.run(argv, env=own_site.bot_env, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1
    assert "Another Trainyard bot is running" in second.stderr + second.stdout
    assert not own_site.bot_ended
    own_site.start_worker()
    assert own_site.ends(own_site.create("good"))["state"] == "succeeded"


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with cluster() as address:
        yield address


@pytest.mark.faults
def test_row_28_a_second_bot_on_one_postgresql_refuses(own_site: Site, postgres: str, tmp_path: Path) -> None:
    """It has a home of its own, so that no file can tell it: the advisory lock does."""
    own_site.bot_extra = {"TRAINYARD_DATABASE_URL": postgres}
    own_site.start_bot()
    argv = [sys.executable, "-m", "tests.faults.botproc"]
    env = {**own_site.bot_env, "TRAINYARD_HOME": str(tmp_path / "other")}
    second = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1
    assert "Another Trainyard bot uses the database" in second.stderr + second.stdout
    own_site.kill_bot()
    own_site.start_bot()  # and one whose database has not noticed yet that it is gone may follow


@pytest.mark.faults
def test_row_29_the_connection_is_lost_again_and_again(own_site: Site, postgres: str) -> None:
    """PostgreSQL ends every connection of the bot, in and between transactions."""
    own_site.bot_extra = {"TRAINYARD_DATABASE_URL": postgres}
    own_site.start_worker()
    own_site.start_bot()
    runs = [own_site.create("short") for _ in range(3)]
    engine = create_engine(postgres, isolation_level="AUTOCOMMIT")
    ended = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
    )
    states: dict[str, str] = {}
    with engine.connect() as other:

        def over() -> bool:
            states.update({row.id: row.state for row in other.execute(text("SELECT id, state FROM run"))})
            return all(states.get(run) == "succeeded" for run in runs)

        cut = 0
        for _ in range(10):
            cut += len(other.execute(text(ended)).all())
            time.sleep(0.4)
        eventually(over, what=f"the end of all runs, which are {states}")
        attempts = other.execute(text("SELECT run_id, number FROM attempt ORDER BY run_id")).all()
        counted = other.execute(text("SELECT run_id, number, rows, folded FROM attempt ORDER BY run_id")).all()
        steps = [
            [row.step for row in rows_between(other, one.run_id, one.number, 0, 2**62, folded=one.folded)]
            for one in counted
        ]
    engine.dispose()
    assert cut >= 5, "it was hardly cut"
    assert [tuple(row) for row in attempts] == sorted((run, 1) for run in runs)
    assert [len(of) for of in steps] == [one.rows for one in counted]
    assert all(len(set(of)) == len(of) > 0 for of in steps)
    for run in runs:
        own_site.sees("Result of", run)
    assert len([one for one in own_site.people.shown if '"kind": "result"' in one.words]) == len(runs)


@pytest.mark.faults
def test_row_29_the_database_is_locked_for_long(own_site: Site) -> None:
    own_site.start_worker()
    own_site.start_bot()
    run = own_site.create("endless")
    own_site.progresses(run, beyond=0)
    with contextlib.closing(sqlite3.connect(own_site.database, timeout=20, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        before = own_site.run_row(run)["step"]
        own_site.says("help")
        time.sleep(12)  # longer than a writer waits for a lock
        assert own_site.run_row(run)["step"] == before
        holder.execute("ROLLBACK")
    own_site.progresses(run)
    own_site.sees("What I can do")
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"
    assert len(own_site.attempts(run)) == 1


@pytest.mark.faults
@pytest.mark.parametrize("at", [1, 8, 20])
def test_row_30_killed_while_the_schema_is_made(own_site: Site, tmp_path: Path, at: int) -> None:
    trace = tmp_path / "trace"
    own_site.start_bot(trace, at=at, only="upgrade", wait=False)
    assert own_site.bot is not None
    assert own_site.bot.wait(60) == -9
    assert len(killer.traced(trace)) == at
    own_site.start_bot()
    own_site.start_worker()
    assert own_site.ends(own_site.create("good"))["state"] == "succeeded"
    eventually(lambda: own_site.people.shown)
