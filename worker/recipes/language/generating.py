"""Loads a causal language model from a folder, and continues texts with it. Copied beside the model.

Needs numpy, torch and transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from worker.recipes.language.memory import Memory

FOLDER = "language_model"
_BATCH = 16  # prompts that are continued together


def load_causal(folder: Path | str) -> tuple[Any, Any]:
    """Network and tokenizer; no code of the folder is run. On a GPU where there is one."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # of a bar for each file
    network = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return network.to(device).eval(), AutoTokenizer.from_pretrained(folder)


def continuations(  # noqa: PLR0913 - a model's parts, and how it writes
    network: Any,
    tokenizer: Any,
    prompts: Sequence[str],
    *,
    most: int,
    temperature: float,
    seed: int,
    longest: int,
    memory: Memory | None = None,
) -> list[str]:
    """What the model writes after each prompt: up to `most` tokens; the likeliest ones at temperature 0.

    A temperature sharpens what the network says, not what a memory counts.
    """
    import torch

    torch.manual_seed(seed)
    ends = tokenizer.eos_token_id
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else ends
    sharpened = temperature if memory is None else 1.0
    drawn: dict[str, Any] = {"do_sample": True, "temperature": sharpened, "top_k": 50} if temperature else {}
    most = min(most, longest - 1)
    found: list[str] = []
    for at in range(0, len(prompts), _BATCH):
        rows = [
            [start, *tokenizer(prompt, add_special_tokens=False, verbose=False)["input_ids"]][-(longest - most) :]
            for prompt in prompts[at : at + _BATCH]
        ]
        wide = max(map(len, rows))
        seen = torch.tensor([[ends] * (wide - len(row)) + row for row in rows])  # (B, T), filled up on the left
        beside = [_Beside(memory, temperature or 1.0, [wide - len(row) for row in rows])] if memory else []
        mask = torch.tensor([[0] * (wide - len(row)) + [1] * len(row) for row in rows])
        with torch.inference_mode():
            said = network.generate(
                input_ids=seen.to(network.device), attention_mask=mask.to(network.device), max_new_tokens=most,
                pad_token_id=ends, eos_token_id=ends, logits_processor=beside,
                **({"do_sample": False, "temperature": None, "top_k": None, "top_p": None} | drawn),
            )  # fmt: skip
        found += tokenizer.batch_decode(said[:, wide:], skip_special_tokens=True)
    return found


class _Beside:
    """Mixes a memory into the scores of next tokens; `filled` is how many tokens fill up each row on its left."""

    def __init__(self, memory: Memory, temperature: float, filled: Sequence[int]) -> None:
        self._memory, self._temperature, self._filled = memory, temperature, filled

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        shares = (scores.double() / self._temperature).softmax(-1).cpu().numpy()  # (B, V)
        rows = zip(input_ids.tolist(), self._filled, shares, strict=True)
        mixed = [self._memory.mixed(row[filled:], share) for row, filled, share in rows]
        return scores.new_tensor(np.log(np.maximum(mixed, np.finfo(np.float64).tiny)))
