"""The finished detector: images in, boxes out. Needs Pillow, torch and, for a transformer, transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worker.recipes.boxes.answers import ADDED, Boxed
from worker.recipes.boxes.detecting import load_detector, mean_boxes, size_of
from worker.recipes.common.estimators import loading


class Model:
    """`needs` is the column of images, `added` the column of boxes."""

    needs: Sequence[str] = ["image"]
    added: Sequence[str] = ADDED

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self._mean = description.get("mean_boxes")
        self._detector = None if self._mean else load_detector(folder, description)

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Boxed:
        """The boxes on each image; the cells are paths."""
        paths = list(columns["image"])
        if self._detector is None:
            return Boxed([mean_boxes(self._mean or [], size_of(path)) for path in paths])
        return Boxed(self._detector.boxes(paths))


load = loading(Model)
