"""What an attempt uses now: processors, memory, disk, its GPUs.

Owns the measuring of one process tree and one folder. Knows no events. The supervisor asks `Sampler.sample` with each
heartbeat; no call waits longer than `WAIT_S`, because its loop also escalates a stop. What takes longer (a folder
of many files, a driver that hangs) is measured by a thread of its own and is as old as that takes.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

import psutil

from agent.domain.orders import GpuInfo
from agent.domain.runs import GpuUsage, Usage
from worker.host.gpus import gpus as discover
from worker.host.processes import descendants_of

WAIT_S = 0.1
DISK_EVERY_S = 30.0
GPUS_EVERY_S = 10.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

T = TypeVar("T")

log = logging.getLogger(__name__)


class Sampler:
    """Measures the process `pid` (or several that belong together) with all below it, and the run folder `folder`.

    `gpus` are the uuids that the attempt was given; without any, the driver is never asked.
    """

    def __init__(
        self,
        pid: int | Sequence[int],
        folder: Path,
        *,
        gpus: Sequence[str] = (),
        ask_gpus: Callable[[], Sequence[GpuInfo]] = discover,
    ) -> None:
        """The first look begins at once, so that the first sample has its processors. `ask_gpus` may block."""
        self._tree = Tree(pid)
        self._uuids = frozenset(gpus)
        self._ask_gpus = ask_gpus
        self._quick = Measured(self._tree.look, every_s=0.0)
        self._disk = Measured(lambda: folder_bytes(folder), every_s=DISK_EVERY_S)
        self._gpus = Measured(self._look_at_gpus, every_s=GPUS_EVERY_S)
        self._quick.newest(wait_s=0.0)

    def sample(self) -> Usage:
        """The usage now; `cpus` is the mean since the sample before. Never raises, never waits longer than `WAIT_S`."""
        disk = self._disk.newest(wait_s=0.0)
        seen = self._gpus.newest(wait_s=0.0) if self._uuids else None
        cpus, memory = self._quick.newest(wait_s=WAIT_S) or (0.0, 0)
        return Usage(cpus=cpus, memory_bytes=memory, disk_bytes=disk or 0, gpus=seen or ())

    def _look_at_gpus(self) -> tuple[GpuUsage, ...]:
        return tuple(
            GpuUsage(uuid=gpu.uuid, busy=gpu.busy, memory_bytes=gpu.used_bytes, total_bytes=gpu.memory_bytes)
            for gpu in self._ask_gpus()
            if gpu.uuid in self._uuids
        )


class Tree:
    """Processor time and memory of processes with all below them."""

    def __init__(self, pid: int | Sequence[int]) -> None:
        """Nothing is read yet."""
        self._roots = (pid,) if isinstance(pid, int) else tuple(pid)
        self._spent_s: float | None = None
        self._at = 0.0

    def count(self) -> tuple[int, int]:
        """Threads of all processes, and bytes of memory with pages that they share counted for each: never too few."""
        threads = memory = 0
        for pid in self._pids():
            with contextlib.suppress(OSError):  # ended in this moment
                words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                threads, memory = threads + int(words[17]), memory + int(words[21]) * _PAGE_BYTES
        return threads, memory

    def look(self) -> tuple[float, int]:
        """Whole cores since the last look (0.0 at the first), and bytes of memory.

        Memory is the proportional set size where the kernel shows it: the pages that data loader processes share with
        their parent count once. The time of children that ended is found in their parents, which waited for them.
        """
        now, spent, memory = time.monotonic(), 0.0, 0
        for pid in self._pids():
            try:
                process = psutil.Process(pid)
                times = process.cpu_times()
                memory += _memory_of(process)
            except psutil.Error:
                continue  # ended in this moment
            spent += times.user + times.system + times.children_user + times.children_system
        cpus = 0.0
        if self._spent_s is not None and now > self._at:
            cpus = max(0.0, spent - self._spent_s) / (now - self._at)
        self._spent_s, self._at = spent, now
        return round(cpus, 3), memory

    def _pids(self) -> Iterable[int]:
        return dict.fromkeys(pid for root in self._roots for pid in (root, *descendants_of(root)))


def _memory_of(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.AccessDenied, AttributeError):  # a process in namespaces of its own, or a kernel without smaps
        return int(process.memory_info().rss)


def folder_bytes(folder: Path) -> int:
    """What the files below `folder` take on the disk, in bytes; a file with several names counts once."""
    total = 0
    seen: set[tuple[int, int]] = set()
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                        continue
                    found = entry.stat(follow_symlinks=False)
                    if (found.st_dev, found.st_ino) not in seen:
                        seen.add((found.st_dev, found.st_ino))
                        total += found.st_blocks * 512
        except OSError:
            continue  # it was removed while we looked, or the payload closed it to us
    return total


class Measured(Generic[T]):
    """A value that a thread of its own measures, at most one at a time; a measurement that hangs costs that thread."""

    def __init__(self, measure: Callable[[], T], *, every_s: float) -> None:
        """`every_s` is how old a value may be before it is measured again."""
        self._measure = measure
        self._every_s = every_s
        self._value: T | None = None
        self._begun_at = float("-inf")
        self._done = threading.Event()
        self._done.set()

    def newest(self, *, wait_s: float) -> T | None:
        """The newest value; waits up to `wait_s` for one that is being measured. None before the first."""
        if self._done.is_set() and time.monotonic() - self._begun_at >= self._every_s:
            self._begun_at = time.monotonic()
            self._done.clear()
            threading.Thread(target=self._run, name="usage", daemon=True).start()
        if wait_s:
            self._done.wait(wait_s)
        return self._value

    def _run(self) -> None:
        try:
            self._value = self._measure()
        except Exception:
            log.exception("usage_not_measured")  # the old value stands; the run matters more than its figures
        finally:
            self._done.set()
