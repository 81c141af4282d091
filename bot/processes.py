"""Processes that the bot starts on its own host: the worker and the language-model gateway.

Each gets a process group and a log file of its own, and dies with the bot (PR_SET_PDEATHSIG). Training runs are not
among them: their supervisors are detached on purpose.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

log = logging.getLogger(__name__)
STOP_S = 15.0


class Children:
    """The processes of one bot."""

    def __init__(self, logs: Path) -> None:
        """`logs` takes one file a process."""
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, argv: list[str], environment: dict[str, str]) -> None:
        """Start `python argv…` in a process group of its own."""
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / f"{name}.log").open("ab") as output:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "bot.tether", str(os.getpid()), *argv],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        log.info("process started", extra={"child": name, "pid": self._running[name].pid})

    def ended(self) -> dict[str, int]:
        """Processes that ended by themselves, with their exit codes."""
        return {name: code for name, child in self._running.items() if (code := child.poll()) is not None}

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


def end_all_of(home: Path, *, but: frozenset[int] = frozenset()) -> list[int]:
    """End every process whose environment names `home` as Trainyard's home, training runs included; their pids."""
    marked = [process for process in psutil.process_iter() if process.pid not in but and _is_of(process, home)]
    for process in marked:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, left = psutil.wait_procs(marked, timeout=STOP_S)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=STOP_S)
    return [process.pid for process in marked]


def _is_of(process: psutil.Process, home: Path) -> bool:
    try:
        environment = process.environ()
    except (psutil.Error, OSError):
        return False
    ours = environment.get("TRAINYARD_HOME") == str(home) and process.pid != os.getpid()
    return bool(ours or environment.get("TRAINYARD_RUN_DIR", "").startswith(f"{home}{os.sep}"))
