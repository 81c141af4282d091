"""What this recipe says of a file before it is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from worker.recipes.classes import suspicious as labels
from worker.recipes.classes.leaks import find_leaks as leaks
from worker.recipes.classes.target import describe, problems, warnings
from worker.recipes.classes.weights import SETTINGS
from worker.recipes.common.columns import is_quantity, useful, values_of
from worker.recipes.common.job import Job
from worker.recipes.common.table import Table
from worker.recipes.common.tables import usable
from worker.recipes.tabular import boosting
from worker.recipes.tabular.encoding import encode
from worker.recipes.tabular.features import choose_features
from worker.recipes.tabular.linear import logistic
from worker.recipes.tabular_classification.prepare import RULES

__all__ = ["READS_TEXT", "describe", "effort", "fits", "leaks", "problems", "suspicious", "warnings"]
READS_TEXT = RULES.reads_text
USUAL = True


def fits(table: Table, columns: list[dict[str, Any]], target: str) -> float:
    """Columns to learn from, and a target that is no quantity."""
    return float(bool(useful(columns, target)) and not is_quantity(values_of(table, target)))


def suspicious(table: Table, target: str) -> list[str]:
    """A sentence on labels that the linear baseline doubts. Raises: BadData."""
    features, _ = choose_features(table, target)

    def judge(_table: Table, rows: Sequence[int], _codes: object) -> Any:
        cells = {name: [table.columns[name][row] for row in rows] for name in table.names}
        encoded = encode(cells, features)
        return logistic(encoded, features, seed=7), encoded

    return labels.suspicious(table, target, judge)


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    table, target, _ = usable(table, job, RULES)
    choose_features(table, target)
    return boosting.effort(job.settings, SETTINGS)
