"""One way to split rows, used for the test part and for the validation part: seeded and stratified.

Rows with equal inputs stay together: a model that merely recognises a row must not score for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.columns import cell_counts, describe
from worker.recipes.common.numerals import counted
from worker.recipes.common.table import Table

_FEWEST_POSSIBLE = 200  # inputs; with fewer all are known, and that they repeat means nothing
Rows = NDArray[np.int64]


def inputs(table: Table, target: str) -> list[tuple[str, ...]]:
    """The cells of each row without the target and without what numbers the rows."""
    others = [name for name in table.names if name != target and describe(table, name)["kind"] != "identifier"]
    return list(zip(*(table.columns[name] for name in others), strict=True))


def same_text(text: str) -> str:
    """What texts have in common that are the same but for case and spaces."""
    return " ".join(text.lower().split())


def equal_inputs(table: Table, target: str) -> list[tuple[str, ...]] | None:
    """What tells rows apart of which some repeat the inputs of another one; None where none does, or where all must."""
    found = inputs(table, target) if _possible(table, target) >= _FEWEST_POSSIBLE else []
    return found if len(set(found)) < len(found) else None


def _possible(table: Table, target: str) -> float:
    """How many different inputs the columns allow; with a text there is no end to them."""
    others = [name for name in table.names if name != target]
    if any(describe(table, name)["kind"] == "text" for name in others):
        return math.inf
    return math.prod(len(cell_counts(table, name)) + 1 for name in others)


def repetition(table: Table, target: str) -> list[str]:
    """The sentence on rows that repeat, which a split at random keeps together."""
    found = equal_inputs(table, target)
    if found is None:
        return []
    distinct, odd = len(set(found)), _contradicted(found, table.columns[target])
    said = f"{counted(table.rows - distinct, 'row repeats', 'rows repeat')} the inputs of another one."
    if distinct < table.rows / 2:
        said = (
            f"The {table.rows:,} rows hold only {distinct:,} different inputs: probably several rows for the same "
            "person or thing."
        )
    wrong = f" {odd:,} of these inputs stand with different answers, which no model can tell apart." if odd else ""
    kept = "Equal inputs will be kept on one side of the split, so that the score is for unseen ones."
    return [f"{said} {kept}{wrong}"]


def _contradicted(found: Sequence[Hashable], answers: Sequence[str]) -> int:
    """How many different inputs stand with more than one answer."""
    first: dict[Hashable, str] = {}
    return len({key for key, answer in zip(found, answers, strict=True) if first.setdefault(key, answer) != answer})


def split_rows(
    labels: Sequence[str], *, frac: float, seed: int, groups: Sequence[Hashable] | None = None
) -> tuple[Rows, Rows]:
    """Row numbers of the larger and the smaller part, each in file order.

    Each class has a row on both sides if it has two (with `groups`: two groups). With `groups`, rows of equal group
    stay together.
    """
    units = list(range(len(labels))) if groups is None else numbered(groups)
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


def numbered(groups: Sequence[Hashable]) -> list[int]:
    """A number for each group, in the order in which they come."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(group, len(numbers)) for group in groups]
