"""Predict with a finished model. This file is copied beside the model and runs without Trainyard.

`python predict.py rows.csv --out answers.csv` adds `prediction` and a `p_<class>` column per class.
`python predict.py --json rows.json` reads a list of objects (column to value) and prints a list of
`{"label": ..., "probabilities": [[label, p], ...]}`, the five most probable. What cannot be used is said in one
sentence on stderr and as `{"error": ...}` on stdout, exit code 65.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from worker.recipes.table import BadData, Table, read_table, write_rows

_TOP = 5


def load_model(folder: Path) -> Any:
    """The model of an artifacts folder: `needs`, `classes` and `shares(columns) -> (n_rows, n_classes)`."""
    kind = json.loads((folder / "model.json").read_text(encoding="utf-8"))["module"]
    package = __name__.rpartition(".")[0]
    return importlib.import_module(f"{package}.{kind}" if package else kind).load(folder)


def predict_file(folder: Path, rows: Path, out: Path) -> int:
    """Write the rows with the answers added; the number of rows. Raises: BadData."""
    model = load_model(folder)
    table = read_table(rows)
    _refuse_missing(model.needs, set(table.names), f"{rows.name} has")
    added = ["prediction", *(f"p_{label}" for label in model.classes)]
    taken = [name for name in added if name in table.columns]
    if taken:
        raise BadData(f"{rows.name} already has a column {taken[0]}; rename it, so that nothing is overwritten.")
    shares = model.shares({name: table.columns[name] for name in model.needs})
    write_rows(out, [*table.names, *added], _answered(table, model.classes, shares))
    return table.rows


def predict_rows(folder: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One answer per row, in order. Raises: BadData."""
    model = load_model(folder)
    for number, row in enumerate(rows, start=1):
        _refuse_missing(model.needs, set(row), f"Row {number} has")
    if not rows:
        return []
    columns = {name: ["" if row[name] is None else str(row[name]) for row in rows] for name in model.needs}
    answers = []
    for share in model.shares(columns):
        ranked = sorted(zip(model.classes, share.tolist(), strict=True), key=lambda pair: -pair[1])
        answers.append({"label": ranked[0][0], "probabilities": [[label, round(p, 8)] for label, p in ranked[:_TOP]]})
    return answers


def _refuse_missing(needs: list[str], given: set[str], whose: str) -> None:
    missing = [name for name in needs if name not in given]
    if missing:
        raise BadData(
            f"{whose} no column {', '.join(f'“{name}”' for name in missing)}. The model needs: {', '.join(needs)}."
        )


def _answered(table: Table, classes: list[str], shares: Any) -> Iterator[list[str]]:
    for row, share in enumerate(shares):
        cells = [table.columns[name][row] for name in table.names]
        yield [*cells, classes[int(share.argmax())], *(f"{part:.8f}" for part in share)]


def _rows_of(path: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadData(f"{path.name} is not JSON: {error}.") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadData(f'{path.name} must hold a list of objects, one per row: [{{"column": "value"}}, …].')
    return rows


def main(arguments: list[str] | None = None, folder: Path | None = None) -> int:
    parser = argparse.ArgumentParser(description="Predict with the model in this folder.")
    parser.add_argument("file", type=Path, nargs="?", help="a CSV file")
    parser.add_argument("--out", type=Path, default=Path("predictions.csv"))
    parser.add_argument("--json", type=Path, help="a JSON file with a list of rows; answers go to stdout")
    given = parser.parse_args(arguments)
    folder = folder or Path(__file__).resolve().parent
    try:
        if given.json:
            print(json.dumps(predict_rows(folder, _rows_of(given.json)), ensure_ascii=False))
        elif given.file:
            print(f"{predict_file(folder, given.file, given.out)} rows -> {given.out}", file=sys.stderr)
        else:
            parser.error("name a CSV file, or --json rows.json")
    except (BadData, FileNotFoundError) as error:
        print(json.dumps({"error": str(error)}, ensure_ascii=False))
        print(str(error), file=sys.stderr)
        return 65
    return 0


if __name__ == "__main__":
    sys.exit(main())
