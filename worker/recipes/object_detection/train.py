"""Train a detector of objects: a network against the mean box of each label, and keep the better.

The baseline is counted when the network is measured for the first time, so that a person who has just approved the run
sees it learn at once. The choice is made on images held out of the training part. The sealed test part plays no role
here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from worker.recipes.boxes.detecting import Detector, Found, in_pixels, mean_boxes, size_of
from worker.recipes.boxes.measuring import Matched
from worker.recipes.boxes.network import Boxes, BoxLearner, build, network_settings, save
from worker.recipes.common.annotations import BOXES, IMAGE
from worker.recipes.common.finish import Finished, finish, read_parts
from worker.recipes.common.holdout import read_holdout
from worker.recipes.common.job import NOT_KEPT, Job, write_json
from worker.recipes.common.scores import log_baseline
from worker.recipes.common.table import Table
from worker.recipes.images.squares import Squares
from worker.recipes.networks.loop import Goal, Loop, Trained, total_steps
from worker.recipes.object_detection.predict import load

_METRIC = "map"
_PACKAGES = {"centre": ("torch", "safetensors", "pillow", "numpy"),
             "transformer": ("torch", "transformers", "safetensors", "pillow", "numpy"),
             "mean_box": ("pillow", "numpy")}  # fmt: skip
_MODULES = ("boxes.answers", "boxes.detecting", "images.encoding")
Known = list[list[dict[str, Any]]]


@dataclass(frozen=True)
class Marked:
    """The training images with their boxes in pixels; `fit` are those to learn from, `held` those to choose by."""

    paths: list[str]
    sizes: list[tuple[int, int]]
    boxes: Known
    classes: list[str]
    fit: NDArray[np.int64]
    held: NDArray[np.int64]

    def score(self, found: Sequence[Found]) -> dict[str, float]:
        """The scores of what a network found on the held-out images."""
        pairs = zip(found, self.held, strict=True)
        return self._scored([in_pixels(one, self.classes, self.sizes[row]) for one, row in pairs])

    def baseline(self) -> dict[str, float]:
        """The scores of the mean box of each label, counted on the images to learn from."""
        known = usual_boxes([self.boxes[row] for row in self.fit], [self.sizes[row] for row in self.fit])
        return self._scored([mean_boxes(known, self.sizes[row]) for row in self.held])

    def _scored(self, said: Known) -> dict[str, float]:
        return Matched([self.boxes[row] for row in self.held], said).scores()


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged."""
    settings = network_settings(job.settings)
    table, test, _ = read_parts(job)
    images = _marked(job, table, settings["valid_frac"])
    runtime.start(settings["model"] or "detector", settings, total_steps=total_steps(settings, len(images.fit)))
    learner = _learner(images, settings, runtime, seed=job.seed)
    scores, trained = _candidates(learner, images, settings, runtime, seed=job.seed)
    kind, why = _choose(learner.detector, scores, len(images.held))
    runtime.log(why)
    known = usual_boxes(images.boxes, images.sizes)
    _save(job, kind, learner.detector, settings, known)
    answers = _answers(job, test, kind, learner.detector, known)
    validation = {"rows": len(images.held), **scores}
    packages = _PACKAGES[kind]
    done = Finished(
        kind, why, settings, [], validation, trained.stopped, packages=packages, modules=_MODULES, notes=trained.notes
    )
    finish(job, runtime, done, {name: _rows(test.columns["row_id"], said) for name, said in answers.items()})


def _marked(job: Job, table: Table, valid_frac: float) -> Marked:
    """The training part, a part of it held out with every label in it where that can be."""
    paths = [str(job.run_dir / cell) for cell in table.columns[IMAGE]]
    boxes = [json.loads(cell) for cell in table.columns[BOXES]]
    classes = sorted({box["label"] for one in boxes for box in one})
    rarest = [min((box["label"] for box in one), default="") for one in boxes]
    fit, held = read_holdout(job).split(rarest, frac=valid_frac, seed=job.seed)
    return Marked(paths, [size_of(path) for path in paths], boxes, classes, fit, held)


def _learner(images: Marked, settings: dict[str, Any], runtime: TrainingRuntime, *, seed: int) -> BoxLearner:
    """The detector before its training, with what it learns from. Raises: BadData, BadSettings."""
    detector = build(images.paths, images.classes, settings, seed=seed)
    seen, apart = (
        Squares([images.paths[row] for row in rows], detector.look.size_px) for rows in (images.fit, images.held)
    )
    if seen.said:
        runtime.log(seen.said)
    wanted = [corners(images.boxes[row], images.sizes[row], images.classes) for row in images.fit]
    count = sum(part.numel() for part in detector.network.parameters()) / 1e6
    boxes, origin = sum(map(len, images.boxes)), settings["model"] or "a small one from scratch"
    runtime.log(
        f"{len(images.paths):,} images with {boxes:,} boxes of {len(images.classes)} labels. Network: {origin} "
        f"({count:.2f} M parameters, {detector.look.size_px} px) on {detector.device}."
    )
    return BoxLearner(detector, seen, wanted, apart, images.score, settings["shift"])


