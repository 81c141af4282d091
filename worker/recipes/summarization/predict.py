"""The finished model: texts in, texts out. Needs torch and transformers for a network."""

from worker.recipes.pairs.writing import load

__all__ = ["load"]
