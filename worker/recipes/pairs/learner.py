"""How a network learns pairs: source tokens in, target tokens out, in the loop of `networks`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.pairs.network import Network
from worker.recipes.pairs.writing import source_tokens
from worker.recipes.texts.padding import padded

_NO_LOSS = -100
_BATCH = 64


@dataclass
class PairLearner:
    """A network, its pairs, the held-out pairs, and how to score what it writes for the first `shown` of those."""

    made: Network
    pairs: tuple[Sequence[str], Sequence[str]]
    held: tuple[Sequence[str], Sequence[str]]
    score: Callable[[list[str]], dict[str, float]]
    shown: int

    def __post_init__(self) -> None:
        self.network, self.device = self.made.network, self.made.device
        self._rows, self._held = self._tokens(self.pairs), self._tokens(self.held)
        self.count = len(self._rows)
        self.key = str(zlib.crc32(repr(self._rows).encode()))

    def loss(self, rows: NDArray[np.int64]) -> Any:
        """Cross-entropy of the target tokens of these pairs."""
        return self._loss([self._rows[row] for row in rows])

    def measure(self) -> dict[str, float]:
        """The loss of each token of the held-out targets, and the scores of what it writes for some of them."""
        import torch

        total, count = 0.0, 0
        with torch.inference_mode():
            for at in range(0, len(self._held), _BATCH):
                batch = self._held[at : at + _BATCH]
                tokens = sum(len(target) for _, target in batch)
                total, count = total + float(self._loss(batch)) * tokens, count + tokens
        written = self.made.writer(beams=1).texts(self.held[0][: self.shown])
        return {"loss": total / count, **self.score(written)}

    def _loss(self, batch: Sequence[tuple[list[int], list[int]]]) -> Any:
        pad = self.made.tokenizer.pad_token_id
        ids, mask = padded([source for source, _ in batch], pad)  # (B, T)
        wanted, counts = padded([target for _, target in batch], pad)  # (B, U)
        wanted = wanted.masked_fill(counts == 0, _NO_LOSS)
        moved = {"input_ids": ids, "attention_mask": mask, "labels": wanted}
        return self.network(**{name: part.to(self.device) for name, part in moved.items()}).loss

    def _tokens(self, pairs: tuple[Sequence[str], Sequence[str]]) -> list[tuple[list[int], list[int]]]:
        """Numbers of each pair, cut to what is read and written."""
        sources, targets = pairs
        most = self.made.limits.target_tokens
        ends = self.made.tokenizer(text_target=list(targets), truncation=True, max_length=most)["input_ids"]
        return list(zip(source_tokens(self.made.tokenizer, sources, self.made.limits), ends, strict=True))
