"""Gradient boosting with LightGBM: one training that reports every round, stops early, and can be asked to stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.job import Setting, usable_cpus
from worker.runtime import TrainingRuntime

Rows = NDArray[np.float64]
Codes = NDArray[np.int64]

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


@dataclass(eq=False)  # LightGBM keeps its callbacks in a set
class RoundWatcher:
    """LightGBM callback: logs each round, remembers the best, ends training when told to or when it pays no more."""

    runtime: TrainingRuntime
    patience: int
    best_round: int = 0
    best_loss: float = field(default=float("inf"))
    stopped: bool = False

    def __call__(self, env: Any) -> None:
        from lightgbm.callback import EarlyStopException

        done = env.iteration + 1
        row = {_metric_name(part, metric): value for part, metric, value, _ in env.evaluation_result_list}
        self.runtime.log_metrics(step=done, **row)
        if row["valid_loss"] < self.best_loss:
            self.best_loss, self.best_round = row["valid_loss"], done
        if self.runtime.should_stop:
            self.stopped = True
            self.runtime.log(f"Asked to stop: ending after round {done}, the best so far is round {self.best_round}.")
        if self.stopped or done - self.best_round >= self.patience:
            raise EarlyStopException(self.best_round - 1, env.evaluation_result_list)


def _metric_name(part: str, metric: str) -> str:
    if metric == "multi_error":
        return f"{part}_error"
    return f"{part}_{'loss' if metric.endswith('logloss') else metric}"


def parameters(settings: dict[str, Any], *, classes: int, rows: int, seed: int) -> dict[str, Any]:
    """LightGBM's parameters. Small data gets smaller leaves unless somebody said otherwise."""
    two = classes == 2
    leaf = settings["min_data_in_leaf"]
    return {
        "objective": "binary" if two else "multiclass",
        **({} if two else {"num_class": classes}),
        "metric": ["binary_logloss", "auc"] if two else ["multi_logloss", "multi_error"],
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
    learned: tuple[Rows, Codes],
    *,
    categories: list[int],
    rounds: int,
    valid: tuple[Rows, Codes] | None = None,
    watcher: RoundWatcher | None = None,
) -> Any:
    """A trained booster. With `valid` and `watcher` it reports each round and may end early."""
    import lightgbm

    extra = {"categorical_feature": categories or "auto", "params": {"verbosity": -1}}
    train = lightgbm.Dataset(learned[0], label=learned[1], free_raw_data=False, **extra)
    if valid is None or watcher is None:
        return lightgbm.train({**params, "metric": "none"}, train, num_boost_round=rounds)
    held = lightgbm.Dataset(valid[0], label=valid[1], reference=train, **extra)
    return lightgbm.train(
        params, train, num_boost_round=rounds, valid_sets=[train, held], valid_names=["train", "valid"],
        callbacks=[watcher],
    )  # fmt: skip
