"""Splits pairs of texts, equal sources on one side."""

from worker.recipes.pairs.preparing import RULES, prepare

__all__ = ["RULES", "prepare"]
