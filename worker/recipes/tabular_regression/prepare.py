"""Splits a table, each tenth of the target's values on both sides."""

from __future__ import annotations

from pathlib import Path

from worker.recipes.common.job import Job
from worker.recipes.common.tables import Rules, split_table
from worker.recipes.numbers.target import problems, strata

RULES = Rules(problems, strata)


def prepare(job: Job, sealed_dir: Path, *, keep_source: bool = False) -> None:
    """Split and seal. Raises: BadData."""
    split_table(job, sealed_dir, RULES, keep_source=keep_source)
