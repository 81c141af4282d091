"""What an attempt uses, measured on real processes and files."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent.domain.orders import GpuInfo
from worker.host.processes import descendants_of
from worker.host.usage import WAIT_S, Sampler, Tree, folder_bytes

# A parent that waits for a child that burns one core; both say when they run.
_BURNS = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "print('on', flush=True)\\nwhile True: pass"])
child.wait()
"""
_HOLDS = "held = bytearray(200_000_000); held[::4096] = b'x' * len(held[::4096]); print('on', flush=True); input()"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        for pid in (*descendants_of(process.pid), process.pid):
            subprocess.run(["kill", "-9", str(pid)], check=False, capture_output=True)
        process.wait()


def run(started: list[subprocess.Popen[bytes]], program: str) -> int:
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"on\n"
    return process.pid


def test_the_processors_of_the_whole_tree_count(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    sampler = Sampler(run(started, _BURNS), tmp_path)
    sampler.sample()
    time.sleep(1.0)
    assert 0.05 < sampler.sample().cpus < 1.6  # one core that other tests may want too


def test_the_time_of_a_child_that_ended_is_not_lost() -> None:
    tree = Tree(os.getpid())
    tree.look()
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-c", "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"],
        check=True,
    )
    took = time.monotonic() - began
    cpus, _ = tree.look()
    assert cpus * took > 0.4


def test_memory_is_what_the_tree_holds(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    used = Sampler(run(started, _HOLDS), tmp_path).sample().memory_bytes
    assert 200_000_000 < used < 300_000_000


def test_several_roots_count_once_each(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    first, second = run(started, _HOLDS), run(started, _HOLDS)
    used = Sampler((first, second, first), tmp_path).sample().memory_bytes
    assert 400_000_000 < used < 600_000_000


def test_a_process_that_is_gone_uses_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    usage = Sampler(process.pid, tmp_path).sample()
    assert (usage.cpus, usage.memory_bytes, usage.gpus) == (0.0, 0, ())


def test_the_folder_counts_blocks_and_each_file_once(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    file = tmp_path / "deep" / "er" / "a"
    file.write_bytes(b"x" * 1_000_000)
    (tmp_path / "again").hardlink_to(file)
    (tmp_path / "out").symlink_to("/usr")
    with (tmp_path / "holes").open("wb") as holes:
        holes.truncate(10**9)
    assert 1_000_000 <= folder_bytes(tmp_path) < 1_100_000
    assert folder_bytes(tmp_path / "missing") == 0


def test_a_driver_that_hangs_delays_nothing(tmp_path: Path) -> None:
    asked: list[float] = []

    def hang() -> Sequence[GpuInfo]:
        asked.append(time.monotonic())
        time.sleep(3.0)
        return [GpuInfo(uuid="GPU-a", index=0, name="x", memory_bytes=80, used_bytes=40, busy=0.5)]

    sampler = Sampler(os.getpid(), tmp_path, gpus=["GPU-a"], ask_gpus=hang)
    began = time.monotonic()
    for _ in range(5):
        assert sampler.sample().gpus == ()
    assert time.monotonic() - began < 5 * WAIT_S + 1.5
    assert len(asked) == 1


def test_only_the_gpus_of_the_attempt_are_told(tmp_path: Path) -> None:
    found = [
        GpuInfo(uuid=f"GPU-{name}", index=n, name="x", memory_bytes=80, used_bytes=40 + n, busy=0.5)
        for n, name in enumerate("ab")
    ]
    sampler = Sampler(os.getpid(), tmp_path, gpus=["GPU-b"], ask_gpus=lambda: found)
    sampler.sample()
    time.sleep(0.2)
    (gpu,) = sampler.sample().gpus
    assert (gpu.uuid, gpu.busy, gpu.memory_bytes) == ("GPU-b", 0.5, 41)


def test_no_gpu_no_question(tmp_path: Path) -> None:
    def never() -> Sequence[GpuInfo]:
        raise AssertionError("asked")

    assert Sampler(os.getpid(), tmp_path, ask_gpus=never).sample().gpus == ()
