"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004) as F1, without stemming: how much of a reference a text has.

Words are runs of letters and digits in lower case, as in Google's `rouge_score`; of scripts without spaces each
character is one. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from worker.recipes.pairs.measure import Measure

METRIC = "rouge_l"
NAMES = ("rouge_1", "rouge_2", "rouge_l")
_ALONE = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"  # Thai, Japanese, Chinese
_WORD = re.compile(rf"[{_ALONE}]|[^\W_{_ALONE}]+")
_MOST_WORDS = 2_000  # of a text; the longest common part takes time by their product


class Rouge(Measure):
    """ROUGE as a measure of pairs: the mean over rows."""

    metric = METRIC
    names = NAMES

    @property
    def signature(self) -> str:
        """What exactly is measured."""
        return "ROUGE F1, lower case, no stemming, mean over texts"

    def statistics(self, said: Sequence[str], wanted: Sequence[str]) -> NDArray[np.float64]:
        """The three values of each row (n, 3)."""
        rows = [rouge(ours, theirs) for ours, theirs in zip(said, wanted, strict=True)]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(NAMES))

    def scores(self, rows: NDArray[np.float64]) -> dict[str, float]:
        """The metrics of rows of `statistics`."""
        return {name: float(value) for name, value in zip(NAMES, rows.mean(axis=0), strict=True)}


def rouge(said: str, wanted: str) -> tuple[float, float, float]:
    """F1 of single words, of pairs of words, and of the longest common subsequence; 0 to 1."""
    ours, theirs = _words(said), _words(wanted)
    common = _longest_common(ours, theirs)
    return (
        _shared(Counter(ours), Counter(theirs)),
        _shared(Counter(pairwise(ours)), Counter(pairwise(theirs))),
        _f1(common, len(ours), len(theirs)),
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())[:_MOST_WORDS]


def _shared(ours: Counter[object], theirs: Counter[object]) -> float:
    return _f1((ours & theirs).total(), ours.total(), theirs.total())


def _f1(common: int, ours: int, theirs: int) -> float:
    return 2.0 * common / (ours + theirs) if common else 0.0


def _longest_common(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """The length of the longest common subsequence, a row of its table at a time."""
    before = [0] * (len(theirs) + 1)
    for word in ours:
        row = [0]
        for at, other in enumerate(theirs):
            row.append(before[at] + 1 if word == other else max(row[at], before[at + 1]))
        before = row
    return before[-1]
