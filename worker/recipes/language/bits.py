"""How many bits a causal language model needs for texts: what it is measured by, and validated by while it trains.

The evaluation runs it on a model that a training left, so it trusts neither network nor tokenizer: a network that looks
ahead is refused, and a text that the tokenizer cannot give back costs eight bits a byte on top. A memory beside the
network is counts and weights, out of which the probabilities are made here (`worker.recipes.language.memory`). By the
byte, models with different tokenizers, and compressors, compare.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.table import BadData
from worker.recipes.language.memory import Memory

_LOGITS = 30_000_000  # that lie in memory at a time
_LOOKED_AT = 32  # tokens, when a network is tried for looking ahead
_SAME = 1e-3


@dataclass(frozen=True)
class Coded:
    """Texts as tokens after the one that stands before a text (`rows`), and what they cost.

    `nats` are what each token but a row's first costs, `lost` the bits on top of a text that the tokenizer cannot
    give back.
    """

    rows: list[list[int]]
    nats: list[NDArray[np.float64]]
    lost: list[float]

    @property
    def bits(self) -> list[float]:
        """The bits of each text."""
        return [float(nats.sum()) / math.log(2) + lost for nats, lost in zip(self.nats, self.lost, strict=True)]

    @property
    def tokens(self) -> list[int]:
        """Of how many tokens each text is made."""
        return [len(nats) for nats in self.nats]

    def beside(self, memory: Memory) -> Coded:
        """The same texts by the network with a memory."""
        return replace(self, nats=memory.nats(self.rows, self.nats))


@dataclass(frozen=True)
class _Window:
    """Tokens that go into the network; those from `first` on are scored, for the text `row` from its token `at` on."""

    row: int
    tokens: list[int]
    first: int
    at: int


def coded(
    network: Any, tokenizer: Any, texts: Sequence[str], *, longest: int, prompts: Sequence[str] | None = None
) -> Coded:
    """What each text costs, with its prompt before it if there are some, looking back at most `longest` tokens.

    Raises: BadData for a network that looks ahead.
    """
    network.eval()
    start = first_token(tokenizer)
    rows = [plain_tokens(tokenizer, text) for text in texts]
    before = [[start, *plain_tokens(tokenizer, prompt)] for prompt in prompts] if prompts else [[start]] * len(texts)
    longest_row = max(range(len(rows)), key=lambda row: len(rows[row]))
    _refuse_looking_ahead(network, [start, *rows[longest_row]][:_LOOKED_AT])
    nats = _nats(network, list(zip(before, rows, strict=True)), longest)
    lost = [
        0.0 if tokenizer.decode(row, clean_up_tokenization_spaces=False) in (text, f" {text}") else 8.0 * size(text)
        for row, text in zip(rows, texts, strict=True)
    ]
    return Coded([[start, *row] for row in rows], nats, lost)


def size(text: str) -> int:
    """Bytes."""
    return len(text.encode("utf-8", "surrogatepass"))


def first_token(tokenizer: Any) -> int:
    """What stands before a text."""
    found = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    if found is None:
        raise BadData("The tokenizer has neither a token that begins a text nor one that ends it.")
    return int(found)


def plain_tokens(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text without marks around it."""
    return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def _nats(network: Any, rows: Sequence[tuple[list[int], list[int]]], longest: int) -> list[NDArray[np.float64]]:
    """The negative log-likelihood of each of a row's own tokens after those before it."""
    import torch

    found = [np.zeros(len(own)) for _, own in rows]
    at_once = max(1, _LOGITS // (longest * int(network.config.vocab_size)))
    windows = sorted(_windows(rows, longest), key=lambda window: len(window.tokens))
    with torch.inference_mode():
        for at in range(0, len(windows), at_once):
            batch = windows[at : at + at_once]
            wide = max(len(window.tokens) for window in batch)
            ids = torch.zeros((len(batch), wide), dtype=torch.long)  # (B, T); what fills up stands behind
            for row, window in enumerate(batch):
                ids[row, : len(window.tokens)] = torch.tensor(window.tokens)
            logits = network(ids.to(network.device)).logits.float()  # (B, T, V)
            for row, window in enumerate(batch):
                said = logits[row, window.first - 1 : len(window.tokens) - 1]  # (t, V)
                wanted = ids[row, window.first : len(window.tokens)].to(said.device)
                nats = torch.nn.functional.cross_entropy(said, wanted, reduction="none")
                found[window.row][window.at : window.at + len(nats)] = nats.cpu().numpy()
    return found


def _windows(rows: Sequence[tuple[list[int], list[int]]], longest: int) -> Iterator[_Window]:
    """Windows that score each token once, half of the longest context or more before it where there is so much."""
    for row, (before, own) in enumerate(rows):
        tokens, at = [*before, *own], len(before)
        while at < len(tokens):
            end = min(len(tokens), longest if at < longest else at + longest // 2)
            start = max(0, end - longest)
            yield _Window(row, tokens[start:end], at - start, at - len(before))
            at = end


def _refuse_looking_ahead(network: Any, tokens: list[int]) -> None:
    """Raises: BadData where other tokens in the second half change what was said of the first."""
    import torch

    if len(tokens) < 3:
        return
    half = len(tokens) // 2
    other = tokens[:half] + [(token + 1) % int(network.config.vocab_size) for token in tokens[half:]]
    with torch.inference_mode():
        both = network(torch.tensor([tokens, other]).to(network.device)).logits.float()  # (2, T, V)
    if float((both[0, :half] - both[1, :half]).abs().max()) > _SAME:
        raise BadData("The model looks ahead: what it says of a token depends on the tokens after it.")
