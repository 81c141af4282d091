"""Rows 10, 16, 17, 18: memory, processes, output and disks without bounds."""

import contextlib
import shutil
import time
from pathlib import Path

import psutil
import pytest

from tests.faults import disks
from tests.faults.invariants import ends_are_shown
from tests.faults.site import Site, eventually
from tests.faults.test_worker_and_supervisor import supervisors
from tests.worker.conftest import processes_naming
from worker.host import cgroup

MB = 1024**2
HUNGRY = """
import time
from worker.recipes.prelude import metric, start
start()
metric(1, loss=1.0)
held = []
for _ in range(40):
    held.append(bytearray(50 * 1024 * 1024))
    time.sleep(0.05)
"""


@pytest.mark.faults
@pytest.mark.parametrize("by", ["auto", "poll"], ids=["the kernel counts", "polled"])
def test_row_10_a_run_that_takes_all_memory(own_site: Site, by: str) -> None:
    if by == "auto":
        leaf = cgroup.make_leaf("trainyard-row-10", limit_bytes=600 * MB)
        if leaf is None:
            pytest.skip("this user may make no memory control group: HOST_OOM by the kernel's counter was not tried")
        leaf.remove()
    own_site.extra = {"TRAINYARD_MEMORY_LIMIT_BYTES": str(600 * MB), "TRAINYARD_MEMORY_BY": by}
    own_site.start_worker()
    own_site.start_bot()
    outcome = own_site.ends(own_site.create(HUNGRY), limit_s=90)
    assert (outcome["state"], outcome["exit_class"]) == ("failed", "host_oom"), outcome
    words = "a run may use 600 MiB, so it was killed" if by == "auto" else "of memory and may use 600 MiB"
    assert words in outcome["reason"]
    assert len(own_site.attempts(outcome_run(own_site))) == 1


def outcome_run(site: Site) -> str:
    """The only run of a site."""
    (row,) = site.rows("SELECT id FROM run")
    return str(row["id"])


@pytest.mark.faults
def test_row_16_a_fork_bomb_and_a_daemon_leave_nothing(own_site: Site) -> None:
    own_site.start_worker()
    own_site.start_bot()
    run = own_site.create("forkbomb")
    outcome = own_site.ends(run)
    assert (outcome["state"], outcome["exit_code"]) == ("failed", 7), outcome
    payload = f"TRAINYARD_RUN_DIR={own_site.folder(run).path}"
    eventually(lambda: not processes_naming(payload), limit_s=20, what="the end of everything that it forked")


@pytest.mark.faults
def test_row_16_the_same_inside_a_sandbox(sandboxed_site: Site) -> None:
    run = sandboxed_site.create("forkbomb", sandbox="bwrap")
    outcome = sandboxed_site.ends(run)
    assert (outcome["state"], outcome["exit_code"]) == ("failed", 7), outcome
    payload = f"TRAINYARD_RUN_DIR={sandboxed_site.folder(run).path}"
    eventually(lambda: not processes_naming(payload), limit_s=20, what="the end of everything that it forked")


@pytest.mark.faults
@pytest.mark.parametrize("seed", [1, 2, 3], ids=["one line of 1 GB", "as fast as it can", "no text"])
def test_row_17_output_without_end(own_site: Site, seed: int) -> None:
    own_site.start_worker()
    own_site.start_bot()
    run = own_site.create("torrent", seed=seed)
    most = 0
    while own_site.state(run) not in {"succeeded", "failed", "lost", "stopped"}:
        for pid in supervisors(own_site, run):
            with contextlib.suppress(psutil.Error):
                most = max(most, psutil.Process(pid).memory_info().rss)
        time.sleep(0.05)
    assert own_site.result(run)["state"] == "succeeded", own_site.result(run)
    assert 0 < most < 100 * MB
    assert own_site.folder(run).log.stat().st_size < 100 * MB
    stored = own_site.rows("SELECT SUM(LENGTH(text)) AS n FROM log_line WHERE run_id = ?", run)[0]["n"] or 0
    assert stored < 20 * MB
    assert stored > 0
    assert b"the end" in own_site.folder(run).log.read_bytes()[-10_000:], "the newest lines are kept on the host"


@pytest.mark.faults
def test_row_18_the_disk_of_runs_is_full(own_site: Site) -> None:
    with disks.tmpfs(own_site.home / "hosts", 64 * MB):
        own_site.extra = {
            "TRAINYARD_DISK_FLOOR_SHARE": "1",
            "TRAINYARD_DISK_HARD_BYTES": str(8 * MB),
            "TRAINYARD_DISK_FLOOR_BYTES": str(16 * MB),
        }
        own_site.start_worker()
        own_site.start_bot()
        run = own_site.create("full")
        outcome = own_site.ends(run, limit_s=90)
        assert outcome["exit_class"] == "disk_full", outcome
        assert outcome["reason"]
        eventually(lambda: not list(ends_are_shown(own_site)), what="the card that says so")
        own_site.close()
        _keep(own_site)


@pytest.mark.faults
def test_row_18_a_run_folder_fills_up_at_once(own_site: Site) -> None:
    """Without a guard that is faster than the payload the outcome is still written and told."""
    with disks.tmpfs(own_site.home / "hosts", 64 * MB):
        own_site.extra = {"TRAINYARD_DISK_EVERY_S": "3600"}
        own_site.start_worker()
        own_site.start_bot()
        run = own_site.create("full")
        outcome = own_site.ends(run, limit_s=90)
        assert outcome["state"] in {"succeeded", "failed"}, outcome
        assert own_site.folder(run).outcome.exists()
        eventually(lambda: not list(ends_are_shown(own_site)), what="the card that says so")
        own_site.close()
        _keep(own_site)


@pytest.mark.faults
def test_row_18_the_disk_of_the_database_is_full(own_site: Site) -> None:
    with disks.tmpfs(own_site.home / "db", 24 * MB) as folder:
        own_site.database = folder / "trainyard.db"
        own_site.start_worker()
        own_site.start_bot()
        run = own_site.create("endless")
        own_site.progresses(run, beyond=3)
        ballast = disks.fill(folder)
        own_site.says("help")
        time.sleep(4)
        assert not own_site.bot_ended, own_site.bot_log[-2000:]
        ballast.unlink()
        own_site.progresses(run)
        own_site.sees("What I can do")
        own_site.let_go(run)
        assert own_site.ends(run)["state"] == "succeeded"
        assert own_site.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        eventually(lambda: not list(ends_are_shown(own_site)), what="the card that says so")
        own_site.stop_bot()
        _keep(own_site)


def _keep(site: Site) -> None:
    """Carry the database out of a disk that goes away, for the last look at the invariants."""
    if not site.bot_ended:
        site.stop_bot()
    kept = site.home / "kept.db"
    for path in site.database.parent.glob(f"{site.database.name}*"):
        shutil.copy(path, Path(f"{kept}{path.name.removeprefix(site.database.name)}"))
    site.database = kept
