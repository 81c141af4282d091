"""A worker on an odd machine: `python -m tests.faults.odd [--clock FILE] [--boot-id TEXT] worker`.

FILE holds by how many seconds the clock is wrong, now: of the worker's decisions and of its supervisors' (what they
call `datetime.now`), not of the kernel. A wrong clock and a changed boot id reach what this process starts as well.
"""

import argparse
import datetime as real
import importlib
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

from worker.settings import remap_sigterm

ROOT = Path(__file__).parents[2]
CLOCKED = ("worker.launches.launching", "worker.host.hostbeat", "worker.reporting.spool", "worker.launches.signatures")
BOOTED = ("worker.host.hostbeat", "worker.host.processes", "worker.launches.launching", "worker.launches.sweep")


def set_clock(file: Path) -> None:
    """From now on the clock of this process is wrong by what the file says."""

    class Odd(real.datetime):
        @classmethod
        def now(cls, tz: real.tzinfo | None = None) -> real.datetime:
            return real.datetime.now(tz) + real.timedelta(seconds=float(file.read_text()))

    for name in CLOCKED:
        importlib.import_module(name).datetime = Odd  # type: ignore[attr-defined]


class _Subprocess:
    """The module `subprocess`, whose supervisors have the wrong clock too."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(self, argv: list[str], **more: Any) -> "subprocess.Popen[bytes]":
        head, tail = argv[: argv.index("-m")], argv[argv.index("worker.supervisor") + 1 :]
        code = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pathlib import Path; from tests.faults import odd; "
            f"odd.set_clock(Path({str(self._file)!r})); from worker.supervisor.__main__ import main; main()"
        )
        return subprocess.Popen([*head, "-c", code, *tail], **more)


def main() -> None:
    """Change what was asked for, then become the worker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clock", type=Path)
    parser.add_argument("--boot-id", default="")
    parser.add_argument("module")
    told = parser.parse_args()
    remap_sigterm()
    if told.clock is not None:
        set_clock(told.clock)
        importlib.import_module("worker.launches.spawning").subprocess = _Subprocess(told.clock)  # type: ignore[attr-defined]
    for name in BOOTED if told.boot_id else ():
        module = importlib.import_module(name)
        if hasattr(module, "boot_id"):
            module.boot_id = lambda: told.boot_id  # type: ignore[attr-defined]
    sys.argv = [told.module]
    runpy.run_module(told.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
