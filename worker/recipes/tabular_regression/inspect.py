"""What this recipe says of a file before it is trained on."""

from __future__ import annotations

from typing import Any

from worker.recipes.common.columns import is_quantity, useful, values_of
from worker.recipes.common.job import Job
from worker.recipes.common.table import Table
from worker.recipes.common.tables import usable
from worker.recipes.numbers.leaks import find_leaks as leaks
from worker.recipes.numbers.target import describe, problems, warnings
from worker.recipes.tabular import boosting
from worker.recipes.tabular.features import choose_features
from worker.recipes.tabular_regression.prepare import RULES

__all__ = ["READS_TEXT", "describe", "effort", "fits", "leaks", "problems", "warnings"]
READS_TEXT = RULES.reads_text


def fits(table: Table, columns: list[dict[str, Any]], target: str) -> float:
    """Columns to learn from, and a target that is a quantity."""
    return float(bool(useful(columns, target)) and is_quantity(values_of(table, target)))


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    table, target, _ = usable(table, job, RULES)
    choose_features(table, target)
    return boosting.effort(job.settings, {})
