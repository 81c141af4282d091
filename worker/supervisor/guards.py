"""Watches what a run takes from its host: disk and memory.

Owns the looks and their sentences. Ends nothing: `worker.supervisor.stage` asks, and tells `Wishes`. Memory is the
kernel's business where a control group may be made (`worker.cgroup`); elsewhere `MemoryGuard` polls, which a program
that grows by gigabytes a second can outrun.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.cgroup import Leaf
from worker.disk import floor_of, space
from worker.processes import oom_kills
from worker.settings import Settings
from worker.usage import Tree, folder_bytes

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DiskWord:
    """What one look found. `note` is for people, once; `end` says why the attempt cannot go on; both may be empty."""

    note: str = ""
    end: str = ""


class DiskGuard:
    """The disk below one run's folder."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        """Nothing is read before the first look."""
        self._folder, self._settings = folder, settings
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
        limit = self._settings.run_limit_bytes
        if limit and (used := folder_bytes(self._folder)) > limit:
            return DiskWord(end=f"The run's folder holds {_size(used)}, and a run may take {_size(limit)} there.")
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

    def _full(self, free: int) -> str:
        return (
            f"The disk of host {self._settings.host_id} is full: {_size(free)} are left. "
            "Free some space there, then start again."
        )


class MemoryGuard:
    """The memory of one step."""

    def __init__(self, roots: Sequence[int], leaf: Leaf | None, *, limit_bytes: int, every_s: float) -> None:
        """`roots` and all below them are the step; they are moved into `leaf` when there is one. 0: no limit."""
        self._leaf, self._limit, self._every_s = leaf, limit_bytes, every_s
        self._tree = Tree(roots)
        self._at = time.monotonic()
        self._before = oom_kills()
        self._own_before = leaf.oom_kills() if leaf else 0

    def look(self) -> str:
        """Why the step must be killed for its memory; empty when it need not. Where a group counts, the kernel acts."""
        if self._leaf is not None or not self._limit or time.monotonic() - self._at < self._every_s:
            return ""
        self._at = time.monotonic()
        _, used = self._tree.look()
        if used <= self._limit:
            return ""
        return (
            f"It used {_size(used)} of memory and may use {_size(self._limit)}, so it was killed. "
            "A smaller batch or less data needs less."
        )

    @property
    def killed_here(self) -> bool:
        """Whether the kernel killed a process of the step for memory, as far as a group can tell."""
        return self._leaf is not None and self._leaf.oom_kills() > self._own_before

    @property
    def killed_anywhere(self) -> bool:
        """Whether it killed one on this host; where a group counts, only the group is believed."""
        return self._leaf is None and oom_kills() > self._before


def _size(count: int) -> str:
    for unit, amount in (("GiB", 1024**3), ("MiB", 1024**2)):
        if count >= amount:
            return f"{count / amount:.3g} {unit}"
    return f"{count / 1024:.3g} KiB"
