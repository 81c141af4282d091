"""Trains a classifier on a table: majority and logistic regression first, then LightGBM, and keeps what is best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from worker.recipes.classes.answers import class_shares
from worker.recipes.classes.predictions import limits_of, majority_shares, share_rows
from worker.recipes.classes.scores import decisive_metric, measure
from worker.recipes.classes.weights import SETTINGS, class_weights, weight_notes
from worker.recipes.common.job import Job
from worker.recipes.tabular.encoding import Feature
from worker.recipes.tabular.importance import linear_weights
from worker.recipes.tabular.linear import fit_logistic
from worker.recipes.tabular.study import Places, Rows
from worker.recipes.tabular.training import train_table


class Classes:
    """A column of classes as a problem. Answers are probabilities (n_rows, n_classes)."""

    lower = False
    naive = "majority"
    linear = "logistic regression"
    modules = ("classes.answers", "tabular.encoding")

    def __init__(self, job: Job, labels: Sequence[str], settings: Mapping[str, Any]) -> None:
        self.strata, self._seed = labels, job.seed
        self.classes = sorted(set(labels))
        self.wanted: NDArray[np.int64] = np.searchsorted(self.classes, labels)
        self.metric = decisive_metric(len(self.classes))
        self.description = {"answer": "label", "classes": self.classes}
        self.limits = limits_of(self.classes)
        by_class = class_weights(settings, self.wanted, len(self.classes))
        self.weights = None if by_class is None else by_class[self.wanted]
        self.notes = weight_notes(by_class, self.classes)

    def objective(self) -> Mapping[str, Any]:
        if len(self.classes) == 2:
            return {"objective": "binary", "metric": ["binary_logloss", "auc"]}
        return {
            "objective": "multiclass",
            "num_class": len(self.classes),
            "metric": ["multi_logloss", "multi_error"],
        }

    def fit_linear(self, rows: Rows, wanted: NDArray[Any], features: list[Feature]) -> Any:
        return fit_logistic(rows, wanted, features, seed=self._seed, balanced=self.weights is not None)

    def naive_answers(self, fit: Places, count: int) -> Rows:
        return majority_shares([self.strata[row] for row in fit], self.classes, count)

    def answers(self, estimator: Any, rows: Rows) -> Rows:
        return class_shares(estimator, rows)

    def score(self, answers: Rows, at: Places) -> dict[str, float]:
        return measure([self.strata[row] for row in at], self.classes, answers)

    def leans(self, pipeline: Any, features: list[Feature], rows: Rows) -> dict[str, Any]:
        return linear_weights(pipeline, features, rows)

    def prediction_rows(self, row_ids: Sequence[str], answers: Rows) -> tuple[list[str], Iterator[Sequence[object]]]:
        return share_rows(row_ids, self.classes, answers)


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings."""
    train_table(job, runtime, Classes, SETTINGS)
