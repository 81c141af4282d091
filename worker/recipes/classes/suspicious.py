"""Labels that look wrong: rows whose class a simple model of the other rows is sure is another one.

Each row is judged by a model that has not seen it (three folds). The idea is that of confident learning (Northcutt,
Jiang and Chuang, 2021), with a high bar, so that data which are merely hard to predict give no list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.table import Table, is_missing

_ROWS = 5_000
_FOLDS = 3
_SURE, _HARDLY = 0.9, 0.05
_MOST = 0.1  # of the rows: more than that are not mistakes of a person, but a model that errs
_SHOWN = 3
Judge = Callable[[Table, Sequence[int], NDArray[np.int64]], Any]


def suspicious(table: Table, target: str, judge: Judge, *, seed: int = 7) -> list[str]:
    """One sentence with the lines of the most suspicious rows, or none.

    `judge(table, rows, codes)` gives an estimator with `predict_proba` and the inputs of these rows.
    """
    rows = [row for row, cell in enumerate(table.columns[target]) if not is_missing(cell)]
    if len(rows) > _ROWS:
        rows = sorted(np.random.default_rng(seed).choice(rows, _ROWS, replace=False).tolist())
    labels, codes = np.unique([table.columns[target][row].strip() for row in rows], return_inverse=True)
    if len(labels) < 2 or np.bincount(codes).min() < _FOLDS:
        return []
    shares = _out_of_fold(table, rows, codes, judge, seed)
    other = np.where(np.arange(len(labels)) == codes[:, None], -1.0, shares)
    likely, given = other.argmax(axis=1), shares[np.arange(len(rows)), codes]
    sure = other.max(axis=1)
    found = np.flatnonzero((sure >= _SURE) & (given <= _HARDLY))
    if not len(found) or len(found) > _MOST * len(rows):
        return []
    worst = found[np.argsort(-sure[found], kind="stable")][:_SHOWN]
    some = ", ".join(
        f"line {table.lines[rows[at]]} (“{labels[codes[at]]}”, looks like “{labels[likely[at]]}”)" for at in worst
    )
    more = f" and {len(found) - len(worst):,} more" if len(found) > len(worst) else ""
    return [f"Probably wrong labels: {some}{more}. A wrong label costs on both sides: look at them first."]


def _out_of_fold(
    table: Table, rows: Sequence[int], codes: NDArray[np.int64], judge: Judge, seed: int
) -> NDArray[np.float64]:
    """The probabilities (n_rows, n_classes) of each row by a model of the others."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    estimator, inputs = judge(table, rows, codes)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    return np.asarray(cross_val_predict(estimator, inputs, codes, cv=folds, method="predict_proba"))
