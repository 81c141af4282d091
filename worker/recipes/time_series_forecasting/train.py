"""Forecasts series: last value and seasonal naive first, then ETS, ARIMA and LightGBM with lags; keeps what is best.

The choice is made by rolling origin: each method forecasts the last windows of the training part from what lay before
them. A method must be clearly better than a simpler one to be kept. The sealed steps play no role here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from worker.recipes.common.finish import Finished, finish
from worker.recipes.common.job import BadSettings, Job, read_settings, write_json
from worker.recipes.common.table import read_table, write_rows
from worker.recipes.series.forecasting import METHODS, SIMPLE, Values, fit_lags, forecast, load_chronos, usual_change
from worker.recipes.series.reading import SETTINGS
from worker.recipes.time_series_forecasting.predict import load

_TIE = 0.02  # the part by which a simpler method may be worse and is still kept
_MOST_VALUES = 20_000  # in all series, beyond which ARIMA takes too long
_PARTS = 4  # of a horizon, whose errors are looked at apart
_WITHIN = 0.9  # of the errors lie in the interval
_NAMES = {"last_value": "the last value", "seasonal_naive": "seasonal naive", "ets": "ETS", "arima": "ARIMA",
          "lightgbm": "LightGBM with lags", "chronos": "Chronos"}  # fmt: skip
_PACKAGES = {"ets": "statsforecast", "arima": "statsforecast", "lightgbm": "lightgbm", "chronos": "chronos-forecasting"}


@dataclass(frozen=True)
class Known:
    """The training part: names, first periods and values of the series, and how it is counted."""

    names: list[str]
    first: list[int]
    histories: list[Values]
    season: int
    horizon: int
    about: dict[str, Any]
    chronos: Any = None  # its pipeline, where a model is named

    def windows(self, wanted: int) -> list[int]:
        """How many values at the end each window of the validation leaves out, the earliest first."""
        shortest = min(map(len, self.histories))
        fitting = [at * self.horizon for at in range(wanted, 0, -1)]
        return [out for out in fitting if shortest - out >= max(self.season + 2, shortest // 3)] or [self.horizon]

    def fitted(self, method: str) -> Any:
        """What a method brings along; LightGBM is fitted to each window."""
        return self.chronos if method == "chronos" else None

    def errors(self, method: str, out: int) -> NDArray[np.float64]:
        """What a method is off in a window, in parts of the usual change: (n_series, horizon)."""
        before = [history[:-out] for history in self.histories]
        came = [history[len(history) - out :][: self.horizon] for history in self.histories]
        said = forecast(method, before, self.horizon, self.season, fitted=self.fitted(method))
        scales = [usual_change(history, self.season) for history in before]
        return np.array([(one - true) / scale for one, true, scale in zip(said, came, scales, strict=True)])


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Try, choose, and leave artifacts and predictions. Raises: BadSettings."""
    settings = read_settings(job.settings, SETTINGS)
    known = _known(job, settings["model"])
    total = sum(map(len, known.histories))
    left_out = {*(() if total <= _MOST_VALUES else ("arima",)), *(() if settings["model"] else ("chronos",))}
    methods = [name for name in METHODS if name not in left_out]
    windows = known.windows(settings["windows"])
    shown = {**settings, "season": known.season, "horizon": known.horizon}
    runtime.start("forecasting", shown, total_steps=len(windows) * len(methods))
    count = f"{len(known.names):,} series" if len(known.names) > 1 else "One series"
    runtime.log(f"{count}, {total:,} {known.about['unit']}s, season {known.season}, horizon {known.horizon}.")
    errors, stopped = _tried(job, runtime, known, methods, windows)
    scores = {name: {"mase": float(np.abs(found).mean())} for name, found in errors.items()}
    kind, why = _choose(scores, len(windows))
    runtime.log(why)
    _save(job, known, kind, errors[kind])
    row_ids = read_table(job.run_dir / "data/test.csv", delimiter=",").columns["row_id"]
    said = load(job.artifacts).ahead(known.horizon)
    model = np.column_stack([np.concatenate(part) for part in (said.values, said.low, said.high)])
    answers = {name: forecast(name, known.histories, known.horizon, known.season) for name in SIMPLE}
    rows = {name: _rows(row_ids, ["label"], np.concatenate(found)[:, None]) for name, found in answers.items()}
    unused, measured = known.about["unused"], len(windows) * known.horizon * len(known.names)
    ignored = [f"{name} (a forecast learns from the past of its own series)" for name in unused]
    limits = [f"It learned nothing after the training part: the last {known.horizon} {known.about['unit']}s of each "
              "series were kept to measure it, and `predict` forecasts across them. It takes a file with the column "
             "`horizon`, in which one row says how many steps."]  # fmt: skip
    finish(
        job, runtime,
        Finished(kind, why, shown, ignored, {"rows": measured, **scores}, stopped,
                 packages=[*([_PACKAGES[kind]] if kind in _PACKAGES else []), "numpy"],
                 modules=("series.forecasting", "series.times"), limits=limits,
                 notes=[f"Not used: {', '.join(unused)}."] if unused else []),
        {"model": _rows(row_ids, ["label", "low", "high"], model), **rows},
    )  # fmt: skip


