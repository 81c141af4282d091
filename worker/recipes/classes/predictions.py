"""The files of class predictions that a recipe leaves, and what the majority baseline says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Rows = tuple[list[str], Iterator[Sequence[object]]]


def share_rows(row_ids: Sequence[str], classes: Sequence[str], shares: NDArray[np.float64]) -> Rows:
    """Header and rows of `predictions/<candidate>.csv`. `shares` are probabilities (n_rows, n_classes)."""
    rows = (
        [row_id, classes[int(share.argmax())], *(f"{part:.8f}" for part in share)]
        for row_id, share in zip(row_ids, shares, strict=True)
    )
    return ["row_id", "label", *(f"p_{label}" for label in classes)], rows


def majority_shares(labels: Sequence[str], classes: Sequence[str], rows: int) -> NDArray[np.float64]:
    """What the majority baseline says for each row: how frequent each class was in training. (rows, n_classes)"""
    codes = np.searchsorted(classes, labels)
    share = np.bincount(codes, minlength=len(classes)) / len(labels)
    return np.tile(share, (rows, 1))


def limits_of(classes: Sequence[str]) -> list[str]:
    """What the card says of a model that tells these classes apart."""
    return [f"It knows the classes {', '.join(classes[:20])} and will always answer one of them."]
