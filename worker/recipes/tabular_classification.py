"""Train a classifier on a table: majority and logistic regression first, then LightGBM, and keep what is best.

The choice is made on rows held out of the training part (on small data by five-fold cross-validation) and a tie goes to
the simpler model. The sealed test part plays no role here.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.adapters import LightGBMCallback, resume_booster
from worker.recipes import importance, tabular_model
from worker.recipes.boosting import SETTINGS, boost, parameters
from worker.recipes.features import choose_features
from worker.recipes.finish import Finished, finish, read_parts
from worker.recipes.job import Job, majority_shares, read_settings, write_json
from worker.recipes.kept import kept
from worker.recipes.linear import categorical_columns, fit_logistic
from worker.recipes.scores import decisive_metric, log_baseline, measure
from worker.recipes.split import split_rows
from worker.recipes.tabular_model import Feature, class_shares, encode
from worker.runtime import TrainingRuntime

_FOLDS = 5
_CROSS_VALIDATED_ROWS = 3000


@dataclass
class Study:
    """The training rows as numbers, and how they are split."""

    job: Job
    settings: dict[str, Any]
    features: list[Feature]
    classes: list[str]
    labels: list[str]
    rows: NDArray[np.float64]
    groups: list[Hashable] | None

    @property
    def codes(self) -> NDArray[np.int64]:
        return np.searchsorted(self.classes, self.labels)

    @property
    def metric(self) -> str:
        return decisive_metric(len(self.classes))

    def score(self, shares: NDArray[np.float64], at: NDArray[np.int64]) -> dict[str, float]:
        return measure([self.labels[row] for row in at], self.classes, shares)

    def boosting(self, at: NDArray[np.int64], *, rounds: int) -> Any:
        """A booster on these rows, without reports."""
        params = parameters(self.settings, classes=len(self.classes), rows=len(at), seed=self.job.seed)
        categories = categorical_columns(self.features)
        return boost(params, (self.rows[at], self.codes[at]), categories=categories, rounds=rounds)

    def logistic(self, at: NDArray[np.int64], *, kept_as: str = "") -> Any:
        """Logistic regression on these rows; with a name, the one that an earlier attempt fitted on the same."""

        def fit() -> Any:
            return fit_logistic(self.rows[at], self.codes[at], self.features, seed=self.job.seed)

        return kept(self.job, kept_as, self.key(at), fit, trusted=tabular_model.TRUSTED) if kept_as else fit()

    def key(self, at: NDArray[np.int64]) -> str:
        """What a training on these rows depends on."""
        data = zlib.crc32(self.codes[at].tobytes(), zlib.crc32(self.rows[at].tobytes()))
        return json.dumps([self.settings, self.job.seed, self.features, self.classes, len(at), data], default=str)


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings."""
    settings = read_settings(job.settings, SETTINGS)
    table, test, split = read_parts(job)
    features, ignored = choose_features(table, split["target"])
    labels = table.columns[split["target"]]
    rows = encode(table.columns, features)
    groups: list[Hashable] | None = list(map(bytes, rows)) if split["equal_inputs_kept_together"] else None
    study = Study(job, settings, features, sorted(set(labels)), labels, rows, groups)
    runtime.start("lightgbm", settings, total_steps=settings["rounds"])
    runtime.log(f"{len(labels)} rows, {len(features)} columns used, classes: {', '.join(study.classes[:10])}.")
    fit, held = split_rows(labels, frac=settings["valid_frac"], seed=job.seed, groups=groups)
    found = _candidates(study, runtime, fit, held)
    kind, why = _choose(study, runtime, found)
    estimators = _final(study, runtime, found)
    _save(job, study, kind, estimators[kind])
    model = tabular_model.load(job.artifacts)
    linear = class_shares(estimators["linear"], encode(test.columns, features))
    finish(
        job, runtime,
        Finished(kind, why, settings, study.classes, ignored, {"rows": len(held), **found.scores}, found.stopped,
                 packages=("lightgbm", "numpy") if kind == "lightgbm" else ("scikit-learn", "skops", "numpy"),
                 module="tabular_model"),
        {"model": model.shares(test.columns), "linear": linear,
         "majority": majority_shares(labels, study.classes, test.rows)},
        test.columns["row_id"],
    )  # fmt: skip


@dataclass
class _Found:
    """What was trained on the fitting rows, and what it scores on the held-out ones."""

    estimators: dict[str, Any]
    scores: dict[str, dict[str, float]]
    held: int
    best_round: int
    stopped: bool


