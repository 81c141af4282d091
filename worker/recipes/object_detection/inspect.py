"""What this recipe says of images with boxes before it is trained on them."""

from __future__ import annotations

from typing import Any

from worker.recipes.boxes import network
from worker.recipes.boxes.reading import by_image, finds, labels_of, side_columns
from worker.recipes.boxes.reading import problems as problems_of
from worker.recipes.common.job import Job
from worker.recipes.common.numerals import counted
from worker.recipes.common.table import BadData, Table
from worker.recipes.images.laying import leaks

__all__ = ["READS_TEXT", "describe", "effort", "fits", "leaks", "problems", "reads", "suggest_target", "warnings"]
READS_TEXT = False
WHOLE = True  # rows belong together, so none is left out
_RARE = 10


def suggest_target(table: Table, *, asked: bool) -> str | None:  # noqa: ARG001 - boxes are known by themselves
    """The column of boxes, or that of the labels of boxes."""
    return finds(table)


def fits(table: Table, _columns: list[dict[str, Any]], target: str) -> float:
    """Images with boxes; then it suits better than any other recipe."""
    return 4.0 * float(finds(table) == target)


def reads(table: Table, _target: str) -> list[str]:
    """The columns that say where the boxes are."""
    return side_columns(table)


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a training on this target."""
    try:
        return problems_of(by_image(table, target))
    except BadData as error:
        return [str(error)]


def describe(table: Table, target: str) -> dict[str, Any]:
    """The fields of a TargetReport."""
    images = _images(table, target)
    if images is None:
        return {"column": target, "classes": [], "missing": 0, "about": "no boxes"}
    labels = labels_of(images)
    some = ", ".join(f"{count:,} × {label}" for label, count in labels.most_common(5))
    more = f" and {counted(len(labels) - 5, 'more label', 'more labels')}" if len(labels) > 5 else ""
    about = f"{labels.total():,} boxes on {images.rows:,} images: {some}{more}"
    return {"column": target, "classes": [], "missing": 0, "about": about}


def warnings(table: Table, target: str) -> list[str]:
    """What people should read before they train on this target."""
    images = _images(table, target)
    if images is None:
        return []
    rare = [f"“{label}” ({count})" for label, count in labels_of(images).most_common()[::-1] if count < _RARE]
    empty = sum(cell == "[]" for cell in images.columns["boxes"])
    found = [f"Labels with fewer than {_RARE} boxes, hard to learn and to measure: {', '.join(rare[:8])}."]
    return (found if rare else []) + ([f"{counted(empty, 'image has', 'images have')} no box."] if empty else [])


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    settings = network.network_settings(job.settings)
    rows = by_image(table, job.target).rows
    return network.work(settings, rows) / network.work(network.network_settings({}), rows)


def _images(table: Table, target: str) -> Table | None:
    try:
        return by_image(table, target)
    except BadData:
        return None
