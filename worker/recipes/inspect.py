"""The audit of one data file: `python -m worker.recipes.inspect --file F --name NAME [--target T] [--task X]`.

Prints the fields of a DataReport without `dataset` as JSON and exits 0; for a file that cannot be used, or a `--plan`
that cannot work with it, prints `{"error": "<sentence>"}` and exits 65. Guesses target and task
where nobody named them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from worker.recipes.columns import (
    EXAMPLE_CHARS,
    describe,
    describe_target,
    find_column,
    target_problems,
    text_column,
)
from worker.recipes.job import BadSettings, Job, job_of
from worker.recipes.leaks import find_leaks
from worker.recipes.plan import effort
from worker.recipes.split import repeated_entities
from worker.recipes.table import LIMIT_BYTES, BadData, Table, read_table

_TARGET_NAMES = ("target", "label", "labels", "class", "category", "y", "outcome", "churn", "churned", "default")
_PREVIEW_ROWS = 5
_IMBALANCE = 10.0
_FEW = 10


def audit(
    table: Table, *, target: str | None = None, task: str | None = None, job: Job | None = None
) -> dict[str, Any]:
    """The fields of a DataReport except `dataset`. With `job` it is checked that this run can work.

    Raises: BadData when the named target does not exist; with `job` also what its steps would raise.
    """
    work = effort(table, job) if job else 1.0
    columns = [describe(name, table.columns[name]) for name in table.names]
    named = find_column(table, target) if target else None
    guess = named or suggest_target(columns, rows=table.rows)
    text = text_column(columns, leave_out=guess, asked=task == "text_classification")
    problems = target_problems(table, named) if named else []
    warnings = list(table.warnings)
    if not named and guess:
        warnings += target_problems(table, guess)
    warnings += _warnings(table, columns, guess)
    suggested = task or suggest_task(columns, guess, text)
    if suggested == "text_classification" and text is None:
        problems.append("There is no column with text to classify.")
    return {
        "rows": table.rows,
        "columns": columns,
        "duplicate_rows": table.rows - len(set(zip(*table.columns.values(), strict=True))),
        "encoding": table.encoding,
        "delimiter": table.delimiter,
        "preview": _preview(table),
        "target": describe_target(table, guess) if guess else None,
        "suggested_task": suggested if guess else None,
        "suggested_target": guess,
        "text_column": text,
        "leaks": find_leaks(table, guess) if guess and not job and not (named and problems) else [],
        "problems": problems,
        "warnings": warnings,
        "effort": work,
    }


def suggest_target(columns: list[dict[str, Any]], *, rows: int) -> str | None:
    """The column that people most likely mean: by its name, else the last one with few classes."""

    def may_be(column: dict[str, Any]) -> bool:
        few = 2 <= column["unique"] <= max(2, min(50, rows // 2))
        return few and column["kind"] in {"category", "boolean", "number"}

    fitting = [column for column in columns if may_be(column)]
    by_name = {column["name"].lower(): column["name"] for column in fitting}
    for word in _TARGET_NAMES:
        if word in by_name:
            return str(by_name[word])
    classes = [column["name"] for column in fitting if column["kind"] != "number" or column["unique"] <= 10]
    return str(classes[-1]) if classes else None


def suggest_task(columns: list[dict[str, Any]], target: str | None, text: str | None) -> str | None:
    """Text classification when a text stands nearly alone beside the target, else tabular."""
    useful = [c for c in columns if c["kind"] in {"number", "category", "boolean", "datetime"} and c["name"] != target]
    if text and len(useful) <= 2:
        return "text_classification"
    return "tabular_classification" if useful else None


def _warnings(table: Table, columns: list[dict[str, Any]], target: str | None) -> list[str]:
    found = []
    for kind, words in (("constant", "always the same value"), ("empty", "no value at all")):
        names = [column["name"] for column in columns if column["kind"] == kind and column["name"] != target]
        if names:
            found.append(f"Not used, {words}: {', '.join(names[:10])}.")
    identifiers = [c["name"] for c in columns if c["kind"] == "identifier" and c["name"] != target]
    if identifiers:
        found.append(f"Not used, looks like an identifier of each row: {', '.join(identifiers[:10])}.")
    found += [
        f"“{c['name']}” is missing in {c['missing'] / table.rows:.0%} of the rows."
        for c in columns
        if c["kind"] != "empty" and c["name"] != target and c["missing"] > table.rows / 2
    ]
    found += [_decimal_commas(c) for c in columns if c["kind"] in {"category", "identifier"} and _has_comma(c, table)]
    return found + (_target_warnings(table, target) if target else [])


def _target_warnings(table: Table, target: str) -> list[str]:
    report, found = describe_target(table, target), []
    classes = report["classes"]
    if len(classes) > 1 and report["imbalance"] >= _IMBALANCE:
        most, least = classes[0], classes[-1]
        found.append(
            f"The classes are uneven: “{most[0]}” has {most[1]} rows, “{least[0]}” {least[1]} "
            f"(1 in {report['imbalance']:.0f}). Accuracy alone would flatter a model that never says “{least[0]}”."
        )
    few = [f"“{label}” ({count})" for label, count in classes if 1 < count < _FEW]
    if few and len(classes) <= 50:
        found.append(f"Classes with fewer than {_FEW} rows, hard to learn and to measure: {', '.join(few[:8])}.")
    distinct = repeated_entities(table, target)
    if distinct:
        found.append(
            f"The {table.rows} rows hold only {distinct} different inputs: probably several rows for the same "
            "person or thing. Equal inputs will be kept on one side of the split, so that the score is for unseen ones."
        )
    return found


def _has_comma(column: dict[str, Any], table: Table) -> bool:
    cells = [cell for cell in table.columns[column["name"]][:200] if cell.strip()]
    parts = [cell.strip().lstrip("+-").split(",") for cell in cells]
    return bool(parts) and all(len(part) <= 2 and all(p.isdigit() for p in part) for part in parts)


def _decimal_commas(column: dict[str, Any]) -> str:
    return (
        f"“{column['name']}” holds numbers with a decimal comma (“{column['example']}”); they are read as categories."
    )


def _preview(table: Table) -> list[list[str]]:
    return [
        [table.columns[name][row][:EXAMPLE_CHARS] for name in table.names]
        for row in range(min(_PREVIEW_ROWS, table.rows))
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Audit one data file.")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--target")
    parser.add_argument("--task", choices=["tabular_classification", "text_classification"])
    parser.add_argument("--plan", type=json.loads, help="specification of a run whose steps should be able to work")
    parser.add_argument("--limit-bytes", type=int, default=LIMIT_BYTES)
    given = parser.parse_args(arguments)
    try:
        table = read_table(given.file, name=given.name, limit_bytes=given.limit_bytes)
        job = job_of({"spec": given.plan}, Path()) if given.plan else None
        report = audit(table, target=given.target, task=given.task, job=job)
    except (BadData, BadSettings) as error:
        print(json.dumps({"error": str(error)}))
        return 65
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
