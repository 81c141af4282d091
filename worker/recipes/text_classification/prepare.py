"""Splits a table with a column of texts, each class on both sides."""

from __future__ import annotations

from functools import partial

from worker.recipes.classes.target import problems
from worker.recipes.common.tables import Rules, equal_texts, split_table

RULES = Rules(problems, reads_text=True, lonely=True, together=equal_texts)
prepare = partial(split_table, rules=RULES)
