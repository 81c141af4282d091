"""How tables of pairs are split: rows with equal sources stay on one side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from worker.recipes.common.tables import Rules, equal_texts, split_table
from worker.recipes.pairs.finding import source_of
from worker.recipes.pairs.target import problems


def one_stratum(values: Sequence[str]) -> list[str]:
    """All rows are alike: no text is more frequent than another."""
    return [""] * len(values)


RULES = Rules(problems, one_stratum, reads_text=True, text_of=source_of, together=equal_texts)
prepare = partial(split_table, rules=RULES)
