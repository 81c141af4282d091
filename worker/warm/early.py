"""Processes that stand in sandboxes of their own before there is an attempt for them: one of each set of libraries.

Owns which of them a step may take, and that what nobody took is ended. They belong to the supervisor that waits
(`worker.supervisor.waiting`) and to no other: each ends with it. Taken by `worker.supervisor.stage`.
Such a process has all behind it that takes time: bubblewrap, joining, forking, and the first computation of its
libraries. What is a run's own comes in at the end: its folder, its environment.
"""

import logging
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from worker.sandbox import Command, waiting_command
from worker.warm.sets import WarmStart, read_ready, why_cold
from worker.warm.start import ColdStart, WarmProcess

_AGAIN_S, _LONGEST_AGAIN_S = 60.0, 3600.0

log = logging.getLogger(__name__)


class EarlyProcesses:
    """Those of one supervisor. All methods are for the thread that outlives its steps."""

    def __init__(self, folder: Path, stage: Path) -> None:
        """`folder` is the host's warm folder; below `stage` lies everything that a run may bring in."""
        self._folder, self._stage = folder, stage
        self._bare = waiting_command((), stage).bare
        self._standing: dict[str, WarmProcess] = {}
        self._failed, self._not_before = 0, 0.0

    def look(self) -> bool:
        """End one whose zygote is another by now or that failed, start one that is missing; whether one was started."""
        ready = {one.name: one for one in read_ready(self._folder)}
        for name, process in list(self._standing.items()):
            why = process.why_not
            if why:
                self._put_off(name, why)
            if why or name not in ready or ready[name].socket != process.set.socket:
                self._standing.pop(name).close()
        missing = next((one for name, one in ready.items() if name not in self._standing), None)
        if missing is None or time.monotonic() < self._not_before:
            return False
        try:
            self._standing[missing.name] = WarmProcess.waiting(missing, self._stage)
        except ColdStart as why:
            self._put_off(missing.name, str(why))
            return False
        return True

    def _put_off(self, name: str, why: str) -> None:
        """Longer each time: a kernel that cannot do it never will."""
        pause_s = min(_LONGEST_AGAIN_S, _AGAIN_S * 2**self._failed)
        self._failed, self._not_before = self._failed + 1, time.monotonic() + pause_s
        log.warning("early_failed set=%s again_in_s=%.0f why=%s", name, pause_s, why)

    def stands(self, sets: Sequence[str]) -> str:
        """The first of the sets of which one stands, empty for none."""
        return next((name for name in sets if name in self._standing and self._standing[name].stands), "")

    def take(self, warm: WarmStart, command: Command, *, cwd: Path) -> WarmProcess | None:
        """One that becomes this step, and is the caller's; None where none stands that may."""
        name = self.stands(warm.sets)
        if not name or command.bare != self._bare or why_cold(warm.argv, command.inside):
            return None
        if not self._can_bring(command):
            return None
        process = self._standing.pop(name)
        process.take(warm.argv, command, top=self._stage, cwd=cwd)
        log.info("early_taken set=%s", name)
        return process

    def anchor_pids(self) -> list[int]:
        """Of the sandboxes that nobody took."""
        return [process.anchor_pid for process in self._standing.values()]

    def close(self) -> None:
        """End those that nobody took."""
        while self._standing:
            self._standing.popitem()[1].close()

    def _can_bring(self, command: Command) -> bool:
        """Folders to write to and files to read, nothing else: a payload may have laid out links."""
        for bind in command.binds:
            if not bind.path.is_relative_to(self._stage) or bind.path == self._stage:
                return False
            try:
                kind = bind.path.lstat().st_mode
            except OSError:
                return False
            if not (stat.S_ISDIR(kind) if bind.writable else stat.S_ISREG(kind)):
                return False
        return bool(command.binds)
