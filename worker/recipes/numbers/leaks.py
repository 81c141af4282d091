"""Find columns that give a quantity away: each column alone, judged by cross-validation on at most 20,000 rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from worker.recipes.common.columns import describe
from worker.recipes.common.table import Table, is_missing, number

SURE = 0.98  # of R²
_ROWS = 20_000
_FOLDS = 3


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
        if name == target or describe(table, name)["kind"] not in {"number", "boolean"}:
            continue
        alone = np.array(
            [[value if (value := number(table.columns[name][row])) is not None else np.nan] for row in rows]
        )
        tree = DecisionTreeRegressor(min_samples_leaf=2, random_state=seed)
        explained = float(cross_val_score(tree, alone, wanted, cv=_FOLDS, scoring="r2").mean())
        if explained > SURE:
            why = f"“{name}” alone explains {explained:.1%} of how “{target}” varies"
            found.append({"column": name, "accuracy": round(explained, 4), "why": why})
    return sorted(found, key=lambda leak: -leak["accuracy"])
