"""Trains on images: a naive and a linear baseline first, then a network, and keeps what is best.

The baselines are fitted when the network is measured for the first time, so that a person who has just approved the run
sees it learn at once. The choice is made on images held out of the training part; a tie goes to the simpler model. The
sealed test part plays no role here. What is predicted, and how it is scored, is a `Problem`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from worker.recipes.common.annotations import IMAGE
from worker.recipes.common.estimators import write_estimator
from worker.recipes.common.finish import Finished, finish, read_parts
from worker.recipes.common.holdout import read_holdout
from worker.recipes.common.job import NOT_KEPT, Job, Setting, write_json
from worker.recipes.common.kept import kept
from worker.recipes.common.scores import log_baseline, worded
from worker.recipes.images.encoding import grey
from worker.recipes.images.learner import ImageLearner
from worker.recipes.images.network import Network, build, network_settings
from worker.recipes.images.squares import Squares
from worker.recipes.networks.fitting import Fitted, fitted, planned_steps
from worker.recipes.networks.loop import Goal

_PACKAGES = {"network": ("torch", "transformers", "safetensors", "pillow", "numpy"),
             "linear": ("scikit-learn", "skops", "pillow", "numpy")}  # fmt: skip
Answers = NDArray[np.float64]
Places = NDArray[np.int64]


class Problem(Protocol):
    """What images are learned for. Answers are an array with a row for each image."""

    metric: str
    lower: bool  # whether a lower value of the metric is better
    naive: str  # the name of the baseline that looks at no image
    linear: str  # what the linear baseline is, in words
    strata: Sequence[str]  # of each image, for splits
    outputs: Sequence[str]  # the names of the network's outputs
    wanted: NDArray[Any]  # what the network learns, a number for each image
    weights: NDArray[np.float64] | None  # how much an image of each class counts; None: all alike
    description: Mapping[str, Any]  # what `model.json` needs beside the file
    limits: Sequence[str]
    notes: Sequence[str]  # on what is done otherwise than usual
    modules: Sequence[str]

    def fit_linear(self, rows: Answers, at: Places, *, seed: int) -> Any:
        """The linear baseline on grey pictures of the images `at`, a fitted sklearn pipeline."""

    def naive_answers(self, fit: Places, count: int) -> Answers:
        """What the naive baseline that learned from the images `fit` says for `count` images."""

    def of_logits(self, logits: Answers) -> Answers:
        """Answers from the network's outputs."""

    def of_linear(self, pipeline: Any, rows: Answers) -> Answers:
        """Answers of the linear baseline for grey pictures."""

    def score(self, answers: Answers, at: Places) -> dict[str, float]:
        """Every metric of answers for the images `at`."""

    def prediction_rows(self, row_ids: Sequence[str], answers: Answers) -> tuple[list[str], Iterator[Sequence[object]]]:
        """Header and rows of a file of predictions."""


