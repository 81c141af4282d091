"""What a supervisor watches: silence, disk, memory, its contact to Redis. Clocks are scaled by settings."""

import json
import os
import re
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.domain.events import MetricRow, WorkerEvent
from agent.domain.orders import HostInfo, Limits, StopOrder
from agent.domain.runs import ExitClass, Outcome, RunState
from agent.wire import decode
from tests.worker.conftest import ENDLESS, EVALUATE, GOOD, Yard, eventually
from tests.worker.test_sup_control import LOOP, SAVING, notes_of, steps_of
from worker.folders import HostFolder, cgroup_name
from worker.host import cgroup
from worker.host.disk import disk_is_low, floor_of
from worker.host.limits import limits_of
from worker.host.processes import catches, children_of, moved_bytes
from worker.launches.sweep import Sweep
from worker.reporting.spool import last_seq
from worker.supervisor.guards import DiskGuard
from worker.supervisor.silence import Silence


def outcome_on_disk(yard: Yard, run: str) -> Outcome:
    path = yard.folder(run).outcome
    eventually(path.exists, what=f"the outcome of {run} on disk")
    return decode(Outcome, path.read_bytes())


# --- contact to Redis


def test_a_host_that_is_cut_off_saves_and_ends(host: Yard) -> None:
    host.extra = {"TRAINYARD_FENCE_S": "2"}
    host.launch_here(host.order("r-fence0", SAVING + LOOP), host.order("r-keep00", SAVING + LOOP, on_partition="keep"))
    host.running("r-fence0")
    host.running("r-keep00")
    assert host.server.pid is not None
    os.kill(host.server.pid, signal.SIGSTOP)
    try:
        outcome = outcome_on_disk(host, "r-fence0")
        assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.PREEMPTED)
        assert "cut off from Redis for" in outcome.reason
        assert outcome.checkpoint_step is not None
    finally:
        os.kill(host.server.pid, signal.SIGCONT)
    assert host.outcome("r-fence0") == outcome
    assert not host.folder("r-keep00").outcome.exists()
    (host.folder("r-keep00").path / "go-on").touch()
    assert host.outcome("r-keep00").state is RunState.SUCCEEDED


def test_a_run_with_nothing_to_say_is_not_cut_off(host: Yard) -> None:
    host.extra = {"TRAINYARD_FENCE_S": "2", "TRAINYARD_HEARTBEAT_S": "0.5"}
    host.launch_here(host.order("r-quiet0", "start()\nmetric(1, loss=1.0)\ntime.sleep(4)\n" + GOOD))
    assert host.outcome("r-quiet0").state is RunState.SUCCEEDED


# --- silence


def test_a_hung_run_shows_where_it_stands_and_may_still_save(host: Yard) -> None:
    host.extra = {"TRAINYARD_QUIET_S": "1"}
    script = "import faulthandler\nfaulthandler.register(signal.SIGUSR1)\n" + SAVING
    script += (
        "step = 7\nmetric(6, loss=1.0)\nmetric(step, loss=1.0)\ndef stuck_here():\n    time.sleep(600)\nstuck_here()\n"
    )
    host.launch_here(host.order("r-hang01", script))
    outcome = host.outcome("r-hang01")
    assert (outcome.state, outcome.exit_class, outcome.checkpoint_step) == (RunState.FAILED, ExitClass.HANG, 7)
    assert "in stuck_here" in host.folder("r-hang01").log.read_text()
    first, second = notes_of(host, "r-hang01")
    assert "SIGUSR1" in first
    assert "SIGTERM" in second


