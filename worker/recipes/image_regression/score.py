"""Measures predicted quantities against the sealed ones."""

from worker.recipes.numbers.evaluation import score

__all__ = ["score"]
