"""Train a tagger of words: an encoder against the most frequent tag of each word, and keep the better.

The baseline is counted when the encoder is measured for the first time, so that a person who has just approved the run
sees it learn at once. The choice is made on sentences held out of the training part. The sealed test part plays no
role here.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from worker.recipes.classes.weights import class_weights, weight_notes
from worker.recipes.common.finish import Finished, finish, read_parts
from worker.recipes.common.holdout import read_holdout
from worker.recipes.common.job import NOT_KEPT, Job, write_json
from worker.recipes.common.scores import log_baseline
from worker.recipes.common.table import Table
from worker.recipes.networks.fitting import fitted, planned_steps
from worker.recipes.networks.loop import Goal
from worker.recipes.networks.losses import UNKNOWN, weighted_loss
from worker.recipes.spans.sentences import TEXT, WORDS
from worker.recipes.spans.tagging import EncoderTagger, FrequentTagger, pieces
from worker.recipes.spans.tags import label_of, measured
from worker.recipes.texts.encoder import Encoder, build, encoder_settings
from worker.recipes.texts.padding import padded
from worker.recipes.token_classification.predict import load

_METRIC = "span_f1"
_SPREAD_RATE = 2e-3  # of a small encoder from scratch, where nobody said another: each word teaches, not each text
_PACKAGES = {"encoder": ("torch", "transformers", "tokenizers", "safetensors", "numpy"), "most_frequent": ("numpy",)}
_MODULES = ("spans.answers", "spans.sentences", "spans.tagging", "spans.tags", "texts.padding")

Words = list[list[str]]


@dataclass
class TagLearner:
    """An encoder, the class number of each word of each sentence, and how to score tags of the held-out ones.

    `weights` say how much a word of each class counts; None: all alike.
    """

    encoder: Encoder
    sentences: Words
    codes: list[list[int]]
    held: Words
    score: Callable[[Words], dict[str, float]]
    classes: Sequence[str]
    weights: NDArray[np.float64] | None
    rows: list[tuple[list[int], list[int]]] = field(init=False)

    def __post_init__(self) -> None:
        self.rows = list(_aligned(self.encoder.tokenizer, self.sentences, self.codes))
        self.network, self.device = self.encoder.network, self.encoder.device
        self.count = len(self.rows)
        self.key = str(zlib.crc32(repr(self.rows).encode()))

    def tagger(self) -> EncoderTagger:
        return EncoderTagger(self.network, self.encoder.tokenizer, self.device, self.classes)

    def loss(self, rows: NDArray[np.int64]) -> Any:
        """Cross-entropy of the words in these pieces."""
        import torch

        batch = [self.rows[row] for row in rows]
        ids, mask = padded([ids for ids, _ in batch], self.network.config.pad_token_id or 0)  # (B, T)
        wanted = torch.full_like(ids, UNKNOWN)  # also of a token that begins no word
        for at, (_, codes) in enumerate(batch):
            wanted[at, : len(codes)] = torch.tensor(codes)
        logits = self.network(ids.to(self.device), attention_mask=mask.to(self.device)).logits  # (B, T, C)
        return weighted_loss(logits.float().flatten(0, 1), wanted.to(self.device).flatten(), self.weights)

    def measure(self) -> dict[str, float]:
        """The scores of the held-out sentences."""
        return self.score(self.tagger().tags(self.held))


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged."""
    settings = encoder_settings(job.settings)
    if not settings["model"]:
        settings["learning_rate"] = settings["learning_rate"] or _SPREAD_RATE
    table, test, split = read_parts(job)
    sentences, tags = _words(table), [list(map(str, json.loads(cell))) for cell in table.columns["tags"]]
    classes = sorted({tag for one in tags for tag in one}, key=lambda tag: (tag != "O", tag))
    labels = [min({label_of(tag) for tag in one} - {"O"}, default="") for one in tags]
    fit, held = read_holdout(job).split(labels, frac=settings["valid_frac"], seed=job.seed)
    learned, held_out = [sentences[row] for row in fit], [sentences[row] for row in held]
    wanted = [tags[row] for row in held]
    scores: dict[str, dict[str, float]] = {}

    def score(said: Words) -> dict[str, float]:
        return measured(wanted, said, plain=split["plain"])

    def fit_baseline(step: int | None) -> None:
        """Count, score and, with a step, tell the charts: an attempt that goes on has told them already."""
        counted = most_frequent(learned, [tags[row] for row in fit])
        scores["most_frequent"] = score(counted.tags(held_out))
        value = scores["most_frequent"][_METRIC]
        runtime.log(f"Baseline on {len(held):,} held-out sentences: most frequent tag of each word, F1 {value:.4f}.")
        if step is not None:
            log_baseline(runtime, "most_frequent", scores["most_frequent"], step=step)

    texts = [" ".join(words) for words in learned]
    codes = {tag: code for code, tag in enumerate(classes)}
    coded = [[codes[tag] for tag in tags[row]] for row in fit]
    weights = class_weights(settings, np.array([code for one in coded for code in one]), len(classes))

    def made(settings: dict[str, Any]) -> TagLearner:
        encoder = build(texts, classes, settings, seed=job.seed, head="Token", cased=True)
        return TagLearner(encoder, learned, coded, held_out, score, classes, weights)

    first = made(settings)
    runtime.start(settings["model"] or "tagger", settings, total_steps=planned_steps(settings, first.count))
    runtime.log(f"{len(sentences):,} sentences, {len(classes)} tags: {', '.join(classes[:12])}.")
    done = fitted(job, runtime, first, settings, made, Goal(_METRIC, before_first=fit_baseline))
    encoder, trained, settings = done.learner.encoder, done.trained, done.settings
    if not scores:  # an earlier attempt has measured
        fit_baseline(None)
    scores["encoder"] = done.learner.measure()
    notes = (*trained.notes, *weight_notes(weights, classes))
    runtime.log(f"Encoder: {encoder.origin} on {encoder.device}, learning rate {settings['learning_rate']:g}; best "
                f"step {trained.best_step} of {trained.steps}, span F1 {trained.best_score:.4f}.")  # fmt: skip
    kind, why = _choose(scores, len(held))
    runtime.log(why)
    everywhere = most_frequent(sentences, tags)
    _save(job, kind, encoder if kind == "encoder" else everywhere, {"classes": classes, **_about(split)})
    answers = {
        "model": load(job.artifacts).answers({TEXT: test.columns[TEXT], WORDS: test.columns[WORDS]}).tags,
        "most_frequent": everywhere.tags(_words(test)),
    }
    if kind != "encoder":
        answers[f"encoder{NOT_KEPT}"] = done.learner.tagger().tags(_words(test))
    finish(
        job, runtime,
        Finished(kind, why, settings, [], {"rows": len(held), **scores}, trained.stopped,
                 packages=_PACKAGES[kind], modules=_MODULES, limits=_limits(split), notes=notes,
                 found=done.found if kind == "encoder" else {}),
        {name: _rows(test, said) for name, said in answers.items()},
    )  # fmt: skip


