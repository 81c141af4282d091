"""The finished model: texts in, class probabilities out.

Needs skops and scikit-learn for a linear model, torch and transformers for an encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worker.recipes.classes.answers import Labels, added, class_shares
from worker.recipes.common.estimators import loading
from worker.recipes.texts.encoding import load_estimator


class Model:
    """`needs` is the text column, `added` the columns that its answers make."""

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.classes: list[str] = description["classes"]
        self.needs: list[str] = [description["text_column"]]
        self.added = added(self.classes)
        self._estimator = load_estimator(folder, description)

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Labels:
        """An answer for each row."""
        return Labels(self.classes, class_shares(self._estimator, list(columns[self.needs[0]])))


load = loading(Model)
