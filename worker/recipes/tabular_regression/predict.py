"""The finished model: cells in, quantities out. Needs numpy and the model's library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.common.estimators import loading
from worker.recipes.numbers.answers import ADDED, Numbers
from worker.recipes.tabular.encoding import encode, load_estimator


class Model:
    """`needs` are the columns that it reads, `added` those that its answers make."""

    added = ADDED

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.features: list[dict[str, Any]] = description["features"]
        self.needs: list[str] = [feature["column"] for feature in self.features]
        self._estimator = load_estimator(folder, description)

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Numbers:
        """An answer for each row."""
        return Numbers(np.asarray(self._estimator.predict(encode(columns, self.features)), dtype=np.float64))


load = loading(Model)
