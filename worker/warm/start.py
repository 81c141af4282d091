"""Begins one step from a zygote: a sandbox first, with nothing but `cat` in it, then a forked process that joins it.

Owns the words with the forked process, from the request to its exit. Knows nothing of what the step does. Called by
`worker.supervisor.child`, which starts the step cold when this raises `ColdStart`, and by `worker.warm.early`.
All of it comes up in a thread, while the caller lays out what the step will find: the forked process stands in the
sandbox, without rights, and waits at a gate for `begin` before it looks at anything.
Beside what ends the sandbox with this process, the watching process outside sees its connection close.
"""

import base64
import contextlib
import dataclasses
import json
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from worker.folders import connect_to
from worker.sandbox import STAGE, Command, waiting_command
from worker.warm.anchor import ANCHOR, Anchor, ColdStart
from worker.warm.sets import HOME, ReadySet, WarmStart, environment_state, why_cold

__all__ = ["ColdStart", "WarmProcess"]

_START_LIMIT_S = 10.0
_LAST_WORD_S = 2.0
_SLICE_S = 0.1


class WarmProcess:
    """A step that runs as a fork of a zygote, with an interface like `subprocess.Popen`'s once it has begun."""

    def __init__(self, ready: ReadySet, command: Command, *options: str, cwd: Path, stage: str = "") -> None:
        """Lets a fork of `ready` come up in the sandbox of `command` and `options`. Use `for_step` or `waiting`.

        Raises: ColdStart, with nothing left running.
        """
        self.set = ready
        self._require_same_packages()
        self._words: dict[str, object] = {}
        self._heard = b""
        self._code: int | None = None
        self._failed: ColdStart | None = None
        self._closing = False
        self._anchor = Anchor(command, *options, cwd=cwd)
        self.output, output = os.pipe()
        self._status, status = os.pipe()
        self._gate, gate = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request: dict[str, object] = {"seccomp": base64.b64encode(command.seccomp).decode(), "stage": stage}
        self._coming: threading.Thread | None = None
        self._then(lambda: self._ask(request, (output, status, gate.detach())))
        if stage:
            self._then(lambda: self._wait_for("stands"))

    @classmethod
    def for_step(cls, warm: WarmStart, command: Command, *, cwd: Path) -> Self:
        """Lets it come up for a step; nothing of that runs before `begin`.

        To be called by the thread that outlives the step. Raises: ColdStart, with nothing left running.
        """
        ready = warm.ready()
        why = why_cold(warm.argv, command.inside) if ready else "no set of libraries stands ready"
        if ready is None or why:
            raise ColdStart(why)
        empty = dataclasses.replace(command, argv=(*_without_payload(command, warm.argv), *ANCHOR))
        process = cls(ready, empty, "--symlink", str(cwd), str(HOME), cwd=cwd)
        process._then(lambda: process._become(warm.argv, command, cwd=cwd))
        return process

    @classmethod
    def waiting(cls, ready: ReadySet, stage: Path) -> Self:
        """Lets it come up before there is a step for it, which will lie below `stage`; see `take`.

        To be called by the thread that outlives the step. Raises: ColdStart, with nothing left running.
        """
        return cls(ready, waiting_command(ANCHOR, stage), cwd=Path("/"), stage=STAGE)

    def take(self, argv: Sequence[str], command: Command, *, top: Path, cwd: Path) -> None:
        """Let one that waits become a step: what `command` binds lies below `top`, and is brought in first."""
        binds = [(str(bind.path), bind.writable) for bind in command.binds]
        wanted = json.dumps({"top": str(top), "binds": binds, "links": {str(HOME): str(cwd)}}).encode()
        self._then(lambda: self._bring_in(wanted))
        self._then(lambda: self._become(argv, command, cwd=cwd))

    def begin(self) -> None:
        """Open the gate. Raises: ColdStart, when the step has not begun and never will; then only `close` is left."""
        self._join()
        if self._failed is not None:
            raise self._failed
        self._require_same_packages()
        try:
            self._gate.send(b".")
        except OSError:
            raise ColdStart("the forked process ended before the step began") from None
        self._gate.close()

    @property
    def stands(self) -> bool:
        """Of one that waits: whether it can be taken now."""
        if self._coming is not None and self._coming.is_alive():
            return False
        if self._failed is None:
            self._listen(0.0)
        return self._failed is None and "code" not in self._words and self._anchor.process.poll() is None

    @property
    def why_not(self) -> str:
        """Of one that does not stand: why it never will, empty while it comes up."""
        if (self._coming is not None and self._coming.is_alive()) or self.stands:  # in this order: it may stand by now
            return ""
        return str(self._failed or "it ended")

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
        """End everything that is left. A gate that is shut before it was opened ends the process behind it."""
        self._closing = True
        with contextlib.suppress(OSError):
            self._gate.shutdown(socket.SHUT_RDWR)
        self._anchor.kill()
        self._join()  # before any file is closed that it uses: its number may be another's by then
        self._gate.close()
        self._anchor.close()
        self._connection.close()
        if self._status >= 0:
            os.close(self._status)
            os.close(self.output)
            self._status = -1

    def _require_same_packages(self) -> None:
        if self.set.state != environment_state():
            raise ColdStart("packages changed since the libraries were loaded")

    def _then(self, act: Callable[[], None]) -> None:
        """In a thread, once what came before went well."""
        before = self._coming
        self._coming = threading.Thread(target=self._carry_on, args=(before, act), daemon=True)
        self._coming.start()

    def _carry_on(self, before: threading.Thread | None, act: Callable[[], None]) -> None:
        if before is not None:
            before.join()
            if self._failed is not None:
                return
        try:
            act()
        except ColdStart as why:
            self._failed = why
        except Exception as error:  # noqa: BLE001 - whatever it was, what comes next must not happen
            self._failed = ColdStart(f"the sandbox did not come up: {error!r}")

    def _join(self) -> None:
        if self._coming is not None:
            self._coming.join()

    def _ask(self, request: dict[str, object], files: tuple[int, ...]) -> None:
        """`files` are handed over."""
        spaces: dict[str, int] = {}
        try:
            spaces = self._anchor.spaces()
            message = json.dumps({**request, "spaces": list(spaces)}).encode()
            self._connection.settimeout(_START_LIMIT_S)
            connect_to(self._connection, Path(self.set.socket))
            socket.send_fds(self._connection, [message], [*files, *spaces.values()])
        except OSError as error:
            raise ColdStart(f"the zygote does not answer: {error}") from error
        finally:
            for fd in (*files, *spaces.values()):
                os.close(fd)

    def _bring_in(self, wanted: bytes) -> None:
        self._connection.send(wanted)
        self._wait_for("furnished")

    def _become(self, argv: Sequence[str], command: Command, *, cwd: Path) -> None:
        with contextlib.suppress(OSError):
            os.utime(self.set.socket)  # for the pool, which has to choose when memory is short
        env = {**command.inside, "PWD": str(cwd)}
        self._gate.send(json.dumps({"argv": list(argv), "cwd": str(cwd), "env": env}).encode())
        self._wait_for("ready", "pid")

    def _wait_for(self, *words: str) -> None:
        """Raises: ColdStart."""
        end = time.monotonic() + _START_LIMIT_S
        while any(word not in self._words for word in words):
            if "failed" in self._words or "code" in self._words:
                raise ColdStart(str(self._words.get("failed", "the forked process ended before it stood")))
            if self._closing:
                raise ColdStart("it was ended")
            if not self._listen(_SLICE_S) and time.monotonic() > end:
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
