"""Splits a table, each class on both sides."""

from __future__ import annotations

from functools import partial

from worker.recipes.classes.target import problems
from worker.recipes.common.tables import Rules, split_table

RULES = Rules(problems, lonely=True)
prepare = partial(split_table, rules=RULES)
