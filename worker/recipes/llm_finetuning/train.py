"""Tune an LLM with LoRA: on answers (SFT), on preferences (DPO) or by rewards for right answers (GRPO), through trl.

The base model before the training is what it has to beat. The adapter is what is kept, the base only where nobody else
has it. The sealed conversations play no role here.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainyard import TrainingRuntime
from trainyard.adapters import last_checkpoint, trainer_callback
from worker.recipes.common.finish import Finished, finish
from worker.recipes.common.job import BadSettings, Job, write_json
from worker.recipes.common.scores import curves, log_baseline
from worker.recipes.common.split import split_rows
from worker.recipes.common.table import read_table
from worker.recipes.language.bits import coded, size
from worker.recipes.language.chat import prompt_text, with_template
from worker.recipes.language.examples import Example, read_example, together
from worker.recipes.language.network import Language, build
from worker.recipes.llm_finetuning.predict import ADAPTER, BASE, MERGED
from worker.recipes.llm_finetuning.settings import steps_of, tuning_settings
from worker.recipes.llm_finetuning.trainers import trainer_for

_MEASURED = 200  # held-out answers
_METHODS = {"sft": "Supervised fine-tuning", "dpo": "DPO", "grpo": "GRPO"}


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, and leave the adapter. Raises: BadData, BadSettings."""
    cells = read_table(job.run_dir / "data/train.csv", delimiter=",").columns["example"]
    examples = [read_example(cell) for cell in cells]
    settings = tuning_settings(job.settings, examples)
    fit, held = split_rows(
        [""] * len(examples), frac=settings["valid_frac"], seed=job.seed, groups=together(examples)
    )  # fmt: skip
    learned, apart = ([examples[row] for row in rows.tolist()] for rows in (fit, held))
    language = _base(job, learned, settings)
    base = job.run_dir / "predictions" / BASE  # for the evaluation, which runs both
    language.save(base)
    steps = steps_of(settings, len(learned))
    runtime.start(settings["model"] or "language model", settings, total_steps=steps)
    runtime.log(f"{_METHODS[settings['method']]} on {len(learned):,} examples. Base: {language.origin} on "
                f"{language.device}.")  # fmt: skip
    before = _measured(language.network, language, apart)
    runtime.log(f"The base needs {before['bits_per_byte']:.3f} bits per byte of the held-out answers.")
    resumed = last_checkpoint(runtime)
    if resumed is None:
        log_baseline(runtime, "base", before)
    trainer = trainer_for(language, learned, settings, job.run_dir / "checkpoints" / "trainer", seed=job.seed,
                          callbacks=[trainer_callback(runtime, begins_and_ends=False)])  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # what trl still says in transformers' old words
        trainer.train(resume_from_checkpoint=resumed)
    shutil.rmtree(job.run_dir / "checkpoints" / "trainer", ignore_errors=True)  # the runtime keeps its own
    stopped, done = runtime.should_stop, int(trainer.state.global_step)
    after = _measured(trainer.model, language, apart)
    runtime.log_metrics(step=done, **curves(after, part="valid"))
    why = (
        f"The adapter of step {done} of {steps} is kept: {after['bits_per_byte']:.3f} bits per byte of {len(apart):,} "
        f"held-out answers, the base {before['bits_per_byte']:.3f}."
    )
    runtime.log(why)
    _save(job, trainer.model, language, settings, base)
    finish(
        job, runtime,
        Finished("adapter", why, settings, [], {"rows": len(apart), "base": before, "adapter": after}, stopped,
                 packages=("torch", "transformers", "tokenizers", "safetensors", "peft", "numpy"),
                 modules=("texts.answers", "language.generating", "language.chat"), limits=_limits(settings)),
        {},
    )  # fmt: skip


def _base(job: Job, examples: Sequence[Example], settings: dict[str, Any]) -> Language:
    """The model before the training. Raises: BadSettings."""
    import torch

    loading: dict[str, Any] = {}
    if settings["quantization"] == "4bit":
        if not torch.cuda.is_available():
            raise BadSettings(
                "QLoRA (quantization=4bit) needs an NVIDIA GPU; this run has none. Leave it out for LoRA."
            )
        from transformers import BitsAndBytesConfig

        four = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
        loading = {"quantization_config": four, "device_map": {"": 0}}
    texts = [message["content"] for example in examples for message in example.prompt]
    texts += [example.answer for example in examples]
    language = build(texts, settings, longest=settings["max_length"], seed=job.seed, **loading)
    with_template(language.tokenizer)
    return language


def _measured(network: Any, language: Language, examples: Sequence[Example]) -> dict[str, float]:
    """Bits per byte of the held-out answers."""
    few = examples[:_MEASURED]
    prompts = [prompt_text(language.tokenizer, example.prompt) for example in few]
    answers = [example.answer for example in few]
    found = coded(network, language.tokenizer, answers, longest=language.longest, prompts=prompts)
    return {"bits_per_byte": sum(found.bits) / sum(map(size, answers))}


def _save(job: Job, network: Any, language: Language, settings: dict[str, Any], base: Path) -> None:
    named = settings["model"]
    for folder in (job.artifacts / ADAPTER, job.run_dir / "predictions" / "model"):
        network.peft_config["default"].base_model_name_or_path = named or f"../{BASE}"
        network.save_pretrained(folder, save_embedding_layers=False)
        language.tokenizer.save_pretrained(folder)
    if not named:
        shutil.copytree(base, job.artifacts / BASE)
    if settings["merge"]:
        Language(network.merge_and_unload(), language.tokenizer, language.longest, "").save(job.artifacts / MERGED)
    about = {"answer": "text", "kind": "adapter", "base": named, "longest": language.longest, "seed": job.seed,
             "needs": job.text_column or "prompt"}  # fmt: skip
    kept = {name: settings[name] for name in ("method", "temperature", "max_new_tokens")}
    write_json(job.artifacts / "model.json", about | kept)


def _limits(settings: dict[str, Any]) -> list[str]:
    found = ["It answers as it was taught; nothing that it writes is checked for truth."]
    if not settings["model"]:
        found.append(
            "No base model was named, so it was tuned from scratch: fit for trying the chain out, not for use."
        )
    elif not settings["merge"]:
        found.append(f"This is an adapter: to use it, “{settings['model']}” must be there too.")
    return found
