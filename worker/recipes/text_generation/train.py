"""Train a causal language model: packed blocks, measured by the bits per byte of held-out texts, LZMA beside it.

A memory of the training texts stands beside the network where it saves enough on the held-out ones. The network is what
can write, so it is kept however it does: whether it beats the compressors is said by the sealed part, which plays no
role here.
"""

from __future__ import annotations

import json
from typing import Any

from trainyard import TrainingRuntime
from worker.recipes.common.finish import Finished, finish
from worker.recipes.common.job import Job, write_json
from worker.recipes.common.scores import log_baseline
from worker.recipes.common.table import read_table
from worker.recipes.language.bits import Coded, first_token, size
from worker.recipes.language.compressing import lzma_cost
from worker.recipes.language.documents import Documents
from worker.recipes.language.generating import FOLDER
from worker.recipes.language.learner import LanguageLearner, one_after_another
from worker.recipes.language.memory import MOST_TOKENS, Memory
from worker.recipes.language.network import Language, build
from worker.recipes.networks.loop import Goal, Loop, Trained, total_steps
from worker.recipes.text_generation.settings import generation_settings

_METRIC = "bits_per_byte"
_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")
_MODULES = ("texts.answers", "language.generating", "language.memory")
_LIMITS = ("It continues texts like those it learned from; nothing that it writes is checked for truth.",)
_BESIDE = (
    f"The memory holds the training texts (the last {MOST_TOKENS:,} tokens of more): who has it can read them.",
    f"`predict.py` uses network and memory, which were measured together; transformers loads the network alone from "
    f"`{FOLDER}`.",
)
_MOST_HELD = 400_000  # characters that are measured again and again


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, and leave artifacts. Raises: BadData, BadSettings, Diverged."""
    settings = generation_settings(job.settings)
    documents = _documents(job)
    learned, apart = documents.split(settings["valid_frac"], job.seed)
    known, held = documents.joined(learned), _few([documents.texts[row] for row in apart])
    language = build(known, settings, longest=settings["block_length"], seed=job.seed)
    learner = LanguageLearner(language, known, held)
    blocks = len(learner.blocks)
    runtime.start(settings["model"] or "language model", settings, total_steps=total_steps(settings, blocks))
    chars = sum(map(len, known))
    runtime.log(f"{chars:,} characters in {blocks:,} blocks. Network: {language.origin} on {language.device}.")
    reached, trained = _reached(job, runtime, learner, (known, held), settings)
    found = learner.coded()
    memory = _memory(learner, found)
    reached["network"] = learner.measured(found)
    reached |= {"network_with_memory": learner.measured(found.beside(memory))} if memory else {}
    why, behind = _judged(reached, trained, len(held))
    runtime.log(why)
    _save(job, language, settings, memory and _of_all(memory, language, documents))
    done = Finished(
        "language_model",
        why,
        settings,
        [],
        {"rows": len(held), **reached},
        trained.stopped,
        packages=_PACKAGES,
        modules=_MODULES,
        limits=(*_LIMITS, *(_BESIDE if memory else ())),
        notes=(*trained.notes, *behind),
    )
    finish(job, runtime, done, {})


def _documents(job: Job) -> Documents:
    split = json.loads((job.run_dir / "data/split.json").read_text(encoding="utf-8"))
    texts = read_table(job.run_dir / "data/train.csv", delimiter=",").columns["text"]
    return Documents(texts, bool(split["one_text"]))


def _reached(
    job: Job,
    runtime: TrainingRuntime,
    learner: LanguageLearner,
    texts: tuple[list[str], list[str]],
    settings: dict[str, Any],
) -> tuple[dict[str, dict[str, float]], Trained]:
    """Train; what LZMA reaches on the held-out texts, and how the training went. Raises: Diverged."""
    known, held = texts
    reached: dict[str, dict[str, float]] = {}

    def measure_baseline(step: int | None) -> None:
        """Measure and, with a step, tell the charts: an attempt that goes on has told them already."""
        bits = lzma_cost("\n".join(known).encode(), "".join(held).encode())
        reached["lzma"] = {_METRIC: bits / sum(map(size, held))}
        runtime.log(f"LZMA needs {reached['lzma'][_METRIC]:.3f} bits per byte of the held-out texts.")
        if step is not None:
            log_baseline(runtime, "lzma", reached["lzma"], step=step)

    goal = Goal(_METRIC, before_first=measure_baseline, higher=False)
    trained = Loop(learner, settings, runtime, seed=job.seed).run(goal)
    if not reached:  # an earlier attempt has measured
        measure_baseline(None)
    return reached, trained


def _memory(learner: LanguageLearner, found: Coded) -> Memory | None:
    """A memory of what was learned, where it saves more of the held-out texts, which cost the network `found`, than its
    weights cost."""
    tokenizer, vocabulary = learner.language.tokenizer, int(learner.network.config.vocab_size)
    tokens = one_after_another(tokenizer, learner.texts, first_token(tokenizer))
    memory = Memory.of(tokens, vocabulary).fitted(found.rows, found.nats)
    saved = sum(found.bits) - sum(found.beside(memory).bits)
    return memory if saved > memory.costs(sum(found.tokens)) else None


def _of_all(memory: Memory, language: Language, documents: Documents) -> Memory:
    """The memory with the held-out texts in it."""
    tokenizer, texts = language.tokenizer, documents.joined(range(len(documents.texts)))
    tokens = one_after_another(tokenizer, texts, first_token(tokenizer))
    return Memory.of(tokens, int(language.network.config.vocab_size), memory.weights)


def _judged(reached: dict[str, dict[str, float]], trained: Trained, held: int) -> tuple[str, list[str]]:
    """Why what is kept is kept, and a note where it is behind the compressor."""
    alone, theirs = reached["network"][_METRIC], reached["lzma"][_METRIC]
    ours = reached.get("network_with_memory", reached["network"])[_METRIC]
    remembers = "network_with_memory" in reached
    beside = " with a memory" if remembers else ", without a memory, which saves nothing here"
    why = (
        f"The network of step {trained.best_step} of {trained.steps} is kept{beside}: {ours:.3f} bits per byte of "
        f"{held:,} held-out texts, {f'the network alone {alone:.3f}, ' if remembers else ''}LZMA {theirs:.3f}."
    )
    behind = (
        f"The compressor LZMA is ahead on the held-out texts ({theirs:.3f} against {ours:.3f} bits per byte): longer "
        "training, more text or a pretrained model is needed to beat it."
    )
    return why, [behind] if theirs <= ours else []


def _save(job: Job, language: Language, settings: dict[str, Any], memory: Memory | None) -> None:
    for folder in (job.artifacts / FOLDER, job.run_dir / "predictions" / "model"):  # the evaluation runs the second
        language.save(folder)
        if memory:
            memory.save(folder)
    about = {"answer": "text", "kind": "language_model", "longest": language.longest, "seed": job.seed}
    kept = {name: settings[name] for name in ("temperature", "max_new_tokens")}
    write_json(job.artifacts / "model.json", about | kept)


def _few(texts: list[str]) -> list[str]:
    """The first of the texts, as many as are quickly measured."""
    found, chars = [], 0
    for text in texts:
        if chars < _MOST_HELD:
            found.append(text)
            chars += len(text)
    return found
