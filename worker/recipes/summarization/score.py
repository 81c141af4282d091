"""Measures summaries against the sealed ones."""

from __future__ import annotations

from pathlib import Path

from worker.recipes.common.job import Job
from worker.recipes.pairs.evaluation import score_pairs
from worker.recipes.pairs.rouge import Rouge


def score(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Measure and write. Raises: BadData."""
    score_pairs(job, sealed_dir, Rouge(), sealed=sealed)
