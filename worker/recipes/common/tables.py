"""How the recipes of tables split their data: which columns and rows are used, and where the parts lie.

`split_table` reads `data/source.csv` and writes `data/train.csv` (with the target), `data/test.csv` (`row_id`, no
target, shuffled), `data/split.json` and `S/labels.csv`, then removes the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.common import parting
from worker.recipes.common.columns import described, find_column, text_column
from worker.recipes.common.formats import drawn_words
from worker.recipes.common.job import Job
from worker.recipes.common.sealing import seal
from worker.recipes.common.split import inputs, repeated_entities, split_rows
from worker.recipes.common.table import MOST_CELLS, BadData, Table, is_missing, read_table, write_rows

_MOST_LONELY = 0.2  # of the rows; more are no classes


@dataclass(frozen=True)
class Rules:
    """What a recipe wants of a table: what is wrong with a target column, and the strata of its values.

    Each stratum has rows on both sides of the split. `reads_text`: one column holds the text. `lay(source, table,
    folder, sealed_dir, test)` lays what the cells name beside the parts and gives the table with where it lies; `test`
    are the rows of the test part, in the order of their numbers. `lonely`: a row that alone has its answer is left out,
    as a class needs one to learn from and one to measure on. `text_of(table, target)` is the text column where
    nobody named one, if not the longest; `groups(table, text)` what rows belong together, if not those of equal inputs.
    """

    problems: Callable[[Table, str], list[str]]
    strata: Callable[[Sequence[str]], list[str]] = list
    reads_text: bool = False
    lay: Callable[[Path, Table, Path, Path, list[int]], Table] | None = None
    lonely: bool = False
    text_of: Callable[[Table, str], str | None] | None = None
    groups: Callable[[Table, str], Sequence[Hashable]] | None = None


def split_table(job: Job, sealed_dir: Path, rules: Rules, *, keep_source: bool = False) -> None:
    """Split and seal. Does nothing when it was done before. Raises: BadData."""
    seal(job, sealed_dir, lambda source: _split(job, source, sealed_dir, rules), keep_source=keep_source)


def _split(job: Job, source: Path, sealed_dir: Path, rules: Rules) -> dict[str, Any]:
    """Write the parts; what `split.json` keeps of them."""
    table = read_table(source, name=job.dataset_name, most_cells=MOST_CELLS)
    whole = table.names
    for said in drawn_words(table.rows, table.drawn_from or table.rows):
        print(said)
    table, target, text = usable(table, job, rules)
    if "row_id" in whole and "row_id" not in (*table.names, *job.drop_columns):
        print("The column row_id is left out: the split numbers its rows under this name.")
    labels = [cell.strip() for cell in table.columns[target]]
    way = parting.Parting(job.split.get("kind", parting.RANDOM), job.split.get("column", ""))
    groups = _groups(table, target, text, rules)
    if way.column:
        way = parting.Parting(way.kind, find_column(table, way.column, role="split"))
    if way.kind in {parting.GIVEN, parting.TIME}:
        train, test = parting.parts_of(table, target, way, frac=job.test_frac)
        groups = None
    else:
        groups = parting.groups_of(table, way.column) if way.kind == parting.GROUP else groups
        if job.all_is_test:
            train, test = np.arange(0), np.arange(table.rows)
        else:
            train, test = split_rows(rules.strata(labels), frac=job.test_frac, seed=job.seed, groups=groups)
    if way.kind in {parting.GIVEN, parting.GROUP}:
        table = parting.without(table, way.column)
    test = np.random.default_rng(job.seed).permutation(test)  # the order of the file must not tell the class
    if rules.lay is not None:
        sealed_dir.mkdir(parents=True, exist_ok=True)
        table = rules.lay(source, table, job.run_dir, sealed_dir, test.tolist())
    _write(job, table, target, (train.tolist(), test.tolist()), sealed_dir)
    together = "; rows with equal inputs stay on one side" if groups is not None else ""
    together = {
        parting.GIVEN: f", as “{way.column}” says",
        parting.TIME: f", the newest by “{way.column}”",
        parting.GROUP: f"; rows of one “{way.column}” stay on one side",
    }.get(way.kind, together)
    print(f"Split {table.rows:,} rows: {len(train):,} to train, {len(test):,} sealed to measure{together}.")
    return {
        "target": target,
        "text_column": text,
        "train_rows": len(train),
        "test_rows": len(test),
        "drawn_from": table.drawn_from,
        "equal_inputs_kept_together": groups is not None and way.kind == parting.RANDOM,
    }


def usable(table: Table, job: Job, rules: Rules) -> tuple[Table, str, str | None]:
    """What a recipe is given of a table, its target, and the text column where it reads one. Raises: BadData."""
    target = find_column(table, job.target)
    table, _ = answered(table, target, rules)
    _refuse(rules.problems(table, target))
    table = _without(table, job, target)
    return table, target, _text_column(table, job, target, rules) if rules.reads_text else None


def answered(table: Table, target: str, rules: Rules) -> tuple[Table, list[str]]:
    """The rows that have an answer to learn or to measure, and sentences on those that are left out."""
    cells, said = table.columns[target], []
    missing = [row for row, cell in enumerate(cells) if is_missing(cell)]
    if missing:
        said.append(
            f"{_rows(missing, table)} without a value of “{target}” {'is' if len(missing) == 1 else 'are'} left out."
        )
    lonely = list[int]()
    if rules.lonely:
        counts = Counter(cell.strip() for cell in cells if not is_missing(cell))
        lonely = [row for row, cell in enumerate(cells) if counts[cell.strip()] == 1]
        if len(lonely) > _MOST_LONELY * table.rows or len(counts) - len(lonely) < 2:
            lonely = []  # no classes, which its own sentence says
    if lonely:
        some = ", ".join(f"“{cells[row].strip()[:40]}”" for row in lonely[:5]) + (
            " and more" if len(lonely) > 5 else ""
        )
        said.append(
            f"{_rows(lonely, table)} left out, because no other row has the class: {some}. A class needs two rows: one "
            "to learn from, one to measure on."
        )
    out = {*missing, *lonely}
    if not out or len(out) == table.rows:
        return table, []
    kept = [row for row in range(table.rows) if row not in out]
    columns = {name: [column[row] for row in kept] for name, column in table.columns.items()}
    return replace(table, columns=columns, lines=[table.lines[row] for row in kept]), said


def _rows(rows: list[int], table: Table) -> str:
    lines = ", ".join(str(table.lines[row]) for row in rows[:5]) + (" and more" if len(rows) > 5 else "")
    return f"{len(rows):,} of {table.rows:,} rows ({'line' if len(rows) == 1 else 'lines'} {lines})"


def _refuse(problems: list[str]) -> None:
    if problems:
        raise BadData(" ".join(problems))


def _without(table: Table, job: Job, target: str) -> Table:
    """The table without the columns to drop and without a `row_id` of its own, which is our name."""
    dropped = {find_column(table, name, role="") for name in job.drop_columns}
    if target in dropped:
        raise BadData(f"“{target}” is the target; it cannot be dropped.")
    if "row_id" in table.columns and target != "row_id":
        dropped.add("row_id")
    names = [name for name in table.names if name not in dropped]
    if names == [target]:
        raise BadData(f"No column is left to predict “{target}” from.")
    return replace(table, names=names, columns={name: table.columns[name] for name in names})


def _text_column(table: Table, job: Job, target: str, rules: Rules) -> str:
    if job.text_column:
        return find_column(table, job.text_column, role="text")
    usual = rules.text_of or _longest_text
    found = usual(table, target)
    if found is None:
        raise BadData(f"There is no column with text to learn from; the columns are: {', '.join(table.names)}.")
    return found


def _longest_text(table: Table, target: str) -> str | None:
    return text_column(described(table), leave_out=target, asked=True)


def _groups(table: Table, target: str, text: str | None, rules: Rules) -> Sequence[Hashable] | None:
    """What each row belongs to, None where rows stand alone."""
    if rules.groups is not None:
        found = rules.groups(table, text or target)
        return found if len(set(found)) < table.rows else None
    return inputs(table, target) if repeated_entities(table, target) else None


def _write(job: Job, table: Table, target: str, parts: tuple[list[int], list[int]], sealed_dir: Path) -> None:
    train, test = parts
    features = [name for name in table.names if name != target]
    cells = table.columns
    sealed_dir.mkdir(parents=True, exist_ok=True)
    labels = ([number, cells[target][row].strip()] for number, row in enumerate(test))
    write_rows(sealed_dir / "labels.csv", ["row_id", "label"], labels)
    rows = ([number, *(cells[name][row] for name in features)] for number, row in enumerate(test))
    write_rows(job.run_dir / "data/test.csv", ["row_id", *features], rows)
    learned = ([*(cells[name][row] for name in features), cells[target][row].strip()] for row in train)
    write_rows(job.run_dir / "data/train.csv", [*features, target], learned)
