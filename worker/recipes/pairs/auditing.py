"""What the recipes of pairs say of a file before it is trained on, whichever pair it is."""

from __future__ import annotations

from worker.recipes.common.columns import require_words
from worker.recipes.common.job import Job
from worker.recipes.common.table import Table
from worker.recipes.common.tables import usable
from worker.recipes.pairs.network import network_settings, work
from worker.recipes.pairs.preparing import RULES


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    table, _, text = usable(table, job, RULES)
    settings = network_settings(job.settings)
    require_words(table.columns[str(text)], str(text))
    return work(settings, table.rows) / work(network_settings({}), table.rows)
