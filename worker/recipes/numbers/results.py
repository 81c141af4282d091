"""What the evaluation of predicted quantities shows: values in the words of `agent.domain.results.Pictured`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.scoring import named, rounded, short

MOST_POINTS = 600
_BINS = 24
_MISTAKES = 10
_FEATURES = 12
_CELLS = 3

Values = NDArray[np.float64]


def pictured(
    truth: Values, said: Values, theirs: Values, *, beaten: str, target: str, weights: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Predicted against true values, residuals, errors beside the strongest baseline's, and what it leans on."""
    error = said - truth
    some = _some(len(truth))
    half = float(np.median(np.abs(error)))
    pictures = [
        _scatter("predicted", "predicted and true values", truth[some], said[some], "true", "predicted", "rising"),
        _scatter("residuals", "residuals", said[some], error[some], "predicted", "predicted - true", "zero"),
        _errors(error, theirs - truth, beaten, target),
    ]
    if weights:
        pictures.append(_importance(weights))
    return {
        "kind": "pictured",
        "rows": len(truth),
        "beaten": named(beaten),
        "words": f"Half of the predictions are within {_figure(half)} of the true value, nine in ten within "
        f"{_figure(float(np.quantile(np.abs(error), 0.9)))}.",
        "pictures": pictures,
    }


def mistakes(row_ids: Sequence[str], truth: Values, said: Values, cells: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The table of the rows that are farthest off. `cells` are columns worth showing, in the order of the rows."""
    worst = np.argsort(-np.abs(said - truth), kind="stable")[:_MISTAKES]
    columns = [short(name) for name in list(cells)[:_CELLS]]
    rows = [
        [
            row_ids[at][:20],
            _figure(truth[at]),
            _figure(said[at]),
            _figure(said[at] - truth[at], "+"),
            *(short(cells[name][at]) for name in list(cells)[:_CELLS]),
        ]
        for at in worst
    ]
    title = f"The {len(rows)} largest errors"
    picture = {
        "kind": "table",
        "title": title,
        "columns": ["row", "true", "predicted", "error", *columns],
        "rows": rows,
    }
    return {"view": "mistakes", "picture": picture}


def _figure(value: float, sign: str = "") -> str:
    """Four significant digits, and a large number in full."""
    return f"{value:{sign},.0f}" if 10_000 <= abs(value) < 1e12 else f"{value:{sign}.4g}"


def _some(rows: int) -> NDArray[np.int64]:
    """Rows that are drawn: evenly spread where there are too many."""
    return np.unique(np.linspace(0, rows - 1, min(rows, MOST_POINTS)).astype(np.int64))


def _scatter(view: str, title: str, x: Values, y: Values, x_label: str, y_label: str, guide: str) -> dict[str, Any]:
    points = {"x": [rounded(value) for value in x], "y": [rounded(value) for value in y]}
    picture = {"kind": "scatter", "title": title, "x_label": x_label, "y_label": y_label, "guide": guide}
    return {"view": view, "picture": {**picture, "groups": [points]}}


def _errors(ours: Values, theirs: Values, beaten: str, target: str) -> dict[str, Any]:
    """How large the errors are, of the model and of a baseline that is another; the outer bins hold the largest."""
    end = float(np.quantile(np.abs(np.concatenate([ours, theirs])), 0.99)) or 1.0
    edges = np.linspace(-end, end, _BINS + 1)
    both = [("this model", ours), (named(beaten), theirs)]
    groups = [{"name": name, "values": np.histogram(np.clip(errors, -end, end), bins=edges)[0].tolist()}
              for name, errors in (both[:1] if np.array_equal(ours, theirs) else both)]  # fmt: skip
    picture = {"kind": "histogram", "title": "errors", "edges": [float(edge) for edge in edges], "groups": groups}
    return {"view": "errors", "picture": {**picture, "x_label": f"error of {short(target, 40)}", "unit": "rows"}}


def _importance(weights: Mapping[str, Any]) -> dict[str, Any]:
    shown = weights["features"][:_FEATURES]
    unit = "share of gain" if weights["kind"] == "gain" else "share of weight"
    values = {"name": "this model", "values": [one["share"] for one in shown]}
    names = [one["name"] for one in shown]
    return {
        "view": "importance",
        "picture": {"kind": "bars", "title": "importance", "names": names, "groups": [values], "unit": unit},
    }
