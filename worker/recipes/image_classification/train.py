"""Trains a classifier of images: majority and logistic regression on grey pixels first, then a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from worker.recipes.classes.predictions import limits_of, majority_shares, share_rows
from worker.recipes.classes.scores import decisive_metric, measure
from worker.recipes.classes.weights import SETTINGS, class_weights, weight_notes
from worker.recipes.common.annotations import IMAGE
from worker.recipes.common.job import Job
from worker.recipes.image_classification.predict import load
from worker.recipes.images.encoding import softmax
from worker.recipes.images.training import Answers, Places, train_images


class Classes:
    """A column of classes as a problem. Answers are probabilities (n_images, n_classes)."""

    lower = False
    naive = "majority"
    linear = "logistic regression on pixels"
    modules = ("classes.answers", "images.encoding")

    def __init__(self, values: Sequence[str], settings: Mapping[str, Any]) -> None:
        self._labels = list(values)
        self.outputs = sorted(set(values))
        self.wanted: NDArray[np.int64] = np.searchsorted(self.outputs, self._labels)
        self.strata = self._labels
        self.metric = decisive_metric(len(self.outputs))
        self.description = {"answer": "label", "classes": self.outputs}
        self.limits = limits_of(self.outputs)
        self.weights = class_weights(settings, self.wanted, len(self.outputs))
        self.notes = weight_notes(self.weights, self.outputs)

    def fit_linear(self, rows: Answers, at: Places, *, seed: int) -> Any:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        weight = None if self.weights is None else "balanced"
        model = LogisticRegression(C=0.1, max_iter=1000, random_state=seed, class_weight=weight)
        return make_pipeline(StandardScaler(), model).fit(rows, self.wanted[at])

    def naive_answers(self, fit: Places, count: int) -> Answers:
        return majority_shares([self._labels[row] for row in fit], self.outputs, count)

    def of_logits(self, logits: Answers) -> Answers:
        return softmax(logits)

    def of_linear(self, pipeline: Any, rows: Answers) -> Answers:
        return np.asarray(pipeline.predict_proba(rows), dtype=np.float64)

    def score(self, answers: Answers, at: Places) -> dict[str, float]:
        return measure([self._labels[row] for row in at], self.outputs, answers)

    def prediction_rows(self, row_ids: Sequence[str], answers: Answers) -> tuple[list[str], Iterator[Sequence[object]]]:
        return share_rows(row_ids, self.outputs, answers)


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged."""

    def said(folder: Path, paths: list[str]) -> Answers:
        return load(folder).answers({IMAGE: paths}).shares

    train_images(job, runtime, Classes, said, SETTINGS)
