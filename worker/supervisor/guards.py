"""Watches what a run takes from its host: disk, memory, processes.

Owns the looks and their sentences. Ends nothing: `worker.supervisor.stage` asks, and tells `StopReasons`. Memory and
processes are the kernel's business where a control group may be made (`worker.host.cgroup`); elsewhere `ProcessGuard`
polls, which a program that grows by gigabytes a second can outrun.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.domain.orders import Limits
from worker.host.cgroup import Leaf
from worker.host.disk import floor_of, space
from worker.host.limits import changed_by
from worker.host.processes import oom_kills
from worker.host.usage import WAIT_S, Measured, Tree, folder_bytes
from worker.settings import Settings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DiskWord:
    """What one look found. `note` is for people, once; `end` says why the attempt cannot go on; both may be empty."""

    note: str = ""
    end: str = ""


class DiskGuard:
    """The disk below one run's folder."""

    def __init__(self, folder: Path, limits: Limits, settings: Settings) -> None:
        """Nothing is read before the first look. What the folder holds then comes on top of a share."""
        self._folder, self._settings = folder, settings
        self._used = Measured(lambda: folder_bytes(folder), every_s=settings.disk_every_s)
        self._share, self._limit = limits.disk_bytes, settings.run_limit_bytes
        self._at = float("-inf")
        self._noted = False

    def look(self) -> DiskWord:
        """Cheap between two looks; counts the files of the folder at a look."""
        if time.monotonic() - self._at < self._settings.disk_every_s:
            return DiskWord()
        self._at = time.monotonic()
        try:
            now = space(self._folder)
        except OSError as error:
            log.warning("disk_not_read path=%s why=%s", self._folder, error)
            return DiskWord()
        if now.free < self._settings.disk_hard_bytes:
            return DiskWord(end=self._full(now.free))
        if end := self._too_large():
            return DiskWord(end=end)
        floor = floor_of(
            now.total, floor_bytes=self._settings.disk_floor_bytes, floor_share=self._settings.disk_floor_share
        )
        if now.free >= floor:
            self._noted = False
            return DiskWord()
        if self._noted:
            return DiskWord()
        self._noted = True
        used = folder_bytes(self._folder)
        return DiskWord(
            note=f"The disk of host {self._settings.host_id} fills up: {_size(now.free)} are left, this run holds "
            f"{_size(used)}. Below {_size(self._settings.disk_hard_bytes)} the run is saved and ended."
        )

    def _too_large(self) -> str:
        """A thread counts the files of the folder, which may be many; what it found last is judged."""
        used = self._used.newest(wait_s=WAIT_S)
        if used is None:
            return ""
        if self._limit is None:
            self._limit = used + self._share
        if not self._limit or used <= self._limit:
            return ""
        return (
            f"The run's folder holds {_size(used)}, and a run may take {_size(self._limit)} there. "
            f"{changed_by('run_limit_bytes', self._settings)}."
        )

    def _full(self, free: int) -> str:
        return (
            f"The disk of host {self._settings.host_id} is full: {_size(free)} are left. "
            "Free some space there, then start again."
        )


@dataclass(frozen=True, slots=True)
class ProcessWord:
    """Why a step must be killed: for its memory, or for its processes; both may be empty."""

    memory: str = ""
    processes: str = ""


class ProcessGuard:
    """The memory and the number of one step's processes."""

    def __init__(self, roots: Sequence[int], leaf: Leaf | None, limits: Limits, settings: Settings) -> None:
        """`roots` and all below them are the step; they are moved into `leaf` when there is one."""
        self._leaf, self._limits, self._settings = leaf, limits, settings
        self._tree = Tree(roots)
        self._at = time.monotonic()
        self._before = oom_kills()
        self._own_before = leaf.oom_kills() if leaf else 0
        self._refused_before = leaf.refused_processes() if leaf else 0
        self._memory_bytes = 0 if leaf else limits.memory_bytes  # where a group counts, the kernel acts
        self._processes = 0 if leaf and leaf.counts_processes else limits.processes

    def look(self) -> ProcessWord:
        """Cheap between two looks. What processes share is only told apart where it may make the difference."""
        if not (self._memory_bytes or self._processes) or time.monotonic() - self._at < self._settings.guard_s:
            return ProcessWord()
        self._at = time.monotonic()
        processes, used = self._tree.count()
        if self._processes and processes > self._processes:
            return ProcessWord(processes=self.crowded(processes))
        if not self._memory_bytes or used <= self._memory_bytes or (used := self._tree.look()[1]) <= self._memory_bytes:
            return ProcessWord()
        return ProcessWord(memory=self.too_large(used))

    def too_large(self, used: int = 0) -> str:
        """The sentence about its memory, empty where it has no limit. `used` 0: nobody measured it."""
        if not self._limits.memory_bytes:
            return ""
        amount = f"{_size(used)} of memory and" if used else "more memory than it may: a run"
        return (
            f"It used {amount} may use {_size(self._limits.memory_bytes)}, so it was killed. "
            f"A smaller batch or less data needs less; {changed_by('memory_limit_bytes', self._settings)}."
        )

    def crowded(self, count: int = 0) -> str:
        """The sentence about its processes; `count` 0: the kernel refused it more."""
        had = f"had {count:,} processes and threads and may have" if count else "wanted more processes and threads than"
        return f"It {had} {self._limits.processes:,}. {changed_by('process_limit', self._settings)}."

    @property
    def refused_here(self) -> bool:
        """Whether the kernel refused the step another process."""
        return self._leaf is not None and self._leaf.refused_processes() > self._refused_before

    @property
    def killed_here(self) -> bool:
        """Whether the kernel killed a process of the step for memory, as far as a group can tell."""
        return self._leaf is not None and self._leaf.oom_kills() > self._own_before

    @property
    def killed_anywhere(self) -> bool:
        """Whether it killed one on this host; where a group counts, only the group is believed."""
        return self._leaf is None and oom_kills() > self._before


def too_many_files(limits: Limits, settings: Settings) -> str:
    """The sentence for a step that ended with that error."""
    return (
        f"A process of it had {limits.files:,} files open, and may have no more. {changed_by('open_files', settings)}."
    )


def _size(count: int) -> str:
    for unit, amount in (("GiB", 1024**3), ("MiB", 1024**2)):
        if count >= amount:
            return f"{count / amount:.3g} {unit}"
    return f"{count / 1024:.3g} KiB"
