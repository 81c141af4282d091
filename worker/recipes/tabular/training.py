"""Trains on a table: a naive and a linear baseline first, then LightGBM, and keeps what is best.

The choice is made on rows held out of the training part (on small data by five-fold cross-validation) and a tie goes to
the simpler model. Where it was asked for, LightGBM's settings are searched before. The sealed test part plays no role.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trainyard import TrainingRuntime
from trainyard.adapters import LightGBMCallback, resume_booster
from worker.recipes.common.estimators import write_estimator
from worker.recipes.common.finish import Finished, finish, read_parts
from worker.recipes.common.holdout import read_holdout
from worker.recipes.common.job import NOT_KEPT, Job, Setting, write_json
from worker.recipes.common.scores import log_baseline, worded
from worker.recipes.common.search import KEPT, Plan, ranges_left, search
from worker.recipes.tabular.boosting import RANGES, SETTINGS, asked, boost
from worker.recipes.tabular.encoding import encode, load_estimator
from worker.recipes.tabular.features import choose_features
from worker.recipes.tabular.importance import gain
from worker.recipes.tabular.linear import categorical_columns
from worker.recipes.tabular.searching import attempt_on
from worker.recipes.tabular.study import At, Places, Problem, Study

NO_MORE: Mapping[str, Setting] = {}
_FOLDS = 5
_SPLITS = 3  # of a trial on small data
_CROSS_VALIDATED_ROWS = 3000


@dataclass
class _Found:
    """What was trained on the fitting rows, and what it scores on the held-out ones."""

    estimators: dict[str, Any]
    scores: dict[str, dict[str, float]]
    held: int
    best_round: int
    stopped: bool


def train_table(job: Job, runtime: TrainingRuntime, problem_of: Any, more: Mapping[str, Setting] = NO_MORE) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings.

    `problem_of(job, values, settings)` makes the `Problem` of the target's values, in the order of the training rows;
    `more` are settings of its own.
    """
    settings, budget = asked(job.settings, more)
    table, test, split = read_parts(job)
    features, ignored = choose_features(table, split["target"])
    rows = encode(table.columns, features)
    problem: Problem = problem_of(job, table.columns[split["target"]], settings)
    study = Study(job, settings, features, problem, rows, read_holdout(job))
    steps = (budget.trials or None) if budget.most else settings["rounds"]
    runtime.start("lightgbm", {**settings, **({"trials": budget.most} if budget.most else {})}, total_steps=steps)
    runtime.log(f"{table.rows:,} rows, {len(features)} columns used.")
    fit, held = study.split(settings["valid_frac"], job.seed)
    if budget.most:
        ranges = ranges_left(job.settings, SETTINGS, RANGES)
        plan = Plan(settings, ranges, problem.metric, problem.lower, budget)
        study, found = _searched(study, runtime, plan, fit, held)
    else:
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
    if kind != "lightgbm":
        answers[f"lightgbm{NOT_KEPT}"] = problem.answers(estimators["lightgbm"], there)
    row_ids = test.columns["row_id"]
    finish(
        job, runtime,
        Finished(kind, why, study.settings, ignored, {"rows": len(held), **found.scores}, found.stopped,
                 packages=("lightgbm", "numpy") if kind == "lightgbm" else ("scikit-learn", "skops", "numpy"),
                 modules=problem.modules, limits=problem.limits, notes=problem.notes,
                 found={name: study.settings[name] for name in RANGES if study.settings[name] != settings[name]}
                 if kind == "lightgbm" else {}),
        {name: problem.prediction_rows(row_ids, said) for name, said in answers.items()},
    )  # fmt: skip


def _baselines(
    study: Study, runtime: TrainingRuntime, fit: Places, held: Places
) -> tuple[Any, dict[str, dict[str, float]]]:
    """The linear baseline, and what both baselines score on the held-out rows."""
    problem = study.problem
    metric, naive = problem.metric, problem.naive
    linear = study.linear(fit, kept_as="linear")
    some = len(study.linear_rows(fit))
    if some < len(fit):
        runtime.log(f"The linear baseline learns from {some:,} rows, drawn at random.")
    scores = {
        naive: problem.score(problem.naive_answers(fit, len(held)), held),
        "linear": study.score(linear, held),
    }
    runtime.log(f"Baselines on {len(held):,} held-out rows, {metric}: {naive} {worded(scores[naive][metric])}, "
                f"{problem.linear} {worded(scores['linear'][metric])}.")  # fmt: skip
    return linear, scores


