"""How rows become a training and a test part: at random, by groups, by time, or as a column of the data says.

What the data suggest, and what is wrong with a way that people chose. Called by the audit and by `tables`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from worker.recipes.common.columns import cell_counts
from worker.recipes.common.split import Rows, inputs
from worker.recipes.common.table import BadData, Table, is_missing

RANDOM, GROUP, TIME, GIVEN = "random", "group", "time", "given"
TEST_WORDS = frozenset({"test", "testing", "tst", "holdout", "eval", "evaluation"})
TRAIN_WORDS = frozenset({"train", "training", "trn", "fit", "learn"})
OTHER_WORDS = frozenset({"valid", "validation", "val", "dev"})
_GROUP_NAME = re.compile(
    r"(?i)(.*[_\s-])?(patient|subject|user|customer|client|person|speaker|author|device|machine|session|house|"
    r"household|group|family|site|store|product|animal|driver|student)([_\s-]?(id|nr|no|number|key|code))?"
)
_FEWEST_GROUPS = 10
_FEWEST_ROWS_A_GROUP = 1.5
_SAME_SHOWN = 3
_MOST_PARTS = 20  # ways to write them


@dataclass(frozen=True)
class Parting:
    """The way to split; `why` is a sentence for people."""

    kind: str = RANDOM
    column: str = ""
    why: str = ""


def suggested(table: Table, target: str) -> Parting:
    """What the data themselves suggest: the parts that they name, groups that must not be torn apart, else chance."""
    others = [name for name in table.names if name != target]
    for name in others:
        if names_parts(table, name):
            return Parting(GIVEN, name, f"“{name}” says which rows are for training and which for the test.")
    for name in others:
        each = _rows_a_group(table, name)
        if each:
            why = (
                f"“{name}” repeats, {each:.1f} rows each: a group stays on one side, so that the score is for unseen "
                "ones. `split=random` takes rows one by one."
            )
            return Parting(GROUP, name, why)
    return Parting()


def warnings(table: Table, target: str, dates: list[str]) -> list[str]:
    """What people should know of the way that is suggested; `dates` are the columns that hold some."""
    way = suggested(table, target)
    if way.kind == GIVEN:
        return [f"{way.why} {overlap(table, target, way.column)}".strip()]
    if way.kind == GROUP:
        return [way.why]
    if way.kind == RANDOM and len(dates) == 1:
        return [
            f"The rows have dates: split at random, a model may learn from what came after the rows of its test. To "
            f"measure it on the newest rows, start it with `split={dates[0]}`."
        ]
    return []


def overlap(table: Table, target: str, column: str) -> str:
    """The sentence on rows of the given test part that stand in the training part too; empty where there are none."""
    test = test_rows(table, column)
    held = set(test.tolist())
    cells = inputs(without(table, column), target)
    learned = {cells[row]: row for row in range(table.rows) if row not in held}
    same = [row for row in test.tolist() if cells[row] in learned]
    if not same:
        return ""
    some = ", ".join(f"line {table.lines[row]} = line {table.lines[learned[cells[row]]]}" for row in same[:_SAME_SHOWN])
    return (
        f"{len(same):,} of its {len(test):,} test rows have the same inputs as a training row ({some}): the score is "
        "too good by what is merely remembered."
    )


def names_parts(table: Table, name: str) -> bool:
    """Whether a column names the part of each row, a training and a test part among them."""
    counts = cell_counts(table, name)
    if len(counts) > _MOST_PARTS or counts.total() < table.rows:
        return False
    said = {cell.strip().lower() for cell in counts}
    return bool(said & TEST_WORDS) and bool(said & TRAIN_WORDS) and said <= TEST_WORDS | TRAIN_WORDS | OTHER_WORDS


def test_rows(table: Table, column: str) -> Rows:
    """The rows of the test part that a column names."""
    return np.array([row for row, cell in enumerate(table.columns[column]) if cell.strip().lower() in TEST_WORDS])


def parts_of(table: Table, target: str, way: Parting, *, frac: float) -> tuple[Rows, Rows]:
    """Row numbers of the training and the test part, for a way that is neither chance nor groups. Raises: BadData."""
    cells = table.columns[way.column]
    if way.kind == GIVEN:
        if not names_parts(table, way.column):
            raise BadData(f"“{way.column}” does not name the parts: it needs the values train and test, and no others.")
        test = test_rows(table, way.column)
    else:
        test = _newest(cells, way.column, frac)
    held = np.zeros(table.rows, dtype=bool)
    held[test] = True
    train, labels = np.flatnonzero(~held), table.columns[target]
    for rows, part in ((train, "training"), (test, "test")):
        if len(rows) < 2 or len({labels[row].strip() for row in rows}) < 2:
            raise BadData(
                f"Split by “{way.column}”, the {part} part has {len(rows)} rows and one answer at most, so nothing can "
                "be measured. Choose another share, or another way to split."
            )
    return train, np.flatnonzero(held)


def groups_of(table: Table, column: str) -> list[str]:
    """The group of each row; a row without one is a group of its own."""
    cells = table.columns[column]
    groups = [f"row {row}" if is_missing(cell) else cell.strip() for row, cell in enumerate(cells)]
    if len(set(groups)) < 2:
        raise BadData(f"“{column}” has the same value in every row, so it makes no groups.")
    return groups


def _newest(cells: list[str], column: str, frac: float) -> Rows:
    from worker.recipes.series.times import moments

    found = moments(cells)
    if found is None:
        raise BadData(f"“{column}” holds no dates in every row, so rows cannot be split by time.")
    ordered = sorted(found)
    first = ordered[min(len(ordered) - 1, round(len(ordered) * (1 - frac)))]
    return np.array([row for row, moment in enumerate(found) if moment >= first])


def _rows_a_group(table: Table, name: str) -> float:
    """How many rows a group has on average, 0 where the column makes no groups."""
    counts = cell_counts(table, name) if _GROUP_NAME.fullmatch(name) else Counter[str]()
    if len(counts) < _FEWEST_GROUPS or counts.total() < 0.95 * table.rows:
        return 0.0
    each = counts.total() / len(counts)
    return each if each >= _FEWEST_ROWS_A_GROUP and max(counts.values()) < counts.total() / 4 else 0.0


def without(table: Table, column: str) -> Table:
    """The table without the column that it was split by."""
    names = [name for name in table.names if name != column]
    columns: dict[str, Any] = {name: table.columns[name] for name in names}
    return replace(table, names=names, columns=columns)
