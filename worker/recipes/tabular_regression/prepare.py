"""Splits a table, each tenth of the target's values on both sides."""

from __future__ import annotations

from functools import partial

from worker.recipes.common.tables import Rules, split_table
from worker.recipes.numbers.target import problems, strata

RULES = Rules(problems, strata)
prepare = partial(split_table, rules=RULES)
