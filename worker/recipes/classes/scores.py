"""The metrics, and which one decides: ROC AUC for two classes, macro F1 for more."""

from __future__ import annotations

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


def _clipped(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    clipped = np.clip(shares, 1e-9, 1.0)
    return np.asarray(clipped / clipped.sum(axis=1, keepdims=True))
