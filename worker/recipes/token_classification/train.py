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
from worker.recipes.networks.fitting import Fitted, fitted, planned_steps
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


@dataclass(frozen=True)
class Tagged:
    """The training sentences with their tags; `fit` are those to learn from, `held` those to choose by.

    `plain`: a tag is of a word, and no part of a span.
    """

    sentences: Words
    tags: Words
    classes: list[str]
    fit: NDArray[np.int64]
    held: NDArray[np.int64]
    plain: bool

    def of(self, rows: NDArray[np.int64]) -> Words:
        """The sentences of these rows."""
        return [self.sentences[row] for row in rows]

    def coded(self) -> list[list[int]]:
        """The class number of each word of the sentences to learn from."""
        codes = {tag: code for code, tag in enumerate(self.classes)}
        return [[codes[tag] for tag in self.tags[row]] for row in self.fit]

    def score(self, said: Words) -> dict[str, float]:
        """The scores of tags of the held-out sentences."""
        return measured([self.tags[row] for row in self.held], said, plain=self.plain)

    def baseline(self) -> dict[str, float]:
        """The scores of the most frequent tag of each word, counted on the sentences to learn from."""
        counted = most_frequent(self.of(self.fit), [self.tags[row] for row in self.fit])
        return self.score(counted.tags(self.of(self.held)))


@dataclass(frozen=True)
class _Found:
    """The trained encoder, and what all candidates score on the held-out sentences."""

    fitted: Fitted[TagLearner]
    scores: dict[str, dict[str, float]]
    notes: tuple[str, ...]


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged."""
    settings = encoder_settings(job.settings)
    if not settings["model"]:
        settings["learning_rate"] = settings["learning_rate"] or _SPREAD_RATE
    table, test, split = read_parts(job)
    data = _tagged(job, table, settings["valid_frac"], plain=split["plain"])
    found = _candidates(job, runtime, data, settings)
    learner, settings = found.fitted.learner, found.fitted.settings
    kind, why = _choose(found.scores, len(data.held))
    runtime.log(why)
    frequent = most_frequent(data.sentences, data.tags)
    _save(job, kind, learner.encoder if kind == "encoder" else frequent, {"classes": data.classes, **_about(split)})
    answers = _answers(job, test, kind, learner, frequent)
    validation, stopped = {"rows": len(data.held), **found.scores}, found.fitted.trained.stopped
    searched = found.fitted.found if kind == "encoder" else {}
    done = Finished(
        kind,
        why,
        settings,
        [],
        validation,
        stopped,
        packages=_PACKAGES[kind],
        modules=_MODULES,
        limits=_limits(split),
        notes=found.notes,
        found=searched,
    )
    finish(job, runtime, done, {name: _rows(test, said) for name, said in answers.items()})


def _tagged(job: Job, table: Table, valid_frac: float, *, plain: bool) -> Tagged:
    """The training part, a part of it held out with every label in it where that can be."""
    tags = [list(map(str, json.loads(cell))) for cell in table.columns["tags"]]
    classes = sorted({tag for one in tags for tag in one}, key=lambda tag: (tag != "O", tag))
    labels = [min({label_of(tag) for tag in one} - {"O"}, default="") for one in tags]
    fit, held = read_holdout(job).split(labels, frac=valid_frac, seed=job.seed)
    return Tagged(_words(table), tags, classes, fit, held, plain)


def _candidates(job: Job, runtime: TrainingRuntime, data: Tagged, settings: dict[str, Any]) -> _Found:
    """Train, and measure baseline and encoder on the held-out sentences. Raises: BadSettings, Diverged."""
    learned, coded = data.of(data.fit), data.coded()
    weights = class_weights(settings, np.array([code for one in coded for code in one]), len(data.classes))
    scores: dict[str, dict[str, float]] = {}

    def made(settings: dict[str, Any]) -> TagLearner:
        texts = [" ".join(words) for words in learned]
        encoder = build(texts, data.classes, settings, seed=job.seed, head="Token", cased=True)
        return TagLearner(encoder, learned, coded, data.of(data.held), data.score, data.classes, weights)

    def count_baseline(step: int | None) -> None:
        """Count, score and, with a step, tell the charts: an attempt that goes on has told them already."""
        scores["most_frequent"] = data.baseline()
        value, held = scores["most_frequent"][_METRIC], len(data.held)
        runtime.log(f"Baseline on {held:,} held-out sentences: most frequent tag of each word, F1 {value:.4f}.")
        if step is not None:
            log_baseline(runtime, "most_frequent", scores["most_frequent"], step=step)

    first = made(settings)
    runtime.start(settings["model"] or "tagger", settings, total_steps=planned_steps(settings, first.count))
    runtime.log(f"{len(data.sentences):,} sentences, {len(data.classes)} tags: {', '.join(data.classes[:12])}.")
    done = fitted(job, runtime, first, settings, made, Goal(_METRIC, before_first=count_baseline))
    if not scores:  # an earlier attempt has measured
        count_baseline(None)
    scores["encoder"] = done.learner.measure()
    runtime.log(_reached(done))
    return _Found(done, scores, (*done.trained.notes, *weight_notes(weights, data.classes)))


def _reached(done: Fitted[TagLearner]) -> str:
    encoder, trained, rate = done.learner.encoder, done.trained, done.settings["learning_rate"]
    return (
        f"Encoder: {encoder.origin} on {encoder.device}, learning rate {rate:g}; best step {trained.best_step} of "
        f"{trained.steps}, span F1 {trained.best_score:.4f}."
    )


def _answers(
    job: Job, test: Table, kind: str, learner: TagLearner, frequent: FrequentTagger
) -> dict[str, Sequence[Sequence[str]]]:
    """The tags that the finished model and all others give the test sentences."""
    answers = {
        "model": load(job.artifacts).answers({TEXT: test.columns[TEXT], WORDS: test.columns[WORDS]}).tags,
        "most_frequent": frequent.tags(_words(test)),
    }
    if kind != "encoder":
        answers[f"encoder{NOT_KEPT}"] = learner.tagger().tags(_words(test))
    return answers


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
