"""Predict with a finished model. This file is copied beside the model and runs without Trainyard.

`python predict.py rows.csv --out answers.csv` adds `prediction`, and of classes a `p_<class>` column each; instead of
rows it takes an image or a zip archive of images where the model answers for images.
`python predict.py --json rows.json` reads a list of objects (column to value) and prints a list of answers:
`{"kind": "label", "label": ..., "probabilities": [[label, p], ...]}` with the five most probable, or `{"kind":
"number", "value": ...}`. What cannot be used is said in one sentence on stderr and as `{"error": ...}` on stdout, exit
code 65.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from worker.recipes.common.annotations import FORM, IMAGE
from worker.recipes.common.images import opened, unpack
from worker.recipes.common.numerals import counted
from worker.recipes.common.table import BadData, Table, read_table, write_rows

BATCH_ROWS = 2_000
IMAGES = ".images.json"  # the ending of the file of small images beside the answers
_SHOWN, _PX, _LEAST_PX = 12, 480, 160  # images that are handed back small, and the longest side of these


def load_model(folder: Path) -> Any:
    """The model of an artifacts folder: `needs`, `added` and `answers(columns)`, which has `cells` and `said`.

    `takes` names columns that it looks at where they are there; `read(table)` makes its rows of a file's.
    """
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # where `model.py` finds what it imports
    for path in folder.glob("*.py"):  # of another model that this process has loaded
        if getattr(sys.modules.get(path.stem), "__file__", str(path)) != str(path):
            del sys.modules[path.stem]
    spec = importlib.util.spec_from_file_location(f"model_of_{folder.name}", folder / "model.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(folder / "model.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module.load(folder)


Going = Callable[[int, int], bool]  # told of the rows done and of all before each batch; whether to go on


def predict_file(model: Any, rows: Path, out: Path, *, going: Going | None = None, name: str = "") -> int:
    """Write the rows with the answers added; the number of rows. Raises: BadData.

    With `going` the model is asked batch by batch. `name` is what people call the file.
    """
    table = read_table(rows, name=name)
    if hasattr(model, "read"):
        table = model.read(table)
    called = name or rows.name
    _refuse_missing(model.needs, set(table.names), f"{called} has")
    taken = [name for name in model.added if name in table.columns]
    if taken:
        raise BadData(f"{called} already has a column {taken[0]}; rename it, so that nothing is overwritten.")
    taken = [name for name in getattr(model, "takes", ()) if name in table.columns]
    columns = {name: table.columns[name] for name in (*model.needs, *taken)}
    with tempfile.TemporaryDirectory() as unpacked:
        if table.form == FORM:
            columns[IMAGE] = unpack(rows, table.columns[IMAGE], Path(unpacked))
        if going and not hasattr(model, "read"):  # one that reads the file in a way of its own needs all of it
            cells = answers_of(model, columns, table.rows, going)
            write_rows(out, [*table.names, *model.added], _answered(table, cells))
            return table.rows
        answers = model.answers(columns)
        write_rows(out, [*table.names, *model.added], _answered(table, answers.cells()))
        if table.form == FORM and takes_images(model):
            shown = list(zip(table.columns[IMAGE], columns[IMAGE], strict=True))[:_SHOWN]
            small = [_small(image, Path(path)) for image, path in shown]
            out.with_suffix(IMAGES).write_text(json.dumps(small), encoding="utf-8")
    return table.rows


def _small(name: str, path: Path) -> dict[str, Any]:
    """An image for who shows the answers: its name, its own size, and a JPEG of it as base64."""
    from PIL import Image

    image, out = opened(path), io.BytesIO()
    longest = max(image.size)
    scale = min(1.0, _PX / longest) if longest >= _LEAST_PX else _LEAST_PX / longest
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    kind = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BILINEAR
    image.resize(size, kind).save(out, "JPEG", quality=85)
    return {"name": name, "size": list(image.size), "image": base64.b64encode(out.getvalue()).decode()}


def answers_of(model: Any, columns: dict[str, list[str]], rows: int, going: Going) -> Iterator[list[str]]:
    """The cells of each answer; the model is asked batch by batch."""
    for start in range(0, rows, BATCH_ROWS):
        if not going(start, rows):
            return
        yield from model.answers({name: cells[start : start + BATCH_ROWS] for name, cells in columns.items()}).cells()
    going(rows, rows)


def predict_rows(model: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One answer per row, in order; a row of a model for images holds one, as base64. Raises: BadData."""
    for number, row in enumerate(rows, start=1):
        _refuse_missing(model.needs, set(row), f"Row {number} has")
    if not rows:
        return []
    taken = [name for name in getattr(model, "takes", ()) if all(name in row for row in rows)]
    columns = {name: ["" if row[name] is None else str(row[name]) for row in rows] for name in (*model.needs, *taken)}
    with tempfile.TemporaryDirectory() as folder:
        if takes_images(model):
            columns[IMAGE] = [
                _image_file(cell, Path(folder) / f"row {at}") for at, cell in enumerate(columns[IMAGE], 1)
            ]
        answers: list[dict[str, Any]] = model.answers(columns).said()
    return answers


def takes_images(model: Any) -> bool:
    """Whether a model answers for images, whose cells are paths of files."""
    return list(model.needs) == [IMAGE]


def _image_file(cell: str, path: Path) -> str:
    """The image of a row as a file. Raises: BadData for all but base64, so that no path of this machine is read."""
    try:
        path.write_bytes(base64.b64decode(cell.partition("base64,")[2] or cell, validate=True))
    except ValueError as error:
        raise BadData(
            f"The image of {path.name} is not base64. Send the picture's bytes as base64, not a path or an address."
        ) from error
    return str(path)


def _refuse_missing(needs: list[str], given: set[str], whose: str) -> None:
    missing = [name for name in needs if name not in given]
    if missing:
        raise BadData(
            f"{whose} no column {', '.join(f'“{name}”' for name in missing)}. The model needs: {', '.join(needs)}."
        )


def _answered(table: Table, answers: Iterator[list[str]]) -> Iterator[list[str]]:
    for row, added in enumerate(answers):
        yield [*(table.columns[name][row] for name in table.names), *added]


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
            print(json.dumps(predict_rows(load_model(folder), _rows_of(given.json)), ensure_ascii=False))
        elif given.file:
            rows = predict_file(load_model(folder), given.file, given.out)
            print(f"{counted(rows, 'row', 'rows')} -> {given.out}", file=sys.stderr)
        else:
            parser.error("name a CSV file, or --json rows.json")
    except (BadData, FileNotFoundError) as error:
        print(json.dumps({"error": str(error)}, ensure_ascii=False))
        print(str(error), file=sys.stderr)
        return 65
    return 0


if __name__ == "__main__":
    sys.exit(main())