def _known(job: Job, model: str | None) -> Known:
    about = json.loads((job.run_dir / "data/split.json").read_text(encoding="utf-8"))
    table = read_table(job.run_dir / "data/train.csv", delimiter=",")
    values: dict[str, list[float]] = {}
    first: dict[str, int] = {}
    cells = (table.columns[name] for name in ("series", "period", "value"))
    for name, period, value in zip(*cells, strict=True):
        first.setdefault(name, int(period))
        values.setdefault(name, []).append(float(value))
    histories = [np.array(found) for found in values.values()]
    chronos = _chronos(model) if model else None
    return Known(
        list(values), list(first.values()), histories, int(about["season"]), int(about["horizon"]), about, chronos
    )


def _chronos(model: str) -> Any:
    """Raises: BadSettings."""
    try:
        return load_chronos(model)
    except (OSError, ValueError, AttributeError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise BadSettings(
            f"The model “{model}” cannot be loaded here ({reason}). Name a folder on the host or a model of Chronos on "
            "the Hub that the run may reach, or leave `model` out."
        ) from error


def _tried(
    job: Job, runtime: TrainingRuntime, known: Known, methods: Sequence[str], windows: Sequence[int]
) -> tuple[dict[str, NDArray[np.float64]], bool]:
    """The errors of each method over all windows (n_windows * n_series, horizon), and whether somebody asked to stop.

    What an earlier attempt has tried is kept in `checkpoints/windows.json`.
    """
    file = job.run_dir / "checkpoints" / "windows.json"
    done: dict[str, list[list[float]]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    found: dict[str, list[NDArray[np.float64]]] = {}
    step = 0
    for method in methods:
        for out in windows:
            step += 1
            key = f"{method} {out}"
            if key not in done:
                if runtime.should_stop and all(name in found for name in SIMPLE):
                    return {
                        name: np.concatenate(parts) for name, parts in found.items() if len(parts) == len(windows)
                    }, True
                done[key] = known.errors(method, out).tolist()
                file.parent.mkdir(exist_ok=True)
                write_json(file, done)
                runtime.log_metrics(step=step, **{f"{method}/valid_mase": float(np.abs(done[key]).mean())})
            found.setdefault(method, []).append(np.array(done[key]))
        runtime.log(f"{_upper(_NAMES[method])}: MASE {float(np.abs(np.concatenate(found[method])).mean()):.4f}.")
    return {name: np.concatenate(parts) for name, parts in found.items()}, False


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _choose(scores: dict[str, dict[str, float]], windows: int) -> tuple[str, str]:
    """The method that is kept, and the reason as a sentence."""
    best = min(score["mase"] for score in scores.values())
    kind = next(name for name in METHODS if name in scores and scores[name]["mase"] <= best * (1 + _TIE))
    others = ", ".join(f"{_NAMES[name]} {score['mase']:.4f}" for name, score in scores.items() if name != kind)
    return kind, f"{_upper(_NAMES[kind])} is kept: MASE {scores[kind]['mase']:.4f} over {windows} windows ({others})."


def _save(job: Job, known: Known, kind: str, errors: NDArray[np.float64]) -> None:
    job.artifacts.mkdir(exist_ok=True)
    rows = (
        [name, first + at, value]
        for name, first, history in zip(known.names, known.first, known.histories, strict=True)
        for at, value in enumerate(history.tolist())
    )
    write_rows(job.artifacts / "history.csv", ["series", "period", "value"], rows)
    if kind == "lightgbm":
        fit_lags(known.histories, known.season).save_model(job.artifacts / "model.txt")
    if kind == "chronos":
        known.chronos.inner_model.save_pretrained(job.artifacts / "chronos")
    half: list[float] = []
    for part in np.array_split(np.abs(errors), min(_PARTS, known.horizon), axis=1):
        half += [max(float(np.quantile(part, _WITHIN)), max(half, default=0.0))] * part.shape[1]
    kept = ("unit", "end", "weekday", "minute", "every", "season", "horizon", "time_column", "id_column")
    about = {"answer": "step", "kind": kind, "target": job.target, "spread": {"half": half}}
    write_json(job.artifacts / "model.json", about | {name: known.about[name] for name in kept})


def _rows(
    row_ids: Sequence[str], names: Sequence[str], values: NDArray[np.float64]
) -> tuple[list[str], Iterator[Sequence[object]]]:
    rows = ([row_id, *(f"{part:.8g}" for part in row)] for row_id, row in zip(row_ids, values, strict=True))
    return ["row_id", *names], rows