def _searched(study: Study, runtime: TrainingRuntime, plan: Plan, fit: Places, held: Places) -> tuple[Study, _Found]:
    """The study with the best settings of a search, and its candidates."""
    metric = plan.metric
    linear, scores = _baselines(study, runtime, fit, held)
    if not (study.job.run_dir / KEPT).exists():  # else an earlier attempt has said it
        log_baseline(runtime, "linear", {metric: scores["linear"][metric]})
    small = len(study.rows) < _CROSS_VALIDATED_ROWS
    parts = study.splits(_SPLITS, 1 / _FOLDS, study.job.seed + 101) if small else [(fit, held)]
    tried, stopped = search(study.job, runtime, plan, attempt_on(study, parts))
    best = plan.best(tried)
    if best is None:
        return study, _candidates(study, runtime, fit, held)
    runtime.log(plan.summary(tried))
    study = replace(study, settings={**study.settings, **best.drawn})
    boosted, _ = study.tried(fit, held)
    scores["lightgbm"] = study.score(boosted, held)
    return study, _Found({"linear": linear, "lightgbm": boosted}, scores, len(held), boosted.rounds, stopped)


def _candidates(study: Study, runtime: TrainingRuntime, fit: Places, held: Places) -> _Found:
    problem, settings, metric = study.problem, study.settings, study.problem.metric
    linear, scores = _baselines(study, runtime, fit, held)
    key = study.key(fit)
    saved = resume_booster(runtime, key=key)
    if not saved.rounds:  # else an earlier attempt has said it, before its first round
        log_baseline(runtime, "linear", scores["linear"])
    judged = f"valid_{problem.metric}" if problem.lower else "valid_loss"
    watch = LightGBMCallback(runtime, saved=saved, key=key, patience=settings["early_stopping_patience"], judged=judged)
    booster = boost(
        study.parameters(len(fit)),
        study.learned(fit),
        categories=categorical_columns(study.features),
        rounds=settings["rounds"],
        valid=study.learned(held),
        watch=watch,
        saved=saved,
    )
    if not watch.stopped:  # a stop has just saved it
        watch.save(booster, booster.current_iteration())
    best = At(booster, watch.best_round)
    scores["lightgbm"] = study.score(best, held)
    runtime.log(f"LightGBM: best round {watch.best_round}, {metric} {worded(scores['lightgbm'][metric])}.")
    return _Found({"linear": linear, "lightgbm": best}, scores, len(held), watch.best_round, watch.stopped)


def _choose(study: Study, runtime: TrainingRuntime, found: _Found) -> tuple[str, str]:
    """`lightgbm` or `linear`, and the reason as a sentence."""
    metric, simple = study.problem.metric, study.problem.linear
    linear, boosted = found.scores["linear"][metric], found.scores["lightgbm"][metric]
    how, spread = f"{found.held:,} held-out rows", ""
    if len(study.rows) < _CROSS_VALIDATED_ROWS and not found.stopped:
        folds = _cross_validated(study, runtime, found.best_round)
        if folds is None:
            found.stopped = True
        else:
            linear, boosted = (float(np.mean(scores)) for scores in folds)
            spread = f", {worded(min(folds[1]))} to {worded(max(folds[1]))} over the folds,"
            how = f"{_FOLDS}-fold cross-validation of the training part"
    numbers = f"{metric} {worded(boosted)}{spread} against {worded(linear)} on {how}"
    if study.better(boosted, linear):
        kind, why = "lightgbm", f"LightGBM is kept: it beats {simple} ({numbers})."
    else:
        kind = "linear"
        why = f"{simple.capitalize()} is kept: LightGBM does not beat it ({numbers}), and it is the simpler model."
    runtime.log(why)
    return kind, why


def _cross_validated(study: Study, runtime: TrainingRuntime, rounds: int) -> tuple[list[float], list[float]] | None:
    """Decisive metric of the linear baseline and of LightGBM on each fold; None when asked to stop."""
    linear, boosted = [], []
    for fit, held in study.splits(_FOLDS, 1 / _FOLDS, study.job.seed + 1):
        if runtime.should_stop:
            return None
        linear.append(study.score(study.linear(fit), held)[study.problem.metric])
        boosted.append(study.score(study.boosting(fit, rounds=rounds), held)[study.problem.metric])
    return linear, boosted


def _final(study: Study, runtime: TrainingRuntime, found: _Found) -> dict[str, Any]:
    """Both candidates trained on all training rows; after a stop, those that are there."""
    found.stopped = found.stopped or runtime.should_stop
    if found.stopped:
        return found.estimators
    everything = np.arange(len(study.rows))
    linear = study.linear(everything, kept_as="linear_on_all")
    rounds = found.best_round
    return {"linear": linear, "lightgbm": At(study.boosting(everything, rounds=rounds), rounds)}


def _save(study: Study, kind: str, estimator: Any) -> dict[str, Any]:
    """Write the model and what it leans on; the contents of `model.json`."""
    artifacts = study.job.artifacts
    artifacts.mkdir(exist_ok=True)
    if kind == "lightgbm":
        file = "model.txt"
        estimator.booster.save_model(artifacts / file, num_iteration=estimator.rounds)
        leans = gain(estimator.booster, study.features, rounds=estimator.rounds)
    else:
        file = "model.skops"
        write_estimator(estimator, artifacts / file)
        leans = study.problem.leans(estimator, study.features, study.rows)
    write_json(artifacts / "importance.json", leans)
    about = {"kind": kind, "file": file, "features": study.features, **study.problem.description}
    write_json(artifacts / "model.json", about)
    return about
