"""How an encoder of texts learns: token numbers in, classes out, in the loop of `networks`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.networks.fitting import budget_of
from worker.recipes.networks.loop import rows_per_step, total_steps
from worker.recipes.networks.losses import weighted_loss
from worker.recipes.texts.encoder import Encoder
from worker.recipes.texts.encoding import tokens
from worker.recipes.texts.padding import padded

_NAMED_MODEL = 18.0  # how much more a step of a usual pretrained encoder (6 layers of 768) takes than the small one's


def work(settings: dict[str, Any], rows: int) -> float:
    """How much there is to do: texts that pass through the layers, of whatever length."""
    size = _NAMED_MODEL if settings["model"] else settings["layers"] * settings["hidden_size"] / 256
    return float(total_steps(settings, rows) * rows_per_step(settings) * size) * budget_of(settings).work


@dataclass
class TextLearner:
    """An encoder, the class number of each of its texts, and how to score the probabilities of the held-out texts.

    `weights` say how much a text of each class counts; None: all alike.
    """

    encoder: Encoder
    texts: Sequence[str]
    codes: NDArray[np.int64]
    held: Sequence[str]
    score: Callable[[NDArray[np.float64]], dict[str, float]]
    weights: NDArray[np.float64] | None = None
    rows: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = tokens(self.encoder.tokenizer, self.texts)
        self.network, self.device = self.encoder.network, self.encoder.device
        self.count = len(self.rows)
        self.key = str(zlib.crc32(repr(self.rows).encode()))

    def loss(self, rows: NDArray[np.int64]) -> Any:
        """Cross-entropy of these texts."""
        import torch

        ids, mask = padded([self.rows[row] for row in rows], self.network.config.pad_token_id or 0)  # (B, T)
        wanted = torch.from_numpy(self.codes[rows]).to(self.device)  # (B,)
        logits = self.network(ids.to(self.device), attention_mask=mask.to(self.device)).logits  # (B, C)
        return weighted_loss(logits.float(), wanted, self.weights)

    def measure(self) -> dict[str, float]:
        """The scores of the held-out texts."""
        return self.score(self.encoder.model().predict_proba(self.held))
