"""Rows 28 to 30 and 27 by half: the bot comes twice, its database is locked, it dies while the schema is made."""

import contextlib
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
