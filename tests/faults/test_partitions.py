"""Rows 23 to 26: a host is cut off, comes back late, has another clock, or is started anew."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.faults.site import Site, eventually, measured
from tests.faults.test_worker_and_supervisor import supervisors
from tests.worker.conftest import processes_naming

pytestmark = pytest.mark.faults
PATIENCE = {"unreachable_after_s": 8.0, "lost_after_s": 26.0}
FENCE_S = "14"


@contextlib.contextmanager
def cut_off(site: Site) -> Iterator[None]:
    """The host reaches nothing; what was on its way arrives afterwards."""
    site.proxy.held = {"up", "down"}
    try:
        yield
    finally:
        site.proxy.held = set()


@pytest.fixture
def far_site(own_site: Site) -> Site:
    """A host behind a network that can be cut, and a run on it."""
    own_site.timings |= PATIENCE
    own_site.behind["worker"] = True
    own_site.extra = {"TRAINYARD_FENCE_S": FENCE_S}
    own_site.start_worker()
    own_site.start_bot()
    return own_site


def test_row_23_a_short_partition_is_nothing(far_site: Site) -> None:
    run = far_site.create("endless")
    far_site.progresses(run, beyond=3)
    with cut_off(far_site):
        time.sleep(3)
        assert far_site.state(run) == "running"
    far_site.progresses(run)
    far_site.let_go(run)
    assert far_site.ends(run)["state"] == "succeeded"
    assert len(far_site.attempts(run)) == 1


def test_row_23_a_longer_one_is_unreachable_and_heals(far_site: Site) -> None:
    run = far_site.create("endless")
    far_site.progresses(run, beyond=3)
    with cut_off(far_site):
        far_site.until(run, "unreachable", limit_s=30)
    far_site.until(run, "running", limit_s=30)
    far_site.progresses(run)
    far_site.let_go(run)
    assert far_site.ends(run)["state"] == "succeeded"
    assert len(far_site.attempts(run)) == 1


def test_row_23_a_long_one_fences_and_resumes_once(far_site: Site) -> None:
    run = far_site.create("endless")
    far_site.progresses(run, beyond=3)
    payload = f"TRAINYARD_RUN_DIR={far_site.folder(run).path}"
    with cut_off(far_site):
        fenced_s = measured(lambda: not processes_naming(payload), limit_s=60, what="the host's own end of it")
        assert float(FENCE_S) - 1 <= fenced_s
        assert far_site.state(run) in {"running", "unreachable"}, "it ended before anybody could start it elsewhere"
        far_site.until(run, "lost", "queued", "starting", limit_s=60)
    with far_site.explained(run):
        eventually(lambda: len(far_site.attempts(run)) == 2, limit_s=60, what="attempt 2")
    step = far_site.run_row(run)["step"]
    far_site.progresses(run, beyond=step, limit_s=60)
    far_site.let_go(run)
    assert far_site.ends(run)["state"] == "succeeded"
    assert len(far_site.attempts(run)) == 2


def test_row_24_a_heartbeat_after_lost_of_what_was_to_go_on(far_site: Site) -> None:
    """Nobody took the run over meanwhile, so its host has the truth: it goes on under the same attempt."""
    run = far_site.create("endless", on_partition="keep", auto_resume=False)
    far_site.progresses(run, beyond=3)
    with cut_off(far_site):
        far_site.until(run, "lost", limit_s=60)
        assert len(supervisors(far_site, run)) == 1, "it was asked to go on"
    far_site.until(run, "running", limit_s=60)
    far_site.let_go(run)
    assert far_site.ends(run)["state"] == "succeeded"
    assert len(far_site.attempts(run)) == 1


def test_row_24_a_heartbeat_after_lost_of_an_older_attempt(far_site: Site) -> None:
    """Somebody tried it again on another host: what the first one says is refused, and it is told to stop."""
    far_site.start_other_worker("h2")
    run = far_site.create("endless", on_partition="keep", auto_resume=False)
    far_site.progresses(run, beyond=3)
    with cut_off(far_site):
        far_site.until(run, "lost", limit_s=60)
        far_site.redis().delete(f"trainyard:host:{far_site.host}")  # a beat of this host lives for a minute
        far_site.order_bot("retry", run=run)
        with far_site.explained(run):
            eventually(lambda: [row["host"] for row in far_site.attempts(run)] == ["h1", "h2"], what="attempt 2 on h2")
        far_site.until(run, "running")
        assert len(supervisors(far_site, run)) == 1
    with far_site.explained(run):
        eventually(
            lambda: not supervisors(far_site, run), limit_s=60, what="the end of attempt 1, which is told to stop"
        )
    assert far_site.state(run) == "running"
    (far_site.home / "hosts" / "h2" / "runs" / run / "go-on").touch()
    assert far_site.ends(run)["state"] == "succeeded"
    assert [row["number"] for row in far_site.attempts(run)] == [1, 2]


@pytest.mark.parametrize("jump_s", [7200, -7200])
def test_row_25_the_bots_clock_jumps(own_site: Site, jump_s: int) -> None:
    offset = own_site.home / "clock"
    own_site.bot_extra = {"TRAINYARD_FAULT_CLOCK": str(offset)}
    own_site.start_worker()
    own_site.start_bot()
    run = own_site.create("endless")
    own_site.progresses(run, beyond=3)
    offset.write_text(str(jump_s))
    seen = set()
    end = time.monotonic() + 6
    while time.monotonic() < end:
        seen.add(own_site.state(run))
        time.sleep(0.1)
    assert seen == {"running"}, "a clock that jumps is no host that is silent"
    own_site.progresses(run)
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"
    assert len(own_site.attempts(run)) == 1


@pytest.mark.parametrize("jump_s", [7200, -7200])
def test_row_25_the_hosts_clock_is_wrong(own_site: Site, jump_s: int) -> None:
    """A host that is behind works; one that is ahead finds every order too old, and says what to compare."""
    clock = own_site.home / "host-clock"
    clock.write_text(str(jump_s))
    _start_odd_worker(own_site, "--clock", str(clock))
    own_site.start_bot()
    run = own_site.create("endless")
    if jump_s > 0:
        eventually(lambda: "clocks" in str(own_site.attempts(run)), limit_s=30, what="a word about clocks")
        own_site.order_bot("stop", run=run)
    else:
        own_site.progresses(run, beyond=3)
        own_site.let_go(run)
        assert own_site.ends(run)["state"] == "succeeded"
    assert own_site.state(run) != "lost"


@pytest.mark.parametrize("jump_s", [7200, -7200])
def test_row_25_the_hosts_clock_jumps_in_the_middle_of_a_run(own_site: Site, jump_s: int) -> None:
    clock = own_site.home / "host-clock"
    clock.write_text("0")
    _start_odd_worker(own_site, "--clock", str(clock))
    own_site.start_bot()
    run = own_site.create("endless")
    own_site.progresses(run, beyond=3)
    clock.write_text(str(jump_s))
    seen = set()
    end = time.monotonic() + 8
    while time.monotonic() < end:
        seen.add(own_site.state(run))
        time.sleep(0.1)
    assert seen == {"running"}, "silence is measured by the bot's clock, and the host's own patience by its uptime"
    own_site.progresses(run)
    times = [json.loads(line)["at"] for line in own_site.folder(run).spool.read_text().splitlines()]
    assert abs(datetime.fromisoformat(times[-1]) - datetime.fromisoformat(times[0])) > timedelta(hours=1.9), "it jumped"
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"
    assert len(own_site.attempts(run)) == 1


def test_row_26_the_host_was_started_anew(own_site: Site) -> None:
    own_site.timings |= {"unreachable_after_s": 60.0, "lost_after_s": 600.0}
    worker = own_site.start_worker()
    own_site.start_bot()
    run = own_site.create("endless")
    own_site.progresses(run, beyond=3)
    own_site.kill_worker(worker)
    for pid in [*supervisors(own_site, run), *processes_naming(f"TRAINYARD_RUN_DIR={own_site.folder(run).path}")]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # Whose pid the dead supervisor's files name now: somebody innocent, as after a reboot.
    innocent = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        own_site.folder(run).lock.write_text(f"{innocent.pid}\n")
        _start_odd_worker(own_site, "--boot-id", "another-boot")
        with own_site.explained(run):
            eventually(lambda: len(own_site.attempts(run)) == 2, limit_s=30, what="attempt 2 long before a lost host")
        own_site.progresses(run)
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()
    own_site.let_go(run)
    assert own_site.ends(run)["state"] == "succeeded"


def _start_odd_worker(site: Site, *how: str) -> None:
    """A worker whose clock or boot id is not this machine's."""
    # A machine takes longer to start than the name of its last worker is kept.
    site.redis().delete(f"trainyard:host:{site.host}", f"trainyard:host-owner:{site.host}")
    argv = [sys.executable, "-m", "tests.faults.odd", *how, "worker"]
    with (site.home / "worker.log").open("ab") as log:
        site.workers.append(subprocess.Popen(argv, env=site.env | {"TRAINYARD_WARM": "off"}, stdout=log, stderr=log))
    eventually(lambda: site.redis().exists(f"trainyard:host:{site.host}"), what="the worker's first beat")
