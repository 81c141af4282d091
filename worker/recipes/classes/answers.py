"""The answers of a model that tells classes apart. Copied beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TOP = 5


def added(classes: Sequence[str]) -> list[str]:
    """The columns that predicting adds to a file."""
    return ["prediction", *(f"p_{label}" for label in classes)]


@dataclass(frozen=True)
class Labels:
    """The probability of each class for each row: `shares` (n_rows, n_classes)."""

    classes: Sequence[str]
    shares: NDArray[np.float64]

    def cells(self) -> Iterator[list[str]]:
        """What each row gets in the columns of `added`."""
        for share in self.shares:
            yield [self.classes[int(share.argmax())], *(f"{part:.8f}" for part in share)]

    def said(self) -> list[dict[str, Any]]:
        """One answer a row, with the five most probable classes."""
        found = []
        for share in self.shares:
            ranked = sorted(zip(self.classes, share.tolist(), strict=True), key=lambda pair: -pair[1])[:_TOP]
            probabilities = [[label, round(part, 8)] for label, part in ranked]
            found.append({"kind": "label", "label": ranked[0][0], "probabilities": probabilities})
        return found


def class_shares(estimator: Any, rows: Any) -> NDArray[np.float64]:
    """Probabilities (n_rows, n_classes) of a LightGBM booster or an sklearn estimator."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(rows), dtype=np.float64)
    shares = np.asarray(estimator.predict(rows), dtype=np.float64)
    return np.column_stack([1.0 - shares, shares]) if shares.ndim == 1 else shares
