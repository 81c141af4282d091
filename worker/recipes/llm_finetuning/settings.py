"""The settings of tuning an LLM, and how much work they make."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping, Sequence
from typing import Any

from worker.recipes.common.job import BadSettings, Setting, read_settings
from worker.recipes.language.examples import Example
from worker.recipes.language.network import SCRATCH, check_shape

SETTINGS = {
    "model": Setting(None, also=("backbone", "base_model")),
    "method": Setting("auto", choices=("auto", "sft", "dpo", "grpo")),  # auto: preferences are for dpo
    "epochs": Setting(3, 1, 1000),
    "max_steps": Setting(0, 0, 10_000_000, ("steps",)),  # 0: as many as the epochs take
    "batch_size": Setting(8, 1, 1024),
    "gradient_accumulation_steps": Setting(1, 1, 1024, ("accumulation",)),
    "learning_rate": Setting(0.0, 0.0, 1e6, ("lr",)),  # 0: the method's own
    "weight_decay": Setting(0.0, 0.0, 10.0),
    "warmup_frac": Setting(0.05, 0.0, 1.0, ("warmup_ratio",)),
    "max_grad_norm": Setting(1.0, 0.0, 1e6),
    "early_stopping_patience": Setting(0, 0, 1000, ("patience",)),  # 0: the method's own
    "valid_frac": Setting(0.1, 0.02, 0.5),
    "max_length": Setting(512, 16, 131_072, ("max_tokens", "max_seq_length", "block_length")),
    "lora_r": Setting(16, 1, 1024, ("rank", "r")),
    "lora_alpha": Setting(32, 1, 4096, ("alpha",)),
    "lora_dropout": Setting(0.0, 0.0, 0.9),
    "quantization": Setting("none", choices=("none", "4bit")),  # 4bit: QLoRA
    "merge": Setting(False),  # also leave the base with the adapter in it
    "beta": Setting(0.1, 0.0, 100.0),  # of DPO: how near it stays to the base
    "num_generations": Setting(4, 2, 64),  # of GRPO: answers that are compared for each prompt
    "reward": Setting(
        "contains", choices=("contains", "exact")
    ),  # of GRPO: the answer is in the text, or (exact) is the text
    "temperature": Setting(0.0, 0.0, 10.0),  # of what the finished model writes
    "max_new_tokens": Setting(128, 1, 4096, ("new_tokens",)),
    **SCRATCH,
}
_RATES = {"sft": 2e-4, "dpo": 2e-5, "grpo": 1e-5}
_SCRATCH_RATE = 1e-2
_PATIENCE = {"sft": 3, "dpo": 3, "grpo": 10}  # right answers come late, and all at once
MEASURED = 10  # times in a training
_NAMED_MODEL = 300.0  # how much more a step of a usual pretrained model takes than one of the small model


def tuning_settings(given: Mapping[str, Any], examples: Sequence[Example]) -> dict[str, Any]:
    """The value of each setting for these examples. Raises: BadSettings where one does not fit."""
    settings = read_settings(given, SETTINGS)
    check_shape(settings)
    pairs = bool(examples[0].worse)
    method = settings["method"] if settings["method"] != "auto" else "dpo" if pairs else "sft"
    if method == "dpo" and not pairs:
        raise BadSettings("DPO learns from preferences: it needs the columns prompt, chosen and rejected.")
    if method == "grpo" and pairs:
        raise BadSettings(
            "GRPO needs prompts with an answer that can be checked, not pairs of answers: leave it to DPO."
        )
    if method == "grpo" and settings["batch_size"] % settings["num_generations"]:
        raise BadSettings(
            f"With GRPO, batch_size ({settings['batch_size']}) must be a multiple of num_generations "
            f"({settings['num_generations']})."
        )
    if settings["quantization"] == "4bit":
        _refuse_quantization(settings)
    rate = _RATES[method] if settings["model"] else _SCRATCH_RATE
    chosen = {"learning_rate": rate, "early_stopping_patience": _PATIENCE[method]}
    return {**settings, "method": method, **{name: settings[name] or own for name, own in chosen.items()}}


def steps_of(settings: Mapping[str, Any], examples: int) -> int:
    """How many optimizer steps the settings ask for."""
    per_step = settings["batch_size"] * settings["gradient_accumulation_steps"]
    drawn = examples * (settings["num_generations"] if settings["method"] == "grpo" else 1)
    return int(settings["max_steps"] or settings["epochs"] * math.ceil(drawn / per_step))


def work(settings: Mapping[str, Any], examples: int) -> float:
    """How much there is to do: tokens that pass through the layers."""
    size = _NAMED_MODEL if settings["model"] else settings["layers"] * (settings["hidden_size"] / 128) ** 2 / 4
    per_step = settings["batch_size"] * settings["gradient_accumulation_steps"] * settings["max_length"] / 512
    times = {"sft": 1.0, "dpo": 3.0, "grpo": 10.0}[settings["method"]]
    return float(steps_of(settings, examples) * per_step * size * times)


def _refuse_quantization(settings: Mapping[str, Any]) -> None:
    """Raises: BadSettings where QLoRA cannot work. Whether there is a GPU is seen when the run has one."""
    if not settings["model"]:
        raise BadSettings("QLoRA needs a base model: name a Hub id or a folder as `model`.")
    if importlib.util.find_spec("bitsandbytes") is None:
        raise BadSettings(
            "QLoRA (quantization=4bit) needs the package bitsandbytes and an NVIDIA GPU, and this host lacks the "
            "package. Leave quantization out to train with plain LoRA."
        )
