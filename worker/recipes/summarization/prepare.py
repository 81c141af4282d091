"""Splits pairs of texts, equal sources on one side."""

from __future__ import annotations

from pathlib import Path

from worker.recipes.common.job import Job
from worker.recipes.common.tables import split_table
from worker.recipes.pairs.preparing import RULES


def prepare(job: Job, sealed_dir: Path, *, keep_source: bool = False) -> None:
    """Split and seal. Raises: BadData."""
    split_table(job, sealed_dir, RULES, keep_source=keep_source)
