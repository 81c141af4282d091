"""Taggers: the most frequent tag of each word, and an encoder with a tag for each word. Copied beside the model.

It owns how words become tokens, so that training and prediction cannot differ. A sentence that is longer than the
encoder takes is read in pieces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.recipes.texts.padding import padded

_BATCH = 64


@dataclass(frozen=True)
class Piece:
    """Token numbers, and for each word that begins in them its number in the sentence and its first token's place."""

    ids: list[int]
    words: list[tuple[int, int]]


def pieces(tokenizer: Any, sentences: Sequence[Sequence[str]]) -> list[list[Piece]]:
    """Each sentence as tokens, in as many pieces as the tokenizer's longest makes of it."""
    found = []
    for encoding in tokenizer.encode_batch([list(words) for words in sentences], is_pretokenized=True):
        begun: set[int] = set()
        parts = []
        for part in (encoding, *encoding.overflowing):
            first: dict[int, int] = {}
            for place, word in enumerate(part.word_ids):
                if word is not None and word not in begun:
                    first.setdefault(word, place)
            begun.update(first)
            parts.append(Piece(list(part.ids), list(first.items())))
        found.append(parts)
    return found


class EncoderTagger:
    """A transformers token classifier with its tokenizer."""

    def __init__(self, network: Any, tokenizer: Any, device: str, classes: Sequence[str]) -> None:
        self._network, self._tokenizer, self._device = network.to(device).eval(), tokenizer, device
        self._classes = list(classes)

    def tags(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """A tag for each word. A word that the tokenizer drops altogether gets the first class."""
        import torch

        found = [[self._classes[0]] * len(words) for words in sentences]
        flat = [(at, piece) for at, parts in enumerate(pieces(self._tokenizer, sentences)) for piece in parts]
        flat.sort(key=lambda pair: len(pair[1].ids))  # alike lengths together
        pad = self._network.config.pad_token_id or 0
        with torch.inference_mode():
            for begin in range(0, len(flat), _BATCH):
                batch = flat[begin : begin + _BATCH]
                ids, mask = padded([piece.ids for _, piece in batch], pad)
                logits = self._network(ids.to(self._device), attention_mask=mask.to(self._device)).logits  # (B, T, C)
                best = logits.argmax(dim=-1).tolist()
                for (at, piece), codes in zip(batch, best, strict=True):
                    for word, place in piece.words:
                        found[at][word] = self._classes[codes[place]]
        return found


class FrequentTagger:
    """The baseline: to each word its most frequent tag, to others the most frequent of all."""

    def __init__(self, known: Mapping[str, str], other: str) -> None:
        self.known, self.other = dict(known), other

    def tags(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """A tag for each word."""
        return [[self.known.get(word, self.other) for word in words] for words in sentences]


def load_tagger(folder: Path, description: Mapping[str, Any]) -> EncoderTagger | FrequentTagger:
    """The tagger that training left in `folder`."""
    if description["kind"] == "most_frequent":
        about = json.loads((folder / description["file"]).read_text(encoding="utf-8"))
        return FrequentTagger(about["known"], about["other"])
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModelForTokenClassification

    network = AutoModelForTokenClassification.from_pretrained(folder / description["file"])
    tokenizer = Tokenizer.from_file(str(folder / description["file"] / "tokenizer.json"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return EncoderTagger(network, tokenizer, device, description["classes"])
