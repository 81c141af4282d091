"""A step that was made ready stands behind its walls and does nothing until it begins. Real zygotes and sandboxes."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from agent.domain.orders import StopOrder
from agent.domain.runs import ExitClass, RunState
from tests.worker.conftest import GOOD, PREPARE, Yard, opened
from tests.worker.warm_host import LIMIT_S, Host, alive, forks_of, host, said, until
from worker.folders import HostFolder
from worker.processes import descendants_of
from worker.sandbox import Walls, wrap
from worker.sandbox.tiers import why_not
from worker.supervisor.steps import basic_environment
from worker.warm.sets import WarmStart, read_ready, ready_sets
from worker.warm.start import WarmProcess

SLOW_SPLIT = b"""
import pathlib, time
pathlib.Path("begun").touch()
while not pathlib.Path("go-on").exists():
    time.sleep(0.02)
"""
BEFORE = "open('too-early', 'w').close()\nprint('before')"
AFTER = "import os\nprint('after', sorted(os.listdir('.')))"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with host(tmp_path_factory.mktemp("ready"), "data") as made:
        yield made


def at_the_gate(zygote: int) -> list[int]:
    """The process that watches, and the one that waits, which has no other file open; empty before both stand.

    One that waits for any step has files of that step open too.
    """
    for watcher in forks_of(zygote):
        for pid in descendants_of(watcher):
            with contextlib.suppress(OSError):
                if alive(pid) and {path.name for path in Path(f"/proc/{pid}/fd").iterdir()} == {"0", "1", "2", "4"}:
                    return [watcher, pid]
    return []


class Held:
    """A supervisor with a step that waits at its gate."""

    def __init__(self, place: Host) -> None:
        self.place, self.run = place, place.run_folder(train=BEFORE)
        self.supervisor = place.begin(self.run, sets=["data"], hold=True)
        self.anchor: int = said(self.supervisor)["anchor"]
        ready = place.ready("data")
        assert ready is not None
        self.zygote = ready.pid
        until(lambda: self.forks() or None, lambda: "no fork came up")

    def forks(self) -> list[int]:
        return at_the_gate(self.zygote)

    def finds(self) -> list[str]:
        """What lies in the run's folder."""
        return sorted(path.name for path in self.run.iterdir())

    def tell(self, word: str) -> dict[str, Any]:
        """All that the supervisor says until it ends."""
        out, err = self.supervisor.communicate(f"{word}\n", timeout=LIMIT_S)
        assert self.supervisor.returncode == 0, err
        words: dict[str, Any] = {"log": err, "said": out}
        return words

    def nothing_is_left(self) -> None:
        until(lambda: None if forks_of(self.zygote) or alive(self.anchor) else True, lambda: f"left: {self.forks()}")


def test_it_finds_what_was_laid_out_after_it_stood(place: Host) -> None:
    held = Held(place)
    assert held.finds() == ["train.py"]
    (held.run / "train.py").write_text(AFTER)
    (held.run / "data").mkdir()
    words = held.tell("begin")
    assert '"warm": true' in words["said"]
    assert "['data', 'train.py']" in words["said"]
    assert "before" not in words["said"]
    held.nothing_is_left()


def test_one_that_never_begins_leaves_nothing_and_ran_nothing(place: Host) -> None:
    held = Held(place)
    held.tell("end it")
    held.nothing_is_left()
    assert held.finds() == ["train.py"]


