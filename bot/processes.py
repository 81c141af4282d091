"""Processes that the bot starts on its own host: the worker and the language-model gateway.

Each gets a process group and a log file of its own, and dies with the bot (PR_SET_PDEATHSIG); one that ends by itself
is started again. Training runs are not among them: their supervisors are detached on purpose.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

log = logging.getLogger(__name__)
STOP_S = 6.0  # enough for a task of the worker; one that is cut off is sent again
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
LIVED_S = 60.0  # who lived that long is started again at once


@dataclass(frozen=True, slots=True)
class _Order:
    """How a process is started, and how long the next start waits after its end."""

    argv: list[str]
    environment: dict[str, str]
    started_at: float
    pause_s: float = 0.0


class Children:
    """The processes of one bot."""

    def __init__(self, logs: Path) -> None:
        """`logs` takes one file a process."""
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._orders: dict[str, _Order] = {}
        self._due: dict[str, float] = {}
        self._codes: dict[str, int] = {}

    def start(self, name: str, argv: list[str], environment: dict[str, str]) -> None:
        """Start `python argv…` in a process group of its own."""
        self._start(name, _Order(argv, environment, time.monotonic()))

    def _start(self, name: str, order: _Order) -> None:
        self._orders[name] = order
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / f"{name}.log").open("ab") as output:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "bot.tether", str(os.getpid()), *order.argv],
                env=order.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        log.info("process started", extra={"child": name, "pid": self._running[name].pid})

    def ended(self) -> dict[str, int]:
        """Processes that ended by themselves, with their last exit codes; also those that were started again since."""
        now = {name: code for name, child in self._running.items() if (code := child.poll()) is not None}
        return self._codes | now

    def revive(self) -> None:
        """Start again what ended by itself; what keeps ending waits longer each time."""
        now = time.monotonic()
        for name, child in list(self._running.items()):
            code = child.poll()
            if code is None:
                continue
            order = self._orders[name]
            pause_s = 0.0 if now - order.started_at > LIVED_S else order.pause_s
            if name not in self._due:
                log.error("process ended", extra={"child": name, "code": code, "pause_s": pause_s})
                self._due[name], self._codes[name] = now + pause_s, code
            if now >= self._due[name]:
                del self._due[name]
                next_pause_s = min(max(pause_s * 2, FIRST_PAUSE_S), LONGEST_PAUSE_S)
                self._start(name, replace(order, started_at=now, pause_s=next_pause_s))

    async def refusal(self, name: str) -> str:
        """Wait until a process gives up by itself (exit 1); its last line, which says why in a sentence."""
        while True:
            if self.ended().get(name) == 1:
                return self.log_tail(name, 1)
            await asyncio.sleep(0.2)

    def log_tail(self, name: str, lines: int = 12) -> str:
        """The end of a process's log."""
        path = self._logs / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    async def stop(self) -> None:
        """SIGTERM to each, SIGKILL to the group of what does not end."""
        for child in self._running.values():
            if child.poll() is None:
                child.terminate()
        await asyncio.gather(*(asyncio.to_thread(_wait_or_kill, child) for child in self._running.values()))
        self._running.clear()


def _wait_or_kill(child: "subprocess.Popen[bytes]") -> None:
    try:
        child.wait(STOP_S)
    except subprocess.TimeoutExpired:
        log.warning("process killed", extra={"pid": child.pid})
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
