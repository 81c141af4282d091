"""The finished model of pairs: texts in, texts out. Copied beside it.

A network needs torch and transformers; the simple writers (`simple`) need nothing. It owns how text becomes tokens and
tokens become text, so that training and prediction cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from worker.recipes.common.estimators import loading
from worker.recipes.pairs.simple import simple_writer
from worker.recipes.texts.answers import ADDED, Texts
from worker.recipes.texts.padding import padded

_BATCH = 32


class Writer(Protocol):
    """Whatever writes a text for each text."""

    def texts(self, sources: Sequence[str]) -> list[str]:
        """One for each source, in order."""


@dataclass(frozen=True)
class Limits:
    """How a network reads and writes: the most tokens of a source and of what it writes, and how wide it searches.

    `prefix` is put before each source, `begins` is the token that each answer begins with where the model has one for
    its language.
    """

    source_tokens: int
    target_tokens: int
    beams: int = 1
    prefix: str = ""
    begins: int | None = None


class NetworkWriter:
    """A sequence-to-sequence network with its tokenizer."""

    def __init__(self, network: Any, tokenizer: Any, limits: Limits, device: str) -> None:
        self._network = network.to(device).eval()
        self._tokenizer, self._limits, self._device = tokenizer, limits, device

    def texts(self, sources: Sequence[str]) -> list[str]:
        """One for each source, in order. Those of alike length are written together."""
        import torch

        limits = self._limits
        rows = source_tokens(self._tokenizer, sources, limits)
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        found = [""] * len(rows)
        with torch.inference_mode():
            for start in range(0, len(order), _BATCH):
                at = order[start : start + _BATCH]
                ids, mask = padded([rows[row] for row in at], self._tokenizer.pad_token_id)  # (B, T)
                written = self._network.generate(
                    input_ids=ids.to(self._device), attention_mask=mask.to(self._device), num_beams=limits.beams,
                    do_sample=False, max_new_tokens=limits.target_tokens, max_length=None,
                    **({} if limits.begins is None else {"forced_bos_token_id": limits.begins}),
                )  # fmt: skip
                for row, text in zip(at, self._tokenizer.batch_decode(written, skip_special_tokens=True), strict=True):
                    found[row] = plain(text)
        return found


def source_tokens(tokenizer: Any, sources: Sequence[str], limits: Limits) -> list[list[int]]:
    """Token numbers of each source, with prefix and end, cut to what the network reads."""
    texts = [limits.prefix + source for source in sources]
    if not texts:
        return []
    return list(tokenizer(texts, truncation=True, max_length=limits.source_tokens)["input_ids"])


def plain(text: str) -> str:
    """Text without what no file of cells can hold."""
    return text.replace("\0", "").replace("\r", " ").strip()


class Model:
    """`needs` is the column of sources, `added` the column that its answers make."""

    added = ADDED

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.needs = [description["text_column"]]
        self._writer = _writer(folder, description)

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Texts:
        """A text for each row."""
        return Texts(self._writer.texts(list(columns[self.needs[0]])))


load = loading(Model)


def _writer(folder: Path, description: dict[str, Any]) -> Writer:
    if description["kind"] != "network":
        return simple_writer(json.loads((folder / description["file"]).read_text(encoding="utf-8")))
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    network = AutoModelForSeq2SeqLM.from_pretrained(folder / description["file"])
    tokenizer = AutoTokenizer.from_pretrained(folder / description["file"], **description["languages"])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return NetworkWriter(network, tokenizer, Limits(**description["limits"]), device)
