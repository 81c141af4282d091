"""Trains a writer of summaries: the first sentences of a text against a sequence-to-sequence network."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard import TrainingRuntime
from worker.recipes.common.job import Job
from worker.recipes.pairs.rouge import Rouge
from worker.recipes.pairs.simple import Copy, Dictionary, Lead
from worker.recipes.pairs.training import Problem, train_pairs

_MOST_SENTENCES = 5
_CHOSEN_ON = 500  # pairs


class Summaries(Problem):
    """Texts with their summaries as a problem."""

    limits = ("It writes what summaries in its data were like, and may write what the text does not say.",)

    def __init__(self) -> None:
        self.measure = Rouge()
        self.words = {"lead": "the first sentences of the text"}

    def baselines(self, sources: Sequence[str], targets: Sequence[str]) -> dict[str, Lead | Copy | Dictionary]:
        """As many first sentences as score best on some of these pairs."""
        some = list(zip(sources, targets, strict=True))[:_CHOSEN_ON]

        def worth(count: int) -> float:
            said = Lead(count).texts([source for source, _ in some])
            rows = self.measure.statistics(said, [target for _, target in some])
            return self.measure.scores(rows)[self.measure.metric]

        return {"lead": Lead(max(range(1, _MOST_SENTENCES + 1), key=worth))}


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged."""
    train_pairs(job, runtime, Summaries())
