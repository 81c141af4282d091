"""Measures forecasts against the sealed steps: MASE decides, sMAPE and WQL stand beside it. Lower is better.

MASE (Hyndman and Koehler 2006) counts the mean absolute error in parts of the usual change from season to season. WQL
is the weighted quantile loss of the 5 %, 50 % and 95 % quantiles.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.job import Job
from worker.recipes.common.scoring import MODEL, Decisive, candidates, named, publish, rounded, short, write_results
from worker.recipes.common.table import BadData, Table, number

Values = NDArray[np.float64]
_QUANTILES = {"low": 0.05, "label": 0.5, "high": 0.95}


def score(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Measure and write. `sealed=False` says in the card that the answers lay open to the training. Raises: BadData."""
    truth, tables = candidates(job, sealed_dir)
    past = json.loads((sealed_dir / "past.json").read_text(encoding="utf-8"))
    wanted = np.array([float(value) for value in truth.values()])
    series = np.repeat(np.arange(len(past["scales"])), len(wanted) // len(past["scales"]))  # of each row
    scales = np.array(past["scales"])[series]
    said = {name: _columns(name, table, list(truth)) for name, table in tables.items()}
    scores = {name: _measured(wanted, found, scales) for name, found in said.items()}

    def score_of(name: str, at: NDArray[np.int64]) -> float:
        return float((np.abs(said[name]["label"][at] - wanted[at]) / scales[at]).mean())

    groups = series.tolist() if len(past["scales"]) > 1 else None
    deciding = Decisive("mase", len(wanted), score_of, lower=True, groups=groups)
    beaten = publish(job, scores, deciding, sealed=sealed)
    write_results(job, lambda: _facts(job, past, series, wanted, said[MODEL], said[beaten]["label"], beaten))


def _columns(name: str, table: Table, row_ids: list[str]) -> dict[str, Values]:
    """The predictions in the order of `row_ids`, with their intervals where there are some. Raises: BadData."""
    place = {row_id: at for at, row_id in enumerate(table.columns["row_id"])}
    found = {}
    for column in _QUANTILES:
        if column in table.columns:
            cells = [table.columns[column][place[row_id]] for row_id in row_ids]
            values = np.array([np.nan if (value := number(cell)) is None else value for cell in cells])
            if not np.isfinite(values).all():
                raise BadData(f"predictions/{name}.csv: the column {column} holds something that is no number.")
            found[column] = values
    return found


def _measured(wanted: Values, said: dict[str, Values], scales: Values) -> dict[str, float]:
    error = np.abs(said["label"] - wanted)
    sizes = np.abs(said["label"]) + np.abs(wanted)
    losses = []
    for column, share in _QUANTILES.items():
        over = wanted - said.get(column, said["label"])
        losses.append(float(np.maximum(share * over, (share - 1) * over).sum()))
    return {
        "mase": float((error / scales).mean()),
        "smape": float(np.mean(2 * error / np.where(sizes == 0, 1.0, sizes))),
        "wql": 2 * float(np.mean(losses)) / (float(np.abs(wanted).sum()) or 1.0),
        "mae": float(error.mean()),
    }


def _facts(
    job: Job,
    past: dict[str, Any],
    series: NDArray[np.int64],
    wanted: Values,
    said: dict[str, Values],
    theirs: Values,
    beaten: str,
) -> dict[str, Any]:
    """The first series with their forecasts and intervals, and the errors by how far ahead they are."""
    pictures = []
    for at, tail in enumerate(past["tails"]):
        rows = np.flatnonzero(series == at)
        before, ahead = list(range(-len(tail) + 1, 1)), list(range(1, len(rows) + 1))
        lines = [
            _line("measured", [*before, *ahead], [*tail, *wanted[rows]]),
            _line("forecast", ahead, said["label"][rows], low=said["low"][rows], high=said["high"][rows]),
            _line(named(beaten), ahead, theirs[rows]),
        ]
        name = f" of {short(past['series'][at], 40)}" if past["series"][at] else ""
        picture = {"kind": "lines", "title": f"forecast{name}", "lines": lines, "since": 0.5}
        places = {"first": before[0], "moments": past["moments"][at], "y_label": short(job.target, 40)}
        pictures.append({"view": "forecast", "picture": picture | places})
    horizon = int((series == 0).sum())
    steps = np.tile(np.arange(1, horizon + 1), len(past["scales"]))
    ours = [float(np.abs(said["label"] - wanted)[steps == step].mean()) for step in range(1, horizon + 1)]
    other = [float(np.abs(theirs - wanted)[steps == step].mean()) for step in range(1, horizon + 1)]
    far = list(range(1, horizon + 1))
    lines = [_line("this model", far, ours), *([_line(named(beaten), far, other)] if other != ours else [])]
    picture = {
        "kind": "lines",
        "title": "error by distance",
        "lines": lines,
        "x_label": "steps ahead",
        "y_label": "mean error",
    }
    pictures.append({"view": "errors", "picture": picture})
    inside = float(((wanted >= said["low"]) & (wanted <= said["high"])).mean())
    words = f"{inside:.0%} of the true values lie in the 90 % interval."
    return {"kind": "pictured", "rows": len(wanted), "beaten": named(beaten), "words": words, "pictures": pictures}


def _line(name: str, x: list[int], y: Any, *, low: Any = (), high: Any = ()) -> dict[str, Any]:
    line = {"name": name, "x": [float(at) for at in x], "y": [rounded(value) for value in y]}
    return line | ({"low": [rounded(v) for v in low], "high": [rounded(v) for v in high]} if len(low) else {})
