"""Measures boxes against the sealed ones: mAP over overlaps from 0.5 to 0.95 decides, mAP50 stands beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.boxes.answers import sure
from worker.recipes.boxes.measuring import Matched, mean
from worker.recipes.common.job import Job
from worker.recipes.common.scoring import MODEL, Decisive, candidates, named, publish, rounded, short, write_results
from worker.recipes.common.sealing import sealed_groups
from worker.recipes.common.table import BadData, Table
from worker.recipes.images.laying import SIZES
from worker.recipes.images.samples import grid

_METRIC = "map"
_MOST_LABELS, _MOST_BOXES = 20, 12
Known = list[list[dict[str, Any]]]


def score(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Measure and write. `sealed=False` says in the card that the boxes lay open to the training. Raises: BadData."""
    truth, tables = candidates(job, sealed_dir)
    row_ids, wanted = list(truth), [json.loads(cell) for cell in truth.values()]
    said = {name: _boxes(name, table, row_ids) for name, table in tables.items()}
    matched = {name: Matched(wanted, boxes) for name, boxes in said.items()}
    scores = {name: one.scores() for name, one in matched.items()}
    each = {name: one.by_label() for name, one in matched.items()}

    def score_of(name: str, at: NDArray[np.int64]) -> float:
        return mean(matched[name].by_label(at))

    beaten = publish(
        job, scores, Decisive(_METRIC, len(wanted), score_of, groups=sealed_groups(sealed_dir, row_ids)), sealed=sealed
    )
    labels = matched[MODEL].labels

    def facts() -> dict[str, Any]:
        counts = [sum(box["label"] == label for boxes in wanted for box in boxes) for label in labels]
        order = np.argsort(-np.array(counts), kind="stable")[:_MOST_LABELS]
        groups = [
            {"name": shown, "values": [rounded(mean(each[name][at])) for at in order]}
            for name, shown in ((MODEL, "this model"), (beaten, named(beaten)))
        ]
        names = [f"{short(labels[at], 40)} ({counts[at]:,})" for at in order]
        bars = {"kind": "bars", "title": "average precision of each label (boxes)", "names": names, "groups": groups,
                "most": 1.0, "left_out": len(labels) - len(order)}  # fmt: skip
        samples = _samples(sealed_dir, row_ids, wanted, said[MODEL])
        found = scores[MODEL]
        return {
            "kind": "pictured",
            "rows": len(wanted),
            "beaten": named(beaten),
            "words": f"mAP {found['map']:.3f}, and {found['map50']:.3f} where half of a box has to overlap.",
            "pictures": [{"view": "classes", "picture": bars}]
            + ([{"view": "boxes", "picture": samples}] if samples else []),
        }

    write_results(job, facts)


def _boxes(name: str, table: Table, row_ids: Sequence[str]) -> Known:
    """The boxes in the order of `row_ids`. Raises: BadData."""
    cells = dict(zip(table.columns["row_id"], table.columns["label"], strict=True))
    found = []
    for row_id in row_ids:
        boxes: list[dict[str, Any]] = []
        try:
            boxes = json.loads(cells[row_id])
            fitting = all(map(_is_box, boxes))
        except (KeyError, TypeError, ValueError):
            fitting = False
        if not fitting:
            raise BadData(
                f"predictions/{name}.csv, row_id {row_id}: there must be a list of boxes with label, box and score."
            )
        found.append(boxes)
    return found


def _is_box(box: dict[str, Any]) -> bool:
    numbers = [*map(float, box["box"]), float(box["score"])]
    return len(numbers) == 5 and all(map(math.isfinite, numbers)) and isinstance(box["label"], str)


def _samples(sealed_dir: Path, row_ids: Sequence[str], wanted: Known, said: Known) -> dict[str, Any] | None:
    """The first images with what is there and what was found, in parts of the image."""
    shown = [(row_id, f"row {row_id}", None) for row_id in row_ids[:8]]
    picture = grid(sealed_dir, "boxes on sealed images", shown)
    if picture is None or len(picture["tiles"]) != len(shown):
        return None
    sizes = json.loads((sealed_dir / SIZES).read_text(encoding="utf-8"))
    for at, tile in enumerate(picture["tiles"]):
        size = sizes[int(row_ids[at])]
        found = sure(said[at])
        tile["boxes"] = [_drawn(box, size, truth=True) for box in wanted[at][:_MOST_BOXES]]
        tile["boxes"] += [_drawn(box, size, truth=False) for box in found[:_MOST_BOXES]]
        tile["caption"] = f"{len(found)} found, {len(wanted[at])} there"
    return picture


def _drawn(box: dict[str, Any], size: tuple[int, int], *, truth: bool) -> dict[str, Any]:
    left, top, width, height = box["box"]
    sides = {"left": left / size[0], "top": top / size[1], "right": (left + width) / size[0],
             "bottom": (top + height) / size[1]}  # fmt: skip
    name, score_ = short(box["label"], 40), None if truth else rounded(box["score"])
    return {side: rounded(value) for side, value in sides.items()} | {"name": name, "truth": truth, "score": score_}