def most_frequent(sentences: Words, tags: Words) -> FrequentTagger:
    """The baseline, from sentences and their tags."""
    by_word: dict[str, Counter[str]] = {}
    for words, said in zip(sentences, tags, strict=True):
        for word, tag in zip(words, said, strict=True):
            by_word.setdefault(word, Counter())[tag] += 1
    every = sum(by_word.values(), Counter[str]())
    return FrequentTagger({word: _most(counts) for word, counts in by_word.items()}, _most(every))


def _most(counts: Counter[str]) -> str:
    return min(counts, key=lambda tag: (-counts[tag], tag))


def _aligned(tokenizer: Any, sentences: Words, codes: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], list[int]]]:
    """Token numbers of each piece, and the class at the first token of each word."""
    for parts, wanted in zip(pieces(tokenizer, sentences), codes, strict=True):
        for piece in parts:
            found = [UNKNOWN] * len(piece.ids)
            for word, place in piece.words:
                found[place] = wanted[word]
            if piece.words:
                yield piece.ids, found


def _words(table: Table) -> Words:
    cells = zip(table.columns[TEXT], table.columns[WORDS], strict=True)
    return [[text[start:end] for start, end in json.loads(places)] for text, places in cells]


def _choose(scores: dict[str, dict[str, float]], held: int) -> tuple[str, str]:
    """`encoder` or `most_frequent`, and the reason as a sentence."""
    simple, encoder = scores["most_frequent"][_METRIC], scores["encoder"][_METRIC]
    numbers = f"span F1 {encoder:.4f} against {simple:.4f} on {held:,} held-out sentences"
    if encoder > simple:
        return "encoder", f"The encoder is kept: it beats the most frequent tag of each word ({numbers})."
    return "most_frequent", f"The most frequent tag of each word is kept: the encoder does not beat it ({numbers})."


def _about(split: dict[str, Any]) -> dict[str, Any]:
    return {"form": split["form"], "plain": split["plain"]}


def _limits(split: dict[str, Any]) -> list[str]:
    if split["form"]["kind"] == "texts":
        return []
    return ["It learned from text that was cut into tokens; of plain sentences it cuts words and marks itself."]


def _save(job: Job, kind: str, model: Any, about: dict[str, Any]) -> None:
    job.artifacts.mkdir(exist_ok=True)
    file = "encoder" if kind == "encoder" else "words.json"
    if kind == "encoder":
        model.save(job.artifacts / file)
    else:
        write_json(job.artifacts / file, {"known": model.known, "other": model.other})
    write_json(job.artifacts / "model.json", {"answer": "spans", "kind": kind, "file": file, **about})


def _rows(test: Table, tags: Sequence[Sequence[str]]) -> tuple[list[str], Iterator[Sequence[object]]]:
    said = (json.dumps(list(one), ensure_ascii=False) for one in tags)
    return ["row_id", "label"], iter(list(zip(test.columns["row_id"], said, strict=True)))
