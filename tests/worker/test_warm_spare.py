"""What makes a warm start short: a fork that waits already, memory that forks copy cheaply, libraries that computed."""

import functools
import os
import platform
from pathlib import Path

import pytest
import torch

from tests.worker.warm_host import Host, alive, host, kill, said, until
from worker.processes import children_of
from worker.warm import preload
from worker.warm.pool import held_bytes, proportional_bytes

HELLO = "print('up', flush=True)\n"
WAIT = "import os, time\nprint('up', flush=True)\nwhile not os.path.exists('go-on'):\n    time.sleep(0.02)\n"
BACKWARD = """
import torch
weights = torch.ones(4, requires_grad=True)
(weights * 2).sum().backward()
print(weights.grad.tolist(), torch.initial_seed() != 0)
"""


def spare(place: Host, name: str, *, other_than: int = 0) -> int:
    """The fork of a zygote that waits: it has not been given a sandbox, so it has no child."""
    zygote = place.wait_ready(name).pid

    def look() -> int | None:
        found = [pid for pid in children_of(zygote) if not children_of(pid) and pid != other_than]
        return found[0] if len(found) == 1 and alive(found[0]) else None

    return int(until(look, lambda: "no fork waits"))


def test_a_step_begins_in_the_fork_that_waits_and_the_next_one_is_made(tmp_path: Path) -> None:
    with host(tmp_path, "data") as place:
        zygote, first = place.wait_ready("data").pid, spare(place, "data")
        run = place.run_folder(train=WAIT)
        supervisor = place.begin(run, sets=["data"])
        began = said(supervisor)
        assert began["warm"]
        assert children_of(first) == [began["roots"][1]]  # it watches the step
        second = spare(place, "data", other_than=first)
        kill(second)
        third = spare(place, "data", other_than=second)
        assert alive(zygote)
        assert place.step(place.run_folder(train=HELLO), sets=["data"])["warm"]
        (run / "go-on").touch()
        assert said(supervisor)["output"] == "up\n"
        supervisor.communicate()
        last = spare(place, "data", other_than=third)
        kill(zygote)
        until(lambda: None if alive(last) else True, lambda: "the fork that waits outlived its zygote")


def test_steps_that_come_together_all_begin_warm(tmp_path: Path) -> None:
    """One finds the fork that waits; for the others a fork is made at once."""
    with host(tmp_path, "data") as place:
        spare(place, "data")
        runs = [place.run_folder(train=WAIT) for _ in range(4)]
        supervisors = [place.begin(run, sets=["data"]) for run in runs]
        assert [said(supervisor)["warm"] for supervisor in supervisors] == [True] * 4
        for run in runs:
            (run / "go-on").touch()
        assert [said(supervisor)["output"] for supervisor in supervisors] == ["up\n"] * 4
        for supervisor in supervisors:
            supervisor.communicate()


def test_what_computed_before_the_fork_can_learn_after_it(tmp_path: Path) -> None:
    with host(tmp_path, "torch") as place:
        done = place.step(place.run_folder(train=BACKWARD), sets=["torch"])
        assert done["warm"], done["log"]
        assert done["output"] == "[2.0, 2.0, 2.0, 2.0] True\n"
        zygote = place.wait_ready("torch").pid
        if _joins_pages():
            held = _rolled_up(zygote)
            assert held["AnonHugePages"] > held["Anonymous"] / 2


@pytest.mark.parametrize("before", [None, "GPU-1"])
def test_no_gpu_is_to_be_seen_while_libraries_compute(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    """An optimizer's step asks CUDA for its stream where a GPU is to be seen, and then no fork could use CUDA."""
    seen: list[str | None] = []

    @functools.lru_cache
    def is_there(_number: int) -> bool:
        return os.environ.get("CUDA_VISIBLE_DEVICES") != ""

    def compute() -> None:
        seen.append(os.environ.get("CUDA_VISIBLE_DEVICES"))
        is_there(1)
        raise ValueError("a broken library")

    if before is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
    monkeypatch.setitem(preload._TOUCHES, "torch", compute)
    threads = torch.get_num_threads()
    preload.touch("torch")
    assert seen == [""]
    assert is_there(1)  # not what it remembered meanwhile
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == before
    assert torch.get_num_threads() == threads


def test_the_bound_on_memory_counts_the_forks_that_wait(tmp_path: Path) -> None:
    """A page that two processes share is half of each: the zygote alone would seem to hold half of what it loaded."""
    with host(tmp_path, "data") as place:
        zygote, waiting = place.wait_ready("data").pid, spare(place, "data")
        both = proportional_bytes(zygote) + proportional_bytes(waiting)
        assert held_bytes(zygote) == pytest.approx(both, rel=0.1)  # others share their libraries and come and go
        assert both > 1.5 * proportional_bytes(zygote)


def _rolled_up(pid: int) -> dict[str, int]:
    """In KiB."""
    lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return {words[0].rstrip(":"): int(words[1]) for words in lines}


def _joins_pages() -> bool:
    """Whether this kernel has large pages and makes them on request."""
    major, minor = (int(number) for number in platform.release().split(".")[:2])
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return (major, minor) >= (6, 1) and setting.exists() and "[never]" not in setting.read_text()
