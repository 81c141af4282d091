"""Train a causal language model: packed blocks, measured by the bits per byte of held-out texts, LZMA beside it.

The network is what can write, so it is kept however it does: whether it beats the compressors is said by the sealed
part, which plays no role here.
"""

from __future__ import annotations

import json

from trainyard import TrainingRuntime
from worker.recipes.common.finish import Finished, finish
from worker.recipes.common.job import Job, write_json
from worker.recipes.common.scores import log_baseline
from worker.recipes.common.table import read_table
from worker.recipes.language.bits import size
from worker.recipes.language.compressing import lzma_cost
from worker.recipes.language.documents import Documents
from worker.recipes.language.generating import FOLDER
from worker.recipes.language.learner import LanguageLearner
from worker.recipes.language.network import build
from worker.recipes.networks.loop import Goal, Loop, total_steps
from worker.recipes.text_generation.settings import generation_settings

_MOST_HELD = 400_000  # characters that are measured again and again


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, and leave artifacts. Raises: BadData, BadSettings, Diverged."""
    settings = generation_settings(job.settings)
    split = json.loads((job.run_dir / "data/split.json").read_text(encoding="utf-8"))
    texts = read_table(job.run_dir / "data/train.csv", delimiter=",").columns["text"]
    documents = Documents(texts, bool(split["one_text"]))
    learned, apart = documents.split(settings["valid_frac"], job.seed)
    known, held = documents.joined(learned), _few([texts[row] for row in apart])
    language = build(known, settings, longest=settings["block_length"], seed=job.seed)
    learner = LanguageLearner(language, known, held)
    steps = total_steps(settings, len(learner.blocks))
    runtime.start(settings["model"] or "language model", settings, total_steps=steps)
    chars = sum(map(len, known))
    runtime.log(f"{chars:,} characters in {len(learner.blocks):,} blocks. Network: {language.origin} "
                f"on {language.device}.")  # fmt: skip
    reached: dict[str, dict[str, float]] = {}

    def measure_baseline(step: int | None) -> None:
        bits = lzma_cost("\n".join(known).encode(), "".join(held).encode())
        reached["lzma"] = {"bits_per_byte": bits / sum(map(size, held))}
        runtime.log(f"LZMA needs {reached['lzma']['bits_per_byte']:.3f} bits per byte of the held-out texts.")
        if step is not None:
            log_baseline(runtime, "lzma", reached["lzma"], step=step)

    goal = Goal("bits_per_byte", before_first=measure_baseline, higher=False)
    trained = Loop(learner, settings, runtime, seed=job.seed).run(goal)
    if not reached:  # an earlier attempt has measured
        measure_baseline(None)
    reached["network"] = learner.measure()
    ours, theirs = reached["network"]["bits_per_byte"], reached["lzma"]["bits_per_byte"]
    why = (
        f"The network of step {trained.best_step} of {trained.steps} is kept: {ours:.3f} bits per byte of "
        f"{len(held):,} held-out texts, LZMA {theirs:.3f}."
    )
    runtime.log(why)
    behind = [
        f"The compressor LZMA is ahead on the held-out texts ({theirs:.3f} against {ours:.3f} bits per byte): longer "
        "training, more text or a pretrained model is needed to beat it."
    ] * (theirs <= ours)
    language.save(job.artifacts / FOLDER)
    language.save(job.run_dir / "predictions" / "model")  # for the evaluation, which runs it
    about = {"answer": "text", "kind": "language_model", "longest": language.longest, "seed": job.seed}
    kept = {name: settings[name] for name in ("temperature", "max_new_tokens")}
    write_json(job.artifacts / "model.json", about | kept)
    limits = ["It continues texts like those it learned from; nothing that it writes is checked for truth."]
    finish(
        job, runtime,
        Finished("language_model", why, settings, [], {"rows": len(held), **reached}, trained.stopped,
                 packages=("torch", "transformers", "tokenizers", "safetensors", "numpy"),
                 modules=("texts.answers", "language.generating",), limits=limits,
                 notes=(*trained.notes, *behind)),
        {},
    )  # fmt: skip


def _few(texts: list[str]) -> list[str]:
    """The first of the texts, as many as are quickly measured."""
    found, chars = [], 0
    for text in texts:
        if chars < _MOST_HELD:
            found.append(text)
            chars += len(text)
    return found
