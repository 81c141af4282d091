"""Boxes of images out of a table: a JSON list an image (as COCO annotations become), or a row a box with its sides."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from worker.recipes.common.annotations import BOXES, FORM, IMAGE
from worker.recipes.common.columns import FEWEST_ROWS
from worker.recipes.common.table import BadData, Table, number

Box = dict[str, Any]  # label and box: [left, top, width, height], in pixels
_SIDES = (
    (("xmin", "ymin", "xmax", "ymax"), True), (("x_min", "y_min", "x_max", "y_max"), True),
    (("x1", "y1", "x2", "y2"), True), (("left", "top", "right", "bottom"), True),
    (("x", "y", "width", "height"), False), (("x", "y", "w", "h"), False), (("left", "top", "width", "height"), False),
)  # fmt: skip
_LISTED = ("bbox", "box", "bounding_box")  # left, top, width and height in one column
_FOUR = re.compile(r"\s*[\[(]\s*[-\d.e]+(?:[,;\s]+[-\d.e]+){3}\s*[\])]\s*")
_LABELS = ("label", "class", "category", "name", "object", "class_name")
_MOST_LABELS = 200


def finds(table: Table) -> str | None:
    """The column that holds boxes, or the label of the box of each row; None where there are no boxes."""
    if table.form != FORM or IMAGE not in table.columns:
        return None
    if BOXES in table.columns:
        return BOXES
    return _label_column(table) if _sides(table) else None


def by_image(table: Table, target: str, *, keep: str = "") -> Table:
    """A row an image, with its boxes as JSON, and with what `keep` holds of it. Raises: BadData naming the line."""
    if table.form != FORM or IMAGE not in table.columns:
        raise BadData("There are no images in this file. Send a zip of images with COCO annotations or a csv of boxes.")
    if target == BOXES:
        return table
    sides = _sides(table)
    if sides is None:
        raise BadData(
            "No columns say where the boxes are. Name them xmin, ymin, xmax and ymax, or x, y, width and height, in "
            "pixels; or send COCO annotations."
        )
    (names, corners), found = sides, dict[str, list[Box]]()
    for row, line in enumerate(table.lines):
        cells = _cells(table, names, row)
        boxes = found.setdefault(table.columns[IMAGE][row], [])
        if not any(cell.strip() for cell in cells):
            continue  # an image without a box
        values = [value for cell in cells if (value := number(cell)) is not None]
        if len(values) < 4:
            raise BadData(f"Line {line}: {', '.join(names)} must be four numbers, not {', '.join(cells)}.")
        left, top, right, bottom = values
        width, height = (right - left, bottom - top) if corners else (right, bottom)
        if width <= 0 or height <= 0:
            raise BadData(f"Line {line}: the box {', '.join(cells)} has no size.")
        label = table.columns[target][row].strip()
        if not label:
            raise BadData(f"Line {line}: “{target}” is empty. Each box needs its label.")
        boxes.append({"label": label, "box": [left, top, width, height]})
    columns = {IMAGE: list(found), BOXES: [json.dumps(boxes, ensure_ascii=False) for boxes in found.values()]}
    if keep:
        kept = dict(zip(table.columns[IMAGE], table.columns[keep], strict=True))
        columns[keep] = [kept[image] for image in found]
    return replace(table, names=list(columns), columns=columns, lines=list(range(1, len(found) + 1)))


def side_columns(table: Table) -> list[str]:
    """The columns that say where the box of a row is; none in a table with a row an image."""
    sides = _sides(table)
    return list(sides[0]) if sides else []


def labels_of(table: Table) -> Counter[str]:
    """How many boxes there are of each label, in a table with a row an image."""
    return Counter(box["label"] for cell in table.columns[BOXES] for box in json.loads(cell))


def problems(table: Table) -> list[str]:
    """Sentences that stop a training, of a table with a row an image."""
    labels = labels_of(table)
    if table.rows < FEWEST_ROWS:
        return [f"There are only {table.rows} images; at least {FEWEST_ROWS} are needed to train and to measure."]
    if not labels:
        return ["No image has a box; there is nothing to find."]
    if len(labels) > _MOST_LABELS:
        return [f"There are {len(labels)} different labels; at most {_MOST_LABELS} are possible."]
    return []


def strata(table: Table) -> list[str]:
    """The rarest label of each image, so that each label stands on both sides of a split."""
    counts = labels_of(table)
    each = [{box["label"] for box in json.loads(cell)} for cell in table.columns[BOXES]]
    return [min(labels, key=lambda label: (counts[label], label), default="") for labels in each]


def _sides(table: Table) -> tuple[Sequence[str], bool] | None:
    """The columns of a box's sides, and whether the last two are a corner."""
    known = {name.lower(): name for name in table.names}
    listed = next((known[name] for name in _LISTED if name in known and _is_list(table.columns[known[name]])), None)
    if listed:
        return [listed], False
    for names, corners in _SIDES:
        if set(names) <= set(known):
            return [known[name] for name in names], corners
    return None


def _is_list(cells: Sequence[str]) -> bool:
    """Whether the first cell that holds something is four numbers in brackets."""
    return _FOUR.fullmatch(next((cell for cell in cells if cell.strip()), "")) is not None


def _cells(table: Table, names: Sequence[str], row: int) -> list[str]:
    """The sides of the box of a row, which may stand in one column."""
    if len(names) > 1:
        return [table.columns[name][row] for name in names]
    return re.split(r"[,;\s]+", table.columns[names[0]][row].strip().strip("[]()").strip())


def _label_column(table: Table) -> str | None:
    known = {name.lower(): name for name in table.names}
    return next((known[name] for name in _LABELS if name in known), None)
