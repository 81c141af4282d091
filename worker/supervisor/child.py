"""One step as a process: started behind the shield, its output in a pipe, ended by a ladder of signals.

Owns the process and its group. Knows nothing of what the step does. Used by `worker.supervisor.attempt`.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from worker import shield
from worker.processes import children_of, kill_children, kill_tree
from worker.sandbox import Command


def shielded(argv: Sequence[str], *, memory_bytes: int = 0) -> list[str]:
    """`argv`, so that it dies with this process. To be started by the main thread."""
    head = [sys.executable, "-I", "-S", shield.__file__, str(os.getpid()), str(memory_bytes), "--"]
    return [*head, *argv]


class Child:
    """A running step. `output` is the reading end of its stdout and stderr."""

    def __init__(self, command: Command, *, cwd: Path, env: Mapping[str, str]) -> None:
        """Starts it. The session is its own, so that a signal to its group reaches nothing else."""
        self.output, writing = os.pipe()
        self._info, self._said = -1, b""
        passed: tuple[int, ...] = ()
        argv = list(command.argv)
        if command.has_info_fd:
            self._info, info_writing = os.pipe()
            passed = (info_writing,)
            argv[1:1] = ["--info-fd", str(info_writing)]
        try:
            self._process = subprocess.Popen(
                shielded(argv),
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
                pass_fds=passed,
            )
        finally:
            for fd in (writing, *passed):
                os.close(fd)

    @property
    def pid(self) -> int:
        """Of the outermost process."""
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code (negative for a signal, as bwrap's 128+n too), None while it runs."""
        code = self._process.poll()
        if code is not None and self._info >= 0 and code > 128:
            return 128 - code
        return code

    def signal(self, number: int) -> None:
        """Signal the payload only: its helpers and the sandbox around it must outlive its last checkpoint."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._payload_pid(), number)

    def kill(self) -> None:
        """End the payload, its group and everything it started."""
        kill_tree(self.pid)

    def close(self) -> None:
        """Kill what the step left behind, also what left its group, and close the pipes. The step must have ended."""
        kill_tree(self.pid)
        kill_children()
        for fd in {self.output, self._info} - {-1}:
            os.close(fd)

    def _payload_pid(self) -> int:
        """Inside bwrap the payload is the only child of the first process of its own pid namespace."""
        if self._info < 0:
            return self.pid
        inner = self._inner_pid()
        found = children_of(inner) if inner else []
        return found[0] if found else self.pid

    def _inner_pid(self) -> int:
        """The first process inside, 0 while bwrap has not said so."""
        while b"}" not in self._said and select.select([self._info], [], [], 1.0)[0]:  # it arrives in pieces
            piece = os.read(self._info, 4096)
            if not piece:
                break
            self._said += piece
        return int(json.loads(self._said)["child-pid"]) if b"}" in self._said else 0


class Ladder:
    """Ends a child politely: SIGTERM, after the grace SIGTERM again, then SIGKILL to everything."""

    def __init__(self, child: Child, *, grace_s: float, second_s: float) -> None:
        """Nothing is sent before `begin`."""
        self._child = child
        self._grace_s, self._second_s = grace_s, second_s
        self.rung = ""
        self._since = 0.0

    def begin(self, *, kill: bool = False) -> None:
        """Send the first signal; `kill` skips to the last."""
        if kill and self.rung != "kill":
            self._climb("kill")
            self._child.kill()
        elif not self.rung:
            self._climb("term")
            self._child.signal(signal.SIGTERM)

    def abort(self) -> None:
        """SIGABRT, so that Python prints where each thread stands; SIGKILL follows."""
        self._climb("again")
        self._child.signal(signal.SIGABRT)

    def tick(self) -> None:
        """Go one rung up when it is time."""
        waited_s = time.monotonic() - self._since
        if self.rung == "term" and waited_s >= self._grace_s:
            self._climb("again")
            self._child.signal(signal.SIGTERM)
        elif self.rung == "again" and waited_s >= self._second_s:
            self.begin(kill=True)

    def _climb(self, rung: str) -> None:
        self.rung, self._since = rung, time.monotonic()
