"""Measures translations against the sealed ones."""

from __future__ import annotations

from pathlib import Path

from worker.recipes.common.job import Job
from worker.recipes.pairs.bleu import Bleu
from worker.recipes.pairs.evaluation import score_pairs


def score(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Measure and write. Raises: BadData."""
    score_pairs(job, sealed_dir, Bleu(), sealed=sealed)
