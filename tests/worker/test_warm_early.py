"""Processes that stood in sandboxes before there was a step for them. Real zygotes, bubblewrap and mounts."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.domain.runs import ExitClass
from tests.worker.conftest import ENDLESS, GOOD, Yard, opened
from tests.worker.warm_host import Host, alive, forks_of, host, until
from worker.folders import HostFolder
from worker.processes import children_of, descendants_of
from worker.sandbox import Walls, wrap
from worker.sandbox.tiers import why_not
from worker.supervisor.steps import basic_environment
from worker.warm import early as early_module
from worker.warm.early import EarlyProcesses
from worker.warm.pool import held_bytes, proportional_bytes
from worker.warm.sets import WarmStart, read_ready, ready_sets
from worker.warm.start import ColdStart

MOUNTS = """
import os
for line in open("/proc/self/mountinfo"):
    before, _, after = line.partition(" - ")
    number, parent, device, *rest = before.split()
    if not rest[1].startswith("/proc"):
        print("MOUNT", *rest[:3], *after.split()[:1])
print("ROOT", sorted(os.listdir("/")), os.path.realpath("/trainyard-home"))
for name in ("kept.json", "free.json", "/new", "/tmp/new"):
    try:
        open(name, "w").close()
        print("WROTE", name)
    except OSError as error:
        print("REFUSED", name, error.strerror)
"""
ARGV = (sys.executable, "train.py")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("early"), "data") as made:
        yield made


@pytest.fixture
def early(place: Host) -> Iterator[EarlyProcesses]:
    """One stands, and whatever is left of it at the end is ended."""
    place.runs.mkdir(exist_ok=True)
    made = EarlyProcesses(place.folder, place.runs)
    stand(made)
    yield made
    made.close()


def stand(made: EarlyProcesses) -> None:
    until(lambda: None if made.look() else made.stands(["data"]) or None, lambda: "none came up")


def walls(run: Path, **asked: object) -> Walls:
    return Walls(run, env=basic_environment(run) | {"HF_HUB_OFFLINE": "1"}, **asked)  # type: ignore[arg-type]


def taken(made: EarlyProcesses, place: Host, walls: Walls) -> bool:
    """Whether this step may have it; where it may, it is ended again."""
    command = wrap("bwrap", ARGV, walls)
    process = made.take(WarmStart(place.folder, ARGV, ("data",)), command, cwd=walls.folder)
    if process is not None:
        process.close()
    return process is not None


def test_a_step_sees_the_same_mounts_as_in_a_sandbox_of_its_own(place: Host) -> None:
    """Points, what lies there, options (read-only, nosuid, nodev, atime) and order of the visible ones."""
    seen = []
    for asked in ({"warm": False}, {"early": False}, {"early": True}):
        run = place.run_folder(train=MOUNTS)
        (run / "kept.json").write_text("{}")
        done = place.step(run, sets=["data"], readable=[str(run / "kept.json")], **asked)
        assert done["code"] == 0, done["output"]
        assert done["early"] is asked.get("early", False), done["log"]
        lines = [line.replace(run.name, "RUN") for line in done["output"].splitlines()]
        seen.append([line.replace(", 'trainyard-home'", "").replace("/trainyard-home", str(run)) for line in lines])
    cold, asked_for, stood = seen
    assert sorted(stood) == sorted(asked_for)
    assert sorted(line for line in stood if line.startswith("MOUNT")) == sorted(
        line for line in cold if line.startswith("MOUNT")
    )
    assert len([line for line in stood if line.startswith("MOUNT")]) > 10
    assert stood[-4:] == [
        "REFUSED kept.json Read-only file system",
        "WROTE free.json",
        "REFUSED /new Read-only file system",
        "WROTE /tmp/new",
    ]


def test_it_is_for_steps_that_bring_folders_and_files_of_the_stage_alone(
    place: Host, early: EarlyProcesses, tmp_path: Path
) -> None:
    run = place.run_folder(train="")
    link = run / "stop.json"
    link.symlink_to("../secret")
    plain = run / "order.json"
    plain.touch()
    refused = [
        walls(run, readable=(link,)),
        walls(run, readable=(plain.parent,)),
        walls(run, readable=(tmp_path / "absent",)) if (tmp_path / "absent").touch() is None else walls(run),
        walls(tmp_path),
        walls(place.runs),
        walls(run, network="open"),
        walls(run, gpus=(0,)),
        Walls(run, env=basic_environment(run) | {"OMP_NUM_THREADS": "1"}),
    ]
    assert [taken(early, place, one) for one in refused] == [False] * len(refused)
    assert early.stands(["data"]) == "data"
    assert taken(early, place, walls(run, readable=(plain,)))
    assert not taken(early, place, walls(run))  # nobody is left


@pytest.mark.parametrize("made", ["a link", "nothing"])
def test_what_cannot_be_brought_in_keeps_a_step_from_beginning(
    place: Host, early: EarlyProcesses, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    """As when a payload puts a link in the place of a file between the look at it and the mount: none is followed."""
    (place.runs / "secret").write_text("hidden")
    run = place.run_folder(train="print(open('order.json').read())")
    command = wrap("bwrap", ARGV, walls(run, readable=(run / "order.json",)))
    if made == "a link":
        (run / "order.json").symlink_to("../secret")
    monkeypatch.setattr(EarlyProcesses, "_can_bring", lambda *_: True)
    process = early.take(WarmStart(place.folder, ARGV, ("data",)), command, cwd=run)
    assert process is not None
    try:
        if made == "nothing":
            with pytest.raises(ColdStart, match=r"could not be brought in: .*open_tree: No such file"):
                process.begin()
            return
        with contextlib.suppress(ColdStart):
            process.begin()
            until(lambda: process.poll(), lambda: "it hangs")
            assert b"hidden" not in os.read(process.output, 65536)
    finally:
        process.close()


def test_they_end_with_their_supervisor(place: Host, early: EarlyProcesses) -> None:
    (zygote,) = [one.pid for one in read_ready(place.folder)]
    run = place.run_folder(train="")
    before = set(forks_of(zygote))
    supervisor = place.begin(run, sets=["data"], early=True, hold=True)
    new = until(lambda: set(forks_of(zygote)) - before or None, lambda: "none came up")
    supervisor.kill()
    supervisor.communicate()
    until(lambda: None if any(map(alive, new)) else True, lambda: "left")
    assert early.stands(["data"])  # those of others stand


def test_one_whose_zygote_is_another_is_replaced(tmp_path: Path) -> None:
    with host(tmp_path, "data") as place:
        place.runs.mkdir()
        made = EarlyProcesses(place.folder, place.runs)
        stand(made)
        old = place.wait_ready("data")
        (fork,) = forks_of(old.pid)
        os.kill(old.pid, 9)
        until(lambda: None if made.look() or made.stands(["data"]) else True, lambda: "the old one is kept")
        until(lambda: None if alive(fork) else True, lambda: "the old one lives")
        new = place.wait_ready("data", other_than=old.pid)
        stand(made)
        assert len(forks_of(new.pid)) == 1
        made.close()
        until(lambda: None if forks_of(new.pid) else True, lambda: "it is left")


def test_one_that_died_is_made_anew_after_a_while(
    place: Host, early: EarlyProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    (zygote,) = [one.pid for one in read_ready(place.folder)]
    (watcher,) = forks_of(zygote)
    (fork,) = descendants_of(watcher)
    os.kill(fork, 9)
    until(lambda: None if early.stands(["data"]) else True, lambda: "a dead one stands")
    assert not taken(early, place, walls(place.run_folder(train="")))
    assert not early.look()
    assert not early.look()
    monkeypatch.setattr(early_module, "_AGAIN_S", 0.0)
    later = time.monotonic() + 100.0
    monkeypatch.setattr(early_module.time, "monotonic", lambda: later)
    assert early.look()
    monkeypatch.undo()
    stand(early)


def test_the_bound_on_memory_counts_them(place: Host, early: EarlyProcesses) -> None:
    """What they share with their zygote, and what is their own."""
    (zygote,) = [one.pid for one in read_ready(place.folder)]
    assert early.stands(["data"])
    family = [zygote, *children_of(zygote), *(pid for child in children_of(zygote) for pid in descendants_of(child))]
    assert held_bytes(zygote) == pytest.approx(sum(map(proportional_bytes, family)), rel=0.1)


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    if why := why_not("bwrap"):
        pytest.skip(f"nothing begins warm here: {why}")
    with opened(tmp_path_factory.mktemp("early") / "yard", sandbox="bwrap") as found:
        found.extra |= {"TRAINYARD_WARM": "data,tabular"}
        found.start_worker()
        folder = HostFolder.of(found.home, found.host).warm
        until(lambda: {"data", "tabular"} <= set(ready_sets(folder)) or None, lambda: f"ready: {ready_sets(folder)}")
        yield found


def waiting_forks(yard: Yard) -> list[int]:
    """The watchers of what stands early, of both sets."""
    folder = HostFolder.of(yard.home, yard.host).warm
    return [fork for one in read_ready(folder) for fork in forks_of(one.pid)]


async def test_an_attempt_takes_what_stood_before_it(yard: Yard) -> None:
    until(lambda: len(waiting_forks(yard)) == 2 or None, lambda: f"stand: {waiting_forks(yard)}")
    stood = waiting_forks(yard)
    await yard.launch(yard.order("r-early1", GOOD, sandbox="bwrap"))
    outcome = yard.outcome("r-early1")
    log = (yard.folder("r-early1").path / "supervisor.log").read_text()
    assert outcome.exit_code == 0, log
    assert "early_taken set=data" in log
    assert "early_taken set=tabular" in log
    assert "cold_start" not in log
    until(lambda: None if any(map(alive, stood)) else True, lambda: f"left: {stood}")
    yard.gone("r-early1")


SAVES = """
def save(number, _):
    signal.signal(number, signal.SIG_DFL)
    time.sleep(1.5)
    pathlib.Path("checkpoints/step_7").mkdir(parents=True)
    pathlib.Path("checkpoints/step_7/state").write_text("whole")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
