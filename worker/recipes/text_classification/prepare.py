"""Splits a table with a column of texts, each class on both sides."""

from __future__ import annotations

from pathlib import Path

from worker.recipes.classes.target import problems
from worker.recipes.common.job import Job
from worker.recipes.common.tables import Rules, equal_texts, split_table

RULES = Rules(problems, reads_text=True, lonely=True, together=equal_texts)


def prepare(job: Job, sealed_dir: Path, *, keep_source: bool = False) -> None:
    """Split and seal. Raises: BadData."""
    split_table(job, sealed_dir, RULES, keep_source=keep_source)
