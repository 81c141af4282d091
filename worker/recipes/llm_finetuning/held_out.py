"""The held-out examples of a tuning: what base and adapter reach on them, by what the method trains for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.language.bits import Coded, coded, size
from worker.recipes.language.chat import prompt_text
from worker.recipes.language.examples import Example
from worker.recipes.language.generating import continuations
from worker.recipes.language.network import Language
from worker.recipes.llm_finetuning.trainers import is_right

_MOST, _MOST_ANSWERED = 200, 32
_METRICS = {"sft": "bits_per_byte", "dpo": "loss", "grpo": "answer_accuracy"}


class HeldOut:
    """Some examples that are not learned. `metric` decides between the steps of a tuning, its base among them."""

    def __init__(self, language: Language, examples: Sequence[Example], settings: dict[str, Any]) -> None:
        self._language, self._settings, self._examples = language, settings, examples[:_MOST]
        self._prompts = [prompt_text(language.tokenizer, example.prompt) for example in self._examples]
        self.metric = _METRICS[settings["method"]]
        self.lower = self.metric != "answer_accuracy"
        self._of_base = self._margins(language.network) if self.metric == "loss" else np.zeros(0)

    def __len__(self) -> int:
        return min(len(self._examples), _MOST_ANSWERED) if self.metric == "answer_accuracy" else len(self._examples)

    def of_base(self) -> dict[str, float]:
        """What the base has before its training."""
        return self.measured(self._language.network)

    def measured(self, network: Any) -> dict[str, float]:
        """Bits per byte of the answers, and what else the method is judged by. Leaves the random state as it was."""
        import torch

        with torch.random.fork_rng():
            answers = [example.answer for example in self._examples]
            found = {"bits_per_byte": sum(self._coded(network, answers).bits) / sum(map(size, answers))}
            if self.metric == "loss":
                further = self._settings["beta"] * (self._margins(network) - self._of_base)
                found["loss"] = float(np.logaddexp(0.0, -further).mean())
            if self.metric == "answer_accuracy":
                found["answer_accuracy"] = self._right(network)
        return found

    def _coded(self, network: Any, answers: Sequence[str]) -> Coded:
        language = self._language
        return coded(network, language.tokenizer, answers, longest=language.longest, prompts=self._prompts)

    def _margins(self, network: Any) -> NDArray[np.float64]:
        """How much likelier the better answer is than the worse one, in nats."""
        better = self._coded(network, [example.answer for example in self._examples])
        worse = self._coded(network, [example.worse for example in self._examples])
        return np.asarray((np.array(worse.bits) - np.array(better.bits)) * math.log(2))

    def _right(self, network: Any) -> float:
        most = min(self._settings["max_new_tokens"], self._language.longest // 2)
        prompts = self._prompts[:_MOST_ANSWERED]
        said = continuations(
            network, self._language.tokenizer, prompts, most=most, temperature=0.0, seed=0,
            longest=self._language.longest,
        )  # fmt: skip
        pairs = zip(said, self._examples[: len(said)], strict=True)
        return float(np.mean([is_right(ours, one.answer, self._settings["reward"]) for ours, one in pairs]))
