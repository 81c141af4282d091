"""The finished model: images in, class probabilities out.

Needs Pillow, and torch and transformers for a network, skops and scikit-learn for a linear model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.classes.answers import Labels, added
from worker.recipes.common.estimators import loading
from worker.recipes.images.encoding import grey, load_linear, load_network, softmax


class Model:
    """`needs` is the column of images, `added` the columns that its answers make."""

    needs: Sequence[str] = ["image"]

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.classes: list[str] = description["classes"]
        self.added = added(self.classes)
        self._by_network = description["kind"] == "network"
        self._model: Any = (load_network if self._by_network else load_linear)(folder, description)

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Labels:
        """An answer for each image; the cells are paths."""
        paths = list(columns["image"])
        if self._by_network:
            return Labels(self.classes, softmax(self._model.outputs(paths)))
        return Labels(self.classes, np.asarray(self._model.predict_proba(grey(paths)), dtype=np.float64))


load = loading(Model)
