"""Trains on a table: a naive and a linear baseline first, then LightGBM, and keeps what is best.

The choice is made on rows held out of the training part (on small data by five-fold cross-validation) and a tie goes to
the simpler model. The sealed test part plays no role here. What is predicted, and how it is scored, is a `Problem`.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from trainyard.adapters import LightGBMCallback, resume_booster
from worker.recipes.common.finish import Finished, finish, read_parts
from worker.recipes.common.job import Job, read_settings, write_json
from worker.recipes.common.kept import kept
from worker.recipes.common.scores import log_baseline
from worker.recipes.common.split import split_rows
from worker.recipes.tabular.boosting import SETTINGS, boost, parameters
from worker.recipes.tabular.encoding import TRUSTED, Feature, encode, load_estimator
from worker.recipes.tabular.features import choose_features
from worker.recipes.tabular.importance import gain
from worker.recipes.tabular.linear import categorical_columns

_FOLDS = 5
_CROSS_VALIDATED_ROWS = 3000

Rows = NDArray[np.float64]
Places = NDArray[np.int64]


class Problem(Protocol):
    """What a table is learned for. Answers are an array with a row for each row of the table."""

    metric: str
    lower: bool  # whether a lower value of the metric is better
    naive: str  # the name of the baseline that looks at no column
    linear: str  # what the linear baseline is, in words
    strata: Sequence[str]  # of each row, for splits
    wanted: NDArray[Any]  # what LightGBM and the linear model learn, a number for each row
    description: Mapping[str, Any]  # what `model.json` needs beside features and file
    limits: Sequence[str]
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
class Study:
    """The training rows as numbers, and how they are split."""

    job: Job
    settings: dict[str, Any]
    features: list[Feature]
    problem: Problem
    rows: Rows
    groups: list[Hashable] | None

    def split(self, frac: float, seed: int) -> tuple[Places, Places]:
        """Rows to fit on, and rows held out."""
        return split_rows(self.problem.strata, frac=frac, seed=seed, groups=self.groups)

    def score(self, estimator: Any, at: Places) -> dict[str, float]:
        return self.problem.score(self.problem.answers(estimator, self.rows[at]), at)

    def parameters(self, rows: int) -> dict[str, Any]:
        return parameters(self.settings, self.problem.objective(), rows=rows, seed=self.job.seed)

    def boosting(self, at: Places, *, rounds: int) -> Any:
        """A booster on these rows, without reports."""
        learned = (self.rows[at], self.problem.wanted[at])
        return boost(self.parameters(len(at)), learned, categories=categorical_columns(self.features), rounds=rounds)

    def linear(self, at: Places, *, kept_as: str = "") -> Any:
        """The linear baseline on these rows; with a name, the one that an earlier attempt fitted on the same."""

        def fit() -> Any:
            return self.problem.fit_linear(self.rows[at], self.problem.wanted[at], self.features)

        return kept(self.job, kept_as, self.key(at), fit, trusted=TRUSTED) if kept_as else fit()

    def key(self, at: Places) -> str:
        """What a training on these rows depends on."""
        data = zlib.crc32(self.problem.wanted[at].tobytes(), zlib.crc32(self.rows[at].tobytes()))
        about = [self.settings, self.job.seed, self.features, self.problem.description, len(at), data]
        return json.dumps(about, default=str)

    def better(self, value: float, other: float) -> bool:
        return value < other if self.problem.lower else value > other


@dataclass
class _Found:
    """What was trained on the fitting rows, and what it scores on the held-out ones."""

    estimators: dict[str, Any]
    scores: dict[str, dict[str, float]]
    held: int
    best_round: int
    stopped: bool


def train_table(job: Job, runtime: TrainingRuntime, problem_of: Any) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings.

    `problem_of(job, values)` makes the `Problem` of the target's values, in the order of the training rows.
    """
    settings = read_settings(job.settings, SETTINGS)
    table, test, split = read_parts(job)
    features, ignored = choose_features(table, split["target"])
    rows = encode(table.columns, features)
    groups: list[Hashable] | None = list(map(bytes, rows)) if split["equal_inputs_kept_together"] else None
    problem: Problem = problem_of(job, table.columns[split["target"]])
    study = Study(job, settings, features, problem, rows, groups)
    runtime.start("lightgbm", settings, total_steps=settings["rounds"])
    runtime.log(f"{table.rows:,} rows, {len(features)} columns used.")
    fit, held = study.split(settings["valid_frac"], job.seed)
    found = _candidates(study, runtime, fit, held)
    kind, why = _choose(study, runtime, found)
    estimators = _final(study, runtime, found)
    saved_as = _save(study, kind, estimators[kind])
    there = encode(test.columns, features)
    answers = {
        "model": problem.answers(load_estimator(job.artifacts, saved_as), there),
        "linear": problem.answers(estimators["linear"], there),
        problem.naive: problem.naive_answers(np.arange(table.rows), test.rows),
    }
    row_ids = test.columns["row_id"]
    finish(
        job, runtime,
        Finished(kind, why, settings, ignored, {"rows": len(held), **found.scores}, found.stopped,
                 packages=("lightgbm", "numpy") if kind == "lightgbm" else ("scikit-learn", "skops", "numpy"),
                 modules=problem.modules, limits=problem.limits),
        {name: problem.prediction_rows(row_ids, said) for name, said in answers.items()},
    )  # fmt: skip


