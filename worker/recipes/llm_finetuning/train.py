"""Tune an LLM with LoRA: on answers (SFT), on preferences (DPO) or by rewards for right answers (GRPO), through trl.

The base model before the training is what it has to beat: of all measured steps the best one's adapter is kept, and one
that changes nothing where the base was best. The sealed conversations play no role here.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainyard import TrainingRuntime
from trainyard.adapters import last_checkpoint, trainer_callback
from worker.recipes.common.finish import Finished, finish
from worker.recipes.common.holdout import read_holdout
from worker.recipes.common.job import BadSettings, Job, write_json
from worker.recipes.common.numerals import counted
from worker.recipes.common.scores import log_baseline
from worker.recipes.common.table import read_table
from worker.recipes.language.chat import with_template
from worker.recipes.language.examples import Example, read_example
from worker.recipes.language.network import Language, build
from worker.recipes.llm_finetuning.fitting import Best, Watch, fitted, save_adapter
from worker.recipes.llm_finetuning.held_out import HeldOut
from worker.recipes.llm_finetuning.predict import ADAPTER, BASE, MERGED
from worker.recipes.llm_finetuning.settings import MEASURED, steps_of, tuning_settings
from worker.recipes.llm_finetuning.trainers import trainer_for
from worker.recipes.networks.loop import half_precision
from worker.recipes.networks.ranks import ranks

_WORDS = {
    "bits_per_byte": "bits per byte",
    "loss": "DPO loss",
    "answer_accuracy": "of the answers right",
}
_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "peft", "numpy")
_MODULES = ("texts.answers", "language.generating", "language.chat")
_METHODS = {"sft": "Supervised fine-tuning", "dpo": "DPO", "grpo": "GRPO"}


@dataclass(frozen=True)
class _Tuned:
    """The network after so many steps, and the best of all steps that were measured."""

    network: Any
    best: Best
    steps: int
    stopped: bool


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, and leave the adapter. Raises: BadData, BadSettings."""
    examples = _examples(job)
    settings = tuning_settings(job.settings, examples)
    if settings["batch_size"] % ranks().count:
        raise BadSettings(f"batch_size ({settings['batch_size']}) must be a multiple of the {ranks().count} GPUs.")
    fit, held = read_holdout(job).split([""] * len(examples), frac=settings["valid_frac"], seed=job.seed)
    learned, apart = ([examples[row] for row in rows.tolist()] for rows in (fit, held))
    language = _base(job, learned, settings)
    if ranks().first:
        language.save(_base_folder(job))
    steps, asked = steps_of(settings, len(learned)), settings["batch_size"]
    runtime.start(settings["model"] or "language model", settings, total_steps=steps)
    method = _METHODS[settings["method"]]
    runtime.log(f"{method} on {len(learned):,} examples. Base: {language.origin} on {language.device}.")
    watch = _watch(job, runtime, HeldOut(language, apart, settings), settings, every=max(1, steps // MEASURED))
    tuned = _tuned(job, watch, language, learned, settings)
    best, measured = tuned.best, len(watch.held)
    kind, why = _choose(best, measured, steps)
    runtime.log(why)
    _save(job, _best_of(best, tuned.network), language, settings)
    notes = _notes(settings, best, done=tuned.steps, steps=steps, asked=asked)
    validation = {"rows": measured, "base": watch.before, "adapter": best.scores[best.step]}
    done = Finished(
        kind,
        why,
        settings,
        [],
        validation,
        tuned.stopped,
        packages=_PACKAGES,
        modules=_MODULES,
        limits=_limits(settings),
        notes=notes,
    )
    finish(job, runtime, done, {})


def _examples(job: Job) -> list[Example]:
    cells = read_table(job.run_dir / "data/train.csv", delimiter=",").columns["example"]
    return [read_example(cell) for cell in cells]


def _base_folder(job: Job) -> Path:
    """Where the evaluation, which runs base and adapter, finds the base."""
    return job.run_dir / "predictions" / BASE


def _watch(job: Job, runtime: TrainingRuntime, judge: HeldOut, settings: dict[str, Any], *, every: int) -> Watch:
    """What looks at the held-out examples every so many steps; the base is measured first."""
    before = judge.of_base()
    runtime.log(f"The base: {_numbers(before)} on {len(judge):,} held-out examples.")
    if last_checkpoint(runtime) is None:
        log_baseline(runtime, "base", before)
    best = Best(job.run_dir / "checkpoints" / "tuned", judge.metric, judge.lower)
    return Watch(runtime, judge, best, before, every, settings["early_stopping_patience"])


def _tuned(job: Job, watch: Watch, language: Language, learned: Sequence[Example], settings: dict[str, Any]) -> _Tuned:
    """Train, as long as it pays. What a batch had to shrink to stands in `settings` then."""
    checkpoints, runtime = job.run_dir / "checkpoints", watch.runtime

    def make(settings: Mapping[str, Any]) -> Any:
        callbacks = [trainer_callback(runtime, begins_and_ends=False), watch.callback()]
        return trainer_for(language, learned, settings, checkpoints / "trainer", seed=job.seed, callbacks=callbacks)

    trainer = fitted(make, settings, runtime)
    best, done, stopped = watch.best, int(trainer.state.global_step), runtime.should_stop
    ranks().end()
    if stopped and done not in best.scores:  # what a stopped run comes to; one that goes on measures when it is time
        best = best.copied(checkpoints / "stopped")
        replace(watch, best=best).look(trainer.model, done)
    shutil.rmtree(checkpoints / "trainer", ignore_errors=True)  # the runtime keeps its own
    return _Tuned(trainer.model, best, done, stopped)


def _choose(best: Best, held: int, steps: int) -> tuple[str, str]:
    """`adapter` or `base`, and the reason as a sentence."""
    step, base = best.step, _numbers(best.scores[0])
    if step:
        numbers = _numbers(best.scores[step])
        return (
            "adapter",
            f"The adapter of step {step} of {steps} is kept: {numbers} on {held:,} held-out examples, the base {base}.",
        )
    return "base", f"The base is kept: no step of the adapter is better than it ({base}) on {held:,} held-out examples."


def _numbers(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{value:.3f} {_WORDS.get(name, name)}" for name, value in scores.items())


def _notes(settings: Mapping[str, Any], best: Best, *, done: int, steps: int, asked: int) -> list[str]:
    found = []
    if not best.step:
        found.append(
            "The base is kept: no step of the adapter was better, so the adapter that is left changes nothing."
        )
    if done < steps and best.misses >= settings["early_stopping_patience"]:
        found.append(
            f"Training ended at step {done:,} of {steps:,}: it had got no better in "
            f"{counted(best.misses, 'measurement', 'measurements')}."
        )
    if settings["batch_size"] < asked:
        found.append(
            f"Batches of {asked} did not fit into memory: each step added up "
            f"{settings['gradient_accumulation_steps']} of {settings['batch_size']}."
        )
    return found


def _best_of(best: Best, network: Any) -> Any:
    """The network with the adapter of the best step."""
    from peft import load_peft_weights, set_peft_model_state_dict

    set_peft_model_state_dict(network, load_peft_weights(str(best.adapter), device=str(network.device)))
    return network


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

        four = BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=half_precision("cuda")
        )
        loading = {"quantization_config": four, "device_map": {"": torch.cuda.current_device()}}
    texts = [message["content"] for example in examples for message in example.prompt]
    texts += [example.answer for example in examples]
    language = build(texts, settings, longest=settings["max_length"], seed=job.seed, **loading)
    with_template(language.tokenizer)
    return language


def _save(job: Job, network: Any, language: Language, settings: dict[str, Any]) -> None:
    named = settings["model"]
    for folder in (job.artifacts / ADAPTER, job.run_dir / "predictions" / "model"):
        network.peft_config["default"].base_model_name_or_path = named or f"../{BASE}"
        save_adapter(network, folder)
        language.tokenizer.save_pretrained(folder)
    if not named:
        shutil.copytree(_base_folder(job), job.artifacts / BASE)
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