def test_what_is_slow_but_alive_is_left_alone(host: Yard) -> None:
    """A download before the first step; then steps that are far apart, and one that takes five times as long."""
    host.extra = {"TRAINYARD_QUIET_S": "0.5", "TRAINYARD_FIRST_STEP_QUIET_S": "1"}
    script = """
zero = open("/dev/zero", "rb", buffering=0)
for _ in range(30):
    zero.read(100_000)
    time.sleep(0.1)
start()
for step in range(6):
    metric(step, loss=1.0)
    time.sleep(0.4)
time.sleep(2)
metric(7, loss=1.0)
finish()
"""
    slow = b"import time\nfor _ in range(20):\n    open('/dev/zero', 'rb').read(100_000)\n    time.sleep(0.1)\n"
    evaluate = slow + EVALUATE
    files = {"worker/recipes/evaluate.py": evaluate}
    host.launch_here(host.order("r-slow00", script, files=files))
    outcome = host.outcome("r-slow00")
    assert outcome.state is RunState.SUCCEEDED, outcome


def test_silence_is_measured_against_usual_steps() -> None:
    now = [0.0]
    silence = Silence(quiet_s=900, first_quiet_s=2700, median_steps=10, moved=dict, clock=lambda: now[0])
    assert silence.limit_s == 2700
    silence.rows([MetricRow(step=1, at=0.0, values={}), MetricRow(step=1, at=0.1, values={})])
    assert silence.limit_s == 2700, "a step of 20 minutes is no hang after the first one"
    for step in range(2, 9):
        silence.rows([MetricRow(step=step, at=200.0 * step + late, values={}) for late in (0.0, 0.1, 0.2)])
    assert silence.limit_s == 2000, "rows of one step say nothing of what a step takes"
    quick = Silence(quiet_s=900, first_quiet_s=2700, median_steps=10, moved=dict, clock=lambda: now[0])
    quick.rows(MetricRow(step=step, at=float(step), values={}) for step in (1, 2))
    assert quick.limit_s == 900
    now[0] = 50.0
    assert silence.look(1, 2) == 0.0
    now[0] = 80.0
    assert silence.look(1, 2) == 30.0
    assert silence.look(1, 3) == 0.0


def test_bytes_count_before_the_first_step_only() -> None:
    now, moved = [0.0], {1: 0}
    silence = Silence(quiet_s=9, first_quiet_s=9, median_steps=10, moved=lambda: dict(moved), clock=lambda: now[0])
    silence.look()
    now[0], moved[1] = 5.0, 100_000
    assert silence.look() == 0.0
    now[0], moved[1] = 6.0, 100_100  # what a loop that waits reads
    assert silence.look() == 1.0
    silence.rows([MetricRow(step=1, at=0.0, values={})])
    now[0], moved[1] = 9.0, 900_000
    assert silence.look() == 4.0


def test_processes_tell_what_they_move_and_catch() -> None:
    program = (
        "import signal,sys,time\nsignal.signal(signal.SIGUSR1, lambda *_: 0)\nprint('x', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen(["python3", "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert catches(process.pid, signal.SIGUSR1)
        assert not catches(process.pid, signal.SIGUSR2)
        assert moved_bytes([process.pid, 2**22 + 1])[process.pid] > 1000
        process.kill()
    assert not catches(process.pid, signal.SIGUSR1)


# --- disk


@pytest.fixture
def small_disk(host: Yard) -> Iterator[Path]:
    """The host's folder on a file system of 24 MiB."""
    place = host.home / "hosts" / host.host
    place.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)], check=False)
    if done.returncode:
        pytest.skip("LOUD: no tmpfs can be mounted here, so full disks are not tested")
    try:
        yield place
    finally:
        host.close()
        subprocess.run(["umount", "--lazy", str(place)], check=True)


FILLING = """
while True:
    step += 1
    metric(step, loss=1.0)
    with open("filling", "ab") as file:
        file.write(bytes(512 * 1024))
    time.sleep(0.1)
"""


