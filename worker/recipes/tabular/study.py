"""The training rows of a table as numbers, what is predicted from them, and how both are split."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.holdout import Holdout
from worker.recipes.common.job import Job
from worker.recipes.common.kept import kept
from worker.recipes.tabular.boosting import Learned, always, boost, parameters, try_out
from worker.recipes.tabular.encoding import TRUSTED, Feature
from worker.recipes.tabular.linear import categorical_columns, linear_width

Rows = NDArray[np.float64]
Places = NDArray[np.int64]
_LINEAR_CELLS = 50_000_000  # with a column for each category: 400 MB


class Problem(Protocol):
    """What a table is learned for. Answers are an array with a row for each row of the table."""

    metric: str
    lower: bool  # whether a lower value of the metric is better
    naive: str  # the name of the baseline that looks at no column
    linear: str  # what the linear baseline is, in words
    strata: Sequence[str]  # of each row, for splits
    wanted: NDArray[Any]  # what LightGBM and the linear model learn, a number for each row
    weights: NDArray[np.float64] | None  # what each row counts in learning; None: all alike
    description: Mapping[str, Any]  # what `model.json` needs beside features and file
    limits: Sequence[str]
    notes: Sequence[str]  # on what is done otherwise than usual
    modules: Sequence[str]

    def objective(self) -> Mapping[str, Any]:
        """LightGBM's parameters of the objective and its metrics, the one for early stopping first."""

    def fit_linear(self, rows: Rows, wanted: NDArray[Any], features: list[Feature]) -> Any:
        """The linear baseline, a fitted sklearn pipeline."""

    def naive_answers(self, fit: Places, count: int) -> Rows:
        """What the naive baseline that learned from the rows `fit` says for `count` rows."""

    def answers(self, estimator: Any, rows: Rows) -> Rows:
        """What a booster or pipeline says for encoded rows."""

    def score(self, answers: Rows, at: Places) -> dict[str, float]:
        """Every metric of answers for the rows `at`."""

    def leans(self, pipeline: Any, features: list[Feature], rows: Rows) -> dict[str, Any]:
        """What a linear model leans on, for `importance.json`."""

    def prediction_rows(self, row_ids: Sequence[str], answers: Rows) -> tuple[list[str], Iterator[Sequence[object]]]:
        """Header and rows of a file of predictions."""


@dataclass
class At:
    """A booster as it was after a round."""

    booster: Any
    rounds: int

    def predict(self, rows: Rows) -> Any:
        return self.booster.predict(rows, num_iteration=self.rounds)


@dataclass
class Study:
    """The training rows as numbers, and how they are split."""

    job: Job
    settings: dict[str, Any]
    features: list[Feature]
    problem: Problem
    rows: Rows
    holdout: Holdout

    def split(self, frac: float, seed: int) -> tuple[Places, Places]:
        """Rows to fit on, and rows held out."""
        return self.holdout.split(self.problem.strata, frac=frac, seed=seed, classes=self.has_classes)

    def splits(self, count: int, frac: float, seed: int) -> list[tuple[Places, Places]]:
        """Several of them."""
        return self.holdout.splits(self.problem.strata, count, frac=frac, seed=seed, classes=self.has_classes)

    @property
    def has_classes(self) -> bool:
        return bool(self.problem.wanted.dtype.kind == "i")

    def score(self, estimator: Any, at: Places) -> dict[str, float]:
        return self.problem.score(self.problem.answers(estimator, self.rows[at]), at)

    def parameters(self, rows: int) -> dict[str, Any]:
        return parameters(self.settings, self.problem.objective(), rows=rows, seed=self.job.seed)

    def learned(self, at: Places) -> Learned:
        """What LightGBM is given of these rows."""
        weights = self.problem.weights
        return self.rows[at], self.problem.wanted[at], None if weights is None else weights[at]

    def boosting(self, at: Places, *, rounds: int) -> Any:
        """A booster on these rows, without reports."""
        return boost(
            self.parameters(len(at)), self.learned(at), categories=categorical_columns(self.features), rounds=rounds
        )

    def tried(self, fit: Places, held: Places, go_on: Callable[[int, float], bool] = always) -> tuple[At, float]:
        """A booster, stopped early on the held-out rows, and its loss there."""
        booster, rounds, loss = try_out(
            self.parameters(len(fit)),
            self.learned(fit),
            self.learned(held),
            categories=categorical_columns(self.features),
            rounds=self.settings["rounds"],
            patience=self.settings["early_stopping_patience"],
            go_on=go_on,
        )
        return At(booster, rounds), loss

    def linear(self, at: Places, *, kept_as: str = "") -> Any:
        """The linear baseline on these rows; with a name, the one that an earlier attempt fitted on the same."""

        at = self.linear_rows(at)

        def fit() -> Any:
            return self.problem.fit_linear(self.rows[at], self.problem.wanted[at], self.features)

        return kept(self.job, kept_as, self.key(at), fit, trusted=TRUSTED) if kept_as else fit()

    def linear_rows(self, at: Places) -> Places:
        """The rows that the linear baseline learns from: of very many some that are drawn, as it takes them at once."""
        most = _LINEAR_CELLS // linear_width(self.features)
        if len(at) <= most:
            return at
        return np.sort(np.random.default_rng(self.job.seed).choice(at, most, replace=False))

    def key(self, at: Places) -> str:
        """What a training on these rows depends on."""
        data = zlib.crc32(self.problem.wanted[at].tobytes(), zlib.crc32(self.rows[at].tobytes()))
        about = [self.settings, self.job.seed, self.features, self.problem.description, len(at), data]
        return json.dumps(about, default=str)

    def better(self, value: float, other: float) -> bool:
        return value < other if self.problem.lower else value > other
