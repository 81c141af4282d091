"""The words that a linear model of texts leans on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MOST_WORDS = 30


def words(pipeline: Any, classes: Sequence[str]) -> dict[str, Any]:
    """The most telling words of TF-IDF with logistic regression, each with the class that it speaks for.

    Of two classes a negative weight speaks for the first.
    """
    names, weights = pipeline[0].get_feature_names_out(), np.atleast_2d(pipeline[-1].coef_)  # (1 or n_classes, n_words)
    if len(weights) == 1:
        weights = np.concatenate([-weights, weights])
    strongest = np.argsort(-weights, axis=None, kind="stable")[:MOST_WORDS]
    places = zip(*np.unravel_index(strongest, weights.shape), strict=True)
    found = [(f"{names[word]} → {classes[code]}", float(weights[code, word])) for code, word in places]
    return {"kind": "words", "features": [[name, weight] for name, weight in found if weight > 0]}
