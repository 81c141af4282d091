"""Rows: reading a metrics.jsonl of 1,000,000 lines into columns, against polars; and the cost of following it.

Both read the same file, which is in the page cache, into arrays of each metric. Ours is what `trainyard chart` does.
"""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from agent.series.tail import Tail
from tests.bench.progress import say
from tests.bench.rows import Row, compared, limited, median

LINES, FEW, NEW = 1_000_000, 1_000, 100
ROUNDS, LOOKS = 7, 200
NAMES = ("train_loss", "train_accuracy", "learning_rate", "tokens_per_s")


def measure() -> Sequence[Row]:
    """Alternating, so that both meet the same machine."""
    with tempfile.TemporaryDirectory() as folder:
        long, short = Path(folder) / "long.jsonl", Path(folder) / "short.jsonl"
        for path, lines in ((long, LINES), (short, FEW)):
            _write(path, 0, lines)
        say(f"reading: {LINES:,} lines are {long.stat().st_size / 1e6:.0f} MB")
        ours, peer, ratios = [], [], []
        for _ in range(ROUNDS):
            peer.append(_timed(lambda: _polars(long)))
            ours.append(_timed(lambda: _ours(long)))
            ratios.append(peer[-1] / ours[-1])
        say(f"reading, ms: {median(ours):.0f}; polars {median(peer):.0f}; ratio {median(ratios):.2f}")
        follow_long, follow_short = _follow(long), _follow(short)
    of = f"reading {LINES:,} lines of metrics.jsonl"
    late = f"{NEW} new lines: longer behind {LINES:,} lines than behind {FEW:,}"
    return [
        compared(of, ours=median(ours), peer=median(peer), peer_name="polars", unit="ms", at_least=1),
        limited(late, ours=follow_long / follow_short, peer=1, peer_name="few", unit="times", at_most=1.5),
    ]


def _write(path: Path, first: int, stop: int) -> None:
    """Rows as the runtime's converter writes them; every hundredth is measured on held-out data too."""
    random = np.random.default_rng(first)
    with path.open("a") as file:
        for n in range(first, stop):
            values = dict(zip(NAMES, random.random(len(NAMES)).tolist(), strict=True))
            values |= {"valid_loss": float(random.random())} if n % 100 == 0 else {}
            row = {"step": n, "at": 1.79e9 + 0.05 * n, "values": values}
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


def _ours(path: Path) -> int:
    return sum(len(lines.rows) for lines in Tail(path).take().lines)


def _polars(path: Path) -> int:
    return pl.read_ndjson(path).unnest("values").height


def _timed(read: Callable[[], int]) -> float:
    began = time.perf_counter()
    if read() != LINES:
        raise RuntimeError("lines were lost")
    return 1000 * (time.perf_counter() - began)


def _follow(path: Path) -> float:
    """Milliseconds of a look that finds new lines."""
    tail = Tail(path)
    lines = sum(len(found.rows) for found in tail.take().lines)
    times = []
    for at in range(lines, lines + LOOKS * NEW, NEW):
        _write(path, at, at + NEW)
        began = time.perf_counter()
        (found,) = tail.take().lines
        times.append(1000 * (time.perf_counter() - began))
        if len(found.rows) != NEW:
            raise RuntimeError("lines were lost")
    return median(times)
