"""One logger of metrics, timed in a process of its own: `python loggers.py KIND MODE CALLS`; prints one JSON line.

Kinds: ours, noop, trackio, wandb. Modes: `tight` (microseconds a call of the loop alone, and all-in:
until `finish` came back, when nothing of it can be lost any more) and `paced` (the median of single calls, one per
5 ms, whose caches have gone cold in between). Imports nothing of the repository but for our own kinds, so that an
interpreter that has only the peers can run it. Called by `tests.bench.log_metrics`.
"""

import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PACE_S = 0.005
WARM_UP = 100
NAMES = ("train_loss", "valid_loss", "accuracy", "grad_norm", "learning_rate")
AS_ARGUMENTS = "step=step, " + ", ".join(f"{name}={name}" for name in NAMES)
AS_DICT = "{" + ", ".join(f"{name!r}: {name}" for name in NAMES) + "}, step=step"
End = Callable[[], None]
Logger = tuple[object, str, End]  # what is called `logger` in the script's line, that line, how to end


def ours(folder: Path) -> Logger:
    """A row is in metrics.jsonl when the call returns."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from trainyard import TrainingRuntime

    runtime = TrainingRuntime("bench", folder)
    runtime.start("none", {})
    return runtime, f"logger.log_metrics({AS_ARGUMENTS})", runtime.finish


def noop(folder: Path) -> Logger:
    """The control: a call with the same arguments that does nothing."""
    del folder

    class Nothing:
        def log_metrics(self, step: int, **values: float) -> None:
            del step, values

    return Nothing(), f"logger.log_metrics({AS_ARGUMENTS})", lambda: None


def with_trackio(folder: Path) -> Logger:
    """A local project; `finish` waits until its rows are in SQLite."""
    os.environ |= {"TRACKIO_DIR": str(folder), "HF_HUB_OFFLINE": "1"}
    import trackio

    trackio.init(project="bench")
    return trackio, f"logger.log({AS_DICT})", trackio.finish


def with_wandb(folder: Path) -> Logger:
    """Offline: `finish` waits until its rows are in the run's file."""
    os.environ |= {"WANDB_SILENT": "true", "WANDB_DIR": str(folder)}
    import wandb

    run = wandb.init(project="bench", mode="offline", dir=str(folder))
    return run, f"logger.log({AS_DICT})", run.finish


KINDS = {"ours": ours, "noop": noop, "trackio": with_trackio, "wandb": with_wandb}
# The scripts, with the line of the logger as people write it. The numbers are drawn before.
TIGHT = """
def script(logger, values, calls):
    began = clock()
    for step in range(calls):
        {names} = values[step % 1000]
        {line}
    return clock() - began
"""
PACED = """
def script(logger, values, calls):
    took = []
    for step in range(calls):
        {names} = values[step % 1000]
        sleep({pace})
        began = clock()
        {line}
        took.append(clock() - began)
    return took
"""


def compiled(source: str, line: str) -> Callable[[object, object, int], Any]:
    """A script's function."""
    known: dict[str, Any] = {"clock": time.perf_counter, "sleep": time.sleep}
    exec(source.format(names=", ".join(NAMES), line=line, pace=PACE_S), known)
    return known["script"]  # type: ignore[no-any-return]


def tight(made: Logger, calls: int) -> dict[str, float]:
    """Microseconds a call, after a few that do not count."""
    logger, line, finish = made
    values = [tuple(random.random() for _ in NAMES) for _ in range(1000)]
    script = compiled(TIGHT, line)
    script(logger, values, WARM_UP)
    began = time.perf_counter()
    looped_s = script(logger, values, calls)
    finish()
    done_s = time.perf_counter() - began
    return {"all_in_us": done_s / calls * 1e6, "loop_us": looped_s / calls * 1e6}


def paced(made: Logger, calls: int) -> dict[str, float]:
    """Microseconds of the middle call; in the pauses the machine does something else, so that caches go cold."""
    logger, line, finish = made
    values = [tuple(random.random() for _ in NAMES) for _ in range(1000)]
    took = compiled(PACED, line)(logger, values, WARM_UP + calls)
    finish()
    return {"p50_us": statistics.median(took[WARM_UP:]) * 1e6}


def main() -> None:
    """Measure one logger."""
    kind, mode, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
    out = os.dup(1)
    os.dup2(2, 1)  # peers greet on standard output
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = {"tight": tight, "paced": paced}[mode](KINDS[kind](Path(folder)), calls)
        if kind == "ours":
            found["rows"] = (Path(folder) / "metrics.jsonl").read_bytes().count(b"\n")
    os.write(out, (json.dumps(found) + "\n").encode())


if __name__ == "__main__":
    main()
