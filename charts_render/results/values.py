"""What pictures of results say before they have a place: matrices folded to a readable size, ranks, steps of the best.

Pure; knows numpy and the values of `agent.domain.pictures`, no pixels and no matplotlib, so that the words beside a
picture (`results.words`) say what the picture says without loading what draws it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from agent.domain.pictures import UNFINISHED, Matrix, Trial
from charts_render.curve import LARGEST, Floats, floats

MOST_CLASSES: Final = 20
OTHERS: Final = "others"


@dataclass(frozen=True, slots=True, eq=False)
class Folded:
    """A matrix to draw; `counts` of shape (rows, columns), NaN where there is none, `shares` of the row's total.

    `recall` and `precision` of each class (NaN for the others, and without any) are empty where rows and columns do
    not stand for the same; `right` is the share of all counts that lie on the diagonal.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: Floats
    shares: Floats
    agrees: NDArray[np.bool_]  # (rows, columns): what was said is what is true
    folded: NDArray[np.bool_]  # (rows, columns): right and wrong lie in one cell
    recall: Floats
    precision: Floats
    right: float
    at_least: bool  # of what is right, some may lie in a cell of others
    total: float
    hidden: int  # classes among the others
    missing: int


def fold(matrix: Matrix, *, most: int = MOST_CLASSES) -> Folded:
    """The `most` most frequent classes in their order, the rest as one; counts that are none (NaN, below 0) as NaN."""
    counts = _counts(matrix)
    known = np.nan_to_num(counts, nan=0.0)
    square = matrix.rows == matrix.columns
    agrees: NDArray[np.bool_] = np.array([[r == c for c in matrix.columns] for r in matrix.rows], dtype=np.bool_)
    agrees = np.eye(len(matrix.rows), dtype=np.bool_) if square else agrees.reshape(counts.shape)
    mixed = matrix.others and square
    if mixed:
        agrees[-1, -1] = False
    total = float(known.sum())
    both = known.sum(axis=1) + known.sum(axis=0) * 1e-9 if square else known.sum(axis=1)
    rows = _top(both, most, last=mixed)
    columns = rows if square else _top(known.sum(axis=0), most)
    row_names = _names(matrix.rows, rows, counted=not mixed)
    column_names = _names(matrix.columns, columns, counted=not mixed)
    small = _summed(_summed(counts, rows, 0), columns, 1)
    hits = _summed(_summed(agrees.astype(float), rows, 0), columns, 1) > 0
    blend = np.zeros(small.shape, dtype=bool)
    if mixed or (len(row_names) > len(rows) and len(column_names) > len(columns)):
        blend[-1, -1] = True
    sums = np.nan_to_num(small).sum(axis=1, keepdims=True)
    shares = np.divide(small, sums, out=np.full(small.shape, np.nan), where=sums > 0)
    recall, precision = _marginals(known, rows, len(row_names)) if square else (np.empty(0), np.empty(0))
    if mixed:
        recall[-1] = precision[-1] = np.nan
    return Folded(
        row_names, column_names, small, shares, hits & ~blend, blend, recall, precision,
        float(known[agrees].sum()) / total if total > 0 and agrees.any() else np.nan, mixed, total,
        max(len(matrix.rows) - len(rows), len(matrix.columns) - len(columns)), int(np.isnan(counts).sum()),
    )  # fmt: skip


def _counts(matrix: Matrix) -> Floats:
    """Shape (rows, columns): what is given, NaN where it is missing or no count."""
    found = np.array(matrix.counts, dtype=np.float64)
    found[~(np.isfinite(found) & (found >= 0))] = np.nan
    limited: Floats = np.minimum(found, LARGEST / max(found.size, 1))
    return limited


def _top(weights: Floats, most: int, *, last: bool = False) -> list[int]:
    """The heaviest, in their order; of too many never the `last`, which already stands for others."""
    if weights.size <= most:
        return list(range(weights.size))
    open_ones = weights[:-1] if last else weights
    return sorted(np.argsort(-open_ones, kind="stable")[:most].tolist())


def _names(names: Sequence[str], kept: list[int], *, counted: bool) -> tuple[str, ...]:
    hidden = len(names) - len(kept)
    rest = f"{hidden:,} {OTHERS}" if counted else OTHERS
    return (*[names[i] for i in kept], *([rest] if hidden else []))


def _summed(values: Floats, kept: list[int], axis: int) -> Floats:
    """The kept lines along an axis, and the sum of the rest behind them, where there is a rest."""
    rest = np.setdiff1d(np.arange(values.shape[axis]), kept)
    parts = [np.take(values, kept, axis=axis)]
    if rest.size:
        others = np.take(values, rest, axis=axis)
        sums = np.nansum(others, axis=axis, keepdims=True)
        parts.append(np.where(np.isnan(others).all(axis=axis, keepdims=True), np.nan, sums))
    return np.concatenate(parts, axis=axis)


