"""What this recipe says of images before it is trained on them."""

from __future__ import annotations

from typing import Any

from worker.recipes.classes.target import describe, warnings
from worker.recipes.classes.weights import SETTINGS
from worker.recipes.common.annotations import FORM, IMAGE
from worker.recipes.common.columns import is_quantity, values_of
from worker.recipes.common.job import Job
from worker.recipes.common.table import Table
from worker.recipes.common.tables import usable
from worker.recipes.image_classification.prepare import RULES, problems
from worker.recipes.images import network
from worker.recipes.images.laying import leaks

__all__ = ["READS_TEXT", "describe", "effort", "fits", "leaks", "problems", "warnings"]
READS_TEXT = RULES.reads_text


def fits(table: Table, _columns: list[dict[str, Any]], target: str) -> float:
    """Images with classes; then it suits better than a recipe of tables."""
    return 3.0 * float(table.form == FORM and target != IMAGE and not is_quantity(values_of(table, target)))


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    table, _, _ = usable(table, job, RULES)
    settings = network.network_settings(job.settings, SETTINGS)
    return network.work(settings, table.rows) / network.work(network.network_settings({}, SETTINGS), table.rows)
