"""What a training holds out to choose by: chosen as the test part was, so that both tell the same.

Rows of one group stay together, and where the newest rows are the test part, the newest of the others are held out.
Written by the steps that split, read by those that train.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.job import Job
from worker.recipes.common.split import Rows, numbered, split_rows
from worker.recipes.common.table import read_table, write_rows

_FILE = "data/holdout.csv"
GROUP, ORDER = "group", "order"


@dataclass(frozen=True)
class Holdout:
    """Of each row the group that it stays with, and its place in time; None where that does not matter."""

    groups: Sequence[Hashable] | None = None
    order: NDArray[np.int64] | None = None

    def split(self, strata: Sequence[str], *, frac: float, seed: int, classes: bool = False) -> tuple[Rows, Rows]:
        """Row numbers of the larger and the held-out part.

        `classes`: the strata are classes, of which each has to be learned and two have to be told apart; where the
        newest rows do not allow that, rows are taken by chance.
        """
        if self.order is not None:
            fit, held = newest(self.order, frac)
            if not classes or _both(strata, fit, held):
                return fit, held
        return split_rows(strata, frac=frac, seed=seed, groups=self.groups)

    def splits(
        self, strata: Sequence[str], count: int, *, frac: float, seed: int, classes: bool = False
    ) -> list[tuple[Rows, Rows]]:
        """Several splits: each by another chance, or by time, each of them further back."""
        if self.order is not None:
            width, rows = 0.5 / count, len(self.order)
            ends = [round(rows * (1 - width * at)) for at in range(count)]
            found = [_window(self.order, round(end - rows * width), end) for end in ends]
            if all(len(held) for _, held in found) and (
                not classes or all(_both(strata, fit, held) for fit, held in found)
            ):
                return found
        return [split_rows(strata, frac=frac, seed=seed + at, groups=self.groups) for at in range(count)]

    def of(self, rows: Rows) -> Holdout:
        """That of some of the rows."""
        groups = None if self.groups is None else [self.groups[row] for row in rows.tolist()]
        return Holdout(groups, None if self.order is None else self.order[rows])

    def write(self, run_dir: Path) -> None:
        """Put it beside the training rows."""
        columns: dict[str, Sequence[object]] = {}
        if self.groups is not None:
            columns[GROUP] = numbered(self.groups)
        if self.order is not None:
            columns[ORDER] = self.order.tolist()
        (run_dir / _FILE).unlink(missing_ok=True)
        if columns:
            write_rows(run_dir / _FILE, list(columns), zip(*columns.values(), strict=True))


def read_holdout(job: Job) -> Holdout:
    """That of the training rows, in their order."""
    path = job.run_dir / _FILE
    if not path.is_file():
        return Holdout()
    columns = read_table(path, delimiter=",").columns
    order = np.array(columns[ORDER], dtype=np.int64) if ORDER in columns else None
    return Holdout(columns.get(GROUP), order)


def newest(order: NDArray[np.int64], frac: float) -> tuple[Rows, Rows]:
    """The older rows and the newest ones, a share of all; rows of one moment stay together."""
    return _window(order, min(len(order) - 1, round(len(order) * (1 - frac))), len(order))


def _window(order: NDArray[np.int64], start: int, end: int) -> tuple[Rows, Rows]:
    """The rows before those from `start` to `end` in time, and these."""
    moments = np.sort(order)
    first, last = moments[start], moments[end - 1]
    return np.flatnonzero(order < first), np.flatnonzero((order >= first) & (order <= last))


def _both(strata: Sequence[str], fit: Rows, held: Rows) -> bool:
    """Whether every class is learned, and more than one measured."""
    return {strata[row] for row in fit} == set(strata) and len({strata[row] for row in held}) > 1
