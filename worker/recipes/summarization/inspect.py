"""What this recipe says of a file before it is trained on."""

from __future__ import annotations

from typing import Any

from worker.recipes.common.table import Table
from worker.recipes.pairs.auditing import effort
from worker.recipes.pairs.finding import source_of, summary_pair, text_columns
from worker.recipes.pairs.target import describe, leaks, problems, warnings

__all__ = ["READS_TEXT", "describe", "effort", "fits", "leaks", "problems", "source_of", "suggest_target", "warnings"]
READS_TEXT = True
_SHORTER = 0.5


def suggest_target(table: Table, *, asked: bool) -> str | None:
    """The column of summaries, by its name; where summaries were asked for, also by its length."""
    found = summary_pair(table, asked=asked)
    return found[1] if found else None


def fits(table: Table, _columns: list[dict[str, Any]], target: str) -> float:
    """A target of texts of their own that are much shorter than those of another column."""
    texts, source = text_columns(table), source_of(table, target)
    if target not in texts or source is None:
        return 0.0
    named = suggest_target(table, asked=False) == target
    return 4.0 if named else 2.5 * float(texts[target] < _SHORTER * texts[source])
