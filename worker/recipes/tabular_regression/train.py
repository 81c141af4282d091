"""Trains a model of a quantity on a table: mean and ridge regression first, then LightGBM, and keeps what is best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from worker.recipes.common.job import Job
from worker.recipes.numbers.scores import METRIC, measure
from worker.recipes.numbers.target import strata
from worker.recipes.tabular.encoding import Feature
from worker.recipes.tabular.importance import linear_weights
from worker.recipes.tabular.linear import fit_ridge
from worker.recipes.tabular.study import Places, Rows
from worker.recipes.tabular.training import train_table


class Quantity:
    """A column of numbers as a problem. Answers are values (n_rows,)."""

    metric = METRIC
    lower = True
    naive = "mean"
    linear = "ridge regression"
    modules = ("numbers.answers", "tabular.encoding")

    weights = None
    notes = ()

    def __init__(self, _: Job, values: Sequence[str], __: Mapping[str, Any]) -> None:
        self.wanted: NDArray[np.float64] = np.array([float(value) for value in values])
        self.strata = strata(list(values))
        self.description = {"answer": "number"}
        low, high = self.wanted.min(), self.wanted.max()
        self.limits = [f"It learned from values between {low:g} and {high:g}; beyond them it does not know better."]

    def objective(self) -> Mapping[str, Any]:
        return {"objective": "regression", "metric": ["rmse"]}

    def fit_linear(self, rows: Rows, wanted: NDArray[Any], features: list[Feature]) -> Any:
        return fit_ridge(rows, wanted, features)

    def naive_answers(self, fit: Places, count: int) -> Rows:
        return np.full(count, self.wanted[fit].mean())

    def answers(self, estimator: Any, rows: Rows) -> Rows:
        return np.asarray(estimator.predict(rows), dtype=np.float64)

    def score(self, answers: Rows, at: Places) -> dict[str, float]:
        return measure(self.wanted[at], answers)

    def leans(self, pipeline: Any, features: list[Feature], rows: Rows) -> dict[str, Any]:
        return linear_weights(pipeline, features, rows)

    def prediction_rows(self, row_ids: Sequence[str], answers: Rows) -> tuple[list[str], Iterator[Sequence[object]]]:
        rows = ([row_id, f"{value:.8g}"] for row_id, value in zip(row_ids, answers, strict=True))
        return ["row_id", "label"], rows


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings."""
    train_table(job, runtime, Quantity)
