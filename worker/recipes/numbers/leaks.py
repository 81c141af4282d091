"""Find columns that give a quantity away: each column alone, judged by cross-validation on at most 20,000 rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.columns import describe
from worker.recipes.common.table import Table, is_missing, number

SURE = 0.98  # of R²
_ROWS = 20_000
_FOLDS = 3
_DIGITS = re.compile(r"\D*?(-?\d+(?:[.,]\d+)?)\D*")  # one number in a cell
_DRESSED = 0.9  # of the cells of a column of such


def find_leaks(table: Table, target: str, *, seed: int = 7) -> list[dict[str, Any]]:
    """The fields of each Leak, best first: columns that alone explain nearly all of the target."""
    from sklearn.model_selection import cross_val_score
    from sklearn.tree import DecisionTreeRegressor

    cells = table.columns[target]
    rows = np.array([row for row, cell in enumerate(cells) if not is_missing(cell) and number(cell) is not None])
    if len(rows) < 2 * _FOLDS:
        return []
    rows = np.random.default_rng(seed).permutation(rows)[:_ROWS]
    wanted = np.array([float(cells[row]) for row in rows])
    if not wanted.std():
        return []
    found = []
    for name in table.names:
        values = _values(table, name, rows) if name != target else None
        if values is None:
            continue
        alone = values.reshape(-1, 1)  # (n_rows, 1)
        tree = DecisionTreeRegressor(min_samples_leaf=2, random_state=seed)
        explained = float(cross_val_score(tree, alone, wanted, cv=_FOLDS, scoring="r2").mean())
        if explained > SURE:
            why = f"“{name}” alone explains {explained:.1%} of how “{target}” varies"
            found.append({"column": name, "accuracy": round(explained, 4), "why": why})
    return sorted(found, key=lambda leak: -leak["accuracy"])


def _values(table: Table, name: str, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """A column as numbers, also where letters stand around each, such as P12.34 or 12.34 kg; None for other columns."""
    kind, cells = describe(table, name)["kind"], [table.columns[name][row] for row in rows]
    if kind in {"number", "boolean"}:
        return np.array([np.nan if (value := number(cell)) is None else value for cell in cells])
    if kind not in {"category", "identifier", "text"}:
        return None
    found = [_DIGITS.fullmatch(cell) for cell in cells]
    if sum(match is not None for match in found) < _DRESSED * len(cells):
        return None
    return np.array([np.nan if match is None else float(match[1].replace(",", ".")) for match in found])
