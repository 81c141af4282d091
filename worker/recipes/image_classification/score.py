"""Measures class probabilities against the sealed labels."""

from worker.recipes.classes.evaluation import score

__all__ = ["score"]
