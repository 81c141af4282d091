"""Measures predicted quantities against the sealed ones, and shows the images that were farthest off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.job import Job
from worker.recipes.images.samples import MOST, grid
from worker.recipes.numbers import evaluation

Values = NDArray[np.float64]


def score(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Measure and write. Raises: BadData."""

    def samples(row_ids: list[str], wanted: Values, said: Values) -> list[dict[str, Any]]:
        worst = np.argsort(-np.abs(said - wanted), kind="stable")[:MOST]
        shown = [(row_ids[at], f"{wanted[at]:.4g}, said {said[at]:.4g}", None) for at in worst]
        picture = grid(sealed_dir, f"the {len(shown)} largest errors", shown)
        return [{"view": "samples", "picture": picture}] if picture else []

    evaluation.score(job, sealed_dir, sealed=sealed, more=samples)
