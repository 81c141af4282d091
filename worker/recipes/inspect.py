"""The audit of one data file: `python -m worker.recipes.inspect --file F --name NAME [--target T] [--task X]`.

Prints the fields of a DataReport without `dataset` as JSON and exits 0; for a file that cannot be used, or a `--plan`
that cannot work with it, prints `{"error": "<sentence>"}` and exits 65. Guesses target and task where nobody named
them: the task is the one whose recipe says that it fits best.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from worker.recipes.common import parting
from worker.recipes.common.columns import EXAMPLE_CHARS, cell_counts, described, find_column, text_column
from worker.recipes.common.job import BadSettings, Job, job_of
from worker.recipes.common.numerals import units_of
from worker.recipes.common.personal import personal
from worker.recipes.common.table import LIMIT_BYTES, MISSING, MOST_CELLS, BadData, Table, number, read_table
from worker.recipes.common.tables import Rules, answered
from worker.recipes.recipe import names, needs_target, part, usual

_TARGET_NAMES = ("target", "label", "labels", "class", "category", "y", "outcome", "churn", "churned", "default")
_QUANTITIES = frozenset(
    {"price", "amount", "value", "score", "sales", "cost", "revenue", "salary", "income", "demand", "rent"}
)
_PREVIEW_ROWS = 5
_LOOKED_AT_CELLS = 4_000_000  # rows are drawn where there are more: 10 s on a slow core, measured
_ODD_CELLS = 0.05  # of a column that is of numbers but for these
_MOST_UNITS = 10  # more are no units


def audit(
    table: Table, *, target: str | None = None, task: str | None = None, job: Job | None = None
) -> dict[str, Any]:
    """The fields of a DataReport except `dataset`. With `job` it is checked that this run can work.

    Raises: BadData when the named target does not exist, BadSettings for an unknown task; with `job` also what its
    steps would raise.
    """
    work = part(job.recipe, "inspect").effort(table, job) if job else 1.0
    columns = described(table)
    if task is not None and not needs_target(task):
        return _without_target(table, columns, task, work)
    named = find_column(table, target) if target else None
    answers = [column for column in columns if not parting.names_parts(table, column["name"])]
    guess = named or _found_by_a_recipe(table, task) or suggest_target(answers, rows=table.rows)
    suggested = task or (suggest_task(table, columns, guess) if guess else None)
    judge = suggested or usual()
    recipe = part(judge, "inspect")
    whole, left_out = table, list[str]()
    rules = getattr(part(judge, "prepare"), "RULES", None)
    if guess and isinstance(rules, Rules):
        table, left_out = answered(table, guess, rules)
    problems = recipe.problems(table, named) if named else []
    warnings = [*table.warnings, *_most_learned(table), *left_out]
    if not named and guess:
        warnings += recipe.problems(table, guess)
    if guess and not suggested:
        warnings.append(f"No task fits “{guess}”: no other column is left to learn it from.")
    text = _text_column(table, columns, guess, recipe, asked=bool(task))
    reads = [text, *recipe.reads(table, guess)] if guess and hasattr(recipe, "reads") else [text]
    warnings += _warnings(whole, columns, guess, reads=reads) + (recipe.warnings(table, guess) if guess else [])
    own = not guess or getattr(recipe, "OWN_SPLIT", False)
    way = parting.Parting() if own else parting.suggested(table, str(guess))
    if guess and not job:
        warnings += [] if own else parting.warnings(table, guess, way)
        warnings += _suspicious(recipe, table, guess) if not problems else []
    return {
        **_facts(whole, columns),
        "target": recipe.describe(table, guess) if guess else None,
        "suggested_task": suggested if guess else None,
        "suggested_target": guess,
        "text_column": text,
        "leaks": recipe.leaks(table, guess) if guess and not job and not (named and problems) else [],
        "problems": problems,
        "warnings": list(dict.fromkeys(warnings)),
        "effort": work,
        "split": asdict(way),
        "spacing": recipe.spacing(table, guess) if guess and hasattr(recipe, "spacing") else "",
    }


def _suspicious(recipe: Any, table: Table, target: str) -> list[str]:
    """What a recipe says of labels that look wrong, where it can; data that no model learns from have none."""
    find = getattr(recipe, "suspicious", None)
    if find is None or recipe.problems(table, target):
        return []
    try:
        return list(find(table, target))
    except (BadData, ValueError) as error:
        print(f"no look at the labels: {error}", file=sys.stderr)
        return []


def _without_target(table: Table, columns: list[dict[str, Any]], task: str, work: float) -> dict[str, Any]:
    """The report for a task that predicts no column."""
    recipe = part(task, "inspect")
    return {
        **_facts(table, columns),
        "suggested_task": task,
        "text_column": text_column(columns, leave_out=None, asked=recipe.READS_TEXT),
        "problems": recipe.problems(table, ""),
        "warnings": [
            *table.warnings,
            *_most_learned(table),
            *_warnings(table, columns, None),
            *recipe.warnings(table, ""),
        ],
        "effort": work,
    }


def _facts(table: Table, columns: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rows": table.drawn_from or table.rows,
        "columns": columns,
        "duplicate_rows": table.rows - len(set(zip(*table.columns.values(), strict=True))),
        "encoding": table.encoding,
        "delimiter": table.delimiter,
        "preview": _preview(table),
    }


def _found_by_a_recipe(table: Table, task: str | None) -> str | None:
    """The target that a recipe finds by signs of its own; `task` is the one that was asked for."""
    for name in [task] if task else names():
        suggest = getattr(part(name, "inspect"), "suggest_target", None)
        found = suggest(table, asked=bool(task)) if suggest else None
        if found:
            return str(found)
    return None


def _text_column(
    table: Table, columns: list[dict[str, Any]], target: str | None, recipe: Any, *, asked: bool
) -> str | None:
    """The text that a recipe reads, as it says itself, else the longest."""
    if target and hasattr(recipe, "source_of"):
        return cast("str | None", recipe.source_of(table, target))
    return text_column(columns, leave_out=target, asked=asked and recipe.READS_TEXT)


def suggest_target(columns: list[dict[str, Any]], *, rows: int) -> str | None:
    """The column that people most likely mean: by its name, else a quantity at the end, else the last with few classes.

    A quantity is a column of numbers with a word such as price in its name.
    """

    def may_be(column: dict[str, Any]) -> bool:
        few = 2 <= column["unique"] <= max(2, min(50, rows // 2))
        return few and column["kind"] in {"category", "boolean", "number"}

    fitting = [column for column in columns if may_be(column)]
    by_name = {column["name"].lower(): column["name"] for column in fitting}
    quantities = {column["name"].lower(): str(column["name"]) for column in columns if column["kind"] == "number"}
    named = [name for name in quantities.values() if _QUANTITIES.intersection(_words(name))]
    for word in _TARGET_NAMES:
        if word in by_name or word in quantities:
            return str(by_name.get(word) or quantities[word])
    classes = [column["name"] for column in fitting if column["kind"] != "number" or column["unique"] <= 10]
    if named and named[-1] == columns[-1]["name"]:
        return named[-1]
    if classes:
        return str(classes[-1])
    alone = [str(column["name"]) for column in columns if column["kind"] != "image"]
    only = alone[0] if len(alone) == 1 < len(columns) and alone[0] in quantities.values() else None
    return named[-1] if named else only


def _words(name: str) -> list[str]:
    """The words of a column's name in lower case: `SalePrice`, `price_eur`."""
    return [word.lower() for word in re.findall(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+", name)]


def suggest_task(table: Table, columns: list[dict[str, Any]], target: str) -> str | None:
    """The task whose recipe says that it fits best; None where none does."""
    fits = {name: part(name, "inspect").fits(table, columns, target) for name in names()}
    best = max(fits, key=lambda name: fits[name])
    return best if fits[best] > 0 else None


def _warnings(
    table: Table, columns: list[dict[str, Any]], target: str | None, *, reads: Sequence[str | None] = ()
) -> list[str]:
    """What people should know of columns; `reads` are those that the recipe uses, whatever they look like."""
    found, used = [], {target, *reads}
    for kind, words in (("constant", "always the same value"), ("empty", "no value at all")):
        names = [column["name"] for column in columns if column["kind"] == kind and column["name"] not in used]
        if names:
            found.append(f"Not used, {words}: {', '.join(names[:10])}.")
    identifiers = [c["name"] for c in columns if c["kind"] == "identifier" and c["name"] not in used]
    if identifiers:
        found.append(f"Not used, looks like an identifier of each row: {', '.join(identifiers[:10])}.")
    found += [
        f"“{c['name']}” is missing in {c['missing'] / table.rows:.0%} of the rows."
        for c in columns
        if c["kind"] != "empty" and c["name"] not in used and c["missing"] > table.rows / 2
    ]
    private = personal(table)
    if private:
        named = ", ".join(f"“{name}” ({kind})" for name, kind in list(private.items())[:10])
        found.append(
            f"Looks like personal data: {named}. Leave out what is not needed: “without {next(iter(private))}”."
        )
    wordy = [c["name"] for c in columns if c["kind"] in {"category", "text", "identifier"} and c["low"] is None]
    found += [said for name in wordy if (said := _almost_numbers(name, table) or _several_units(name, table))]
    return found


def _almost_numbers(name: str, table: Table) -> str:
    """The sentence on a column of which a few cells are no numbers; empty for another one."""
    words = {cell: times for cell, times in cell_counts(table, name).items() if number(cell) is None}
    if not 0 < sum(words.values()) <= _ODD_CELLS * table.rows:
        return ""
    cells = table.columns[name]
    odd = [row for row, cell in enumerate(cells) if cell in words]
    some = ", ".join(f"line {table.lines[row]} “{cells[row].strip()[:30]}”" for row in odd[:3])
    return (
        f"“{name}” is not read as numbers, because {len(odd)} of its {table.rows:,} cells are no numbers ({some}). "
        "Correct or empty them, and it is."
    )


def _several_units(name: str, table: Table) -> str:
    """The sentence on a column of numbers with different units; empty for another one."""
    units = sorted({unit.strip() for unit in units_of(cell_counts(table, name), MISSING)})
    if not 1 < len(units) <= _MOST_UNITS:
        return ""
    some = " and ".join(f"“{unit}”" for unit in units[:3])
    return f"“{name}” is not read as numbers, because they have several units, such as {some}. Write them in one."


def _preview(table: Table) -> list[list[str]]:
    return [
        [table.columns[name][row][:EXAMPLE_CHARS] for name in table.names]
        for row in range(min(_PREVIEW_ROWS, table.rows))
    ]


def _report(given: argparse.Namespace, job: Job | None) -> dict[str, Any]:
    """The audit of the file, of rows drawn from it where it is large and its task allows that."""

    def look(task: str | None) -> tuple[Table, dict[str, Any]]:
        most = 0 if task and getattr(part(task, "inspect"), "WHOLE", False) else given.most_cells
        table = read_table(given.file, name=given.name, limit_bytes=given.limit_bytes, most_cells=most)
        return table, audit(table, target=given.target, task=given.task, job=job)

    asked = given.task or (job.recipe if job else None)
    table, report = look(asked)
    suggested = report.get("suggested_task")
    if table.drawn_from and not asked and suggested and getattr(part(suggested, "inspect"), "WHOLE", False):
        return look(suggested)[1]
    return report


def _most_learned(table: Table) -> list[str]:
    """The sentence on how many rows of a large file a training reads."""
    rows = MOST_CELLS // len(table.names)
    if table.drawn_from <= rows:
        return []
    return [f"A training reads about {rows:,} of the {table.drawn_from:,} rows, drawn at random."]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Audit one data file.")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--target")
    parser.add_argument("--task", choices=names())
    parser.add_argument("--plan", type=json.loads, help="specification of a run whose steps should be able to work")
    parser.add_argument("--limit-bytes", type=int, default=LIMIT_BYTES)
    parser.add_argument("--most-cells", type=int, default=_LOOKED_AT_CELLS, help="of a larger table rows are drawn")
    given = parser.parse_args(arguments)
    try:
        job = job_of({"spec": given.plan}, Path()) if given.plan else None
        report = _report(given, job)
    except (BadData, BadSettings) as error:
        print(json.dumps({"error": str(error)}))
        return 65
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
