"""Starts the supervisor of an attempt: a fork of the one that waits, else a new interpreter.

Owns the supervisor's environment, its arguments and the pipe for its first word. Called by `worker.launches.launching`;
what waits is kept by `worker.warm.pool` and answers in `worker.supervisor.waiting`.
"""

import contextlib
import json
import logging
import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from worker.folders import RunFolder, connect_to
from worker.settings import Settings, libraries
from worker.warm.pool import Program
from worker.warm.sets import environment_state, read_ready

WAITING = "supervisor"  # among the processes that stand ready
_ANSWER_S = 1.0

log = logging.getLogger(__name__)


def supervisor_environment(settings: Settings, *, tier: str) -> dict[str, str]:
    """The environment of every supervisor of this host. `tier` is what passed the self-test."""
    program = shutil.which("bwrap")  # whose folder may be another one
    folders = ["/usr/local/bin", "/usr/bin", "/bin", *([str(Path(program).parent)] if program else [])]
    return {
        "PATH": ":".join(dict.fromkeys(folders)),
        "LANG": "C.UTF-8",
        "HOME": "/",
        **libraries(),
        **settings.model_copy(update={"tier": tier}).environment(),
    }


def waiting_program(settings: Settings, *, tier: str) -> Program:
    """A supervisor that waits for attempts."""
    argv = (sys.executable, "-I", "-m", "worker.supervisor", "--wait")
    return Program(argv, supervisor_environment(settings, tier=tier))


def spawn(folder: RunFolder, attempt: int, *, warm: Path, env: Mapping[str, str], limit_s: float) -> str:
    """Start a supervisor; its first word: `ready`, `busy`, `died` (it ended without one) or `slow`.

    `warm` is the host's warm folder, `env` a supervisor's environment.
    """
    ways: tuple[Callable[[Path, _Start], bool], ...] = (_ask_waiting, _start_interpreter)
    word = "died"
    for way in ways:
        with _Start(folder, attempt, env) as start:
            if way(warm, start):
                word = start.first_word(limit_s)
        if word != "died":
            break
    return word


class _Start:
    """What a supervisor is told, where its output goes, and the pipe that it says its first word into."""

    def __init__(self, folder: RunFolder, attempt: int, env: Mapping[str, str]) -> None:
        self.argv = [str(folder.path), str(folder.sealed), str(attempt)]
        self.env, self.cwd = {**env, "HOME": str(folder.path)}, folder.path
        self._reading, self.word = os.pipe()

    def __enter__(self) -> Self:
        self.output = (self.cwd / "supervisor.log").open("ab")
        return self

    def __exit__(self, *_: object) -> None:
        self.output.close()
        os.close(self._reading)
        if self.word >= 0:
            os.close(self.word)

    def first_word(self, limit_s: float) -> str:
        """Our copy of the pipe's other end is closed: when the supervisor dies, so does the pipe."""
        os.close(self.word)
        self.word = -1
        if not select.select([self._reading], [], [], limit_s)[0]:
            return "slow"
        return os.read(self._reading, 64).decode().strip().lower() or "died"


def _ask_waiting(warm: Path, start: _Start) -> bool:
    """Give the attempt to a supervisor that waits; False when none does, or not with today's packages."""
    waits = next((one for one in read_ready(warm) if one.name == WAITING), None)
    if waits is None or waits.state != environment_state():
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(_ANSWER_S)
            connect_to(connection, Path(waits.socket))
            socket.send_fds(
                connection, [json.dumps({"argv": start.argv}).encode()], [start.output.fileno(), start.word]
            )
            return bool(connection.recv(16))
    except OSError as error:
        log.warning("waiting_supervisor_silent why=%s", error)
        return False


def _start_interpreter(_warm: Path, start: _Start) -> bool:
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "worker.supervisor", *start.argv, str(start.word)],
        env=start.env,
        cwd=start.cwd,
        stdin=subprocess.DEVNULL,
        stdout=start.output,
        stderr=start.output,
        start_new_session=True,
        pass_fds=(start.word,),
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    return True
