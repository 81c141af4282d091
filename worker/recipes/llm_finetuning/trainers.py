"""The trainers of trl for each method, with LoRA: supervised (SFT), by preferences (DPO), by checked answers (GRPO)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from worker.recipes.language.bits import first_token, plain_tokens
from worker.recipes.language.chat import prompt_text
from worker.recipes.language.examples import Example
from worker.recipes.language.network import Language
from worker.recipes.llm_finetuning.settings import MEASURED, steps_of
from worker.recipes.networks.loop import half_precision
from worker.recipes.networks.ranks import ranks


def trainer_for(
    language: Language, examples: Sequence[Example], settings: Mapping[str, Any], folder: Path,
    *, seed: int, callbacks: Sequence[Any],
) -> Any:  # fmt: skip
    """A Trainer of the method that the settings name, which keeps its checkpoints in `folder`."""
    from transformers.trainer_callback import PrinterCallback

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # what trl still says in transformers' old words
        trainer = _made(language, examples, settings, folder, seed=seed, callbacks=callbacks)
    trainer.remove_callback(PrinterCallback)  # the runtime has the same numbers
    return trainer


def _made(
    language: Language, examples: Sequence[Example], settings: Mapping[str, Any], folder: Path,
    *, seed: int, callbacks: Sequence[Any],
) -> Any:  # fmt: skip
    import trl
    from datasets import Dataset
    from datasets.utils.logging import disable_progress_bar
    from peft import LoraConfig

    disable_progress_bar()
    tokenizer, method = language.tokenizer, settings["method"]
    adapter = LoraConfig(
        r=settings["lora_r"], lora_alpha=settings["lora_alpha"], lora_dropout=settings["lora_dropout"],
        target_modules="all-linear", task_type="CAUSAL_LM",
    )  # fmt: skip
    common = _arguments(language, settings, folder, steps=steps_of(settings, len(examples)), seed=seed)
    given: dict[str, Any] = {
        "model": language.network, "processing_class": tokenizer, "peft_config": adapter, "callbacks": list(callbacks),
    }  # fmt: skip
    longest = language.longest
    rows: list[dict[str, Any]]
    match method:
        case "sft":
            rows = [_tokens(tokenizer, example, longest) for example in examples]
            args = trl.SFTConfig(**common, max_length=longest)
            return trl.SFTTrainer(args=args, train_dataset=Dataset.from_list(rows), **given)
        case "dpo":
            rows = [
                {"prompt": prompt_text(tokenizer, example.prompt), "chosen": example.answer, "rejected": example.worse}
                for example in examples
            ]
            args = trl.DPOConfig(**common, max_length=longest, beta=settings["beta"])
            return trl.DPOTrainer(args=args, train_dataset=Dataset.from_list(rows), **given)
        case _:
            rows = [
                {"prompt": prompt_text(tokenizer, example.prompt), "answer": example.answer} for example in examples
            ]
            most = min(settings["max_new_tokens"], longest // 2)
            args = trl.GRPOConfig(**common, num_generations=settings["num_generations"], max_completion_length=most)
            rewards = [reward_of(settings["reward"])]
            return trl.GRPOTrainer(args=args, reward_funcs=rewards, train_dataset=Dataset.from_list(rows), **given)


def reward_of(kind: str) -> Callable[..., list[float]]:
    """1 where an answer is right, else 0, as GRPO asks for it."""

    def rightness(completions: Sequence[str], answer: Sequence[str], **_others: Any) -> list[float]:
        return [float(is_right(said, wanted, kind)) for said, wanted in zip(completions, answer, strict=True)]

    return rightness


def is_right(said: str, wanted: str, kind: str) -> bool:
    """Whether an answer is the wanted one, or (`contains`) has it in it; case and space do not count."""
    ours, theirs = (" ".join(text.lower().split()) for text in (said, wanted))
    return ours == theirs if kind == "exact" else theirs in ours


def _tokens(tokenizer: Any, example: Example, longest: int) -> dict[str, list[int]]:
    """The conversation with its answer; only the answer and the mark behind it are learned.

    Of what is too long the beginning of the prompt is left out.
    """
    answer = [*plain_tokens(tokenizer, example.answer), int(tokenizer.eos_token_id)][: longest - 1]
    prompt = [first_token(tokenizer), *plain_tokens(tokenizer, prompt_text(tokenizer, example.prompt))]
    prompt = prompt[max(0, len(prompt) + len(answer) - longest) :]
    return {"input_ids": [*prompt, *answer], "labels": [-100] * len(prompt) + answer}


def _arguments(
    language: Language, settings: Mapping[str, Any], folder: Path, *, steps: int, seed: int
) -> dict[str, Any]:
    """What the configurations of all trainers share."""
    import torch

    cuda, half = language.device == "cuda", half_precision(language.device)
    return {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": settings["batch_size"] // ranks().count,
        "gradient_accumulation_steps": settings["gradient_accumulation_steps"],
        "learning_rate": settings["learning_rate"],
        "weight_decay": settings["weight_decay"],
        "warmup_steps": round(settings["warmup_frac"] * steps),
        "max_grad_norm": settings["max_grad_norm"],
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": max(1, steps // MEASURED),
        "save_total_limit": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": not cuda,
        "bf16": half is torch.bfloat16,
        "fp16": half is torch.float16,
        "gradient_checkpointing": bool(settings["model"]) and cuda,
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "seed": seed,
        "data_seed": seed,
        "dataloader_pin_memory": cuda,
    }
