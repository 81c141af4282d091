"""Splits images with classes, each class on both sides."""

from __future__ import annotations

from functools import partial

from worker.recipes.classes import target as classes
from worker.recipes.common.table import Table
from worker.recipes.common.tables import Rules, split_table
from worker.recipes.images import laying


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a training on these images."""
    return laying.problems(table) or classes.problems(table, target)


RULES = Rules(problems, lay=laying.lay, together=laying.equal_images, lonely=True)
prepare = partial(split_table, rules=RULES)