def _candidates(
    learner: BoxLearner, images: Marked, settings: dict[str, Any], runtime: TrainingRuntime, *, seed: int
) -> tuple[dict[str, dict[str, float]], Trained]:
    """The scores of baseline and network on the held-out images, and how the training went. Raises: Diverged."""
    scores: dict[str, dict[str, float]] = {}

    def count_baseline(step: int | None) -> None:
        """Count, score and, with a step, tell the charts: an attempt that goes on has told them already."""
        scores["mean_box"] = images.baseline()
        value = scores["mean_box"][_METRIC]
        runtime.log(f"Baseline on {len(images.held):,} held-out images: the mean box of each label, mAP {value:.4f}.")
        if step is not None:
            log_baseline(runtime, "mean_box", scores["mean_box"], step=step)

    trained = Loop(learner, settings, runtime, seed=seed).run(Goal(_METRIC, before_first=count_baseline))
    if not scores:  # an earlier attempt has measured
        count_baseline(None)
    scores["network"] = learner.measure()
    runtime.log(f"Network: best step {trained.best_step} of {trained.steps}, mAP {trained.best_score:.4f}.")
    return scores, trained


def _choose(detector: Detector, scores: Mapping[str, Mapping[str, float]], held: int) -> tuple[str, str]:
    """The detector's kind or `mean_box`, and the reason as a sentence."""
    ours, simple = scores["network"][_METRIC], scores["mean_box"][_METRIC]
    numbers = f"mAP {ours:.4f} against {simple:.4f} on {held:,} images"
    if ours > simple:
        return detector.kind, f"The network is kept: it beats the mean box of each label ({numbers})."
    return "mean_box", f"The network is not kept: it does not beat the mean box of each label ({numbers})."


def _answers(
    job: Job, test: Table, kind: str, detector: Detector, known: Sequence[Mapping[str, Any]]
) -> dict[str, Sequence[Sequence[Any]]]:
    """What the finished model and all others find on the test images."""
    paths = [str(job.run_dir / cell) for cell in test.columns[IMAGE]]
    answers = {
        "model": load(job.artifacts).answers({IMAGE: paths}).boxes,
        "mean_box": [mean_boxes(known, size_of(path)) for path in paths],
    }
    if kind == "mean_box":
        answers[f"network{NOT_KEPT}"] = detector.boxes(paths)
    return answers


def corners(boxes: Sequence[Mapping[str, Any]], size: tuple[int, int], classes: Sequence[str]) -> Boxes:
    """Boxes as corners in 0 to 1, and class numbers."""
    sides = np.array([box["box"] for box in boxes], dtype=np.float64).reshape(-1, 4)
    scale = np.array([*size, *size], dtype=np.float64)
    found = np.concatenate([sides[:, :2], sides[:, :2] + sides[:, 2:]], axis=1) / scale
    return found.clip(0, 1), np.array([classes.index(box["label"]) for box in boxes], dtype=np.int64)


def usual_boxes(boxes: Known, sizes: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """The mean box of each label, as a part of the image, with how often an image has one as its score."""
    by_label: dict[str, list[list[float]]] = {}
    for one, (width, height) in zip(boxes, sizes, strict=True):
        for box in one:
            left, top, wide, high = box["box"]
            by_label.setdefault(box["label"], []).append([left / width, top / height, wide / width, high / height])
    return [
        {"label": label, "box": np.mean(found, axis=0).round(5).tolist(), "score": min(1.0, len(found) / len(boxes))}
        for label, found in sorted(by_label.items())
    ]


def _save(
    job: Job, kind: str, detector: Detector, settings: Mapping[str, Any], known: Sequence[Mapping[str, Any]]
) -> None:
    job.artifacts.mkdir(exist_ok=True)
    about: dict[str, Any] = {"answer": "boxes", "kind": kind, "classes": detector.classes}
    if kind == "mean_box":
        about["mean_boxes"] = list(known)
    else:
        save(detector, settings, job.artifacts / "network")
        look = detector.look
        about |= {"file": "network", "size_px": look.size_px, "mean": list(look.mean), "spread": list(look.spread)}
    write_json(job.artifacts / "model.json", about)


def _rows(row_ids: Sequence[str], boxes: Sequence[object]) -> tuple[list[str], Iterator[Sequence[object]]]:
    said = [json.dumps(one, ensure_ascii=False) for one in boxes]
    return ["row_id", "label"], iter(list(zip(row_ids, said, strict=True)))