def test_it_can_be_ended_at_any_moment_while_it_comes_up(place: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread waits for its sandbox: no file may be closed under it, whose number another file may get."""
    broke: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda about: broke.append(about.exc_value))
    run, argv = place.run_folder(train=BEFORE), (sys.executable, "train.py")
    env = basic_environment(run) | {"HF_HUB_OFFLINE": "1"}
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(10):
        process = WarmProcess.for_step(
            WarmStart(place.folder, argv, ("data",)), wrap("bwrap", argv, Walls(run, env=env)), cwd=run
        )
        time.sleep(number * 0.004)
        process.close()
        until(lambda pid=process.anchor_pid: None if alive(pid) else True, lambda: "the sandbox is left")
    assert broke == []
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    ready = place.ready("data")
    assert ready is not None
    until(lambda: None if forks_of(ready.pid) else True, lambda: "forks are left")
    assert [path.name for path in run.iterdir()] == ["train.py"]


def test_it_dies_with_its_supervisor(place: Host) -> None:
    held = Held(place)
    held.supervisor.kill()
    held.supervisor.communicate(timeout=LIMIT_S)
    held.nothing_is_left()
    assert held.finds() == ["train.py"]


@pytest.mark.parametrize("who", ["anchor", "fork", "watcher"])
def test_one_that_died_at_the_gate_costs_a_cold_start(place: Host, who: str) -> None:
    held = Held(place)
    watcher, fork = held.forks()
    os.kill({"anchor": held.anchor, "fork": fork, "watcher": watcher}[who], signal.SIGKILL)
    until(lambda: None if alive(fork) else True, lambda: "the fork lives on")
    (held.run / "train.py").write_text(AFTER)
    words = held.tell("begin")
    assert '"warm": false' in words["said"]
    assert "['train.py']" in words["said"]
    assert '"code": 0' in words["said"]
    held.nothing_is_left()


def test_a_zygote_that_died_does_not_take_it_along(place: Host) -> None:
    """What stands ready is a process of its own."""
    held = Held(place)
    os.kill(held.zygote, signal.SIGKILL)
    (held.run / "train.py").write_text(AFTER)
    words = held.tell("begin")
    assert '"code": 0' in words["said"]
    assert "['train.py']" in words["said"]
    assert place.wait_ready("data", other_than=held.zygote)


def test_its_state_is_that_of_a_step_that_began_at_once(place: Host, tmp_path: Path) -> None:
    """A gate leaves no open file, no variable, no other parent."""
    script = (
        "import json, os, sys\n"
        "files = [name for name in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + name)]\n"
        "print('STATE', sorted(files), sorted(os.environ), sys.argv, os.getppid(), os.getcwd() == os.environ['PWD'])"
    )
    held = Held(place)
    (held.run / "train.py").write_text(script)
    waited = held.tell("begin")["said"]
    at_once = place.step(place.run_folder(train=script), sets=["data"])["output"]
    assert "STATE" in at_once
    assert at_once.strip().splitlines()[-1] in waited


@contextlib.contextmanager
def warm(home: Path, **extra: str) -> Iterator[Yard]:
    """A host whose trainings begin warm, behind bubblewrap."""
    if why := why_not("bwrap"):
        pytest.skip(f"nothing begins warm here: {why}")
    with opened(home, sandbox="bwrap") as found:
        found.extra |= {"TRAINYARD_WARM": "data,tabular", **extra}
        found.start_worker()
        folder = HostFolder.of(found.home, found.host).warm
        until(lambda: {"data", "tabular"} <= set(ready_sets(folder)) or None, lambda: f"ready: {ready_sets(folder)}")
        yield found


@pytest.fixture(scope="module")
def warm_yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """One for the tests that leave it as it was."""
    with warm(tmp_path_factory.mktemp("warm") / "yard") as found:
        yield found


async def splitting(yard: Yard, run: str) -> list[int]:
    """A run that is at its split, with its training at the gate: the processes of the training."""
    folder = HostFolder.of(yard.home, yard.host).warm
    files = {"worker/recipes/prepare.py": SLOW_SPLIT + PREPARE}
    await yard.launch(yard.order(run, GOOD, files=files, sandbox="bwrap"))
    until(lambda: (yard.folder(run).room / "begun").exists() or None, lambda: f"no split of {run}")
    (tabular,) = [one.pid for one in read_ready(folder) if one.name == "tabular"]
    waits = until(lambda: at_the_gate(tabular) or None, lambda: "no training came up")
    assert not (yard.folder(run).path / "meta.json").exists()
    return [pid for pid in waits if alive(pid)]


async def test_a_training_comes_up_while_its_data_is_split(warm_yard: Yard) -> None:
    waits = await splitting(warm_yard, "r-ahead1")
    (warm_yard.folder("r-ahead1").room / "go-on").touch()
    outcome = warm_yard.outcome("r-ahead1")
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert "cold_start" not in (warm_yard.folder("r-ahead1").path / "supervisor.log").read_text()
    assert not [pid for pid in waits if alive(pid)]
    warm_yard.gone("r-ahead1")


async def test_a_training_that_died_at_its_gate_costs_a_cold_start(warm_yard: Yard) -> None:
    """Its supervisor writes to a pipe that nobody reads: a signal that would end it, and the run with it."""
    waits = await splitting(warm_yard, "r-ahead4")
    os.kill(waits[1], signal.SIGKILL)
    until(lambda: None if alive(waits[1]) else True, lambda: "the fork lives on")
    (warm_yard.folder("r-ahead4").room / "go-on").touch()
    outcome = warm_yard.outcome("r-ahead4")
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert "cold_start" in (warm_yard.folder("r-ahead4").path / "supervisor.log").read_text()
    warm_yard.gone("r-ahead4")


@pytest.mark.faults
async def test_memory_is_watched_in_a_step_that_began_warm(tmp_path: Path) -> None:
    """Without a control group: what runs is no descendant of the sandbox that the supervisor started."""
    limit = {"TRAINYARD_MEMORY_BY": "poll", "TRAINYARD_MEMORY_LIMIT_BYTES": str(400 * 2**20)}
    with warm(tmp_path / "yard", **limit) as yard:
        script = "held = bytearray(b'x') * (700 * 2**20)\nstart()\nwait_for('go-on')\n"
        await yard.launch(yard.order("r-ahead5", script, sandbox="bwrap"))
        outcome = yard.outcome("r-ahead5")
        assert outcome.exit_class is ExitClass.HOST_OOM, outcome
        assert "cold_start" not in (yard.folder("r-ahead5").path / "supervisor.log").read_text()
        yard.gone("r-ahead5")


AGAIN = """
start()
if os.environ["TRAINYARD_ATTEMPT"] == "1":
    sys.exit(3)
for name in ("spool-1.jsonl", "spool.jsonl", "order.json"):
    try:
        open(name, "a").close()
        sys.exit(f"{name} can be written")
    except OSError:
        pass
finish()
"""


async def test_a_later_attempt_comes_up_while_its_bundle_is_laid_out(warm_yard: Yard) -> None:
    """Its data is split already; what supervisors told before is behind walls in it too."""
    await warm_yard.launch(warm_yard.order("r-ahead6", AGAIN, sandbox="bwrap"))
    assert warm_yard.outcome("r-ahead6").exit_code == 3
    await warm_yard.launch(warm_yard.order("r-ahead6", AGAIN, sandbox="bwrap", attempt=2))
    outcome = warm_yard.outcome("r-ahead6", attempt=2)
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert "cold_start" not in (warm_yard.folder("r-ahead6").path / "supervisor.log").read_text()
    warm_yard.gone("r-ahead6")


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_an_end_at_the_split_takes_the_training_along(warm_yard: Yard, how: Literal["stop", "kill"]) -> None:
    run = f"r-end{how[:3]}"
    waits = await splitting(warm_yard, run)
    await warm_yard.stop(StopOrder(run=run, attempt=1, how=how))
    assert warm_yard.outcome(run).state is RunState.STOPPED
    until(lambda: None if any(map(alive, waits)) else True, lambda: f"left: {waits}")
    assert not (warm_yard.folder(run).path / "meta.json").exists()
    warm_yard.gone(run)


async def test_a_supervisor_that_dies_at_the_split_takes_the_training_along(warm_yard: Yard) -> None:
    waits = await splitting(warm_yard, "r-ahead3")
    os.kill(warm_yard.supervisor_pid("r-ahead3"), signal.SIGKILL)
    until(lambda: None if any(map(alive, waits)) else True, lambda: f"left: {waits}")
    outcome = warm_yard.outcome("r-ahead3")  # from the sweep
    assert outcome.exit_class is ExitClass.LOST, outcome
    assert not (warm_yard.folder("r-ahead3").path / "meta.json").exists()
    warm_yard.gone("r-ahead3")
