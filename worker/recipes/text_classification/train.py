"""Train a classifier of texts: an encoder against majority and TF-IDF with logistic regression, and keep the best.

The baselines are fitted when the encoder is measured for the first time, so that a person who has just approved the run
sees it learn at once. The choice is made on rows held out of the training part; a tie goes to the simpler model. The
sealed test part plays no role here.
"""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from worker.recipes.classes.predictions import limits_of, majority_shares, share_rows
from worker.recipes.classes.scores import decisive_metric, measure
from worker.recipes.classes.weights import class_weights, weight_notes
from worker.recipes.common.columns import require_words
from worker.recipes.common.estimators import write_estimator
from worker.recipes.common.finish import Finished, finish, read_parts
from worker.recipes.common.holdout import read_holdout
from worker.recipes.common.job import NOT_KEPT, Job, write_json
from worker.recipes.common.kept import kept
from worker.recipes.common.scores import log_baseline
from worker.recipes.common.table import BadData
from worker.recipes.networks.fitting import Fitted, fitted, planned_steps
from worker.recipes.networks.loop import Goal
from worker.recipes.text_classification.predict import load
from worker.recipes.texts import linear
from worker.recipes.texts.encoder import Encoder, build, encoder_settings
from worker.recipes.texts.loop import TextLearner
from worker.recipes.texts.words import words

_PACKAGES = {"encoder": ("torch", "transformers", "tokenizers", "safetensors", "numpy"),
             "linear": ("scikit-learn", "skops", "numpy")}  # fmt: skip

_MODULES = ("classes.answers", "texts.encoding", "texts.padding")
_LENGTHS_OF, _GROUPS = 5_000, 2  # texts that a histogram is made of, classes that are told apart in it
_SHOWN = 0.98  # of them; a few long ones would make the rest narrow


