"""One step as a process: started behind the shield or from a warm process, its output in a pipe.

Owns the process and its group. Knows nothing of what the step does. Used by `worker.supervisor.attempt`.
"""

import contextlib
import fcntl
import json
import logging
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from worker.host.processes import children_of, kill_children, kill_tree, term_blocked
from worker.launches import shield
from worker.sandbox import Command, handed_over
from worker.warm.sets import WarmStart
from worker.warm.start import ColdStart, WarmProcess

# Before the step, in its process: bubblewrap's own are deaf to SIGTERM, and what they start would be too.
_HEAR_TERM = "import os,_signal as s,sys; s.pthread_sigmask(s.SIG_SETMASK, ()); os.execv(sys.argv[1], sys.argv[1:])"
_PIPE_BYTES = 1024 * 1024  # printed while nobody reads, without that the step waits

log = logging.getLogger(__name__)


def shielded(argv: Sequence[str], *, memory_bytes: int = 0) -> list[str]:
    """`argv`, so that it dies with this process. To be started by the main thread."""
    head = [sys.executable, "-I", "-S", shield.__file__, str(os.getpid()), str(memory_bytes), "--"]
    return [*head, *argv]


class Child:
    """A running step."""

    def __init__(
        self,
        command: Command,
        *,
        cwd: Path,
        env: Mapping[str, str],
        warm: WarmStart | None = None,
        inherits: Sequence[int] = (),
    ) -> None:
        """Starts it. The session is its own, so that a signal to its group reaches nothing else.

        `inherits` are open files that it gets under their numbers; a warm start has none.
        It begins `warm`, or, where that fails before the step's own code runs, in a new interpreter behind the same
        walls.
        """
        self._way = _warm(warm, command, cwd) or _Cold(command, cwd=cwd, env=env, inherits=inherits)
        with contextlib.suppress(OSError):  # a user has a limit for all pipes; the usual 64 KiB do, too
            fcntl.fcntl(self.output, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    @property
    def output(self) -> int:
        """The reading end of the step's stdout and stderr, open until `close`."""
        return self._way.output

    @property
    def warm(self) -> bool:
        """Whether the step began warm."""
        return isinstance(self._way, WarmProcess)

    @property
    def pid(self) -> int:
        """Of the outermost process: the sandbox where there is one."""
        return self._way.sandbox_pid if isinstance(self._way, WarmProcess) else self._way.pid

    @property
    def roots(self) -> tuple[int, ...]:
        """Processes that, with all below them, are the step: a warm one is no descendant of the outermost."""
        return (self._way.sandbox_pid, self._way.pid) if isinstance(self._way, WarmProcess) else (self._way.pid,)

    @property
    def payload_pid(self) -> int:
        """Of the process that runs the step, inside of the walls."""
        return self._way.pid if isinstance(self._way, WarmProcess) else self._way.payload_pid

    def poll(self) -> int | None:
        """The exit code (negative for a signal, as bwrap's 128+n too), None while it runs."""
        return self._way.poll()

    def signal(self, number: int) -> None:
        """Signal the payload only: its helpers and the sandbox around it must outlive its last checkpoint."""
        self._way.signal(number)

    def kill(self) -> None:
        """End the payload, its group and everything it started."""
        kill_tree(self.pid)

    def close(self) -> None:
        """Kill what the step left behind, also what left its group, and close the pipes. The step must have ended."""
        kill_tree(self.pid)
        self._way.close()
        kill_children()


def _warm(warm: WarmStart | None, command: Command, cwd: Path) -> WarmProcess | None:
    if warm is None:
        return None
    try:
        return WarmProcess(warm, command, cwd=cwd)
    except ColdStart as why:
        log.info("cold_start why=%s", why)
        return None


class _Cold:
    """A new interpreter, or whatever the command says."""

    def __init__(self, command: Command, *, cwd: Path, env: Mapping[str, str], inherits: Sequence[int]) -> None:
        self._inherits = tuple(inherits)
        self.output, output = os.pipe()
        try:
            self._start(command, cwd, env, output)
        except BaseException:
            os.close(self.output)
            raise
        finally:
            os.close(output)

    def _start(self, command: Command, cwd: Path, env: Mapping[str, str], output: int) -> None:
        self._info, self._said = -1, b""
        self._attendants = command.attendants
        passed: tuple[int, ...] = ()
        info: list[str] = []
        if command.has_info_fd:
            self._info, info_writing = os.pipe()
            passed, info = (info_writing,), ["--info-fd", str(info_writing)]
        try:
            deaf = term_blocked() if command.has_info_fd else contextlib.nullcontext()
            with handed_over(command) as (argv, files), deaf:
                if command.has_info_fd:
                    place = argv.index("--") + 1
                    argv[place:place] = [sys.executable, "-I", "-S", "-c", _HEAR_TERM]
                argv[1:1] = info
                self._process = subprocess.Popen(
                    shielded(argv),
                    cwd=cwd,
                    env=dict(env if command.env is None else command.env),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    pass_fds=(*passed, *files, *self._inherits),
                )
        finally:
            for fd in passed:
                os.close(fd)

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        code = self._process.poll()
        if code is not None and self._info >= 0 and code > 128:
            return 128 - code
        return code

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.payload_pid, number)

    def close(self) -> None:
        os.close(self.output)
        if self._info >= 0:
            os.close(self._info)

    @property
    def payload_pid(self) -> int:
        """The only child of bwrap's first process inside, or the process itself; or what attendants below it attend."""
        found = self.pid
        levels = self._attendants
        if self._info >= 0:
            found = self._inner_pid()
            levels += 1
        for _ in range(levels):
            below = children_of(found) if found else []
            found = below[0] if below else found
        return found or self.pid

    def _inner_pid(self) -> int:
        """The first process inside, 0 while bwrap has not said so."""
        while b"}" not in self._said and select.select([self._info], [], [], 1.0)[0]:  # it arrives in pieces
            piece = os.read(self._info, 4096)
            if not piece:
                break
            self._said += piece
        return int(json.loads(self._said)["child-pid"]) if b"}" in self._said else 0
