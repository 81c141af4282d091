"""Measures class probabilities against the sealed labels, and shows the images that were got wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.classes import evaluation
from worker.recipes.classes.results import Answers
from worker.recipes.common.job import Job
from worker.recipes.common.numerals import counted
from worker.recipes.images.samples import MOST, grid


def score(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Measure and write. Raises: BadData."""

    def samples(answers: Answers, row_ids: list[str]) -> dict[str, Any]:
        return {"samples": _samples(answers, row_ids, sealed_dir)}

    evaluation.score(job, sealed_dir, sealed=sealed, more=samples)


def _samples(answers: Answers, row_ids: list[str], sealed_dir: Path) -> dict[str, Any] | None:
    """The surest mistakes first; with none, the images of which the model was least sure."""
    sure = answers.shares.max(axis=1)
    wrong = np.flatnonzero(answers.guess != answers.codes)
    order = wrong[np.argsort(-sure[wrong], kind="stable")] if len(wrong) else np.argsort(sure, kind="stable")
    shown = [
        (row_ids[at], _caption(answers, int(at), float(sure[at])), bool(answers.guess[at] == answers.codes[at]))
        for at in order[:MOST]
    ]
    some = f"the surest of {counted(len(wrong), 'mistake', 'mistakes')}"
    title = some if len(wrong) else "no mistakes: the least sure images"
    return grid(sealed_dir, title, shown)


def _caption(answers: Answers, at: int, sure: float) -> str:
    true, said = answers.classes[answers.codes[at]], answers.classes[answers.guess[at]]
    return f"{said} {sure:.0%}" if true == said else f"{true}, said {said} {sure:.0%}"