def _candidates(study: Study, runtime: TrainingRuntime, fit: NDArray[np.int64], held: NDArray[np.int64]) -> _Found:
    metric, settings = study.metric, study.settings
    majority = majority_shares([study.labels[row] for row in fit], study.classes, len(held))
    logistic = study.logistic(fit, kept_as="linear")
    scores = {
        "majority": study.score(majority, held),
        "linear": study.score(class_shares(logistic, study.rows[held]), held),
    }
    runtime.log(f"Baselines on {len(held)} held-out rows, {metric}: majority {scores['majority'][metric]:.4f}, "
                f"logistic regression {scores['linear'][metric]:.4f}.")  # fmt: skip
    key = study.key(fit)
    saved = resume_booster(runtime, key=key)
    if not saved.rounds:  # else an earlier attempt has said it, before its first round
        log_baseline(runtime, "linear", scores["linear"])
    watch = LightGBMCallback(runtime, saved=saved, key=key, patience=settings["early_stopping_patience"])
    booster = boost(
        parameters(settings, classes=len(study.classes), rows=len(fit), seed=study.job.seed),
        (study.rows[fit], study.codes[fit]),
        categories=categorical_columns(study.features),
        rounds=settings["rounds"],
        valid=(study.rows[held], study.codes[held]),
        watch=watch,
        saved=saved,
    )
    if not watch.stopped:  # a stop has just saved it
        watch.save(booster, booster.current_iteration())
    best = _At(booster, watch.best_round)
    scores["lightgbm"] = study.score(class_shares(best, study.rows[held]), held)
    runtime.log(f"LightGBM: best round {watch.best_round}, {metric} {scores['lightgbm'][metric]:.4f}.")
    return _Found({"linear": logistic, "lightgbm": best}, scores, len(held), watch.best_round, watch.stopped)


@dataclass
class _At:
    """A booster as it was after a round."""

    booster: Any
    rounds: int

    def predict(self, rows: NDArray[np.float64]) -> Any:
        return self.booster.predict(rows, num_iteration=self.rounds)

    def gain(self, features: list[Feature]) -> dict[str, Any]:
        return importance.gain(self.booster, features, rounds=self.rounds)

    def save(self, path: Any) -> None:
        self.booster.save_model(path, num_iteration=self.rounds)


def _choose(study: Study, runtime: TrainingRuntime, found: _Found) -> tuple[str, str]:
    """`lightgbm` or `linear`, and the reason as a sentence."""
    metric = study.metric
    linear, boosted = found.scores["linear"][metric], found.scores["lightgbm"][metric]
    how = f"{found.held} held-out rows"
    if len(study.labels) < _CROSS_VALIDATED_ROWS and not found.stopped:
        folds = _cross_validated(study, runtime, found.best_round)
        if folds is None:
            found.stopped = True
        else:
            linear, boosted = folds
            how = f"{_FOLDS}-fold cross-validation of the training part"
    numbers = f"{metric} {boosted:.4f} against {linear:.4f} on {how}"
    if boosted > linear:
        why = f"LightGBM is kept: it beats logistic regression ({numbers})."
        kind = "lightgbm"
    else:
        why = f"Logistic regression is kept: LightGBM does not beat it ({numbers}), and it is the simpler model."
        kind = "linear"
    runtime.log(why)
    return kind, why


def _cross_validated(study: Study, runtime: TrainingRuntime, rounds: int) -> tuple[float, float] | None:
    """Mean decisive metric of logistic regression and of LightGBM over the folds; None when asked to stop."""
    linear, boosted = [], []
    for fold in range(_FOLDS):
        if runtime.should_stop:
            return None
        fit, held = split_rows(study.labels, frac=1 / _FOLDS, seed=study.job.seed + 1 + fold, groups=study.groups)
        linear.append(study.score(class_shares(study.logistic(fit), study.rows[held]), held)[study.metric])
        booster = study.boosting(fit, rounds=rounds)
        boosted.append(study.score(class_shares(booster, study.rows[held]), held)[study.metric])
    return float(np.mean(linear)), float(np.mean(boosted))


def _final(study: Study, runtime: TrainingRuntime, found: _Found) -> dict[str, Any]:
    """Both candidates trained on all training rows; after a stop, those that are there."""
    found.stopped = found.stopped or runtime.should_stop
    if found.stopped:
        return found.estimators
    everything = np.arange(len(study.labels))
    rounds = found.best_round
    linear = study.logistic(everything, kept_as="linear_on_all")
    return {"linear": linear, "lightgbm": _At(study.boosting(everything, rounds=rounds), rounds)}


def _save(job: Job, study: Study, kind: str, estimator: Any) -> None:
    job.artifacts.mkdir(exist_ok=True)
    file = "model.txt" if kind == "lightgbm" else "model.skops"
    if kind == "lightgbm":
        estimator.save(job.artifacts / file)
        leans = estimator.gain(study.features)
    else:
        from skops.io import dump

        dump(estimator, job.artifacts / file, compression=zipfile.ZIP_DEFLATED)
        leans = importance.log_odds(estimator, study.features, study.rows)
    write_json(job.artifacts / "importance.json", leans)
    write_json(
        job.artifacts / "model.json",
        {
            "module": "tabular_model",
            "kind": kind,
            "file": file,
            "classes": study.classes,
            "features": study.features,
        },
    )
