"""The answers of a detector. Copied beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

ADDED = ["prediction"]
_SURE = 0.3  # of a score, from which a box is said
_SAME = 0.6  # of an overlap, from which two boxes are at one place


def sure(boxes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The boxes that are sure enough to be said; of those at one place the surest, whatever their labels."""
    kept: list[dict[str, Any]] = []
    for box in sorted(boxes, key=lambda box: -box["score"]):
        if box["score"] >= _SURE and all(_overlap(box["box"], other["box"]) < _SAME for other in kept):
            kept.append(box)
    return kept


def _overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union."""
    wide = min(one[0] + one[2], other[0] + other[2]) - max(one[0], other[0])
    high = min(one[1] + one[3], other[1] + other[3]) - max(one[1], other[1])
    both = max(0.0, wide) * max(0.0, high)
    return both / (one[2] * one[3] + other[2] * other[3] - both)


@dataclass(frozen=True)
class Boxed:
    """Boxes of each image: label, box (left, top, width, height in pixels) and score, the surest first."""

    boxes: Sequence[Sequence[dict[str, Any]]]

    def cells(self) -> Iterator[list[str]]:
        """What each row gets in the columns of `ADDED`: the boxes that are sure enough, as JSON."""
        for boxes in self.boxes:
            yield [json.dumps(sure(boxes), ensure_ascii=False)]

    def said(self) -> list[dict[str, Any]]:
        """One answer an image."""
        return [{"kind": "boxes", "boxes": [_said(box) for box in json.loads(cell)]} for (cell,) in self.cells()]


def _said(box: dict[str, Any]) -> dict[str, Any]:
    left, top, width, height = box["box"]
    return {"label": box["label"], "left": left, "top": top, "width": width, "height": height, "score": box["score"]}
