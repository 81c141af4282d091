"""Trains a translator: a copy and a learned dictionary against a sequence-to-sequence network."""

from __future__ import annotations

from collections.abc import Sequence

from trainyard import TrainingRuntime
from worker.recipes.common.job import Job
from worker.recipes.pairs.bleu import Bleu
from worker.recipes.pairs.simple import Copy, Dictionary, Lead, learned_dictionary
from worker.recipes.pairs.training import Problem, train_pairs


class Translations(Problem):
    """Texts with their translations as a problem."""

    limits = ("It translates texts like those of its data, and may write what the text does not say.",)

    def __init__(self) -> None:
        self.measure = Bleu()
        self.words = {"copy": "a copy of the text", "dictionary": "a dictionary of words, learned from the pairs"}

    def baselines(self, sources: Sequence[str], targets: Sequence[str]) -> dict[str, Lead | Copy | Dictionary]:
        """A copy, and a dictionary of these pairs."""
        return {"copy": Copy(), "dictionary": learned_dictionary(sources, targets)}


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged."""
    train_pairs(job, runtime, Translations())
