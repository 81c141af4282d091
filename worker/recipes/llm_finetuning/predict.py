"""The finished LLM: a prompt in, its answer out. Needs torch, transformers and peft."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worker.recipes.common.estimators import loading
from worker.recipes.common.table import BadData
from worker.recipes.language.chat import BELOW, conversation, prompt_text, with_below
from worker.recipes.language.generating import continuations, load_causal
from worker.recipes.texts.answers import ADDED, Texts

ADAPTER, BASE, MERGED = "adapter", "base", "merged"


class Model:
    """`needs` is the prompt; what it `takes` stands below that, as it did in training."""

    added: Sequence[str] = ADDED
    takes: Sequence[str] = BELOW

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self._about = about
        self.needs: Sequence[str] = [about["needs"]]
        self._network, self._tokenizer = load_tuned(folder, about["base"])

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Texts:
        """An answer for each row."""
        about = self._about
        asked = columns[self.needs[0]]
        more = next(
            (columns[name] for name in self.takes if name in columns and name != self.needs[0]), [""] * len(asked)
        )
        whole = [with_below(prompt, below) for prompt, below in zip(asked, more, strict=True)]
        prompts = [prompt_text(self._tokenizer, conversation(prompt)) for prompt in whole]
        said = continuations(
            self._network, self._tokenizer, prompts, most=about["max_new_tokens"], temperature=about["temperature"],
            seed=about["seed"], longest=about["longest"],
        )  # fmt: skip
        return Texts([text.strip() for text in said])


def load_tuned(folder: Path, base: str | None) -> tuple[Any, Any]:
    """Network and tokenizer: the merged model where there is one, else the base with the adapter. Raises: BadData."""
    if (folder / MERGED).is_dir():
        return load_causal(folder / MERGED)
    from transformers import AutoTokenizer

    try:
        network, _ = load_causal(folder / BASE if base is None else base)
    except (OSError, ValueError) as error:
        raise BadData(
            f"This is an adapter, and its base model “{base}” cannot be loaded here. Train with merge=true for a model "
            "that stands alone."
        ) from error
    return with_adapter(network, folder / ADAPTER), AutoTokenizer.from_pretrained(folder / ADAPTER)


def with_adapter(base: Any, folder: Path) -> Any:
    """The base with the adapter of a folder."""
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # what peft still says in transformers' old words
        return PeftModel.from_pretrained(base, folder).eval()


load = loading(Model)
