"""Rows: what logging each step costs a training loop, against a log call that does nothing, and against its own noise.

Ours and the control take turns in blocks within one process, and the control does so twice in each round: how much its
two blocks of a round differ is what this machine cannot tell apart. The goal is that ours is not slower than the
control by more than that (half of the middle half of those differences).
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence

from tests.bench.processes import REPO
from tests.bench.progress import say
from tests.bench.rows import Row, median, within

LIMIT_S = 540
KINDS = {
    "torch": ("a torch step, each one logged", "no-op call"),
    "trainer": ("a Trainer's step, each one logged", "Trainer without the callback"),
}


def measure() -> Sequence[Row]:
    """One process a kind."""
    return [_row(kind, _rounds(kind)) for kind in KINDS]


def difference(rounds: Sequence[Mapping[str, float]]) -> tuple[float, float, float]:
    """The control's time of a step, what ours adds to it, and the control's own spread; in the unit of `rounds`."""
    control = median([(one["control"] + one["again"]) / 2 for one in rounds])
    added = median([one["ours"] - (one["control"] + one["again"]) / 2 for one in rounds])
    low, _, high = statistics.quantiles([one["control"] - one["again"] for one in rounds], n=4)
    return control, added, (high - low) / 2


def _row(kind: str, rounds: Sequence[Mapping[str, float]]) -> Row:
    control, added, spread = difference(rounds)
    name, peer_name = KINDS[kind]
    say(f"logging overhead: {name}: {1000 * added:+.0f} µs on {control:.2f} ms, spread {1000 * spread:.0f} µs")
    more = round(spread, 3)
    return within(name, ours=control + added, peer=control, peer_name=peer_name, unit="ms", more=more)


def _rounds(kind: str) -> list[dict[str, float]]:
    argv = [sys.executable, "-m", "tests.bench.loops", kind]
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"the loop {kind} ended with {done.returncode}:\n{done.stderr}")
    rounds: list[dict[str, float]] = json.loads(done.stdout)
    return rounds
