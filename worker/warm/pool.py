"""Keeps the configured zygotes alive on a host.

Owns their processes: start in the background, back-off, recycling when packages change, the bound on memory, and the
file that says what stands. Lives in the worker's main process, in one thread; the zygotes end with it. Wired by
`worker.app`.
"""

import contextlib
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from worker.processes import children_of
from worker.supervisor.child import shielded
from worker.warm import zygote
from worker.warm.sets import ReadySet, environment_state, write_ready, zygote_environment

_LOAD_LIMIT_S = 300.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 5.0, 600.0
_END_LIMIT_S = 5.0
_MEASURE_S = 30.0  # the kernel walks all pages of a process for this

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Zygote:
    """One process and what it said."""

    name: str
    socket: Path
    process: subprocess.Popen[bytes]
    state: str
    began: float
    ready: bool = False
    held_bytes: int = 0
    measured_at: float = float("-inf")
    heard: bytes = b""
    words: list[dict[str, object]] = field(default_factory=list)


class Pool:
    """The zygotes of one host. `look` is to be called now and then, always by the same thread."""

    def __init__(self, folder: Path, sets: Sequence[str], *, memory_bytes: int) -> None:
        """`memory_bytes` bounds what all of them hold together (their proportional shares)."""
        self._folder, self._sets, self._memory_bytes = folder, tuple(sets), memory_bytes
        self._standing: dict[str, _Zygote] = {}
        self._failed: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._told: list[ReadySet] | None = None
        for left in folder.glob("*.sock"):  # of a worker that was killed
            left.unlink()

    def look(self) -> None:
        """Hear what they say, end what is stale or too big, start what is missing: one at a time."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        state = environment_state()
        for one in list(self._standing.values()):
            self._hear(one)
            if one.state != state:
                log.info("warm_recycled set=%s", one.name)
                self._end(one)
        self._keep_memory()
        if all(one.ready for one in self._standing.values()):
            now = time.monotonic()
            missing = [n for n in self._sets if n not in self._standing and now >= self._not_before.get(n, 0.0)]
            if missing:
                self._start(missing[0], state)
        self._tell()

    def close(self) -> None:
        """End them all. Steps that began from them go on."""
        for one in list(self._standing.values()):
            self._end(one)
        self._tell()

    def _start(self, name: str, state: str) -> None:
        # a new name each time: a supervisor that has read the old one must not reach other libraries
        socket = self._folder / f"{name}-{os.getpid()}-{time.monotonic_ns() % 10**9}.sock"
        with (self._folder / f"{name}.log").open("wb") as errors:
            process = subprocess.Popen(
                shielded([sys.executable, zygote.__file__]),
                cwd="/",
                env=zygote_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("pipes were asked for")
        os.set_blocking(process.stdout.fileno(), False)
        one = _Zygote(name, socket, process, state, time.monotonic())
        self._standing[name] = one
        with contextlib.suppress(BrokenPipeError):
            asked = {"set": name, "socket": str(socket)}
            process.stdin.write(json.dumps(asked).encode() + b"\n")
            process.stdin.flush()

    def _hear(self, one: _Zygote) -> None:
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
        elif one.ready and time.monotonic() - one.measured_at > _MEASURE_S:
            one.measured_at = time.monotonic()
            one.held_bytes = held_bytes(one.process.pid)

    def _words(self, one: _Zygote) -> list[dict[str, object]]:
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

    def _keep_memory(self) -> None:
        """Over the bound, the one from which no step began for longest goes, and stays away for a while."""
        while sum(one.held_bytes for one in self._standing.values()) > self._memory_bytes:
            oldest = min(self._standing.values(), key=_used_at)
            log.warning("warm_dropped set=%s bytes=%d bound=%d", oldest.name, oldest.held_bytes, self._memory_bytes)
            self._end(oldest)
            self._not_before[oldest.name] = time.monotonic() + _LONGEST_PAUSE_S

    def _put_off(self, name: str) -> None:
        self._failed[name] = self._failed.get(name, 0) + 1
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (self._failed[name] - 1))
        self._not_before[name] = time.monotonic() + pause_s
        log.warning("warm_failed set=%s times=%d again_in_s=%.0f log=%s.log", name, self._failed[name], pause_s, name)

    def _end(self, one: _Zygote) -> None:
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
            ReadySet(one.name, str(one.socket), one.process.pid, one.held_bytes, one.state)
            for one in self._standing.values()
            if one.ready
        ]
        known = None if self._told is None else [(one.name, one.socket) for one in self._told]
        if known != [(one.name, one.socket) for one in ready]:
            write_ready(self._folder, ready)
            self._told = ready


def _used_at(one: _Zygote) -> float:
    """When a step began from it, which marks the socket (`worker.warm.start`), or when it was ready."""
    try:
        return one.socket.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def held_bytes(zygote: int) -> int:
    """What a zygote holds with its forks that watch a step: what it loaded is shared among them."""
    return sum(proportional_bytes(pid) for pid in (zygote, *children_of(zygote)))


def proportional_bytes(pid: int) -> int:
    """What a process holds, with shared pages divided among those who share them (Pss); 0 when it is gone."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)
