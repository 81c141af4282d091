"""Keeps processes ready on a host that have loaded what attempts and steps begin from: they fork on request.

Owns these processes: start in the background, back-off, recycling when packages change, the end of what nobody asked
for in a while, and the file that says what stands. Lives in the worker's main process, in one thread; they end with it.
Wired by `worker.app`.
"""

import contextlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from worker.supervisor.child import shielded
from worker.warm import zygote
from worker.warm.sets import ReadySet, asked_within, environment_state, write_ready, zygote_environment

_LOAD_LIMIT_S = 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 600.0
_END_LIMIT_S = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Program:
    """What is executed, with the path of its socket as the last argument, and its whole environment.

    It says `{"ready": …}` on its standard output once it answers, and ends when its standard input closes. With
    `keep_s` it stands only where somebody asked for it (`worker.warm.sets.ask_for`) within as many seconds.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    keep_s: float | None = None


def zygote_program(name: str, *, keep_s: float | None = None) -> Program:
    """A process that has loaded a set of libraries."""
    return Program((sys.executable, zygote.__file__, name), zygote_environment(), keep_s)


@dataclass(eq=False)
class _Standing:
    """One process and what it said."""

    name: str
    socket: Path
    process: subprocess.Popen[bytes]
    state: str
    began: float
    ready: bool = False
    heard: bytes = b""


class Pool:
    """The processes of one host. `look` is to be called now and then, always by the same thread."""

    def __init__(self, folder: Path, programs: Mapping[str, Program]) -> None:
        """`folder` is the host's warm folder, `programs` by the names under which they stand ready."""
        self._folder, self._programs = folder, dict(programs)
        self._standing: dict[str, _Standing] = {}
        self._failed: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._told: list[ReadySet] | None = None
        for left in folder.glob("*.sock"):  # of a worker that was killed
            left.unlink()

    def look(self) -> None:
        """Hear what they say, end what is stale or no longer wanted, start what is missing: one at a time."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        state = environment_state()
        for one in list(self._standing.values()):
            self._hear(one)
            if one.state != state or not self._is_wanted(one.name):
                log.info("warm_ended set=%s", one.name)
                self._end(one)
        if all(one.ready for one in self._standing.values()):
            now = time.monotonic()
            missing = [name for name in self._programs if name not in self._standing and self._is_wanted(name)]
            if due := [name for name in missing if now >= self._not_before.get(name, 0.0)]:
                self._start(due[0], state)
        self._tell()

    def close(self) -> None:
        """End them all. What was forked from them goes on."""
        for one in list(self._standing.values()):
            self._end(one)
        self._tell()

    def _is_wanted(self, name: str) -> bool:
        keep_s = self._programs[name].keep_s
        return keep_s is None or asked_within(self._folder, name, keep_s)

    def _start(self, name: str, state: str) -> None:
        # a new name each time: a supervisor that has read the old one must not reach other libraries
        socket = self._folder / f"{name}-{os.getpid()}-{time.monotonic_ns() % 10**9}.sock"
        program = self._programs[name]
        with (self._folder / f"{name}.log").open("wb") as errors:
            process = subprocess.Popen(
                shielded([*program.argv, str(socket)]),
                cwd="/",
                env=dict(program.env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        if process.stdout is None:
            raise RuntimeError("a pipe was asked for")
        os.set_blocking(process.stdout.fileno(), False)
        self._standing[name] = _Standing(name, socket, process, state, time.monotonic())

    def _hear(self, one: _Standing) -> None:
        for word in self._words(one):
            if "ready" in word:
                one.ready = True
                self._failed.pop(one.name, None)
                log.info(
                    "warm_ready set=%s seconds=%.1f said=%s", one.name, time.monotonic() - one.began, word["ready"]
                )
            elif "unfit" in word:
                log.warning("warm_unfit set=%s why=%s", one.name, word["unfit"])
        late = not one.ready and time.monotonic() - one.began > _LOAD_LIMIT_S
        if late or one.process.poll() is not None:
            self._end(one)
            self._put_off(one.name)

    def _words(self, one: _Standing) -> list[dict[str, object]]:
        """What it said since the last look."""
        out = one.process.stdout
        while out is not None:
            try:
                piece = os.read(out.fileno(), 65536)
            except BlockingIOError:
                break
            if not piece:
                break
            one.heard += piece
        *lines, one.heard = one.heard.split(b"\n")
        words = []
        for line in lines:
            try:
                words.append(json.loads(line))
            except ValueError:  # a library printed something
                log.info("warm_said set=%s line=%r", one.name, line[:200])
        return [word for word in words if isinstance(word, dict)]

    def _put_off(self, name: str) -> None:
        self._failed[name] = self._failed.get(name, 0) + 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (self._failed[name] - 1))
        self._not_before[name] = time.monotonic() + pause_s
        log.warning("warm_failed set=%s times=%d again_in_s=%.0f log=%s.log", name, self._failed[name], pause_s, name)

    def _end(self, one: _Standing) -> None:
        self._standing.pop(one.name, None)
        one.socket.unlink(missing_ok=True)
        if one.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                one.process.stdin.close()
        try:
            one.process.wait(0.5 if one.ready else 0.0)
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait(_END_LIMIT_S)
        if one.process.stdout is not None:
            one.process.stdout.close()

    def _tell(self) -> None:
        ready = [
            ReadySet(one.name, str(one.socket), one.process.pid, one.state)
            for one in self._standing.values()
            if one.ready
        ]
        if self._told != ready:
            write_ready(self._folder, ready)
            self._told = ready
