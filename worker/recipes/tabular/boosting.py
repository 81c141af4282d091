"""Gradient boosting with LightGBM: one training that reports every round, stops early, and can be asked to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainyard.adapters import LightGBMCallback, SavedBooster, sampled_anew
from worker.recipes.common.job import Setting, read_settings, usable_cpus
from worker.recipes.common.search import BUDGET, Budget, Range, ranges_left

Rows = NDArray[np.float64]
Answers = NDArray[np.int64] | NDArray[np.float64]
Learned = tuple[Rows, Answers, NDArray[np.float64] | None]  # rows, what they should give, and what each counts

_SMALL = 20_000  # with fewer rows a second thread costs more than it gives
SETTINGS = {
    "rounds": Setting(600, 1, 100_000, ("n_estimators", "num_boost_round", "num_iterations", "max_rounds")),
    "learning_rate": Setting(0.05, 1e-5, 10.0, ("lr", "eta")),
    "num_leaves": Setting(15, 2, 10_000),
    "early_stopping_patience": Setting(50, 1, 100_000, ("early_stopping_rounds", "patience")),
    "max_depth": Setting(0, 0, 1000),
    "min_data_in_leaf": Setting(20, 1, 1_000_000, ("min_child_samples",)),
    "lambda_l2": Setting(1.0, 0.0, 1e9, ("reg_lambda",)),
    "feature_fraction": Setting(0.9, 0.01, 1.0, ("colsample_bytree",)),
    "bagging_fraction": Setting(1.0, 0.01, 1.0, ("subsample",)),
    "valid_frac": Setting(0.15, 0.05, 0.5),
}
RANGES = {
    "learning_rate": Range(0.01, 0.3, log=True),
    "num_leaves": Range(4, 128, log=True),
    "min_data_in_leaf": Range(2, 100, log=True),
    "lambda_l2": Range(1e-3, 30.0, log=True),
    "feature_fraction": Range(0.4, 1.0),
    "bagging_fraction": Range(0.5, 1.0),
}
_TOLD_EVERY = 20  # rounds


def asked(given: Mapping[str, Any], more: Mapping[str, Setting]) -> tuple[dict[str, Any], Budget]:
    """The settings of a training, those of a recipe too, and the budget of a search before it. Raises: BadSettings."""
    settings = read_settings(given, {**SETTINGS, **more, **BUDGET})
    budget = Budget(settings.pop("trials"), settings.pop("minutes"))
    if budget.most:
        ranges_left(given, SETTINGS, RANGES)
    return settings, budget


def effort(given: Mapping[str, Any], more: Mapping[str, Setting]) -> float:
    """The work of a training, as a multiple of one with the recipe's own settings. Raises: BadSettings."""
    settings, budget = asked(given, more)
    return budget.work * _work(settings) / _work(read_settings({}, SETTINGS))


def _work(settings: dict[str, Any]) -> float:
    """Rounds, each as deep as a balanced tree with so many leaves."""
    return float(settings["rounds"] * math.log2(settings["num_leaves"]))


def parameters(settings: dict[str, Any], objective: Mapping[str, Any], *, rows: int, seed: int) -> dict[str, Any]:
    """LightGBM's parameters. Small data gets smaller leaves unless somebody said otherwise."""
    leaf = settings["min_data_in_leaf"]
    return {
        **objective,
        "learning_rate": settings["learning_rate"],
        "num_leaves": settings["num_leaves"],
        "max_depth": settings["max_depth"] or -1,
        "min_data_in_leaf": max(1, min(leaf, rows // 40)) if leaf == SETTINGS["min_data_in_leaf"].default else leaf,
        "lambda_l2": settings["lambda_l2"],
        "feature_fraction": settings["feature_fraction"],
        "bagging_fraction": settings["bagging_fraction"],
        "bagging_freq": 1,
        "seed": seed,
        "num_threads": 1 if rows < _SMALL else usable_cpus(),
        "deterministic": True,
        "force_row_wise": True,
        "verbosity": -1,
    }


def boost(
    params: dict[str, Any],
    learned: Learned,
    *,
    categories: list[int],
    rounds: int,
    valid: Learned | None = None,
    watch: LightGBMCallback | None = None,
    saved: SavedBooster | None = None,
) -> Any:
    """A trained booster. With `valid` and `watch` it reports each round and may end early; it goes on from `saved`."""
    import lightgbm

    train = _dataset(learned, categories)
    if valid is None or watch is None:
        return lightgbm.train({**params, "metric": "none"}, train, num_boost_round=rounds)
    start = saved or SavedBooster(None, {})
    if start.file and (start.rounds >= rounds or watch.has_lost_patience(start.rounds)):
        return lightgbm.Booster(model_file=start.file)
    held = _dataset(valid, categories, reference=train)
    sampled = sampled_anew(params["seed"], bagging_fraction=params["bagging_fraction"])
    return lightgbm.train(
        params, train, num_boost_round=rounds - start.rounds, init_model=start.file, valid_sets=[train, held],
        valid_names=["train", "valid"], callbacks=[sampled, watch],
    )  # fmt: skip


def _dataset(learned: Learned, categories: list[int], reference: Any = None) -> Any:
    import lightgbm

    rows, answers, weights = learned
    return lightgbm.Dataset(
        rows, label=answers, weight=weights, reference=reference, free_raw_data=False,
        categorical_feature=categories or "auto", params={"verbosity": -1},
    )  # fmt: skip


def always(_rounds: int, _loss: float) -> bool:
    """Go on, whatever a training came to."""
    return True


def try_out(
    params: dict[str, Any],
    learned: Learned,
    valid: Learned,
    *,
    categories: list[int],
    rounds: int,
    patience: int,
    go_on: Callable[[int, float], bool] = always,
) -> tuple[Any, int, float]:
    """A booster, stopped early, its best round and its loss there; `go_on(round, loss)` may end it before."""
    import lightgbm
    from lightgbm.callback import EarlyStopException

    def ask(env: Any) -> None:
        done = env.iteration + 1
        if done % _TOLD_EVERY == 0 and not go_on(done, env.evaluation_result_list[0][2]):
            raise EarlyStopException(env.iteration, env.evaluation_result_list)

    train = _dataset(learned, categories)
    held = _dataset(valid, categories, reference=train)
    early = lightgbm.early_stopping(patience, first_metric_only=True, verbose=False)
    booster = lightgbm.train(params, train, num_boost_round=rounds, valid_sets=[held], callbacks=[ask, early])
    loss = float(next(iter(booster.best_score["valid_0"].values())))
    return booster, booster.best_iteration or booster.current_iteration(), loss
