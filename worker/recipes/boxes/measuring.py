"""mAP as COCO measures it (pycocotools): over overlaps from 0.5 to 0.95, over all labels, at most 100 boxes an image.

Images are matched once; how sure a score is follows from drawing matched images.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Boxes = Sequence[Mapping[str, Any]]  # of an image: label, box (left, top, width, height) and, where found, score
_MOST = 100


class Matched:
    """What was found on images, matched with what is there."""

    def __init__(self, truth: Sequence[Boxes], found: Sequence[Boxes]) -> None:
        from pycocotools.cocoeval import COCOeval

        self.labels = sorted({box["label"] for boxes in truth for box in boxes})
        with contextlib.redirect_stdout(io.StringIO()):
            self._eval = COCOeval(_coco(truth, self.labels), _coco(found, self.labels), "bbox")
            params = self._eval.params
            params.areaRng, params.areaRngLbl, params.maxDets = [[0, 1e10]], ["all"], [_MOST]
            self._eval.evaluate()
        self._images = np.array(self._eval.evalImgs, dtype=object).reshape(len(self.labels), len(truth))

    def by_label(self, at: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Average precision of each label at each overlap (n_labels, 10); NaN where these images have none of it."""
        images = self._images if at is None else self._images[:, at]
        self._eval.evalImgs = list(images.reshape(-1))
        for params in (self._eval.params, self._eval._paramsEval):  # noqa: SLF001 - it has no other way to draw images
            params.imgIds = list(range(images.shape[1]))
        with contextlib.redirect_stdout(io.StringIO()):
            self._eval.accumulate()
        precision = self._eval.eval["precision"][..., 0, 0]  # (10, 101, n_labels)
        return np.where(precision[0, 0] < 0, np.nan, precision.mean(axis=1)).T

    def scores(self) -> dict[str, float]:
        """The mean over labels, over all overlaps and at 0.5."""
        found = self.by_label()
        return {"map": mean(found), "map50": mean(found[:, :1])}


def mean(values: NDArray[np.float64]) -> float:
    """The mean of what is there, 0 where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else 0.0


def _coco(images: Sequence[Boxes], labels: Sequence[str]) -> Any:
    """An in-memory COCO data set; boxes of labels that are nowhere there cannot be right and are left out."""
    from pycocotools.coco import COCO

    place = {label: at for at, label in enumerate(labels)}
    notes = [
        {"image_id": at, "category_id": place[box["label"]], "bbox": list(box["box"]), "iscrowd": 0,
         "area": box["box"][2] * box["box"][3], "score": box.get("score", 1.0)}
        for at, boxes in enumerate(images) for box in boxes if box["label"] in place
    ]  # fmt: skip
    coco = COCO()
    coco.dataset = {
        "images": [{"id": at} for at in range(len(images))],
        "categories": [{"id": at, "name": label} for at, label in enumerate(labels)],
        "annotations": [note | {"id": at} for at, note in enumerate(notes, start=1)],
    }
    coco.createIndex()
    return coco