def train_images(
    job: Job, runtime: TrainingRuntime, problem_of: Any, answers_of: Any, more: Mapping[str, Setting]
) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged.

    `problem_of(values, settings)` makes the `Problem` of the target's values, `more` are settings of its own;
    `answers_of(folder, paths)` is what the finished model in a folder says.
    """
    settings = network_settings(job.settings, more)
    table, test, split = read_parts(job)
    paths = [str(job.run_dir / cell) for cell in table.columns[IMAGE]]
    test_paths = [str(job.run_dir / cell) for cell in test.columns[IMAGE]]
    problem: Problem = problem_of(table.columns[split["target"]], settings)
    classes = problem.wanted.dtype.kind == "i"
    fit, held = read_holdout(job).split(problem.strata, frac=settings["valid_frac"], seed=job.seed, classes=classes)
    runtime.start(settings["model"] or "image network", settings, total_steps=planned_steps(settings, len(fit)))
    rows = grey(paths)
    scores, done = _candidates(job, runtime, problem, settings, (paths, rows), (fit, held))
    trained = done.trained
    kind, why = _choose(problem, scores, len(held))
    runtime.log(why)
    stopped = trained.stopped or runtime.should_stop
    everything = fit if stopped else np.arange(len(paths))
    linear = _linear(job, problem, rows, everything, "linear" if stopped else "linear_on_all")
    _save(job, kind, problem, done.learner.made, linear)
    answers = {
        "model": answers_of(job.artifacts, test_paths),
        "linear": problem.of_linear(linear, grey(test_paths)),
        problem.naive: problem.naive_answers(np.arange(len(paths)), len(test_paths)),
    }
    if kind != "network":
        answers[f"network{NOT_KEPT}"] = problem.of_logits(done.learner.made.model().outputs(test_paths))
    ignored = [f"{name} (this recipe reads images)" for name in table.names if name not in {IMAGE, split["target"]}]
    finish(
        job, runtime,
        Finished(kind, why, done.settings, ignored, {"rows": len(held), **scores}, stopped,
                 packages=_PACKAGES[kind], modules=problem.modules, limits=problem.limits,
                 notes=(*trained.notes, *problem.notes),
                 found=done.found if kind == "network" else {}),
        {name: problem.prediction_rows(test.columns["row_id"], said) for name, said in answers.items()},
    )  # fmt: skip


def _candidates(
    job: Job,
    runtime: TrainingRuntime,
    problem: Problem,
    settings: dict[str, Any],
    images: tuple[list[str], Answers],
    parts: tuple[Places, Places],
) -> tuple[dict[str, dict[str, float]], Fitted[ImageLearner]]:
    """The scores of all candidates on the held-out images, and the trained network."""
    (paths, rows), (fit, held), metric = images, parts, problem.metric
    scores: dict[str, dict[str, float]] = {}

    def fit_baselines(step: int | None) -> None:
        """Fit, score and, with a step, tell the charts: an attempt that goes on has told them already."""
        linear = _linear(job, problem, rows, fit, "linear")
        scores[problem.naive] = problem.score(problem.naive_answers(fit, len(held)), held)
        scores["linear"] = problem.score(problem.of_linear(linear, rows[held]), held)
        naive, simple = scores[problem.naive][metric], scores["linear"][metric]
        runtime.log(f"Baselines on {len(held):,} held-out images, {metric}: {problem.naive} {worded(naive)}, "
                    f"{problem.linear} {worded(simple)}.")  # fmt: skip
        if step is not None:
            log_baseline(runtime, "linear", scores["linear"], step=step)

    parts_by_px: dict[int, tuple[Squares, Squares]] = {}

    def squares(size_px: int) -> tuple[Squares, Squares]:
        """The images to learn from and those held out; every network of a search reads the same ones."""
        if size_px not in parts_by_px:
            seen, apart = (Squares([paths[row] for row in rows], size_px) for rows in (fit, held))
            if seen.said:
                runtime.log(seen.said)
            parts_by_px[size_px] = seen, apart
        return parts_by_px[size_px]

    def made(settings: dict[str, Any]) -> ImageLearner:
        network = build(paths, problem.outputs, settings, seed=job.seed, mse=problem.wanted.dtype.kind == "f")
        seen, apart = squares(network.look.size_px)
        return ImageLearner(
            network, seen, problem.wanted[fit], apart,
            lambda logits: problem.score(problem.of_logits(logits), held),
            shift=settings["shift"], flip=bool(settings["flip"]), weights=problem.weights,
        )  # fmt: skip

    goal = Goal(metric, before_first=fit_baselines, higher=not problem.lower)
    done = fitted(job, runtime, made(settings), settings, made, goal)
    if not scores:  # an earlier attempt has measured
        fit_baselines(None)
    scores["network"] = done.learner.measure()
    network, trained = done.learner.made, done.trained
    runtime.log(f"Network: {network.origin} on {network.device}; best step {trained.best_step} of {trained.steps}, "
                f"{metric} {worded(trained.best_score)}.")  # fmt: skip
    return scores, done


def _linear(job: Job, problem: Problem, rows: Answers, at: Places, name: str) -> Any:
    """The linear baseline on these images, the one of an earlier attempt if it learned from the same."""
    data = zlib.crc32(problem.wanted[at].tobytes(), zlib.crc32(rows[at].tobytes()))
    key = json.dumps([job.seed, len(at), data, problem.weights is not None])
    return kept(job, name, key, lambda: problem.fit_linear(rows[at], at, seed=job.seed))


def _choose(problem: Problem, scores: Mapping[str, Mapping[str, float]], held: int) -> tuple[str, str]:
    """`network` or `linear`, and the reason as a sentence."""
    linear, network = scores["linear"][problem.metric], scores["network"][problem.metric]
    numbers = f"{problem.metric} {worded(network)} against {worded(linear)} on {held:,} held-out images"
    if network < linear if problem.lower else network > linear:
        return "network", f"The network is kept: it beats {problem.linear} ({numbers})."
    return "linear", f"{problem.linear.capitalize()} is kept: the network does not beat it ({numbers})."


def _save(job: Job, kind: str, problem: Problem, made: Network, linear: Any) -> None:
    job.artifacts.mkdir(exist_ok=True)
    about: dict[str, Any] = {"kind": kind, "file": "network" if kind == "network" else "model.skops"}
    if kind == "network":
        made.network.save_pretrained(job.artifacts / "network")
        about |= {"size_px": made.look.size_px, "mean": list(made.look.mean), "spread": list(made.look.spread)}
    else:
        write_estimator(linear, job.artifacts / "model.skops")
    write_json(job.artifacts / "model.json", about | dict(problem.description))