def _marginals(known: Floats, kept: list[int], shown: int) -> tuple[Floats, Floats]:
    """Recall and precision of the kept classes, NaN for the others."""
    hits = np.diag(known)
    both = []
    for axis in (1, 0):
        sums = known.sum(axis=axis)
        shares = np.divide(hits, sums, out=np.full(hits.shape, np.nan), where=sums > 0)
        both.append(np.append(shares[kept], [np.nan] * (shown - len(kept))))
    return both[0], both[1]


def counted(values: Sequence[float]) -> Floats:
    """Counts of bins, 0 for what is none."""
    given = floats(values)
    return np.where(np.isfinite(given) & (given > 0), np.minimum(given, LARGEST / max(given.size, 1)), 0.0)


def best_of(trials: Sequence[Trial], better: Literal["lower", "higher"]) -> Trial | None:
    """The earliest best of those that went to their end and have a finite value."""
    valid = [trial for trial in trials if math.isfinite(trial.value) and trial.state not in UNFINISHED]
    if not valid:
        return None
    return (min if better == "lower" else max)(valid, key=lambda trial: trial.value)


def steps_of(trials: Sequence[Trial], better: Literal["lower", "higher"]) -> list[Trial]:
    """The trials that were better than all kept before them, in their order; of any that ended, where none was kept."""
    kept = [trial for trial in trials if trial.state == "kept"]
    found: list[Trial] = []
    for trial in sorted(kept or [t for t in trials if t.state not in UNFINISHED], key=lambda trial: trial.number):
        if not math.isfinite(trial.value):
            continue
        if not found or (trial.value < found[-1].value if better == "lower" else trial.value > found[-1].value):
            found.append(trial)
    return found


@dataclass(frozen=True, slots=True)
class Branch:
    """A row of a tree: its trial, its lane from the left, the row it hangs on or -1, whether nothing lies between."""

    trial: Trial
    lane: int
    parent: int
    direct: bool


def branches(trials: Sequence[Trial], shown: set[int], better: Literal["lower", "higher"]) -> list[Branch]:
    """The trials of these places as rows: every one below what it came from, side lines before the one that goes on.

    What came from a trial that is not shown hangs on the nearest that is. A parent that does not exist, or is no older,
    is none: no circle is possible.
    """
    places: dict[int, int] = {}
    for i, trial in enumerate(trials):
        places.setdefault(trial.number, i)
    above: list[int] = []
    for i, trial in enumerate(trials):
        parent = places.get(trial.parent, -1) if trial.parent is not None else -1
        above.append(parent if parent >= 0 and (trials[parent].number, parent) < (trial.number, i) else -1)
    children: dict[int, list[tuple[int, bool]]] = {}
    for i in sorted(shown):
        parent, direct = above[i], True
        while parent >= 0 and parent not in shown:
            parent, direct = above[parent], False
        children.setdefault(parent, []).append((i, direct))
    best = best_of([trials[i] for i in sorted(shown)], better)
    spine = _spine(trials, above, best)
    rows: list[Branch] = []
    waiting = [(i, 0, -1, direct) for i, direct in reversed(children.get(-1, []))]
    while waiting:
        i, lane, parent, direct = waiting.pop()
        rows.append(Branch(trials[i], lane, parent, direct))
        below = sorted(children.get(i, []), key=lambda child: (child[0] in spine, trials[child[0]].number))
        place, last = len(rows) - 1, len(below) - 1
        goes_on = bool(below) and (below[last][0] in spine or len(below) == 1)
        for k, (child, straight) in reversed(list(enumerate(below))):
            waiting.append((child, lane if k == last and goes_on else lane + 1, place, straight))
    return rows


def _spine(trials: Sequence[Trial], above: Sequence[int], best: Trial | None) -> set[int]:
    """The places of the best trial and all that it came from."""
    found: set[int] = set()
    at = next((i for i, trial in enumerate(trials) if trial is best), -1)
    while at >= 0:
        found.add(at)
        at = above[at]
    return found


def most_telling(trials: Sequence[Trial], better: Literal["lower", "higher"], *, most: int) -> set[int]:
    """Places of the trials to show of too many: the way to the best, then what was kept, then the newest."""
    if len(trials) <= most:
        return set(range(len(trials)))
    places = {trial.number: i for i, trial in reversed(list(enumerate(trials)))}
    wanted: list[int] = []
    at: Trial | None = best_of(trials, better)
    while at is not None and len(wanted) < most:
        place = next(i for i, trial in enumerate(trials) if trial is at)
        wanted.append(place)
        up = places.get(at.parent) if at.parent is not None else None
        at = trials[up] if up is not None and trials[up].number < at.number else None
    newest = sorted(range(len(trials)), key=lambda i: (trials[i].state != "kept", -trials[i].number))
    return set(list(dict.fromkeys([*wanted, *newest]))[:most])
