"""Begins one step from a zygote: an empty sandbox first, then a forked process that joins it.

Owns the words with the forked process, from the request to its exit. Knows nothing of what the step does. Called by
`worker.supervisor.child`, which starts the step cold when this raises `ColdStart`.
Three things end the step when this process dies: `cat`, the only process of the empty sandbox, reads the end of its
input and the sandbox's pid namespace ends with it; bubblewrap is told to die with its parent; and the process that
watches the step from outside sees its connection close.
"""

import base64
import contextlib
import dataclasses
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from worker.folders import connect_to
from worker.host.processes import children_of, kill_tree, term_blocked
from worker.sandbox import Command, handed_over
from worker.warm.joining import SPACES
from worker.warm.sets import HOME, ReadySet, WarmStart, ask_for, environment_state, why_cold

_CAT = ("/usr/bin/cat",)
_START_LIMIT_S = 10.0
_LAST_WORD_S = 2.0


class ColdStart(Exception):
    """The step has not begun, and cannot begin warm; why."""


class EmptySandbox:
    """A sandbox with nothing in it but `cat`, which a forked process joins. It ends with this process."""

    def __init__(self, command: Command, *options: str, cwd: Path) -> None:
        """Returns once its walls stand. `command` runs `cat`; `options` are bubblewrap's.

        To be called by the thread that lives as long as the step. Raises: ColdStart, with nothing left running.
        """
        info, info_writing = os.pipe()
        try:
            with handed_over(command) as (full, files), term_blocked():
                self._process = subprocess.Popen(
                    [full[0], "--info-fd", str(info_writing), *options, *full[1:]],
                    cwd=cwd,
                    env=dict(command.env or {}),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,  # steps see this process, and could open what is open in it
                    start_new_session=True,
                    pass_fds=(info_writing, *files),
                )
        except OSError as error:
            os.close(info)
            raise ColdStart(f"bwrap did not start: {error}") from error
        finally:
            os.close(info_writing)
        try:
            self._inner = self._wait_until_it_stands(info)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(info)

    @property
    def pid(self) -> int:
        """Of the outermost process."""
        return self._process.pid

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def spaces(self) -> dict[str, int]:
        """Open files of its namespaces, by name; the caller closes them. Raises: ColdStart."""
        found: dict[str, int] = {}
        try:
            for name in SPACES:
                found[name] = os.open(f"/proc/{self._inner}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            for fd in found.values():
                os.close(fd)
            raise ColdStart(f"the sandbox cannot be joined: {error}") from error
        return found

    def close(self) -> None:
        """End the sandbox and all that is in it."""
        if self._process.returncode is None:  # else its number may be another's
            kill_tree(self._process.pid)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()

    def _wait_until_it_stands(self, info: int) -> int:
        """`cat` answers when everything before its execution is done; the id of its process."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise ColdStart("bwrap has no pipes")
        try:
            os.write(stdin.fileno(), b".")
        except BrokenPipeError:
            raise ColdStart("bwrap ended at once") from None
        if not select.select([stdout], [], [], _START_LIMIT_S)[0] or not os.read(stdout.fileno(), 1):
            raise ColdStart("the sandbox did not come up")
        inner = int(json.loads(os.read(info, 4096))["child-pid"])
        while below := children_of(inner):  # the innermost process: the network's helper may stand between
            inner = below[0]
        return inner


class WarmProcess:
    """A step that runs as a fork of a zygote, with an interface like `subprocess.Popen`'s."""

    def __init__(self, warm: WarmStart, command: Command, *, cwd: Path) -> None:
        """Returns when the script is about to begin.

        To be called by the thread that outlives the step. Raises: ColdStart, with nothing left running.
        """
        ready = _usable(warm, command)
        empty = dataclasses.replace(command, argv=(*_without_payload(command, warm.argv), *_CAT))
        self._sandbox = EmptySandbox(empty, "--symlink", str(cwd), str(HOME), cwd=cwd)
        self.output, output = os.pipe()
        self._status, status = os.pipe()
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._words: dict[str, object] = {}
        self._heard = b""
        self._code: int | None = None
        request: dict[str, object] = {
            "argv": list(warm.argv),
            "cwd": str(cwd),
            "env": {**command.inside, "PWD": str(cwd)},
            "seccomp": base64.b64encode(command.seccomp).decode(),
        }
        try:
            self._ask(ready, request, (output, status))
            self._wait_until_it_runs()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Of the step itself, as this process sees it."""
        return int(str(self._words["pid"]))

    @property
    def sandbox_pid(self) -> int:
        """Of the sandbox's outermost process."""
        return self._sandbox.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs. The sandbox ends with the step."""
        if self._code is None:
            self._listen(0.0)
            gone = self._sandbox.gone
            if gone and "code" not in self._words:  # killed from outside: its namespace takes everything along
                self._listen(_LAST_WORD_S)
            if "code" in self._words or gone:
                self._code = int(str(self._words.get("code", -signal.SIGKILL)))
                self._sandbox.close()
        return self._code

    def signal(self, number: int) -> None:
        """To the step alone. Its id stays its own until `close`: the watching process has not reaped it."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def close(self) -> None:
        """End everything that is left."""
        self._sandbox.close()
        self._connection.close()
        if self._status >= 0:
            os.close(self._status)
            os.close(self.output)
            self._status = -1

    def _ask(self, ready: ReadySet, request: dict[str, object], files: tuple[int, int]) -> None:
        """`files`, for what it prints and what it tells, are handed over."""
        spaces: dict[str, int] = {}
        try:
            spaces = self._sandbox.spaces()
            message = json.dumps({**request, "spaces": list(spaces)}).encode()
            self._connection.settimeout(_START_LIMIT_S)
            connect_to(self._connection, Path(ready.socket))
            socket.send_fds(self._connection, [message], [*files, *spaces.values()])
        except OSError as error:
            raise ColdStart(f"the zygote does not answer: {error}") from error
        finally:
            for fd in (*files, *spaces.values()):
                os.close(fd)

    def _wait_until_it_runs(self) -> None:
        end = time.monotonic() + _START_LIMIT_S
        while not {"begins", "pid"} <= self._words.keys():
            if "failed" in self._words:
                raise ColdStart(str(self._words["failed"]))
            if not self._listen(end - time.monotonic()) and "failed" not in self._words:
                raise ColdStart("the zygote did not begin the step in time")

    def _listen(self, limit_s: float) -> bool:
        """Take what the status pipe has; False when nothing came."""
        if not select.select([self._status], [], [], max(0.0, limit_s))[0]:
            return False
        piece = os.read(self._status, 4096)
        if not piece:  # the watching process is gone, and told nothing more
            self._words.setdefault("code", -signal.SIGKILL)
            self._words.setdefault("failed", "the forked process ended before the step began")
            return False
        self._heard += piece
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            self._words.update(json.loads(line))
        return True


def _usable(warm: WarmStart, command: Command) -> ReadySet:
    """The set of libraries that the step may begin from. Raises: ColdStart."""
    ready = warm.ready()
    ask_for(warm.folder, ready.name if ready else warm.sets[-1])
    if ready is None:
        raise ColdStart("no set of libraries stands ready")
    if why := why_cold(warm.argv, command.inside):
        raise ColdStart(why)
    if ready.state != environment_state():
        raise ColdStart("packages changed since the libraries were loaded")
    return ready


def _without_payload(command: Command, argv: Sequence[str]) -> tuple[str, ...]:
    """The command up to the program that it was made for. Raises: ColdStart when it is another one."""
    if not command.has_info_fd:
        raise ColdStart("a warm start needs the sandbox bwrap")
    if command.argv[-len(argv) :] != tuple(argv):
        raise ColdStart("the sandbox was made for another program")
    return command.argv[: -len(argv)]
