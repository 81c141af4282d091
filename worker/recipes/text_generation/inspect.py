"""What this recipe says of texts before a language model is trained on them."""

from __future__ import annotations

from typing import Any

from worker.recipes.common.columns import described, find_column, text_column
from worker.recipes.common.job import Job
from worker.recipes.common.numerals import counted
from worker.recipes.common.parting import names_parts
from worker.recipes.common.table import BadData, Table
from worker.recipes.language.documents import PLAIN, problems
from worker.recipes.text_generation.settings import generation_settings, work

__all__ = ["READS_TEXT", "describe", "effort", "fits", "leaks", "problems", "suggest_target", "warnings"]
READS_TEXT = False
OWN_SPLIT = True


def suggest_target(table: Table, *, asked: bool) -> str | None:
    """The column to learn to write: the only one of a text file, the longest texts where this task was asked for."""
    if table.form == PLAIN:
        return table.names[0]
    return text_column(described(table), leave_out=None, asked=True) if asked or len(table.names) == 1 else None


def fits(table: Table, columns: list[dict[str, Any]], target: str) -> float:
    """Texts with nothing beside them."""
    texts = [name for name in table.names if not names_parts(table, name)]
    alone = len(texts) == 1 and any(column["kind"] == "text" for column in columns if column["name"] == target)
    return 2.0 * float(table.form == PLAIN or alone)


def describe(table: Table, target: str) -> dict[str, Any]:
    """The fields of a TargetReport."""
    texts = table.columns[target]
    full = [text for text in texts if text.strip()]
    about = f"{sum(map(len, full)):,} characters to learn to write"
    return {"column": target, "classes": [], "missing": len(texts) - len(full), "imbalance": 0.0, "about": about}


def warnings(table: Table, target: str) -> list[str]:
    """What people should know of the texts."""
    texts = [text for text in table.columns[target] if text.strip()]
    chars = sum(map(len, texts))
    if table.form == PLAIN:
        return [f"One text of {chars:,} characters: its last part is sealed to measure."]
    again = len(texts) - len(set(texts))
    more = f"{counted(again, 'text is', 'texts are')} there more than once; equal ones stay on one side of the split."
    return [f"{counted(len(texts), 'text', 'texts')} with {chars:,} characters.", *([more] if again else [])]


def leaks(_table: Table, _target: str) -> list[dict[str, Any]]:
    """Nothing beside the texts is learned from."""
    return []


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    target = find_column(table, job.target, role="text")
    found = problems(table, target)
    if found:
        raise BadData(" ".join(found))
    chars = sum(map(len, table.columns[target]))
    return work(generation_settings(job.settings), chars) / work(generation_settings({}), chars)
