"""Processes that a measurement starts, ended without fail when its block ends."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from bot.ending import end_all_of
from worker.client.redis_server import EmbeddedRedis

REPO = Path(__file__).resolve().parents[2]
STOP_S = 20.0


def clean_environment(**own: str) -> dict[str, str]:
    """This process's environment without Trainyard's, the platforms' and the models' settings, and with `own`."""
    foreign = ("TRAINYARD_", "SLACK_", "DISCORD_", "OPENAI_", "CELERY_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | own


@contextlib.contextmanager
def python(*arguments: str, log: Path, env: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """`python arguments…` in the repository, in a process group of its own; its standard output is a pipe."""
    with log.open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=REPO,
            env=dict(env),
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def first_line(process: "subprocess.Popen[str]") -> str:
    """What the process says first. Raises `RuntimeError` when it ends without a word."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    if not line:
        raise RuntimeError(f"{process.args!r} ended with {process.wait(STOP_S)}")
    return line


@contextlib.contextmanager
def home_with_redis() -> Iterator[tuple[Path, str]]:
    """A new home and the address of a real Redis in it; every process that names this home is ended after the block."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        home = Path(folder)
        server = EmbeddedRedis(home)
        url = server.start()
        try:
            yield home, url
        finally:
            end_all_of(home)
            server.stop()
