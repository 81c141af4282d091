"""How rows become a training and a test part: at random, by groups, by time, or as a column of the data says.

What the data suggest, and what is wrong with a way that people chose. Called by the audit and by the steps that split.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.columns import cell_counts, describe, find_column, is_id_name
from worker.recipes.common.holdout import Holdout
from worker.recipes.common.job import Job
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
_FEWEST_MOMENTS = 20
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
    """What the data themselves suggest: the parts that they name, groups that belong together, time, or chance."""
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
    dates = _dates(table, target)
    if len(dates) == 1 and _is_log(table.columns[dates[0]]):
        why = (
            f"The rows stand in the order of “{dates[0]}”: the newest are the test part, so that nothing is learned "
            "from what came later. `split=random` takes rows by chance."
        )
        return Parting(TIME, dates[0], why)
    return Parting()


def warnings(table: Table, target: str, way: Parting) -> list[str]:
    """What people should know of the way that is suggested."""
    if way.kind == GIVEN:
        return [f"{way.why} {overlap(table, target, way.column)}".strip()]
    if way.kind != RANDOM:
        return [way.why]
    dates = _dates(table, target)
    if len(dates) == 1:
        return [
            f"The rows have dates: split at random, a model may learn from what came after the rows of its test. To "
            f"measure it on the newest rows, start it with `split={dates[0]}`."
        ]
    return []


def _dates(table: Table, target: str) -> list[str]:
    return [name for name in table.names if name != target and describe(table, name)["kind"] == "datetime"]


def _is_log(cells: Sequence[str]) -> bool:
    """Whether rows were written down as they happened: in the order of their moments, of which many differ."""
    from worker.recipes.series.times import moments

    found = moments(cells)
    if found is None or len(set(found)) < max(_FEWEST_MOMENTS, len(found) // 20):
        return False
    return found in (sorted(found), sorted(found, reverse=True))


def overlap(table: Table, target: str, column: str) -> str:
    """The sentence on rows of the given test part that stand in the training part too; empty where there are none."""
    test = test_rows(table.columns[column], column)
    held = set(test.tolist())
    cells = inputs(without(table, column), target)
    learned = {cells[row]: row for row in range(table.rows) if row not in held}
    same = [row for row in test.tolist() if cells[row] in learned]
    if not same:
        return ""
    some = ", ".join(f"line {table.lines[row]} = line {table.lines[learned[cells[row]]]}" for row in same[:_SAME_SHOWN])
    return (
        f"{len(same):,} of its {len(test):,} test rows {'has' if len(same) == 1 else 'have'} the same inputs as a "
        f"training row ({some}): the score is too good by what is merely remembered."
    )


def names_parts(table: Table, name: str) -> bool:
    """Whether a column names the part of each row, a training part and one to measure on among them."""
    counts = cell_counts(table, name)
    return len(counts) <= _MOST_PARTS and counts.total() == table.rows and _are_parts(counts)


def _are_parts(cells: Iterable[str]) -> bool:
    said = {cell.strip().lower() for cell in cells}
    return len(said) > 1 and bool(said & TRAIN_WORDS) and said <= TEST_WORDS | TRAIN_WORDS | OTHER_WORDS


def test_rows(cells: Sequence[str], column: str) -> Rows:
    """The rows of the test part that a column names, of the validation part where there is no other.

    Raises: BadData where it names none.
    """
    if not _are_parts(cells):
        raise BadData(f"“{column}” does not name the parts: it needs the values train and test, and no others.")
    said = [cell.strip().lower() for cell in cells]
    words = TEST_WORDS if TEST_WORDS & set(said) else OTHER_WORDS
    return np.array([row for row, word in enumerate(said) if word in words], dtype=np.int64)


@dataclass(frozen=True)
class Parts:
    """Row numbers of the training and the test part, what of each row keeps it beside others, and how it was done.

    The order of the test part is one of chance: that of the file must not tell the answers.
    """

    train: Rows
    test: Rows
    holdout: Holdout
    words: str


def asked_way(table: Table, job: Job) -> Parting:
    """The way that a request names, with its column as the table has it. Raises: BadData."""
    column = job.split.get("column", "")
    return Parting(job.split.get("kind", RANDOM), find_column(table, column, role="split") if column else "")


def part(
    job: Job, way: Parting, cells: Sequence[str], strata: Sequence[str], together: Sequence[Hashable] | None
) -> Parts:
    """Split rows of which each has a cell of the way's column, and a stratum. Raises: BadData.

    `together` says which rows stay on one side of a split at random, those of equal inputs.
    """
    holdout, words = Holdout(together), "; rows with equal inputs stay on one side" if together is not None else ""
    if way.kind == GROUP:
        holdout, words = Holdout(groups_of(cells, way.column)), f"; rows of one “{way.column}” stay on one side"
    elif way.kind == TIME:
        holdout, words = Holdout(order=_order(cells, way.column)), f", the newest by “{way.column}”"
    if job.all_is_test:
        train, test = np.arange(0), np.arange(len(strata))
    elif way.kind == GIVEN:
        words = f", as “{way.column}” says"
        test = test_rows(cells, way.column)
        train = np.setdiff1d(np.arange(len(cells)), test)
    else:
        train, test = holdout.split(strata, frac=job.test_frac, seed=job.seed)
    if way.kind in {GIVEN, TIME} and not job.all_is_test:
        _refuse_useless(way.column, strata, (train, test))
    test = np.random.default_rng(job.seed).permutation(test)
    return Parts(train, test, holdout, words)


def _refuse_useless(column: str, strata: Sequence[str], parts: tuple[Rows, Rows]) -> None:
    """Raises: BadData where a part has no two rows, or no two of several answers."""
    several = len(set(strata)) > 1
    for rows, name in zip(parts, ("training", "test"), strict=True):
        if len(rows) < 2 or (several and len({strata[row] for row in rows}) < 2):
            raise BadData(
                f"Split by “{column}”, the {name} part has {len(rows)} rows and one answer at most, so nothing can be "
                "measured. Choose another share, or another way to split."
            )


def groups_of(cells: Sequence[str], column: str) -> list[str]:
    """The group of each row; a row without one is a group of its own. Raises: BadData where there is but one."""
    groups = [f"row {row}" if is_missing(cell) else cell.strip() for row, cell in enumerate(cells)]
    if len(set(groups)) < 2:
        raise BadData(f"“{column}” has the same value in every row, so it makes no groups.")
    return groups


def _order(cells: Sequence[str], column: str) -> NDArray[np.int64]:
    """The place of each row in time. Raises: BadData."""
    from worker.recipes.series.times import moments

    found = moments(cells)
    if found is None:
        raise BadData(f"“{column}” holds no dates in every row, so rows cannot be split by time.")
    return np.unique(np.array(found, dtype="datetime64[s]"), return_inverse=True)[1]


def _rows_a_group(table: Table, name: str) -> float:
    """How many rows a group has on average, 0 where the column makes no groups."""
    known = _GROUP_NAME.fullmatch(name) is not None
    counts = cell_counts(table, name) if known or is_id_name(name) else Counter[str]()
    if len(counts) < _FEWEST_GROUPS or counts.total() < 0.95 * table.rows:
        return 0.0
    each = counts.total() / len(counts)
    if each < _FEWEST_ROWS_A_GROUP or max(counts.values()) >= counts.total() / 4:
        return 0.0
    return each if known or _determines(table, name) else 0.0


def _determines(table: Table, name: str) -> bool:
    """Whether another column is the same in all rows of a group, and in several groups, as the age of a person is."""
    groups = len(cell_counts(table, name))
    return any(
        1 < len(cell_counts(table, other)) < groups
        and len(set(zip(table.columns[name], table.columns[other], strict=True))) <= groups
        for other in table.names
        if other != name
    )


def without(table: Table, column: str) -> Table:
    """The table without the column that it was split by."""
    names = [name for name in table.names if name != column]
    columns: dict[str, Any] = {name: table.columns[name] for name in names}
    return replace(table, names=names, columns=columns)
