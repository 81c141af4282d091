"""A worker on an odd machine: `python -m tests.faults.odd [--clock SECONDS] [--boot-id TEXT] worker`.

The clock is that of the worker's decisions (`datetime.now`), not the kernel's; what it starts has the right one.
"""

import argparse
import datetime as real
import importlib
import runpy

from worker.settings import remap_sigterm

CLOCKED = ("worker.launching", "worker.hostbeat", "worker.spool")
BOOTED = ("worker.hostbeat", "worker.processes", "worker.launching", "worker.sweep")


def main() -> None:
    """Change what was asked for, then become the worker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clock", type=float, default=0.0)
    parser.add_argument("--boot-id", default="")
    parser.add_argument("module")
    told = parser.parse_args()
    remap_sigterm()

    class Odd(real.datetime):
        @classmethod
        def now(cls, tz: real.tzinfo | None = None) -> real.datetime:
            return real.datetime.now(tz) + real.timedelta(seconds=told.clock)

    for name in CLOCKED if told.clock else ():
        module = importlib.import_module(name)
        if hasattr(module, "datetime"):
            module.datetime = Odd  # type: ignore[attr-defined]
    for name in BOOTED if told.boot_id else ():
        module = importlib.import_module(name)
        if hasattr(module, "boot_id"):
            module.boot_id = lambda: told.boot_id  # type: ignore[attr-defined]
    runpy.run_module(told.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