def test_a_disk_that_fills_up_is_told_then_the_run_is_saved_and_ended(host: Yard, small_disk: Path) -> None:
    host.extra = {
        "TRAINYARD_DISK_FLOOR_SHARE": "1",
        "TRAINYARD_DISK_FLOOR_BYTES": str(15 * 1024**2),
        "TRAINYARD_DISK_HARD_BYTES": str(8 * 1024**2),
    }
    host.launch_here(host.order("r-disk00", SAVING + FILLING))
    outcome = host.outcome("r-disk00")
    assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.DISK_FULL)
    assert outcome.checkpoint_step is not None
    first, *rungs = notes_of(host, "r-disk00")
    assert "fills up" in first
    assert "SIGTERM" in rungs[0]
    assert small_disk.is_mount()


def test_a_full_disk_leaves_whole_records(host: Yard, small_disk: Path) -> None:
    """The script takes every byte, tells nobody and goes on: what we write is whole or not there."""
    script = """
start()
step = 0
while True:
    step += 1
    try:
        with open("filling", "ab") as file:
            file.write(bytes(1024 * 1024))
    except OSError:
        pass
    print("line", step, "x" * 500, flush=True)
    time.sleep(0.02)
"""
    host.launch_here(host.order("r-disk01", script))
    outcome = host.outcome("r-disk01")
    assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.DISK_FULL)
    folder = host.folder("r-disk01")
    assert decode(Outcome, folder.outcome.read_bytes()) == outcome
    lines = folder.spool.read_bytes().splitlines()
    events = [decode(WorkerEvent, line) for line in lines]
    assert [event.seq for event in events] == list(range(1, len(lines) + 1))
    assert last_seq(folder.spool) == len(lines)
    assert events[-1].body.kind == "ended"
    assert not list(folder.path.glob("*.tmp"))
    assert small_disk.is_mount()


def test_a_run_that_takes_more_than_its_share_is_ended(host: Yard) -> None:
    host.extra = {"TRAINYARD_RUN_LIMIT_BYTES": str(4 * 1024**2)}
    host.launch_here(host.order("r-disk02", SAVING + FILLING))
    outcome = host.outcome("r-disk02")
    assert outcome.exit_class is ExitClass.DISK_FULL
    assert "a run may take 4 MiB" in outcome.reason
    assert "TRAINYARD_RUN_LIMIT_BYTES in the environment of the worker on h1 changes that" in outcome.reason


def test_the_floor_of_a_disk_is_the_smaller_of_two(tmp_path: Path) -> None:
    assert floor_of(1000, floor_bytes=100, floor_share=0.05) == 50
    assert floor_of(10_000, floor_bytes=100, floor_share=0.05) == 100
    assert not disk_is_low(tmp_path, floor_bytes=1, floor_share=1.0)
    assert disk_is_low(tmp_path, floor_bytes=2**62, floor_share=1.1)


# --- memory

GREEDY = (
    "start()\nmetric(1, loss=1.0)\nheld = []\nwhile True:\n    held.append(b'x' * 5_000_000)\n    time.sleep(0.02)\n"
)


def test_memory_over_the_limit_is_seen_by_polling(host: Yard) -> None:
    host.extra = {"TRAINYARD_MEMORY_LIMIT_BYTES": str(200 * 1024**2), "TRAINYARD_MEMORY_BY": "poll"}
    host.launch_here(host.order("r-mem000", GREEDY))
    outcome = host.outcome("r-mem000")
    assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.HOST_OOM)
    assert "may use 200 MiB" in outcome.reason
    assert "TRAINYARD_MEMORY_LIMIT_BYTES" in outcome.reason
    assert "SIGKILL" in notes_of(host, "r-mem000")[-1]


