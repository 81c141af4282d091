"""The process of a step as the stop escalation sees it: whom a signal goes to, and what ends everything.

Owns the difference that torchrun makes, and a program that only starts the training. Used by `worker.supervisor.stage`.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from worker.host.processes import catches, children_of
from worker.supervisor.child import Child


class Payload:
    """What a escalation ends. `also_kill` is called with the kill, for what no process tree shows."""

    def __init__(self, child: Child, *, ranks: int, also_kill: Callable[[], None]) -> None:
        """`ranks`: the processes that torchrun started for the step, 0 without torchrun."""
        self._child, self._ranks, self._also_kill = child, ranks, also_kill
        self._listening: list[int] = []

    def look(self) -> None:
        """Notice who listens to SIGTERM, before anybody is asked to end: who was asked may listen no more.

        The program itself goes first, once it does: processes that it forked have its handler too.
        """
        payload = self._child.payload_pid
        if self._ranks:
            self._listening = [pid for pid in children_of(payload) if catches(pid, signal.SIGTERM)] or self._listening
        elif self._listening != [payload] and (catches(payload, signal.SIGTERM) or not _any_lives(self._listening)):
            self._listening = _listeners(payload, _program(payload))

    @property
    def listened(self) -> bool:
        """Whether anybody was seen to listen to SIGTERM."""
        return bool(self._listening)

    @property
    def heard(self) -> bool:
        """Whether somebody asked it to end: it listened to SIGTERM, and does no more."""
        return any(not catches(pid, signal.SIGTERM) for pid in self._listening)

    def signal(self, number: int) -> None:
        """Signal the program. Under torchrun that is its ranks: torchrun itself gives them 30 s, then kills.

        Where it does not listen to SIGTERM, those that it started are meant that do.
        """
        for pid in self._targets():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def catches(self, number: int) -> bool:
        """Whether the program, in all its ranks, has a handler for a signal."""
        return all(catches(pid, number) for pid in self._targets())

    def kill(self) -> None:
        """End the payload, its group and everything it started."""
        self._child.kill()
        self._also_kill()

    def _targets(self) -> list[int]:
        payload = self._child.payload_pid
        if self._ranks:
            return children_of(payload) or [payload]
        return self._listening if _any_lives(self._listening) else [payload]


def _listeners(pid: int, program: str) -> list[int]:
    """The process if it listens to SIGTERM, else the nearest below it that do and run a script by the same interpreter.

    Helpers may listen to it all their lives, and save nothing: those in other languages, those that the process forked
    (which have its command line), and those that Python's own multiprocessing started.
    """
    if catches(pid, signal.SIGTERM) and _program(pid) == program:
        return [pid]
    return [
        found
        for child in children_of(pid)
        if (line := _command_line(child)) != _command_line(pid) and b"-c" not in line
        for found in _listeners(child, program)
    ]


def _command_line(pid: int) -> list[bytes]:
    """Empty when it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return []


def _program(pid: int) -> str:
    """What a process executes, empty when it is gone."""
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/exe").readlink())
    return ""


def _any_lives(pids: list[int]) -> bool:
    return any(Path(f"/proc/{pid}").exists() for pid in pids)
