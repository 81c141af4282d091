"""Trains a model of a quantity in images: mean and ridge regression on grey pixels first, then a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from worker.recipes.common.annotations import IMAGE
from worker.recipes.common.job import Job
from worker.recipes.image_regression.predict import load
from worker.recipes.images.training import Answers, Places, train_images
from worker.recipes.numbers.scores import METRIC, measure
from worker.recipes.numbers.target import strata


class Quantity:
    """A column of numbers as a problem. Answers are values (n_images,)."""

    metric = METRIC
    lower = True
    naive = "mean"
    linear = "ridge regression on pixels"
    modules = ("numbers.answers", "images.encoding")

    weights = None
    notes = ()

    def __init__(self, values: Sequence[str], _: Mapping[str, Any]) -> None:
        self._values = np.array([float(value) for value in values])
        self._mean, self._spread = float(self._values.mean()), float(self._values.std()) or 1.0
        self.outputs = ["value"]
        self.wanted: NDArray[np.float32] = ((self._values - self._mean) / self._spread).astype(np.float32)
        self.strata = strata(list(values))
        self.description = {"answer": "number", "value_mean": self._mean, "value_spread": self._spread}
        low, high = self._values.min(), self._values.max()
        self.limits = [f"It learned from values between {low:g} and {high:g}; beyond them it does not know better."]

    def fit_linear(self, rows: Answers, at: Places, *, seed: int) -> Any:
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), Ridge(alpha=30.0, random_state=seed)).fit(rows, self._values[at])

    def naive_answers(self, fit: Places, count: int) -> Answers:
        return np.full(count, self._values[fit].mean())

    def of_logits(self, logits: Answers) -> Answers:
        return np.asarray(logits[:, 0] * self._spread + self._mean)

    def of_linear(self, pipeline: Any, rows: Answers) -> Answers:
        return np.asarray(pipeline.predict(rows), dtype=np.float64)

    def score(self, answers: Answers, at: Places) -> dict[str, float]:
        return measure(self._values[at], answers)

    def prediction_rows(self, row_ids: Sequence[str], answers: Answers) -> tuple[list[str], Iterator[Sequence[object]]]:
        rows = ([row_id, f"{value:.8g}"] for row_id, value in zip(row_ids, answers, strict=True))
        return ["row_id", "label"], rows


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged."""

    def said(folder: Path, paths: list[str]) -> Answers:
        return load(folder).answers({IMAGE: paths}).values

    train_images(job, runtime, Quantity, said, {})
