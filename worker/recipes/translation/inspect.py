"""What this recipe says of a file before it is trained on."""

from __future__ import annotations

from typing import Any

from worker.recipes.common.table import Table
from worker.recipes.pairs.auditing import effort
from worker.recipes.pairs.finding import language_of, source_of, text_columns, translation_pair
from worker.recipes.pairs.target import describe, leaks, problems, warnings

__all__ = ["READS_TEXT", "describe", "effort", "fits", "leaks", "problems", "source_of", "suggest_target", "warnings"]
READS_TEXT = True


def suggest_target(table: Table, *, asked: bool) -> str | None:
    """The column of translations, by its name; where a translation was asked for, the second column of texts."""
    found = translation_pair(table, asked=asked)
    return found[1] if found else None


def fits(table: Table, _columns: list[dict[str, Any]], target: str) -> float:
    """A target of texts of their own beside a column of about as long ones, best with languages for names."""
    texts, source = text_columns(table), source_of(table, target)
    if target not in texts or source is None:
        return 0.0
    named = suggest_target(table, asked=False) == target or (language_of(target) and language_of(source))
    return 3.5 if named else 2.4 * float(0.5 < texts[target] / texts[source] < 2.0)
