"""The finished language model: the beginning of a text in, what follows out. Needs torch and transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worker.recipes.common.estimators import loading
from worker.recipes.language.generating import FOLDER, continuations, load_causal
from worker.recipes.language.memory import load_memory
from worker.recipes.texts.answers import ADDED, Texts


class Model:
    """`needs` is the beginning of a text; the answer is what the model writes after it."""

    needs: Sequence[str] = ["text"]
    added: Sequence[str] = ADDED

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self._about = about
        self._network, self._tokenizer = load_causal(folder / FOLDER)
        self._memory = load_memory(folder / FOLDER, vocabulary=self._network.config.vocab_size)

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Texts:
        """An answer for each row."""
        about = self._about
        said = continuations(
            self._network, self._tokenizer, columns["text"], most=about["max_new_tokens"],
            temperature=about["temperature"], seed=about["seed"], longest=about["longest"],
            memory=self._memory,
        )  # fmt: skip
        return Texts(said)


load = loading(Model)
