"""Begins one step from a zygote: a sandbox first, with nothing but `cat` in it, then a forked process that joins it.

Owns the sandbox's anchor, the request and the status pipe. Knows nothing of what the step does. Called by
`worker.supervisor.child`, which starts the step cold when this raises `ColdStart`.
All of it comes up in a thread, while the caller lays out what the step will find: the forked process stands in the
sandbox, without rights, and waits at a gate for `begin` before it looks at anything.
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
import threading
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
        """Starts it, by the thread that is to live as long as the step. Raises: ColdStart."""
        head = dataclasses.replace(command, argv=(*_without_payload(command, argv), *_ANCHOR))
        self._info, info_writing = os.pipe()
        self._inner = 0
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
            os.close(self._info)
            raise ColdStart(f"bwrap did not start: {error}") from error
        finally:
            os.close(info_writing)

    def spaces(self) -> dict[str, int]:
        """Once its walls stand: open files of its namespaces, by name; the caller closes them. Raises: ColdStart."""
        self._wait_until_it_stands()
        found: dict[str, int] = {}
        try:
            for name in SPACES:
                found[name] = os.open(f"/proc/{self._inner}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            for fd in found.values():
                os.close(fd)
            raise ColdStart(f"the sandbox cannot be joined: {error}") from error
        return found

    def kill(self) -> None:
        """End the sandbox and all that is in it; whoever waits for it in a thread sees its pipes close."""
        if self.process.returncode is None:  # else its number may be another's
            kill_tree(self.process.pid)

    def close(self) -> None:
        """End it, and close what is open of it. Nobody may be waiting for it."""
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait()
        if self._info >= 0:
            os.close(self._info)
            self._info = -1

    def _wait_until_it_stands(self) -> None:
        """`cat` answers when everything before its execution is done."""
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is None or stdout is None:
            raise ColdStart("bwrap has no pipes")
        try:
            os.write(stdin.fileno(), b".")
        except BrokenPipeError:
            raise ColdStart("bwrap ended at once") from None
        if not select.select([stdout], [], [], _ANCHOR_LIMIT_S)[0] or not os.read(stdout.fileno(), 1):
            raise ColdStart("the sandbox did not come up")
        self._inner = int(json.loads(os.read(self._info, 4096))["child-pid"])
        while below := children_of(self._inner):  # the innermost process: the network's helper may stand between
            self._inner = below[0]


class WarmProcess:
    """A step that runs as a fork of a zygote, with an interface like `subprocess.Popen`'s once it has begun."""

    def __init__(self, warm: WarmStart, command: Command, *, cwd: Path) -> None:
        """Lets it come up; nothing of the step runs before `begin`. To be called by the thread that outlives the step.

        Raises: ColdStart, with nothing left running.
        """
        ready = warm.ready()
        why = why_cold(warm.argv, command.inside) if ready else "no set of libraries stands ready"
        if ready is None or why:
            raise ColdStart(why)
        self._state = ready.state
        self._require_same_packages()
        self._words: dict[str, object] = {}
        self._heard = b""
        self._code: int | None = None
        self._failed: ColdStart | None = None
        self._anchor = Anchor(command, warm.argv, cwd=cwd)
        self.output, output = os.pipe()
        self._status, status = os.pipe()
        gate, self._gate = os.pipe()
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request: dict[str, object] = {
            "argv": list(warm.argv),
            "cwd": str(cwd),
            "env": {**command.inside, "PWD": str(cwd)},
            "seccomp": base64.b64encode(command.seccomp).decode(),
        }
        asking = (Path(ready.socket), request, (output, status, gate))
        self._coming = threading.Thread(target=self._come_up, args=asking, daemon=True)
        self._coming.start()

    def begin(self) -> None:
        """Open the gate. Raises: ColdStart, when the step has not begun and never will; then only `close` is left."""
        self._coming.join()
        if self._failed is not None:
            raise self._failed
        self._require_same_packages()
        try:
            os.write(self._gate, b".")
        except BrokenPipeError:
            raise ColdStart("the forked process ended before the step began") from None
        self._shut()

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
        self._shut()
        self._anchor.kill()
        self._coming.join()  # before any file is closed that it reads: its number may be another's by then
        self._anchor.close()
        self._connection.close()
        if self._status >= 0:
            os.close(self._status)
            os.close(self.output)
            self._status = -1

    def _shut(self) -> None:
        """A gate that is shut before it was opened ends the process behind it."""
        if self._gate >= 0:
            os.close(self._gate)
            self._gate = -1

    def _require_same_packages(self) -> None:
        if self._state != environment_state():
            raise ColdStart("packages changed since the libraries were loaded")

    def _come_up(self, path: Path, request: dict[str, object], files: tuple[int, ...]) -> None:
        """In a thread. `files` are handed over."""
        try:
            self._ask(path, request, files)
            for fd in files:
                os.close(fd)
            files = ()
            self._wait_until_it_stands()
        except ColdStart as why:
            self._failed = why
        except (OSError, ValueError, KeyError) as error:  # of files of the kernel, and of words cut short by an end
            self._failed = ColdStart(f"the sandbox did not come up: {error!r}")
        finally:
            for fd in files:
                os.close(fd)

    def _ask(self, path: Path, request: dict[str, object], files: tuple[int, ...]) -> None:
        spaces = self._anchor.spaces()
        message = json.dumps({**request, "spaces": list(spaces)}).encode()
        try:
            self._connection.settimeout(_START_LIMIT_S)
            connect_to(self._connection, path)
            socket.send_fds(self._connection, [message], [*files, *spaces.values()])
        except OSError as error:
            raise ColdStart(f"the zygote does not answer: {error}") from error
        finally:
            for fd in spaces.values():
                os.close(fd)

    def _wait_until_it_stands(self) -> None:
        end = time.monotonic() + _START_LIMIT_S
        while not ("ready" in self._words and "pid" in self._words):
            if "failed" in self._words or "code" in self._words:
                raise ColdStart(str(self._words.get("failed", "the forked process ended before it stood")))
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
