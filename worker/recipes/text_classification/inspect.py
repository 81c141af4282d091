"""What this recipe says of a file before it is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from worker.recipes.classes import suspicious as labels
from worker.recipes.classes import target as classes
from worker.recipes.classes.leaks import find_leaks as leaks
from worker.recipes.classes.target import describe
from worker.recipes.common.columns import described, is_quantity, require_words, text_column, useful, values_of
from worker.recipes.common.job import Job
from worker.recipes.common.table import Table
from worker.recipes.common.tables import usable
from worker.recipes.text_classification.prepare import RULES
from worker.recipes.texts import encoder, linear, loop

__all__ = ["READS_TEXT", "describe", "effort", "fits", "leaks", "problems", "suspicious", "warnings"]
READS_TEXT = RULES.reads_text
_FEW = 2  # columns beside text and target


def fits(table: Table, columns: list[dict[str, Any]], target: str) -> float:
    """A text that stands nearly alone beside classes; then it suits better than a recipe of tables."""
    alone = text_column(columns, leave_out=target) is not None and len(useful(columns, target)) <= _FEW
    return 2.0 * float(alone and not is_quantity(values_of(table, target)))


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a training on this target."""
    found = classes.problems(table, target)
    if text_column(described(table), leave_out=target, asked=True) is None:
        found.append("There is no column with text to classify.")
    return found


def warnings(table: Table, target: str) -> list[str]:
    """Sentences that people should read before they train on this target; of the inputs only the text is read."""
    text = text_column(described(table), leave_out=target, asked=True)
    return classes.warnings(replace(table, names=[text, target]) if text else table, target)


def suspicious(table: Table, target: str) -> list[str]:
    """A sentence on labels that a linear model of the words doubts."""
    text = text_column(described(table), leave_out=target, asked=True)
    if text is None:
        return []

    def judge(_table: Table, rows: Sequence[int], _codes: object) -> Any:
        return linear.classifier(seed=7), [table.columns[text][row] for row in rows]

    return labels.suspicious(table, target, judge)


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    table, _, text = usable(table, job, RULES)
    settings = encoder.encoder_settings(job.settings)
    require_words(table.columns[str(text)], str(text))
    return loop.work(settings, table.rows) / loop.work(encoder.encoder_settings({}), table.rows)
