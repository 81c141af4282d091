"""What this recipe says of images before it is trained on them."""

from __future__ import annotations

from typing import Any

from worker.recipes.common.annotations import FORM, IMAGE
from worker.recipes.common.columns import is_quantity, values_of
from worker.recipes.common.job import Job
from worker.recipes.common.table import Table
from worker.recipes.common.tables import usable
from worker.recipes.image_regression.prepare import RULES, problems
from worker.recipes.images import network
from worker.recipes.images.laying import leaks
from worker.recipes.numbers.target import describe, warnings

__all__ = ["READS_TEXT", "describe", "effort", "fits", "leaks", "problems", "warnings"]
READS_TEXT = RULES.reads_text
HUB_TASK = ""


def fits(table: Table, _columns: list[dict[str, Any]], target: str) -> float:
    """Images with a quantity; then it suits better than a recipe of tables."""
    return 3.0 * float(table.form == FORM and target != IMAGE and is_quantity(values_of(table, target)))


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    table, _, _ = usable(table, job, RULES)
    settings = network.network_settings(job.settings, {})
    return network.work(settings, table.rows) / network.work(network.network_settings({}, {}), table.rows)
