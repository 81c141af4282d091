"""The linear baseline of texts."""

from __future__ import annotations

from typing import Any

WORD = r"(?u)\b\w+\b"  # words of one letter count, unlike in the default of scikit-learn


def classifier(*, seed: int, balanced: bool = False) -> Any:
    """TF-IDF of words and pairs of words before a logistic regression: a pipeline that is not fitted yet.

    `balanced`: each class counts as much as every other.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), max_features=200_000, token_pattern=WORD)
    weight = "balanced" if balanced else None
    return make_pipeline(words, LogisticRegression(C=10.0, max_iter=2000, random_state=seed, class_weight=weight))
