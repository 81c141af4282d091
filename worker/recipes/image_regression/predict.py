"""The finished model: images in, a quantity out.

Needs Pillow, and torch and transformers for a network, skops and scikit-learn for a linear model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.common.estimators import loading
from worker.recipes.images.encoding import grey, load_linear, load_network
from worker.recipes.numbers.answers import ADDED, Numbers


class Model:
    """`needs` is the column of images, `added` the column that its answers make."""

    needs: Sequence[str] = ["image"]
    added = ADDED

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self._mean, self._spread = description["value_mean"], description["value_spread"]
        self._by_network = description["kind"] == "network"
        self._model: Any = (load_network if self._by_network else load_linear)(folder, description)

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Numbers:
        """An answer for each image; the cells are paths."""
        paths = list(columns["image"])
        if self._by_network:
            return Numbers(self._model.outputs(paths)[:, 0] * self._spread + self._mean)
        return Numbers(np.asarray(self._model.predict(grey(paths)), dtype=np.float64))


load = loading(Model)
