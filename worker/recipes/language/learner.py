"""How a causal language model learns: texts packed into blocks of tokens, in the loop of `networks`."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.language.bits import Coded, coded, plain_tokens, size
from worker.recipes.language.network import Language


@dataclass
class LanguageLearner:
    """A model, the texts that it learns and the held-out ones, by which it is measured in bits per byte."""

    language: Language
    texts: Sequence[str]
    held: Sequence[str]
    blocks: NDArray[np.int64] = field(init=False)  # (n, T + 1)

    def __post_init__(self) -> None:
        self.network, self.device = self.language.network, self.language.device
        self.blocks = packed(self.language.tokenizer, self.texts, self.language.longest)
        self.count = len(self.blocks)
        self.key = str(zlib.crc32(self.blocks.tobytes()))

    def loss(self, rows: NDArray[np.int64]) -> Any:
        """Cross-entropy of each next token."""
        import torch

        ids = torch.from_numpy(self.blocks[rows]).to(self.device)  # (B, T + 1)
        logits = self.network(ids[:, :-1]).logits  # (B, T, V)
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())

    def measure(self) -> dict[str, float]:
        """The scores of the held-out texts."""
        return self.measured(self.coded())

    def coded(self) -> Coded:
        """What the held-out texts cost the network."""
        return coded(self.network, self.language.tokenizer, self.held, longest=self.language.longest)

    def measured(self, found: Coded) -> dict[str, float]:
        """Bits per byte of the held-out texts, and the perplexity that they are for a token."""
        bits = sum(found.bits)
        perplexity = math.exp(min(50.0, bits * math.log(2) / max(1, sum(found.tokens))))
        return {"bits_per_byte": bits / sum(map(size, self.held)), "token_perplexity": perplexity}


def packed(tokenizer: Any, texts: Sequence[str], length: int) -> NDArray[np.int64]:
    """All texts one after another, a mark before each, in blocks of `length` and the token that follows: (n, T + 1)."""
    mark = tokenizer.eos_token_id
    stream = one_after_another(tokenizer, texts, mark)
    stream += [mark] * max(0, length + 1 - len(stream))
    starts = range(0, len(stream) - length, length)
    return np.array([stream[at : at + length + 1] for at in starts], dtype=np.int64)


def one_after_another(tokenizer: Any, texts: Sequence[str], mark: int) -> list[int]:
    """The tokens of all texts, a mark before each."""
    return [token for text in texts for token in (mark, *plain_tokens(tokenizer, text))]
