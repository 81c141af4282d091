"""The finished model: cells in, class probabilities out. Needs numpy and the model's library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worker.recipes.classes.answers import Labels, added, class_shares
from worker.recipes.common.estimators import loading
from worker.recipes.tabular.encoding import encode, load_estimator


class Model:
    """`needs` are the columns that it reads, `added` those that its answers make."""

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.features: list[dict[str, Any]] = description["features"]
        self.classes: list[str] = description["classes"]
        self.needs: list[str] = [feature["column"] for feature in self.features]
        self.added = added(self.classes)
        self._estimator = load_estimator(folder, description)

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Labels:
        """An answer for each row."""
        return Labels(self.classes, class_shares(self._estimator, encode(columns, self.features)))


load = loading(Model)