def _candidates(study: Study, runtime: TrainingRuntime, fit: Places, held: Places) -> _Found:
    problem, settings = study.problem, study.settings
    metric, naive = problem.metric, problem.naive
    linear = study.linear(fit, kept_as="linear")
    scores = {
        naive: problem.score(problem.naive_answers(fit, len(held)), held),
        "linear": study.score(linear, held),
    }
    runtime.log(f"Baselines on {len(held):,} held-out rows, {metric}: {naive} {scores[naive][metric]:.4f}, "
                f"{problem.linear} {scores['linear'][metric]:.4f}.")  # fmt: skip
    key = study.key(fit)
    saved = resume_booster(runtime, key=key)
    if not saved.rounds:  # else an earlier attempt has said it, before its first round
        log_baseline(runtime, "linear", scores["linear"])
    judged = f"valid_{problem.metric}" if problem.lower else "valid_loss"
    watch = LightGBMCallback(runtime, saved=saved, key=key, patience=settings["early_stopping_patience"], judged=judged)
    booster = boost(
        study.parameters(len(fit)),
        (study.rows[fit], problem.wanted[fit]),
        categories=categorical_columns(study.features),
        rounds=settings["rounds"],
        valid=(study.rows[held], problem.wanted[held]),
        watch=watch,
        saved=saved,
    )
    if not watch.stopped:  # a stop has just saved it
        watch.save(booster, booster.current_iteration())
    best = _At(booster, watch.best_round)
    scores["lightgbm"] = study.score(best, held)
    runtime.log(f"LightGBM: best round {watch.best_round}, {metric} {scores['lightgbm'][metric]:.4f}.")
    return _Found({"linear": linear, "lightgbm": best}, scores, len(held), watch.best_round, watch.stopped)


@dataclass
class _At:
    """A booster as it was after a round."""

    booster: Any
    rounds: int

    def predict(self, rows: Rows) -> Any:
        return self.booster.predict(rows, num_iteration=self.rounds)


def _choose(study: Study, runtime: TrainingRuntime, found: _Found) -> tuple[str, str]:
    """`lightgbm` or `linear`, and the reason as a sentence."""
    metric, simple = study.problem.metric, study.problem.linear
    linear, boosted = found.scores["linear"][metric], found.scores["lightgbm"][metric]
    how = f"{found.held:,} held-out rows"
    if len(study.rows) < _CROSS_VALIDATED_ROWS and not found.stopped:
        folds = _cross_validated(study, runtime, found.best_round)
        if folds is None:
            found.stopped = True
        else:
            linear, boosted = folds
            how = f"{_FOLDS}-fold cross-validation of the training part"
    numbers = f"{metric} {boosted:.4f} against {linear:.4f} on {how}"
    if study.better(boosted, linear):
        kind, why = "lightgbm", f"LightGBM is kept: it beats {simple} ({numbers})."
    else:
        kind = "linear"
        why = f"{simple.capitalize()} is kept: LightGBM does not beat it ({numbers}), and it is the simpler model."
    runtime.log(why)
    return kind, why


def _cross_validated(study: Study, runtime: TrainingRuntime, rounds: int) -> tuple[float, float] | None:
    """Mean decisive metric of the linear baseline and of LightGBM over the folds; None when asked to stop."""
    linear, boosted = [], []
    for fold in range(_FOLDS):
        if runtime.should_stop:
            return None
        fit, held = study.split(1 / _FOLDS, study.job.seed + 1 + fold)
        linear.append(study.score(study.linear(fit), held)[study.problem.metric])
        boosted.append(study.score(study.boosting(fit, rounds=rounds), held)[study.problem.metric])
    return float(np.mean(linear)), float(np.mean(boosted))


def _final(study: Study, runtime: TrainingRuntime, found: _Found) -> dict[str, Any]:
    """Both candidates trained on all training rows; after a stop, those that are there."""
    found.stopped = found.stopped or runtime.should_stop
    if found.stopped:
        return found.estimators
    everything = np.arange(len(study.rows))
    linear = study.linear(everything, kept_as="linear_on_all")
    rounds = found.best_round
    return {"linear": linear, "lightgbm": _At(study.boosting(everything, rounds=rounds), rounds)}


def _save(study: Study, kind: str, estimator: Any) -> dict[str, Any]:
    """Write the model and what it leans on; the contents of `model.json`."""
    artifacts = study.job.artifacts
    artifacts.mkdir(exist_ok=True)
    if kind == "lightgbm":
        file = "model.txt"
        estimator.booster.save_model(artifacts / file, num_iteration=estimator.rounds)
        leans = gain(estimator.booster, study.features, rounds=estimator.rounds)
    else:
        from skops.io import dump

        file = "model.skops"
        dump(estimator, artifacts / file, compression=zipfile.ZIP_DEFLATED)
        leans = study.problem.leans(estimator, study.features, study.rows)
    write_json(artifacts / "importance.json", leans)
    about = {"kind": kind, "file": file, "features": study.features, **study.problem.description}
    write_json(artifacts / "model.json", about)
    return about
