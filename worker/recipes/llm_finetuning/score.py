"""Measures a tuned LLM on the sealed conversations, beside its base.

What decides is what the method trains for. SFT: bits per byte of the answers (fewer are better), and where answers are
short, how many are given exactly. DPO: how often the better answer is the likelier one, by the byte. GRPO: how many
answers are right. The evaluation alone has the sealed conversations, so it runs base and adapter itself
(`worker.recipes.language.bits` says what it does not trust).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.job import Job
from worker.recipes.common.scoring import MODEL, Decisive, named, publish, rounded, short, write_results
from worker.recipes.common.sealing import sealed_groups
from worker.recipes.common.table import read_table
from worker.recipes.language.bits import coded, size
from worker.recipes.language.chat import prompt_text, with_template
from worker.recipes.language.examples import Example, read_example
from worker.recipes.language.generating import continuations, load_causal
from worker.recipes.llm_finetuning.predict import BASE, with_adapter
from worker.recipes.llm_finetuning.settings import tuning_settings
from worker.recipes.llm_finetuning.trainers import is_right

_SHORT_CHARS, _MOST_ANSWERED, _SHOWN = 40, 100, 4
_CELL, _ASKED = 280, 200
_DECIDES = {"sft": "bits_per_byte", "dpo": "preference_accuracy", "grpo": "answer_accuracy"}
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """Of base or adapter: for each sealed example its bits, whether it prefers the better answer, what it answers."""

    bits: Values
    sizes: Values
    tokens: Values
    prefers: Values | None
    said: list[str]
    right: Values | None

    def scores(self) -> dict[str, float]:
        """All metrics."""
        perplexity = 2 ** min(60.0, float(self.bits.sum() / max(1.0, self.tokens.sum())))
        found = {"bits_per_byte": float(self.bits.sum() / self.sizes.sum()), "token_perplexity": perplexity}
        if self.prefers is not None:
            found["preference_accuracy"] = float(self.prefers.mean())
        if self.right is not None:
            found["answer_accuracy"] = float(self.right.mean())
        return found


def score(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Measure and write. `sealed=False` says in the card that the rows lay open to the training. Raises: BadData."""
    cells = read_table(sealed_dir / "labels.csv", delimiter=",").columns["label"]
    examples = [read_example(cell) for cell in cells]
    settings = tuning_settings(job.settings, examples)
    network, tokenizer = load_causal(job.run_dir / "predictions" / BASE)
    with_template(tokenizer)
    found = {BASE: _measured(network, tokenizer, examples, settings)}
    tuned = with_adapter(network, job.run_dir / "predictions" / MODEL)
    found[MODEL] = _measured(tuned, tokenizer, examples, settings)
    metric = _DECIDES[settings["method"]]
    scores = {name: each.scores() for name, each in found.items()}
    score_of = _decisive(found, metric)
    right = found[MODEL].right
    rows = len(right) if metric == "answer_accuracy" and right is not None else len(examples)
    groups = sealed_groups(sealed_dir, list(map(str, range(rows))))
    deciding = Decisive(metric, rows, score_of, lower=metric == "bits_per_byte", groups=groups)
    beaten = publish(job, scores, deciding, sealed=sealed)
    write_results(job, lambda: _facts(scores, metric, beaten, examples, found))


def _measured(network: Any, tokenizer: Any, examples: list[Example], settings: dict[str, Any]) -> Measured:
    longest = settings["max_length"]
    longest = min(longest, int(getattr(network.config, "max_position_embeddings", longest) or longest))
    prompts = [prompt_text(tokenizer, example.prompt) for example in examples]
    answers = [example.answer for example in examples]
    own = coded(network, tokenizer, answers, longest=longest, prompts=prompts)
    bits, sizes = np.array(own.bits), np.array([float(size(answer)) for answer in answers])
    prefers = None
    if examples[0].worse:
        worse = coded(network, tokenizer, [example.worse for example in examples], longest=longest, prompts=prompts)
        by_the_byte = np.array([bits / size(e.worse) for bits, e in zip(worse.bits, examples, strict=True)])
        prefers = (bits / sizes < by_the_byte).astype(float)
    checked = settings["method"] == "grpo" or median(map(len, answers)) <= _SHORT_CHARS
    few = examples[: _MOST_ANSWERED if checked and not examples[0].worse else _SHOWN]
    most = min(settings["max_new_tokens"], longest // 2)
    if settings["method"] == "sft" and checked:
        most = min(most, max(own.tokens) + 4)  # a longer answer is not the wanted one
    said = continuations(
        network, tokenizer, prompts[: len(few)], most=most, temperature=0.0, seed=0, longest=longest
    )  # fmt: skip
    kind = settings["reward"] if settings["method"] == "grpo" else "exact"
    right = np.array([float(is_right(ours, e.answer, kind)) for ours, e in zip(said, few, strict=True)])
    tokens = np.array(own.tokens, dtype=float)
    return Measured(bits, sizes, tokens, prefers, said, right if checked and not examples[0].worse else None)


def _decisive(found: dict[str, Measured], metric: str) -> Callable[[str, NDArray[np.int64]], float]:
    def score_of(name: str, at: NDArray[np.int64]) -> float:
        one = found[name]
        if metric == "bits_per_byte":
            return float(one.bits[at].sum() / one.sizes[at].sum())
        values = one.prefers if metric == "preference_accuracy" else one.right
        return float(values[at].mean()) if values is not None else float("nan")

    return score_of


def _facts(
    scores: dict[str, dict[str, float]], metric: str, beaten: str, examples: list[Example], found: dict[str, Measured]
) -> dict[str, Any]:
    """What base and tuned model answer to the same prompts, and the metrics of both."""
    passages = [
        _passage(example, found[name].said[at], called)
        for at, example in enumerate(examples[:_SHOWN])
        for name, called in ((MODEL, "tuned"), (BASE, "base"))
    ]
    ours, theirs = scores[MODEL], scores[BASE]
    label = metric.replace("_", " ")
    columns = ["metric", "tuned", "base"]
    rows = [[name.replace("_", " "), f"{rounded(ours[name]):g}", f"{rounded(theirs[name]):g}"] for name in ours]
    return {
        "kind": "pictured",
        "rows": len(examples),
        "beaten": named(beaten),
        "words": f"On {len(examples):,} sealed conversations the tuned model reaches {ours[metric]:.3f} {label}, "
        f"the base {theirs[metric]:.3f}.",
        "pictures": [
            {"view": "samples",
             "picture": {"kind": "texts", "title": "answers to the same prompts", "passages": passages}},
            {"view": "scores",
             "picture": {"kind": "table", "title": "tuned and base", "columns": columns, "rows": rows}},
        ],
    }  # fmt: skip


def _passage(example: Example, said: str, name: str) -> dict[str, Any]:
    """The prompt's end with the answer, which is marked; below it what was wanted."""
    start = short(example.prompt[-1]["content"] if example.prompt else "", _ASKED)
    text = f"{start} → {short(said, _CELL) or '–'}"
    span = {"start": len(start) + 3, "end": len(text), "name": ""}
    return {"text": text, "spans": [span], "caption": f"{name}; wanted: {short(example.answer, 70)}", "right": None}
