"""`python -m tests.bench [--only NAME]…`: measure, print a table, write bench.json."""

import argparse
import importlib
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from tests.bench.progress import say
from tests.bench.rows import Row, show, write

NAMES = (
    "reply", "first_step", "start", "turn", "dispatch", "half_open", "log_metrics", "logging_overhead", "warm",
    "approve", "idle", "resume", "ingest", "backlog", "charts", "reading", "prompt", "planner", "predict", "many",
)  # fmt: skip
Measure = Callable[[], Sequence[Row]]


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The measurements to run, in their order; all when nothing is named. Raises `ValueError` for an unknown name."""
    unknown = [name for name in only if name not in NAMES]
    if unknown:
        raise ValueError(f"no measurement is called {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return tuple(name for name in NAMES if not only or name in only)


def load(name: str) -> Measure:
    """A measurement's `measure`; it is imported only now, as it may bring a peer along."""
    measure: Measure = importlib.import_module(f"tests.bench.{name}").measure
    return measure


def main(arguments: Sequence[str] | None = None, *, find: Callable[[str], Measure] = load) -> int:
    """Run what was chosen. The exit code is 0 whether or not goals hold: the table says it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure Trainyard against its peers.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--output", type=Path, default=Path("bench.json"), help="where the rows go as JSON")
    given = parser.parse_args(arguments)
    try:
        names = chosen(given.only)
    except ValueError as error:
        parser.error(str(error))
    rows: list[Row] = []
    for name in names:
        say(f"measuring: {name}")
        rows += find(name)()
    write(rows, given.output)
    show(rows, Console())
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was started is ended
    sys.exit(main())
