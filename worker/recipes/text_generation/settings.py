"""The settings of a language model's training, and how much work they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.recipes.common.job import Setting, read_settings
from worker.recipes.language.network import SCRATCH, check_shape
from worker.recipes.networks.loop import SETTINGS as LOOP
from worker.recipes.networks.loop import rows_per_step, total_steps

SETTINGS = {
    "model": Setting(None, also=("backbone", "base_model")),
    **LOOP,
    "batch_size": Setting(8, 1, 4096),
    "valid_frac": Setting(0.1, 0.02, 0.5),
    "block_length": Setting(256, 8, 131_072, ("block_size", "context_length", "max_length", "max_tokens")),
    **SCRATCH,
    "temperature": Setting(0.8, 0.0, 10.0),  # of what the finished model writes; 0: always the likeliest token
    "max_new_tokens": Setting(120, 1, 4096, ("new_tokens",)),
}
_SCRATCH_RATE, _PRETRAINED_RATE = 3e-3, 5e-5  # where nobody said another
_NAMED_MODEL = 100.0  # how much more a token of a usual pretrained model takes than one of the small model
_CHARS_PER_TOKEN = 3


def generation_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each setting. Raises: BadSettings where one does not fit, alone or with another."""
    settings = read_settings(given, SETTINGS)
    check_shape(settings)
    settings["learning_rate"] = settings["learning_rate"] or (_PRETRAINED_RATE if settings["model"] else _SCRATCH_RATE)
    return settings


def work(settings: dict[str, Any], chars: int) -> float:
    """How much there is to do: tokens that pass through the layers."""
    size = _NAMED_MODEL if settings["model"] else settings["layers"] * (settings["hidden_size"] / 128) ** 2 / 4
    blocks = max(1, chars // _CHARS_PER_TOKEN // settings["block_length"])
    return float(total_steps(settings, blocks) * rows_per_step(settings) * settings["block_length"] * size)