def test_memory_over_the_limit_ends_in_the_kernel(host: Yard) -> None:
    probe = cgroup.make_leaf("trainyard-test-probe", limit_bytes=64 * 1024**2)
    if probe is None:
        pytest.skip("LOUD: no memory control group can be made here, so limits by the kernel are not tested")
    probe.remove()
    host.extra = {"TRAINYARD_MEMORY_LIMIT_BYTES": str(200 * 1024**2)}
    greedy = "held = []\nwhile True: held.append(b'x' * 5_000_000)"
    helper = f"import subprocess\nsubprocess.run([sys.executable, '-c', {greedy!r}])\n"
    host.launch_here(host.order("r-mem001", GREEDY), host.order("r-mem002", helper + "1 / 0\n"))
    for run in ("r-mem001", "r-mem002"):  # also where the kernel picks a process that is not the first
        outcome = host.outcome(run)
        assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.HOST_OOM), outcome
        assert "a run may use 200 MiB" in outcome.reason
        host.gone(run)
        eventually(lambda run=run: not cgroup.find_leaves(cgroup_name(host.folder(run))), what="no group left")


def test_a_kill_that_is_not_for_memory_is_told_apart(host: Yard) -> None:
    host.extra = {"TRAINYARD_MEMORY_LIMIT_BYTES": str(500 * 1024**2)}
    host.launch_here(host.order("r-mem003", "os.kill(os.getpid(), signal.SIGKILL)\n"))
    assert host.outcome("r-mem003").exit_class is ExitClass.KILLED


# --- processes and open files

CROWD = """
start()
metric(1, loss=1.0)
crowd = []
while True:
    crowd.append(subprocess.Popen(["sleep", "600"]))
    time.sleep(0.01)
"""
OPENING = "start()\nmetric(1, loss=1.0)\nheld = []\nwhile True:\n    held.append(open('/dev/null'))\n"


def test_processes_and_files_over_a_limit_end_a_run_and_are_named(host: Yard) -> None:
    host.extra = {"TRAINYARD_PROCESS_LIMIT": "60", "TRAINYARD_OPEN_FILES": "300"}
    host.launch_here(host.order("r-crowd0", "import subprocess\n" + CROWD), host.order("r-files0", OPENING))
    crowd, files = host.outcome("r-crowd0"), host.outcome("r-files0")
    assert (crowd.state, crowd.exit_class) == (RunState.FAILED, ExitClass.USER_ERROR)
    assert re.match(r"It (had \d+|wanted more) processes and threads", crowd.reason)
    assert "60. TRAINYARD_PROCESS_LIMIT in the environment of the worker on h1 changes that" in crowd.reason
    host.gone("r-crowd0")
    assert (files.state, files.exit_class) == (RunState.FAILED, ExitClass.USER_ERROR)
    assert "had 300 files open" in files.reason
    assert "TRAINYARD_OPEN_FILES" in files.reason


def test_without_a_setting_a_run_has_a_share_of_its_host(yard: Yard) -> None:
    word = yard.redis().get(f"trainyard:host:{yard.host}")
    assert word is not None
    info = decode(HostInfo, word)
    (limits,) = info.limits
    assert 0 < limits.memory_bytes <= info.memory_bytes / info.slots
    assert 0 < limits.disk_bytes <= info.disk_free_bytes / info.slots * 1.01
    files = min(65_536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])  # the system may allow fewer
    assert (limits.processes, limits.files) == (4096, files)
    assert info.limits_with(3) == limits


def test_runs_with_gpus_share_by_gpus(host: Yard) -> None:
    settings = host.settings()
    cpu, one, all_of_them = (limits_of(settings, gpus=gpus, of_gpus=4) for gpus in (0, 1, 4))
    assert one.memory_bytes == pytest.approx(all_of_them.memory_bytes / 4, rel=0.01)
    assert cpu.memory_bytes == pytest.approx(all_of_them.memory_bytes / 2, rel=0.01)
    assert one.disk_bytes < all_of_them.disk_bytes
    said = settings.model_copy(update={"memory_limit_bytes": 5, "run_limit_bytes": 0, "process_limit": 7})
    assert limits_of(said, gpus=1, of_gpus=4).model_dump(exclude={"files"}) == {
        "memory_bytes": 5, "disk_bytes": 0, "processes": 7,
    }  # fmt: skip


