"""Runs a program of ours with its boundaries counted, and lets it die (or fail) at the N-th.

    python -m tests.faults.killer --trace FILE --at 7 [--how kill|raise|timeout] [--only post,write] -- MODULE ARGS…

A boundary is the moment before or after something that others can see: a database commit, a launch or stop that is
sent, a post or an edit, an acknowledgement of events, a blob, a supervisor that is started. `kill` is SIGKILL to this
process (`--victim parent`: to its parent as well, as a pool child's worker), `raise` fails before the act, `timeout`
does it and then says that nobody answered. Boundaries are lines of the trace; processes that share it count together.
No production code knows of this: the classes are wrapped before the program's module is run.
"""

import argparse
import fcntl
import functools
import importlib
import inspect
import os
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LINE = 64
# label -> (module, class, method); what a program does not import is not wrapped
BOUNDARIES: dict[str, tuple[str, str, str]] = {
    "write": ("agent.storage.database", "Database", "write"),
    "launch": ("worker.engines.hosts.fleet", "CeleryFleet", "submit"),
    "stop": ("worker.engines.hosts.fleet", "CeleryFleet", "cancel"),
    "ack": ("worker.client.feed", "RedisFeed", "ack"),
    "blob": ("worker.client.blobs", "FolderBlobs", "put_bytes"),
    "post": ("tests.faults.file_adapter", "FileAdapter", "post"),
    "edit": ("tests.faults.file_adapter", "FileAdapter", "edit"),
    "spawn": ("worker.launches.launching", "Launcher", "_spawn"),
    "upgrade": ("alembic.operations.base", "Operations", "create_table"),
}
OF_BOT = ("write", "launch", "stop", "ack", "blob", "post", "edit")
OF_WORKER = ("spawn",)


class Killer:
    """Counts boundaries in the trace and strikes at the N-th."""

    def __init__(self, trace: Path, *, at: int, how: str, victim: str) -> None:
        self._trace, self._at, self._how, self._victim = trace, at, how, victim

    def wrap(self, label: str) -> None:
        """Put both boundaries around one method."""
        module, owner_name, name = BOUNDARIES[label]
        owner = getattr(importlib.import_module(module), owner_name)
        original = getattr(owner, name)
        setattr(owner, name, self._counted(label, original))

    def _counted(self, label: str, original: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(original):

            @functools.wraps(original)
            async def later(*args: Any, **kwargs: Any) -> Any:
                self._hit(label, "before")
                done = await original(*args, **kwargs)
                self._hit(label, "after")
                return done

            return later

        @functools.wraps(original)
        def now(*args: Any, **kwargs: Any) -> Any:
            self._hit(label, "before")
            done = original(*args, **kwargs)
            self._hit(label, "after")
            return done

        return now

    def _hit(self, label: str, side: str) -> None:
        if self._how == "raise" and side == "after":
            return
        if self._how == "timeout" and side == "before":
            return
        with self._trace.open("ab", buffering=0) as trace:
            fcntl.flock(trace, fcntl.LOCK_EX)
            trace.write(f"{os.getpid()} {label}:{side}".ljust(LINE - 1).encode() + b"\n")
            number = os.fstat(trace.fileno()).st_size // LINE
        if number == self._at:
            self._strike(label, side)

    def _strike(self, label: str, side: str) -> None:
        if self._how != "kill":
            from agent.domain.errors import Unavailable

            raise Unavailable(f"A fault was put in here: {label}:{side} had no answer.")
        if self._victim == "parent":
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def traced(trace: Path) -> list[str]:
    """The boundaries that were crossed, in order, as `write:before`."""
    return [line.split()[1] for line in trace.read_text().splitlines()] if trace.exists() else []


def command(
    trace: Path, module: str, *args: str, at: int, how: str = "kill", only: str = "", victim: str = "self"
) -> list[str]:
    """The argument list that starts `module` under a killer."""
    head = [sys.executable, "-m", "tests.faults.killer", "--trace", str(trace), "--at", str(at), "--how", how]
    return [*head, "--only", only, "--victim", victim, "--", module, *args]


def main() -> None:
    """Wrap, then become the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--at", type=int, required=True)
    parser.add_argument("--how", choices=["kill", "raise", "timeout"], default="kill")
    parser.add_argument("--only", default="")
    parser.add_argument("--victim", choices=["self", "parent"], default="self")
    parser.add_argument("module")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    told = parser.parse_args()
    if told.module == "worker":
        from worker.settings import remap_sigterm

        remap_sigterm()
    labels = [label for label in told.only.split(",") if label]
    killer = Killer(told.trace, at=told.at, how=told.how, victim=told.victim)
    for label in labels or (OF_WORKER if told.module == "worker" else OF_BOT):
        killer.wrap(label)
    sys.argv = [told.module, *told.args]
    runpy.run_module(told.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
