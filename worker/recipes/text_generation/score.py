"""Measures a language model on the sealed texts: bits per byte decide, fewer are better.

A language model's answer to a text is how likely it finds it, so the training cannot leave predictions of texts that it
may not see. The evaluation, which alone has them, runs the model: weights, configuration, tokenizer and memory as data,
in transformers' code and our own. What a forged model could gain is in `worker.recipes.language.bits`. The baselines
were measured when the data were split.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.job import NOT_KEPT, Job
from worker.recipes.common.scoring import MODEL, Decisive, named, publish, rounded, short, write_results
from worker.recipes.common.table import read_table
from worker.recipes.language.bits import coded, size
from worker.recipes.language.generating import continuations, load_causal
from worker.recipes.language.memory import load_memory
from worker.recipes.text_generation.settings import generation_settings

_ALONE = f"network_alone{NOT_KEPT}"
_NAMES = {"lzma": "LZMA", "zlib": "zlib", "byte_ngrams": "byte n-grams", _ALONE: "network alone"}
_BEGUN_CHARS, _SAID_CHARS = 120, 400


def score(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Measure and write. `sealed=False` says in the card that the texts lay open to the training. Raises: BadData."""
    texts = read_table(sealed_dir / "labels.csv", delimiter=",").columns["label"]
    known = json.loads((sealed_dir / "baselines.json").read_text(encoding="utf-8"))
    folder = job.run_dir / "predictions" / MODEL
    network, tokenizer = load_causal(folder)
    memory = load_memory(folder, vocabulary=network.config.vocab_size)
    longest = generation_settings(job.settings)["block_length"]
    longest = min(longest, int(getattr(network.config, "max_position_embeddings", longest) or longest))
    found = coded(network, tokenizer, texts, longest=longest)
    ours = {MODEL: found.beside(memory).bits, _ALONE: found.bits} if memory else {MODEL: found.bits}
    bits = {name: np.array(each) for name, each in {**ours, **known["bits"]}.items()}
    sizes = np.array([size(text) for text in texts])
    scores = {name: _measured(float(each.sum() / sizes.sum())) for name, each in bits.items()}

    def score_of(name: str, at: NDArray[np.int64]) -> float:
        return float(bits[name][at].sum() / sizes[at].sum())

    beaten = publish(job, scores, Decisive("bits_per_byte", len(texts), score_of, lower=True), sealed=sealed)

    def facts() -> dict[str, Any]:
        prompts = [sample["prompt"] for sample in known["samples"]]
        said = continuations(network, tokenizer, prompts, most=min(100, longest // 2), temperature=0.8,
                             seed=job.seed, longest=longest, memory=memory)  # fmt: skip
        samples = [{**sample, MODEL: one} for sample, one in zip(known["samples"], said, strict=True)]
        return _facts(scores, beaten, len(texts), samples)

    write_results(job, facts)


def _measured(bits_per_byte: float) -> dict[str, float]:
    """The perplexity is that of a byte: how many bytes it is as unsure between."""
    return {"bits_per_byte": bits_per_byte, "byte_perplexity": 2**bits_per_byte}


def _facts(
    scores: dict[str, dict[str, float]], beaten: str, rows: int, samples: list[dict[str, str]]
) -> dict[str, Any]:
    """What model and counted sequences write after the same beginnings, and the bits of all candidates."""
    passages = [
        _passage(sample["prompt"], sample[name], called)
        for sample in samples
        for name, called in ((MODEL, "model"), ("byte_ngrams", "byte n-grams"))
    ]
    order = sorted(scores, key=lambda name: scores[name]["bits_per_byte"])
    names = [_NAMES.get(name, name) for name in order]
    values = [rounded(scores[name]["bits_per_byte"]) for name in order]
    bars = {
        "kind": "bars", "title": "bits per byte of the sealed texts, fewer are better", "names": names,
        "groups": [{"name": "", "values": values}],
    }  # fmt: skip
    samples_picture = {"kind": "texts", "title": "what follows the same beginning", "passages": passages}
    ours = scores[MODEL]["bits_per_byte"]
    return {
        "kind": "pictured",
        "rows": rows,
        "beaten": named(beaten),
        "words": f"A byte of the sealed texts costs the model {ours:.3f} bits, "
        + ", ".join(f"{_NAMES.get(name, name)} {scores[name]['bits_per_byte']:.3f}" for name in order if name != MODEL)
        + ".",
        "pictures": [
            {"view": "samples", "picture": samples_picture},
            {"view": "scores", "picture": bars},
        ],
    }


def _passage(prompt: str, said: str, name: str) -> dict[str, Any]:
    """The end of the beginning with what was written after it, which is marked."""
    line = " ".join(prompt.split())
    start = line if len(line) <= _BEGUN_CHARS else "…" + line[-_BEGUN_CHARS:]
    text = f"{start} {short(said, _SAID_CHARS) or '–'}"
    span = {"start": len(start) + 1, "end": len(text), "name": ""}
    return {"text": text, "spans": [span], "caption": f"by the {name}", "right": None}
