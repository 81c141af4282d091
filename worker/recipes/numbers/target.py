"""What is said of a target column that holds a quantity: its problems, its report, what people should read first."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from worker.recipes.common.columns import is_quantity, missing_problems, values_of
from worker.recipes.common.split import repetition
from worker.recipes.common.table import Table, number

_SKEWED = 20.0
_STRATA = 10


def describe(table: Table, target: str) -> dict[str, Any]:
    """The fields of a TargetReport."""
    counts = values_of(table, target)
    values = [value for cell, times in counts.items() for value in [number(cell)] * times if value is not None]
    spread = [min(values), statistics.median(values), max(values)] if values else None
    return {"column": target, "missing": table.rows - counts.total(), "spread": spread}


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a training on this target."""
    counts = values_of(table, target)
    found = missing_problems(table, target)
    texts = [cell for cell in counts if number(cell) is None]
    if texts:
        some = ", ".join(f"“{cell[:40]}”" for cell in texts[:3])
        found.append(f"The target “{target}” holds what is no number ({some}); a regression predicts numbers.")
    elif len(counts) == 1:
        found.append(f"The target “{target}” is always {next(iter(counts))}; there is nothing to predict.")
    return found


def warnings(table: Table, target: str) -> list[str]:
    """Sentences that people should read before they train on this target."""
    found = repetition(table, target)
    counts = values_of(table, target)
    spread = describe(table, target)["spread"]
    if spread and not is_quantity(counts):
        found.append(f"“{target}” has only {len(counts)} different values; a classification may suit it better.")
    if spread and spread[0] >= 0 and spread[1] and spread[2] / spread[1] > _SKEWED:
        found.append(
            f"“{target}” is skewed: its median is {spread[1]:g}, its greatest value {spread[2]:g}. A few rows will "
            "make up most of the error."
        )
    return found


def strata(values: Sequence[str]) -> list[str]:
    """The tenth of the values in which each lies, so that both parts of a split span all of them."""
    numbers = np.array([float(value) for value in values])
    edges = np.quantile(numbers, np.linspace(0, 1, _STRATA + 1)[1:-1])
    return [str(at) for at in np.searchsorted(edges, numbers)]
