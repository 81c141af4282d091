"""The metrics, and which one decides: ROC AUC for two classes, macro F1 for more."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def decisive_metric(classes: int) -> str:
    """The metric by which models are compared. Higher is better for both."""
    return "roc_auc" if classes == 2 else "macro_f1"


def measure(truth: Sequence[str], classes: Sequence[str], shares: NDArray[np.float64]) -> dict[str, float]:
    """Every metric. `classes` is sorted and covers `truth`; `shares` are probabilities (n_rows, n_classes)."""
    from sklearn.metrics import accuracy_score, f1_score, log_loss, roc_auc_score

    codes = np.searchsorted(classes, truth)
    guess = shares.argmax(axis=1)
    found = {
        "accuracy": accuracy_score(codes, guess),
        "macro_f1": f1_score(codes, guess, average="macro", zero_division=0.0),
        "log_loss": log_loss(codes, _clipped(shares), labels=range(len(classes))),
    }
    if len(classes) == 2:
        both = len(set(codes.tolist())) == 2
        found["roc_auc"] = roc_auc_score(codes, shares[:, 1]) if both else 0.5
    return {name: float(value) for name, value in found.items()}


def decisive(codes: NDArray[np.int64], shares: NDArray[np.float64]) -> float:
    """The metric that decides, of class numbers (n,) and probabilities (n, n_classes); NaN where a class is missing.

    The same as `measure` gives, in a hundredth of its time: it is asked for hundreds of draws of rows.
    """
    if shares.shape[1] == 2:
        positive = int(codes.sum())
        negative = len(codes) - positive
        if not positive or not negative:
            return math.nan
        _, place, counts = np.unique(shares[:, 1], return_inverse=True, return_counts=True)
        middle = np.cumsum(counts) - (counts - 1) / 2  # the mean rank of each value
        ranks = float(middle[place][codes == 1].sum())
        return (ranks - positive * (positive + 1) / 2) / (positive * negative)
    width = shares.shape[1]
    counts = np.bincount(codes * width + shares.argmax(axis=1), minlength=width * width).reshape(width, width)
    there = counts.sum(axis=0) + counts.sum(axis=1)
    right = 2.0 * np.diag(counts)
    return float((right[there > 0] / there[there > 0]).mean())


def _clipped(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = np.clip(shares, 1e-9, 1.0)
    return np.asarray(clipped / clipped.sum(axis=1, keepdims=True))
