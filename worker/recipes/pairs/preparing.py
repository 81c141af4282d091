"""How tables of pairs are split: rows with equal sources stay on one side."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from worker.recipes.common.table import Table
from worker.recipes.common.tables import Rules
from worker.recipes.pairs.finding import source_of
from worker.recipes.pairs.target import problems, same_text


def one_stratum(values: Sequence[str]) -> list[str]:
    """All rows are alike: no text is more frequent than another."""
    return [""] * len(values)


def groups(table: Table, text: str) -> list[Hashable]:
    """What rows belong together: those with equal sources."""
    return [same_text(cell) for cell in table.columns[text]]


RULES = Rules(problems, one_stratum, reads_text=True, text_of=source_of, groups=groups)
