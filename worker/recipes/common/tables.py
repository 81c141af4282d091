"""How the recipes of tables split their data: which columns and rows are used, and where the parts lie.

`split_table` reads `data/source.csv` and writes `data/train.csv` (with the target), `data/test.csv` (`row_id`, no
target, shuffled), `data/split.json` and `S/labels.csv`, then removes the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from worker.recipes.common import parting
from worker.recipes.common.columns import described, find_column, text_column
from worker.recipes.common.formats import drawn_words
from worker.recipes.common.job import Job
from worker.recipes.common.sealing import seal, write_sealed
from worker.recipes.common.split import equal_inputs, same_text
from worker.recipes.common.table import MOST_CELLS, BadData, Table, is_missing, read_table, write_rows

_MOST_LONELY = 0.2  # of the rows; more are no classes


@dataclass(frozen=True)
class Rules:
    """What a recipe wants of a table: what is wrong with a target column, and the strata of its values.

    Each stratum has rows on both sides of the split. `reads_text`: one column holds the text. `lay(source, table,
    folder, sealed_dir, test)` lays what the cells name beside the parts and gives the table with where it lies; `test`
    are the rows of the test part, in the order of their numbers. `lonely`: a row that alone has its answer is left out,
    as a class needs one to learn from and one to measure on. `text_of(table, target)` is the text column where
    nobody named one, if not the longest; `together(source, table, text)` tells the rows apart that stay on one side, if
    not all inputs do.
    """

    problems: Callable[[Table, str], list[str]]
    strata: Callable[[Sequence[str]], list[str]] = list
    reads_text: bool = False
    lay: Callable[[Path, Table, Path, Path, list[int]], Table] | None = None
    lonely: bool = False
    text_of: Callable[[Table, str], str | None] | None = None
    together: Callable[[Path, Table, str], Sequence[Hashable]] | None = None


def split_table(job: Job, sealed_dir: Path, rules: Rules, *, keep_source: bool = False) -> None:
    """Split and seal. Does nothing when it was done before. Raises: BadData."""
    seal(job, sealed_dir, partial(_split, rules=rules), keep_source=keep_source)


def _split(job: Job, source: Path, sealed_dir: Path, rules: Rules) -> dict[str, Any]:
    """Write the parts; what `split.json` keeps of them."""
    whole = read_table(source, name=job.dataset_name, most_cells=MOST_CELLS)
    for said in drawn_words(whole.rows, whole.drawn_from or whole.rows):
        print(said)
    table, target, text = usable(whole, job, rules)
    if "row_id" in whole.columns and "row_id" not in (*table.names, *job.drop_columns):
        print("The column row_id is left out: the split numbers its rows under this name.")
    way = parting.asked_way(table, job)
    strata = rules.strata([cell.strip() for cell in table.columns[target]])
    together = _together(source, table, target, text, rules)
    parts = parting.part(job, way, table.columns[way.column] if way.column else [], strata, together)
    if way.kind in {parting.GIVEN, parting.GROUP} or way.column in _dropped(whole, job):
        table = parting.without(table, way.column)
    if rules.lay is not None:
        sealed_dir.mkdir(parents=True, exist_ok=True)
        table = rules.lay(source, table, job.run_dir, sealed_dir, parts.test.tolist())
    _write(job, table, target, parts, sealed_dir)
    train, sealed = len(parts.train), len(parts.test)
    print(f"Split {table.rows:,} rows: {train:,} to train, {sealed:,} sealed to measure{parts.words}.")
    return {
        "target": target,
        "text_column": text,
        "train_rows": train,
        "test_rows": sealed,
        "drawn_from": table.drawn_from,
        "how": parts.words,
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
    """The table without the columns to drop and without a `row_id` of its own, which is our name.

    A column that the rows are split by stays until they are, whether or not it is learned from.
    """
    dropped = _dropped(table, job)
    if target in dropped:
        raise BadData(f"“{target}” is the target; it cannot be dropped.")
    if "row_id" in table.columns and target != "row_id":
        dropped.add("row_id")
    names = [name for name in table.names if name not in dropped]
    if names == [target]:
        raise BadData(f"No column is left to predict “{target}” from.")
    way = parting.asked_way(table, job).column
    kept = [name for name in table.names if name in names or name == way]
    return replace(table, names=kept, columns={name: table.columns[name] for name in kept})


def _dropped(table: Table, job: Job) -> set[str]:
    """The columns that a request leaves out, as the table has them."""
    return {find_column(table, name, role="") for name in job.drop_columns}


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


def equal_texts(_source: Path, table: Table, text: str) -> list[Hashable]:
    """Rows whose texts are the same but for case and spaces stay together."""
    return [same_text(cell) for cell in table.columns[text]]


def _together(source: Path, table: Table, target: str, text: str | None, rules: Rules) -> Sequence[Hashable] | None:
    """What each row stays on one side with, None where rows stand alone."""
    if rules.together is None:
        return equal_inputs(table, target)
    found = rules.together(source, table, text or target)
    return found if len(set(found)) < table.rows else None


def _write(job: Job, table: Table, target: str, parts: parting.Parts, sealed_dir: Path) -> None:
    train, test = parts.train.tolist(), parts.test.tolist()
    features = [name for name in table.names if name != target]
    cells = table.columns
    write_sealed(sealed_dir, [cells[target][row].strip() for row in test], parts)
    rows = ([number, *(cells[name][row] for name in features)] for number, row in enumerate(test))
    write_rows(job.run_dir / "data/test.csv", ["row_id", *features], rows)
    learned = ([*(cells[name][row] for name in features), cells[target][row].strip()] for row in train)
    write_rows(job.run_dir / "data/train.csv", [*features, target], learned)
    parts.holdout.of(parts.train).write(job.run_dir)
