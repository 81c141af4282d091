"""One way to split rows, used for the test part and for the validation part: seeded and stratified.

Where most rows repeat the inputs of another row (several visits of one patient, years of one customer), rows with equal
inputs stay together: a model that merely recognises somebody must not score for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.table import Table

_FEWEST_DISTINCT = 200
Rows = NDArray[np.int64]


def inputs(table: Table, target: str) -> list[tuple[str, ...]]:
    """The cells of each row without the target."""
    return list(zip(*(cells for name, cells in table.columns.items() if name != target), strict=True))


def repeated_entities(table: Table, target: str) -> int:
    """The number of different inputs if more than half of the rows repeat another row's, else 0.

    With fewer than 200 different inputs they are rather the few possible ones, and repetition means nothing.
    """
    if len(table.names) < 2:
        return 0
    distinct = len(set(inputs(table, target)))
    return distinct if _FEWEST_DISTINCT <= distinct < table.rows / 2 else 0


def repetition(table: Table, target: str) -> list[str]:
    """The sentence on rows that repeat, where the split keeps them together."""
    distinct = repeated_entities(table, target)
    if not distinct:
        return []
    return [
        f"The {table.rows:,} rows hold only {distinct:,} different inputs: probably several rows for the same "
        "person or thing. Equal inputs will be kept on one side of the split, so that the score is for unseen ones."
    ]


def split_rows(
    labels: Sequence[str], *, frac: float, seed: int, groups: Sequence[Hashable] | None = None
) -> tuple[Rows, Rows]:
    """Row numbers of the larger and the smaller part, each in file order.

    Each class has a row on both sides if it has two (with `groups`: two groups). With `groups`, rows of equal group
    stay together.
    """
    units = list(range(len(labels))) if groups is None else _numbered(groups)
    members: dict[int, list[int]] = {}
    for row, unit in enumerate(units):
        members.setdefault(unit, []).append(row)
    counts = Counter(labels)
    by_class: dict[str, list[int]] = {}
    for unit, rows in members.items():
        rarest = min((labels[row] for row in rows), key=lambda label: (counts[label], label))
        by_class.setdefault(rarest, []).append(unit)
    random = np.random.default_rng(seed)
    held: set[int] = set()
    for label in sorted(by_class):
        of_class = by_class[label]
        count = min(max(1, round(len(of_class) * frac)), len(of_class) - 1)
        held.update(random.permutation(of_class)[:count].tolist())
    is_held = np.array([unit in held for unit in units], dtype=bool)
    return np.flatnonzero(~is_held), np.flatnonzero(is_held)


def _numbered(groups: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(group, len(numbers)) for group in groups]