"""


async def test_a_shutdown_that_asks_every_process_lets_a_warm_run_save(yard: Yard) -> None:
    until(lambda: len(waiting_forks(yard)) == 2 or None, lambda: f"stand: {waiting_forks(yard)}")
    await yard.launch(yard.order("r-early2", SAVES + ENDLESS, sandbox="bwrap"))
    yard.running("r-early2")
    log = (yard.folder("r-early2").path / "supervisor.log").read_text()
    assert "early_taken set=tabular" in log
    zygotes = [one.pid for one in read_ready(HostFolder.of(yard.home, yard.host).warm)]
    for top in (*zygotes, yard.supervisor_pid("r-early2")):
        for pid in (*descendants_of(top), top):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    outcome = yard.outcome("r-early2")
    assert (outcome.exit_class, outcome.exit_code, outcome.checkpoint_step) == (ExitClass.PREEMPTED, 0, 7), outcome
    yard.gone("r-early2")


async def test_a_worker_that_ends_leaves_none(yard: Yard) -> None:
    until(lambda: len(waiting_forks(yard)) == 2 or None, lambda: f"stand: {waiting_forks(yard)}")
    stood = waiting_forks(yard)
    (worker,) = yard.workers
    worker.kill()
    worker.wait()
    until(lambda: None if any(map(alive, stood)) else True, lambda: f"left: {stood}")
