"""Rows 1, 2, 3, 7: processes of the host die, runs do not, or are lost and taken up again."""

import json
import signal
import time
from pathlib import Path

import pytest

from agent.domain.runs import RunState
from tests.faults.killer import traced
from tests.faults.site import Site, eventually, measured
from tests.worker.conftest import ENDLESS, processes_naming


def supervisors(site: Site, run: str) -> list[int]:
    """Living supervisors of a run; one that waited for it does not name it, so its folder tells."""
    folder = site.folder(run).path
    return [pid for pid in processes_naming("worker.supervisor") if _is_in(pid, folder)]


def _is_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder
    except OSError:
        return False  # it has just ended


@pytest.mark.faults  # the quick tier has it in tests/system/test_main_job.py
def test_row_01_kill_worker_main_in_mid_run(own_site: Site) -> None:
    worker = own_site.start_worker()
    own_site.start_bot()
    run = own_site.create("endless")
    own_site.progresses(run, beyond=0)
    own_site.kill_worker(worker)
    own_site.progresses(run, beyond=own_site.run_row(run)["step"] + 10)
    assert len(supervisors(own_site, run)) == 1
    own_site.start_worker()  # a new one adopts what it finds and starts nothing twice
    own_site.progresses(run)
    assert len(supervisors(own_site, run)) == 1
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"
    assert len(own_site.attempts(run)) == 1


@pytest.mark.faults  # the quick tier has row 3
def test_row_02_kill_pool_child_during_launch(own_site: Site, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    own_site.start_killed_worker(trace, at=1, only="spawn")
    own_site.start_bot()
    run = own_site.create("endless")
    took_s = measured(lambda: own_site.run_row(run)["step"] > 0, what="a start after the lost one")
    assert took_s <= 30
    assert traced(trace)[:2] == ["spawn:before", "spawn:before"]
    assert len(supervisors(own_site, run)) == 1
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"
    assert len(own_site.attempts(run)) == 1


async def test_row_03_worker_dies_between_spawn_and_ack(own_site: Site, tmp_path: Path) -> None:
    """The queue brings it back; a bot would only send it again."""
    trace, run = tmp_path / "trace", "r-row003"
    worker = own_site.start_killed_worker(trace, at=2, only="spawn", victim="parent")
    await own_site.launch(own_site.order(run, ENDLESS))
    worker.wait(60)
    assert traced(trace) == ["spawn:before", "spawn:after"]
    own_site.start_worker()
    own_site.running(run)
    first = supervisors(own_site, run)
    assert len(first) == 1
    assert _delivered_again(own_site) >= 1
    log = own_site.home / "worker.log"
    eventually(lambda: f"launch_repeated run={run}" in log.read_text(), what="the second delivery")
    told = len(own_site.events(run))
    eventually(lambda: len(own_site.events(run)) > told + 3, what="a run that goes on")
    assert supervisors(own_site, run) == first
    own_site.let_go(run)
    assert own_site.outcome(run).state is RunState.SUCCEEDED
    assert own_site.kinds(run).count("accepted") == 1


def _delivered_again(site: Site) -> int:
    """Launches that a dead worker had taken, back in the queue as after the visibility timeout; how many that were."""
    client, launches = site.redis(), 0
    for tag, entry in client.hgetall("trainyard:unacked").items():
        message, _exchange, _key = json.loads(entry)
        if message["headers"]["task"] == "trainyard.launch":
            launches += 1
            client.lpush(f"trainyard:host.{site.host}", json.dumps(message))
            client.hdel("trainyard:unacked", tag)
            client.zrem("trainyard:unacked_index", tag)
    return launches


@pytest.mark.faults
def test_row_07_sigterm_of_the_worker_in_mid_run(own_site: Site) -> None:
    worker = own_site.start_worker()
    own_site.start_bot()
    run = own_site.create("endless")
    own_site.progresses(run, beyond=0)
    worker.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert worker.wait(25) == 0
    assert time.monotonic() - began < 25
    own_site.progresses(run)
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"
