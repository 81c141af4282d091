"""Rows of token numbers as one tensor. Copied beside the models of texts, of tokens and of pairs; needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def padded(batch: Sequence[Sequence[int]], pad: int) -> tuple[Any, Any]:
    """Token numbers and mask as tensors (B, T), filled up on the right."""
    import torch

    longest = max(1, max(map(len, batch)))
    ids = torch.full((len(batch), longest), pad, dtype=torch.long)  # (B, T)
    mask = torch.zeros((len(batch), longest), dtype=torch.long)  # (B, T)
    for row, numbers in enumerate(batch):
        ids[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.long)
        mask[row, : len(numbers)] = 1
    return ids, mask
