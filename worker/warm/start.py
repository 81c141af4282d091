"""Begins one step from a zygote: a sandbox first, with nothing but `cat` in it, then a forked process that joins it.

Owns the sandbox's anchor, the request and the status pipe. Knows nothing of what the step does. Called by
`worker.supervisor.child`, which starts the step cold when this raises `ColdStart`.
Three things end the step when this process dies: `cat` reads the end of its input and the sandbox's pid namespace ends
with it; bubblewrap is told to die with its parent; and the watching process outside sees its connection close.
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
from worker.processes import children_of, kill_tree
from worker.sandbox import Command, handed_over
from worker.warm.joining import SPACES
from worker.warm.sets import HOME, WarmStart, environment_state, why_cold

_ANCHOR = ("/usr/bin/cat",)
_ANCHOR_LIMIT_S = 10.0
_START_LIMIT_S = 10.0
_LAST_WORD_S = 2.0


class ColdStart(Exception):
    """The step has not begun, and cannot begin warm; why."""


class Anchor:
    """An empty sandbox of its own, held open by this process."""

    def __init__(self, command: Command, argv: Sequence[str], *, cwd: Path) -> None:
        """Starts it and waits until its walls stand. Raises: ColdStart."""
        head = dataclasses.replace(command, argv=(*_without_payload(command, argv), *_ANCHOR))
        info, info_writing = os.pipe()
        options = ["--info-fd", str(info_writing), "--symlink", str(cwd), str(HOME)]
        try:
            with handed_over(head) as (full, files):
                self.process = subprocess.Popen(
                    [full[0], *options, *full[1:]],
                    cwd=cwd,
                    env=dict(command.env or {}),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
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
        kill_tree(self.process.pid)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait()

    def _wait_until_it_stands(self, info: int) -> int:
        """`cat` answers when everything before its execution is done; the id of its process."""
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise ColdStart("bwrap has no pipes")
        try:
            os.write(stdin.fileno(), b".")
        except BrokenPipeError:
            raise ColdStart("bwrap ended at once") from None
        if not select.select([stdout], [], [], _ANCHOR_LIMIT_S)[0] or not os.read(stdout.fileno(), 1):
            raise ColdStart("the sandbox did not come up")
        inner = int(json.loads(os.read(info, 4096))["child-pid"])
        while below := children_of(inner):  # the innermost process: the network's helper may stand between
            inner = below[0]
        return inner


class WarmProcess:
    """A step that runs as a fork of a zygote, with an interface like `subprocess.Popen`'s."""

    def __init__(self, warm: WarmStart, command: Command, *, cwd: Path, output: int) -> None:
        """Returns when the script is about to begin. `output` is what it writes to; stays the caller's.

        Raises: ColdStart, with nothing left running.
        """
        ready = warm.ready()
        why = why_cold(warm.argv, command.inside) if ready else "no set of libraries stands ready"
        if ready is None or why:
            raise ColdStart(why)
        if ready.state != environment_state():
            raise ColdStart("packages changed since the libraries were loaded")
        self._anchor = Anchor(command, warm.argv, cwd=cwd)
        self._status, writing = os.pipe()
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._heard = b""
        self._words: dict[str, object] = {}
        self._code: int | None = None
        request: dict[str, object] = {
            "argv": list(warm.argv),
            "cwd": str(cwd),
            "env": {**command.inside, "PWD": str(cwd)},
            "seccomp": base64.b64encode(command.seccomp).decode(),
        }
        try:
            self._ask(ready.socket, request, output, writing)
            os.close(writing)
            writing = -1
            self._wait_until_it_runs()
        except BaseException:
            if writing >= 0:
                os.close(writing)
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Of the step itself, as this process sees it."""
        return int(str(self._words["pid"]))

    @property
    def anchor_pid(self) -> int:
        """Of the sandbox's outermost process."""
        return self._anchor.process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs. The sandbox ends with the step."""
        if self._code is None:
            self._listen(0.0)
            gone = self._anchor.process.poll() is not None
            if gone and "code" not in self._words:  # killed from outside: its namespace takes everything along
                self._listen(_LAST_WORD_S)
            if "code" in self._words or gone:
                self._code = int(str(self._words.get("code", -signal.SIGKILL)))
                self._anchor.close()
        return self._code

    def signal(self, number: int) -> None:
        """To the step alone. Its id stays its own until `close`: the watching process has not reaped it."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def close(self) -> None:
        """End everything that is left."""
        self._anchor.close()
        self._connection.close()
        if self._status >= 0:
            os.close(self._status)
            self._status = -1

    def _ask(self, path: str, request: dict[str, object], output: int, status: int) -> None:
        spaces = self._anchor.spaces()
        message = json.dumps({**request, "spaces": list(spaces)}).encode()
        try:
            self._connection.settimeout(_START_LIMIT_S)
            connect_to(self._connection, Path(path))
            socket.send_fds(self._connection, [message], [output, status, *spaces.values()])
        except OSError as error:
            raise ColdStart(f"the zygote does not answer: {error}") from error
        finally:
            for fd in spaces.values():
                os.close(fd)

    def _wait_until_it_runs(self) -> None:
        end = time.monotonic() + _START_LIMIT_S
        while not ("started" in self._words and "pid" in self._words):
            if "failed" in self._words:
                raise ColdStart(str(self._words["failed"]))
            if not self._listen(end - time.monotonic()):
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


def _without_payload(command: Command, argv: Sequence[str]) -> tuple[str, ...]:
    """The command up to the program that it was made for. Raises: ColdStart when it is another one."""
    if not command.has_info_fd:
        raise ColdStart("a warm start needs the sandbox bwrap")
    if command.argv[-len(argv) :] != tuple(argv):
        raise ColdStart("the sandbox was made for another program")
    return command.argv[: -len(argv)]