def test_a_share_of_the_disk_is_what_a_folder_may_grow_by(tmp_path: Path, host: Yard) -> None:
    settings = host.settings().model_copy(update={"disk_every_s": 0.0})
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "kept").write_bytes(bytes(3 * 1024**2))
    guard = DiskGuard(folder, Limits(disk_bytes=2 * 1024**2), settings)
    eventually(lambda: (guard.look(), guard._limit)[1], what="a first count")
    (folder / "more").write_bytes(bytes(1024**2))
    assert not guard.look().end
    (folder / "more").write_bytes(bytes(3 * 1024**2))
    assert "a run may take 5 MiB there" in eventually(lambda: guard.look().end, what="an end")


# --- after a worker's or a machine's restart


async def test_a_restarted_worker_leaves_living_runs_alone(host: Yard) -> None:
    host.launch_here(host.order("r-adopt0", ENDLESS))
    host.running("r-adopt0")
    supervisor = host.supervisor_pid("r-adopt0")
    host.start_worker()
    before = len(host.events("r-adopt0"))
    eventually(lambda: len(host.events("r-adopt0")) > before + 5, what="a run that goes on")
    assert host.supervisor_pid("r-adopt0") == supervisor
    await host.stop(StopOrder(run="r-adopt0", attempt=1))
    assert host.outcome("r-adopt0").state is RunState.STOPPED


def test_after_a_reboot_nobody_else_is_killed(host: Yard) -> None:
    host.launch_here(host.order("r-boot00", SAVING + "step = 3\ncheckpoint()\n" + LOOP))
    host.running("r-boot00")
    folder = host.folder("r-boot00")
    os.kill(host.supervisor_pid("r-boot00"), signal.SIGKILL)
    host.gone("r-boot00")
    who = json.loads(folder.supervisor.read_bytes())
    folder.supervisor.write_text(json.dumps({**who, "boot_id": "another"}))
    env = {"PATH": "/usr/bin:/bin", "TRAINYARD_RUN_DIR": str(folder.path), "TRAINYARD_SUPERVISED": "2"}
    with subprocess.Popen(["sleep", "600"], env=env) as innocent:
        Sweep(HostFolder.of(host.home, host.host), host=host.host, redis_url=host.server.url).run()
        outcome = host.outcome("r-boot00")
        assert (outcome.state, outcome.checkpoint_step) == (RunState.LOST, 3)
        assert "was restarted" in outcome.reason
        assert innocent.poll() is None
        assert innocent.pid in children_of(os.getpid())
        innocent.kill()


async def test_rows_that_a_supervisor_died_with_come_with_the_next_attempt(yard: Yard) -> None:
    """The supervisor stands still while rows are written, and is killed: nobody handed them out. Each comes once."""
    script = (
        SAVING
        + "metric(1, loss=1.0)\nwait_for('go-on')\nfor step in range(2, 40):\n    metric(step, loss=float('nan'))\n"
    )
    script += "pathlib.Path('written').touch()\ntime.sleep(600)\n"
    await yard.launch(yard.order("r-rows00", script))
    yard.running("r-rows00")
    supervisor, folder = yard.supervisor_pid("r-rows00"), yard.folder("r-rows00").path
    os.kill(supervisor, signal.SIGSTOP)
    (folder / "go-on").touch()
    eventually((folder / "written").exists, what="rows that nobody sees")
    os.kill(supervisor, signal.SIGKILL)
    assert yard.outcome("r-rows00").state is RunState.LOST
    await yard.launch(yard.order("r-rows00", SAVING + "metric(40, loss=1.0)\nfinish()\n", attempt=2))
    assert yard.outcome("r-rows00", attempt=2).state is RunState.SUCCEEDED
    steps = [step for attempt in (1, 2) for step in steps_of(yard, "r-rows00", attempt=attempt)]
    assert steps == list(range(1, 41))
