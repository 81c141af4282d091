"""The ways to forecast: what each says of the steps after a history. Copied beside a finished model.

Needs numpy; statsforecast for ETS and ARIMA, LightGBM for the one with lags, chronos-forecasting for Chronos. A history
is evenly spaced and has no holes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
SIMPLE = ("last_value", "seasonal_naive")  # the baselines, and what may win a tie
METHODS = (*SIMPLE, "ets", "arima", "lightgbm", "chronos")  # the simpler first
_MOST_LAGS = 24
_LONGEST_SEASON = 60  # that ETS and ARIMA are fitted to; the lags take longer ones
_TREES = {"num_leaves": 15, "learning_rate": 0.05, "min_data_in_leaf": 5, "verbosity": -1}
_ROUNDS = 300
_SMALL = 20_000  # with fewer rows a second thread costs more than it gives


def forecast(method: str, histories: Sequence[Values], steps: int, season: int, *, fitted: Any = None) -> list[Values]:
    """The next `steps` values of each history. `fitted` is the booster with lags, or the pipeline of Chronos."""
    if method == "lightgbm":
        return _by_lags(fitted or fit_lags(histories, season), histories, steps, season)
    if method == "chronos":
        return _by_chronos(fitted, histories, steps)
    return [_single(method, history, steps, season) for history in histories]


def _single(method: str, history: Values, steps: int, season: int) -> Values:
    if method == "last_value" or (method == "seasonal_naive" and len(history) < season):
        return np.full(steps, history[-1])
    if method == "seasonal_naive":
        return np.resize(history[-season:], steps)
    from statsforecast.models import AutoARIMA, AutoETS

    usable = season if season <= _LONGEST_SEASON and len(history) >= 2 * season + 5 else 1
    model = AutoETS(season_length=usable) if method == "ets" else AutoARIMA(season_length=usable, approximation=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = np.asarray(model.forecast(history, h=steps)["mean"], dtype=np.float64)
        except (
            ValueError,
            ZeroDivisionError,
            NotImplementedError,
            np.linalg.LinAlgError,
        ):  # a history that it cannot be fitted to
            return np.full(steps, history[-1])
    return np.where(np.isfinite(found), found, history[-1])


def _by_chronos(pipeline: Any, histories: Sequence[Values], steps: int) -> list[Values]:
    import torch

    known = [torch.tensor(history, dtype=torch.float32) for history in histories]
    middle, _ = pipeline.predict_quantiles(known, prediction_length=steps, quantile_levels=[0.5])
    return [np.asarray(one, dtype=np.float64).reshape(-1) for one in middle]


def load_chronos(place: str | Path) -> Any:
    """The pipeline of a Chronos model, by Hub id or folder. On a GPU where there is one."""
    import torch
    from chronos import BaseChronosPipeline

    return BaseChronosPipeline.from_pretrained(place, device_map="cuda" if torch.cuda.is_available() else "cpu")


def lags_of(season: int) -> list[int]:
    """How far back the model with lags looks: the last steps, and the same ones of the last two seasons."""
    near = range(1, min(_MOST_LAGS, max(season, 6)) + 1)
    return sorted({*near, *([season, 2 * season] if season > 1 else [])})


def fit_lags(histories: Sequence[Values], season: int) -> Any:
    """LightGBM on the values before each step, each taken from the last one, over all histories."""
    import lightgbm

    rows, wanted = [], []
    for history in histories:
        features, changes = _lagged(history / _scale(history), season)
        rows.append(features)
        wanted.append(changes)
    data = lightgbm.Dataset(np.concatenate(rows), np.concatenate(wanted))
    threads = 1 if sum(map(len, rows)) < _SMALL else 2
    given = {"objective": "regression", "seed": 7, "deterministic": True, "num_threads": threads}
    return lightgbm.train({**_TREES, **given}, data, _ROUNDS)


def _scale(history: Values) -> float:
    return float(np.abs(history).mean()) or 1.0


def _lagged(history: Values, season: int) -> tuple[Values, Values]:
    """For each step with a whole past: what lay before it, relative to the last value, and the change that came."""
    lags = lags_of(season)
    first = min(max(lags), max(1, len(history) // 2))
    at = np.arange(first, len(history))
    past = np.column_stack([history[np.maximum(at - lag, 0)] for lag in lags])
    last = history[at - 1]
    return np.column_stack([past - last[:, None], at % season]), history[at] - last


def _by_lags(booster: Any, histories: Sequence[Values], steps: int, season: int) -> list[Values]:
    lags, scales = lags_of(season), [_scale(history) for history in histories]
    grown = [list(history / scale) for history, scale in zip(histories, scales, strict=True)]
    for _ in range(steps):
        rows = []
        for known in grown:
            last = known[-1]
            past = [known[max(0, len(known) - lag)] - last for lag in lags]
            rows.append([*past, len(known) % season])
        for known, change in zip(grown, booster.predict(np.array(rows), num_threads=1), strict=True):
            known.append(known[-1] + float(change))
    return [np.array(known[-steps:]) * scale for known, scale in zip(grown, scales, strict=True)]


def widths(spread: Mapping[str, Any], history: Values, steps: int, season: int) -> Values:
    """Half the width of the 90 % interval of each step: the errors of validation, in parts of the usual change."""
    shares = np.array(spread["half"])
    return shares[np.minimum(np.arange(steps), len(shares) - 1)] * usual_change(history, season)


def usual_change(history: Values, season: int) -> float:
    """The mean absolute change from one season to the next, by which MASE counts errors."""
    lag = season if len(history) > season else 1
    change = float(np.abs(history[lag:] - history[:-lag]).mean()) if len(history) > lag else 0.0
    return change or float(np.abs(history).mean()) or 1.0


def load_booster(folder: Path) -> Any:
    """The model with lags that training left."""
    import lightgbm

    return lightgbm.Booster(model_file=str(folder / "model.txt"))
