"""Splits images with a quantity, each tenth of its values on both sides."""

from __future__ import annotations

from functools import partial

from worker.recipes.common.table import Table
from worker.recipes.common.tables import Rules, split_table
from worker.recipes.images import laying
from worker.recipes.numbers import target as numbers


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a training on these images."""
    return laying.problems(table) or numbers.problems(table, target)


RULES = Rules(problems, numbers.strata, lay=laying.lay, together=laying.equal_images)
prepare = partial(split_table, rules=RULES)