@dataclass(frozen=True)
class Texts:
    """The training texts with their classes, and the metric that decides between models."""

    texts: list[str]
    labels: list[str]
    classes: list[str]
    metric: str

    def score(self, shares: NDArray[np.float64], at: NDArray[np.int64]) -> dict[str, float]:
        return measure([self.labels[row] for row in at], self.classes, shares)

    def at(self, rows: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
        """Texts and class numbers of these rows."""
        codes = np.searchsorted(self.classes, [self.labels[row] for row in rows])
        return [self.texts[row] for row in rows], codes


@dataclass
class _Found:
    """What was trained on the fitting rows, with which settings, and what it scores on the held-out ones."""

    linear: Any
    fitted: Fitted[TextLearner]
    scores: dict[str, dict[str, float]]
    held: int
    stopped: bool


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged."""
    settings = encoder_settings(job.settings)
    table, test, split = read_parts(job)
    column = split["text_column"]
    labels = table.columns[split["target"]]
    classes = sorted(set(labels))
    data = Texts(table.columns[column], labels, classes, decisive_metric(len(classes)))
    require_words(data.texts, column)
    fit, held = read_holdout(job).split(labels, frac=settings["valid_frac"], seed=job.seed, classes=True)
    runtime.start(settings["model"] or "encoder", settings, total_steps=planned_steps(settings, len(fit)))
    runtime.log(f"{len(labels)} texts from “{column}”, classes: {', '.join(classes[:10])}.")
    codes = np.searchsorted(classes, labels)
    weights = class_weights(settings, codes[fit], len(classes))
    balanced = weights is not None
    found = _candidates(job, runtime, data, settings, (fit, held), weights)
    kind, why = _choose(data.metric, found)
    runtime.log(why)
    found.stopped = found.stopped or runtime.should_stop
    linear = found.linear if found.stopped else _linear(job, "linear_on_all", data.texts, codes, balanced=balanced)
    _save(job, kind, found.fitted.learner.encoder if kind == "encoder" else linear, column, classes)
    used = {column, split["target"]}
    ignored = [f"{name} (this recipe reads one text column)" for name in table.names if name not in used]
    shares = {
        "model": load(job.artifacts).answers(test.columns).shares,
        "linear": np.asarray(linear.predict_proba(test.columns[column])),
        "majority": majority_shares(labels, classes, test.rows),
    }
    if kind != "encoder":
        shares[f"encoder{NOT_KEPT}"] = found.fitted.learner.encoder.model().predict_proba(test.columns[column])
    finish(
        job, runtime,
        Finished(kind, why, found.fitted.settings, ignored, {"rows": len(held), **found.scores}, found.stopped,
                 packages=_PACKAGES[kind], modules=_MODULES, limits=limits_of(classes),
                 notes=(*found.fitted.trained.notes, *weight_notes(weights, classes)),
                 found=found.fitted.found if kind == "encoder" else {}),
        {name: share_rows(test.columns["row_id"], classes, said) for name, said in shares.items()},
    )  # fmt: skip


def _candidates(
    job: Job,
    runtime: TrainingRuntime,
    data: Texts,
    settings: dict[str, Any],
    parts: tuple[NDArray[np.int64], NDArray[np.int64]],
    weights: NDArray[np.float64] | None,
) -> _Found:
    fit, held = parts
    texts, codes = data.at(fit)
    held_texts, _ = data.at(held)
    scores: dict[str, dict[str, float]] = {}
    linear: Any = None

    def fit_baselines(step: int | None) -> None:
        """Fit, score and, with a step, tell the charts: an attempt that goes on has told them already."""
        nonlocal linear
        linear = _linear(job, "linear", texts, codes, balanced=weights is not None)
        scores["majority"] = data.score(
            majority_shares([data.labels[row] for row in fit], data.classes, len(held)), held
        )
        scores["linear"] = data.score(np.asarray(linear.predict_proba(held_texts)), held)
        runtime.log(f"Baselines on {len(held)} held-out texts, {data.metric}: majority "
                    f"{scores['majority'][data.metric]:.4f}, TF-IDF {scores['linear'][data.metric]:.4f}.")  # fmt: skip
        if step is not None:
            log_baseline(runtime, "linear", scores["linear"], step=step)

    def made(settings: dict[str, Any]) -> TextLearner:
        encoder = build(texts, data.classes, settings, seed=job.seed)
        return TextLearner(encoder, texts, codes, held_texts, lambda shares: data.score(shares, held), weights)

    goal = Goal(data.metric, before_first=fit_baselines)
    done = fitted(job, runtime, made(settings), settings, made, goal)
    encoder, trained = done.learner.encoder, done.trained
    if not scores:  # an earlier attempt has measured
        fit_baselines(None)
    if not trained.stopped:  # not before the first step, which people wait for
        _show_lengths(runtime, encoder, texts, [data.classes[code] for code in codes])
    scores["encoder"] = data.score(encoder.model().predict_proba(held_texts), held)
    runtime.log(
        f"Encoder: {encoder.origin} on {encoder.device}, learning rate {done.settings['learning_rate']:g}; "
        f"best step {trained.best_step} of {trained.steps}, {data.metric} {trained.best_score:.4f}."
    )
    return _Found(linear, done, scores, len(held), trained.stopped)


def _show_lengths(runtime: TrainingRuntime, encoder: Encoder, texts: list[str], labels: list[str]) -> None:
    """A histogram of the lengths of training texts in tokens, by class where there are two; the longest are counted."""
    every = -(-len(texts) // _LENGTHS_OF)
    lengths, of = encoder.lengths(texts[::every]), labels[::every]
    end = sorted(lengths)[math.ceil(_SHOWN * len(lengths)) - 1]
    shown = [(length, label) for length, label in zip(lengths, of, strict=True) if length <= end]
    names = sorted(set(of)) if len(set(of)) <= _GROUPS else [""]
    groups = {name: [length for length, label in shown if name in ("", label)] for name in names}
    cut = sum(length > encoder.longest for length in lengths)
    runtime.log_histogram(
        "token lengths", groups, unit="texts", x_label=f"tokens, {len(lengths) - len(shown):,} longer texts left out",
        title=f"Length of {len(lengths):,} training texts, {cut:,} cut at {encoder.longest} tokens",
    )  # fmt: skip


def _linear(job: Job, name: str, texts: list[str], codes: NDArray[np.int64], *, balanced: bool) -> Any:
    """The linear baseline on these texts, the one of an earlier attempt if it learned from the same."""
    data = zlib.crc32(codes.tobytes(), zlib.crc32("\0".join(texts).encode(errors="replace")))
    key = json.dumps([job.seed, len(texts), data, balanced])
    return kept(job, name, key, lambda: _fit_linear(texts, codes, seed=job.seed, balanced=balanced))


def _fit_linear(texts: list[str], codes: NDArray[np.int64], *, seed: int, balanced: bool = False) -> Any:
    """TF-IDF of words and pairs of words, then a logistic regression."""
    try:
        return linear.classifier(seed=seed, balanced=balanced).fit(texts, codes)
    except ValueError as error:
        if "empty vocabulary" in str(error):
            raise BadData("The texts hold no words.") from error
        raise


def _choose(metric: str, found: _Found) -> tuple[str, str]:
    """`encoder` or `linear`, and the reason as a sentence."""
    linear, encoder = found.scores["linear"][metric], found.scores["encoder"][metric]
    numbers = f"{metric} {encoder:.4f} against {linear:.4f} on {found.held} held-out texts"
    if encoder > linear:
        return "encoder", f"The encoder is kept: it beats TF-IDF with logistic regression ({numbers})."
    return "linear", f"TF-IDF with logistic regression is kept: the encoder does not beat it ({numbers})."


def _save(job: Job, kind: str, model: Any, column: str, classes: list[str]) -> None:
    job.artifacts.mkdir(exist_ok=True)
    file = "encoder" if kind == "encoder" else "model.skops"
    if kind == "encoder":
        model.save(job.artifacts / file)
    else:
        write_estimator(model, job.artifacts / file)
        write_json(job.artifacts / "importance.json", words(model, classes))
    write_json(
        job.artifacts / "model.json",
        {"answer": "label", "kind": kind, "file": file, "classes": classes, "text_column": column},
    )
