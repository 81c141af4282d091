"""Texts as tokens, and an encoder that answers like an sklearn estimator.

Copied beside the model; needs skops and scikit-learn for a linear model, torch and transformers for an encoder. It owns
how text becomes tokens, so that training and prediction cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.estimators import read_estimator
from worker.recipes.texts.padding import padded

_BATCH = 64


class EncoderModel:
    """A transformers sequence classifier with its tokenizer, answering like an sklearn estimator."""

    def __init__(self, network: Any, tokenizer: Any, device: str) -> None:
        self._network = network.to(device).eval()
        self._tokenizer = tokenizer
        self._device = device

    def predict_proba(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Probabilities (n_texts, n_classes)."""
        import torch

        pad = self._network.config.pad_token_id or 0
        found = []
        with torch.inference_mode():
            for batch in _batches(tokens(self._tokenizer, texts)):
                ids, mask = padded(batch, pad)
                logits = self._network(ids.to(self._device), attention_mask=mask.to(self._device)).logits  # (B, C)
                found.append(torch.softmax(logits.float(), dim=-1).cpu().numpy())
        shares = np.concatenate(found).astype(np.float64)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def tokens(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Token numbers of each text, cut to the tokenizer's longest."""
    return [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]


def _batches(rows: list[list[int]]) -> Iterator[list[list[int]]]:
    for at in range(0, len(rows), _BATCH):
        yield rows[at : at + _BATCH]


def load_estimator(folder: Path, description: Mapping[str, Any]) -> Any:
    """The encoder or the sklearn pipeline that `description` names in `folder`."""
    if description["kind"] == "encoder":
        return _load_encoder(folder / description["file"])
    return read_estimator(folder / description["file"], trusted=description.get("trusted", []))


def _load_encoder(folder: Path) -> EncoderModel:
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModelForSequenceClassification

    network = AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return EncoderModel(network, tokenizer, "cuda" if torch.cuda.is_available() else "cpu")
