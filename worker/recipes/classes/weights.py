"""How much each class counts in a training: as often as it is there, or each as much as every other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.job import Setting

BALANCED = "balanced"
SETTINGS = {"class_weight": Setting("none", also=("class_weights",), choices=("none", BALANCED))}


def class_weights(settings: Mapping[str, Any], codes: NDArray[np.int64], classes: int) -> NDArray[np.float64] | None:
    """The weight of a row of each class, 1 in the mean over the rows; None where all rows count alike.

    Source: "balanced" as scikit-learn has it. A class without rows gets 0.
    """
    if settings["class_weight"] != BALANCED:
        return None
    counts = np.bincount(codes, minlength=classes)
    return np.where(counts > 0, len(codes) / (np.count_nonzero(counts) * np.maximum(counts, 1)), 0.0)


def weight_notes(weights: NDArray[np.float64] | None, classes: Sequence[str]) -> tuple[str, ...]:
    """What the result card says of weights."""
    if weights is None:
        return ()
    rare, frequent = int(weights.argmax()), int(np.where(weights > 0, weights, np.inf).argmin())
    times = weights[rare] / weights[frequent]
    return (
        f"Each class counted as much as every other (class_weight=balanced): an example of “{classes[rare][:40]}” "
        f"{times:.1f} times as much as one of “{classes[frequent][:40]}”.",
    )
