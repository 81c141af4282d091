"""A pool of zygotes and steps from it, for tests and benchmarks: what they start, they end."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from worker.sandbox.tiers import why_not
from worker.supervisor.steps import basic_environment
from worker.warm.sets import ReadySet, read_ready

HERE = Path(__file__).parent
LIMIT_S = 120.0


@dataclass
class Host:
    """`folder` is the warm folder, `runs` where runs lie; `pool` the process that keeps zygotes, if there is one."""

    folder: Path
    runs: Path
    pool: "subprocess.Popen[str] | None"
    log: Path
    made: int = field(default=0)

    def ready(self, name: str) -> ReadySet | None:
        return next((one for one in read_ready(self.folder) if one.name == name), None)

    def wait_ready(self, name: str, *, other_than: int = 0) -> ReadySet:
        """Waits for a zygote of this set, with another process id."""

        def found() -> ReadySet | None:
            ready = self.ready(name)
            return ready if ready is not None and ready.pid != other_than else None

        return until(found, self.log.read_text)

    def run_folder(self, **files: str) -> Path:
        """A new run's folder. `train="…"` writes train.py."""
        self.made += 1
        run = self.runs / f"run-{self.made}"
        run.mkdir(parents=True)
        for name, text in files.items():
            (run / f"{name}.py").write_text(text)
        return run

    def begin(self, run: Path, **asked: Any) -> "subprocess.Popen[str]":
        """A supervisor that starts the step; its first line is to be read by `said`."""
        settings = {
            "run": str(run),
            "argv": [sys.executable, "train.py"],
            "env": basic_environment(run) | {"HF_HUB_OFFLINE": "1"} | asked.pop("env", {}),
            "folder": str(self.folder),
            "sets": ["torch"],
            "warm": True,
            **asked,
        }
        supervisor = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", str(HERE / "warm_step.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert supervisor.stdin is not None
        supervisor.stdin.write(json.dumps(settings) + "\n")
        supervisor.stdin.flush()
        return supervisor

    def step(self, run: Path, **asked: Any) -> dict[str, Any]:
        """Carries out one step; all that its supervisor said, and its log under `log`."""
        supervisor = self.begin(run, **asked)
        try:
            out, err = supervisor.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            supervisor.send_signal(signal.SIGABRT)
            raise AssertionError("\n".join(supervisor.communicate())) from None
        finally:
            supervisor.kill()
        words: dict[str, Any] = {"log": err}
        for line in out.splitlines():
            words |= json.loads(line)
        assert "code" in words, err
        return words


def said(supervisor: "subprocess.Popen[str]") -> dict[str, Any]:
    """Its next line."""
    assert supervisor.stdout is not None
    found: dict[str, Any] = json.loads(supervisor.stdout.readline())
    return found


@contextlib.contextmanager
def host(folder: Path, *sets: str, keep_s: float | None = None) -> Iterator[Host]:
    """A host whose zygotes are loaded; with `keep_s`, when somebody asks.

    Skips the test where bubblewrap does not work: nothing begins warm there.
    """
    if why := why_not("bwrap"):
        pytest.skip(f"nothing begins warm here: {why}")
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "pool.log"
    with log.open("w") as out:
        argv = [sys.executable, str(HERE / "warm_pool.py"), str(folder / "warm"), ",".join(sets)]
        argv += [] if keep_s is None else [str(keep_s)]
        pool = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, text=True)
    try:
        made = Host(folder / "warm", folder / "runs", pool, log)
        for name in sets if keep_s is None else ():
            made.wait_ready(name)
        yield made
    finally:
        zygotes = [one.pid for one in read_ready(folder / "warm")]
        pool.kill()
        pool.wait()
        until(lambda: not any(alive(pid) for pid in zygotes) or None, lambda: f"left behind: {zygotes}")


def until(look: "Callable[[], Any]", why: "Callable[[], str]") -> Any:
    """Waits until `look` gives something."""
    end = time.monotonic() + LIMIT_S
    while (found := look()) is None:
        if time.monotonic() > end:
            raise AssertionError(why())
        time.sleep(0.02)
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
