"""Keeps one supervisor waiting on this host, so that an attempt need not wait for an interpreter and its imports.

Owns the process from its start until it is given an attempt: from then on it is a supervisor like any other, and
nobody's. Lives in the worker's main process, in one thread; `engage` is called by `worker.launching`, in another
process, and finds the one that waits by its socket. A launch that finds none starts a new interpreter.
"""

import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from worker.folders import connect_to
from worker.settings import Settings
from worker.warm.sets import environment_state

_PREFIX = "supervisor-"
_AFTER_USE_S = 3.0  # its attempt needs the processors more
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 600.0
_LOAD_LIMIT_S = 60.0
_ANSWER_S = 1.0
_END_LIMIT_S = 5.0

log = logging.getLogger(__name__)


class Standby:
    """The one that waits. `look` is to be called now and then, always by the same thread."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        """`folder` is the host's warm folder, `env` the environment of a supervisor."""
        self._folder, self._env = folder, dict(env)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket = folder / _PREFIX
        self._state, self._began, self._ready = "", 0.0, False
        self._failed, self._not_before = 0, 0.0
        for left in folder.glob(f"{_PREFIX}*.sock"):  # of a worker that was killed
            left.unlink()

    def look(self) -> None:
        """Start one where none waits; end one whose packages have changed or that does not come up."""
        if self._process is not None:
            self._hear(self._process)
        if self._process is None and time.monotonic() >= self._not_before:
            self._start()

    def close(self) -> None:
        """End the one that waits."""
        if self._process is not None:
            self._end(self._process)

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._state, self._began, self._ready = environment_state(), time.monotonic(), False
        self._socket = self._folder / f"{_PREFIX}{self._state}-{time.monotonic_ns() % 10**9}.sock"
        with (self._folder / "supervisor.log").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-m", "worker.supervisor", "--wait", str(self._socket)],
                cwd="/",
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    def _hear(self, process: subprocess.Popen[bytes]) -> None:
        words = _words(process)
        if not self._ready and "ready" in words:
            self._ready, self._failed = True, 0
            log.info("standby_ready seconds=%.1f", time.monotonic() - self._began)
        if "used" in words:
            self._let_go(process)
            self._not_before = time.monotonic() + _AFTER_USE_S
        elif self._state != environment_state():
            self._end(process)
        elif process.poll() is not None or (not self._ready and time.monotonic() - self._began > _LOAD_LIMIT_S):
            self._end(process)
            self._failed += 1
            pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (self._failed - 1))
            self._not_before = time.monotonic() + pause_s
            log.warning("standby_failed times=%d again_in_s=%.0f log=warm/supervisor.log", self._failed, pause_s)

    def _let_go(self, process: subprocess.Popen[bytes]) -> None:
        """It has an attempt now: what it forked is on its own, and the rest of it has ended or is about to."""
        self._process = None
        _close(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_LIMIT_S)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        self._socket.unlink(missing_ok=True)
        _close(process)  # it ends by itself, unless somebody has just asked it
        try:
            process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_END_LIMIT_S)


def supervisor_environment(settings: Settings, *, tier: str) -> dict[str, str]:
    """The environment of every supervisor of this host. `tier` is what passed the self-test."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": "/",
        **settings.model_copy(update={"tier": tier}).environment(),
    }


def engage(folder: Path, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: int, word: int) -> bool:
    """Give an attempt to the supervisor that waits in `folder`; False when none does, or not with today's packages.

    `argv` are a supervisor's arguments without the last, the descriptor of the pipe for its first word: that is `word`,
    which with `output` stays the caller's. When it dies before that word, the pipe closes.
    """
    request = json.dumps({"argv": [*argv, "3"], "cwd": str(cwd), "env": dict(env)}).encode()
    for path in sorted(folder.glob(f"{_PREFIX}{environment_state()}-*.sock")):
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
                connection.settimeout(_ANSWER_S)
                connect_to(connection, path)
                socket.send_fds(connection, [request], [output, word])
                if connection.recv(16):
                    return True
        except OSError as error:
            log.warning("standby_silent socket=%s why=%s", path.name, error)
    return False


def _words(process: subprocess.Popen[bytes]) -> set[str]:
    """What it said since the last look; its lines are a few bytes each and come whole."""
    said: set[str] = set()
    if process.stdout is None:
        return said
    try:
        lines = os.read(process.stdout.fileno(), 65536).splitlines()
    except BlockingIOError:
        return said
    for line in lines:
        with contextlib.suppress(ValueError):
            said.update(json.loads(line))
    return said


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
