"""The loss of classes, where some may count for more than others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

UNKNOWN = -100  # the class number of what is not learned


def weighted_loss(logits: Any, wanted: Any, weights: NDArray[np.float64] | None) -> Any:
    """The mean cross-entropy of logits (N, C) for class numbers (N,), each times the weight of its class.

    It is divided by how many there are, not by their weights, so that batches are comparable.
    """
    import torch

    if weights is None:
        return torch.nn.functional.cross_entropy(logits, wanted, ignore_index=UNKNOWN)
    by_class = torch.from_numpy(weights).to(logits)
    total = torch.nn.functional.cross_entropy(logits, wanted, by_class, ignore_index=UNKNOWN, reduction="sum")
    return total / (wanted != UNKNOWN).sum()
