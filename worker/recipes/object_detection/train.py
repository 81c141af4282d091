"""Train a detector of objects: a network against the mean box of each label, and keep the better.

The baseline is counted when the network is measured for the first time, so that a person who has just approved the run
sees it learn at once. The choice is made on images held out of the training part. The sealed test part plays no role
here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trainyard import TrainingRuntime
from worker.recipes.boxes.detecting import Detector, Found, in_pixels, mean_boxes, size_of
from worker.recipes.boxes.measuring import Matched
from worker.recipes.boxes.network import Boxes, BoxLearner, build, network_settings, save
from worker.recipes.common.annotations import BOXES, IMAGE
from worker.recipes.common.finish import Finished, finish, read_parts
from worker.recipes.common.holdout import read_holdout
from worker.recipes.common.job import Job, write_json
from worker.recipes.common.scores import log_baseline
from worker.recipes.images.squares import Squares
from worker.recipes.networks.loop import Goal, Loop, total_steps
from worker.recipes.object_detection.predict import load

_METRIC = "map"
_PACKAGES = {"centre": ("torch", "safetensors", "pillow", "numpy"),
             "transformer": ("torch", "transformers", "safetensors", "pillow", "numpy"),
             "mean_box": ("pillow", "numpy")}  # fmt: skip
_MODULES = ("boxes.answers", "boxes.detecting", "images.encoding")
Known = list[list[dict[str, Any]]]


def train(job: Job, runtime: TrainingRuntime) -> None:
    """Train, choose, and leave artifacts and predictions. Raises: BadData, BadSettings, Diverged."""
    settings = network_settings(job.settings)
    table, test, _ = read_parts(job)
    paths = [str(job.run_dir / cell) for cell in table.columns[IMAGE]]
    sizes, boxes = [size_of(path) for path in paths], [json.loads(cell) for cell in table.columns[BOXES]]
    classes = sorted({box["label"] for one in boxes for box in one})
    rarest = [min((box["label"] for box in one), default="") for one in boxes]
    fit, held = read_holdout(job).split(rarest, frac=settings["valid_frac"], seed=job.seed)
    truth = [boxes[row] for row in held]
    scores: dict[str, dict[str, float]] = {}

    def score(found: list[Found]) -> dict[str, float]:
        said = [in_pixels(one, classes, sizes[row]) for one, row in zip(found, held, strict=True)]
        return Matched(truth, said).scores()

    def fit_baseline(step: int | None) -> None:
        """Count, score and, with a step, tell the charts: an attempt that goes on has told them already."""
        known = usual_boxes([boxes[row] for row in fit], [sizes[row] for row in fit])
        scores["mean_box"] = Matched(truth, [mean_boxes(known, sizes[row]) for row in held]).scores()
        value = scores["mean_box"][_METRIC]
        runtime.log(f"Baseline on {len(held):,} held-out images: the mean box of each label, mAP {value:.4f}.")
        if step is not None:
            log_baseline(runtime, "mean_box", scores["mean_box"], step=step)

    runtime.start(settings["model"] or "detector", settings, total_steps=total_steps(settings, len(fit)))
    detector = build(paths, classes, settings, seed=job.seed)
    seen, apart = (Squares([paths[row] for row in rows], detector.look.size_px) for rows in (fit, held))
    if seen.said:
        runtime.log(seen.said)
    wanted = [corners(boxes[row], sizes[row], classes) for row in fit]
    learner = BoxLearner(detector, seen, wanted, apart, score, settings["shift"])
    count = sum(part.numel() for part in detector.network.parameters()) / 1e6
    runtime.log(f"{len(paths):,} images with {sum(map(len, boxes)):,} boxes of {len(classes)} labels. Network: "
                f"{settings['model'] or 'a small one from scratch'} ({count:.2f} M parameters, "
                f"{detector.look.size_px} px) on {detector.device}.")  # fmt: skip
    trained = Loop(learner, settings, runtime, seed=job.seed).run(Goal(_METRIC, before_first=fit_baseline))
    if not scores:  # an earlier attempt has measured
        fit_baseline(None)
    scores["network"] = learner.measure()
    runtime.log(f"Network: best step {trained.best_step} of {trained.steps}, mAP {trained.best_score:.4f}.")
    ours, simple = scores["network"][_METRIC], scores["mean_box"][_METRIC]
    kind = detector.kind if ours > simple else "mean_box"
    verb = "is kept: it beats" if ours > simple else "is not kept: it does not beat"
    why = (
        f"The network {verb} the mean box of each label (mAP {ours:.4f} against {simple:.4f} on {len(held):,} images)."
    )
    runtime.log(why)
    known = usual_boxes(boxes, sizes)
    _save(job, kind, detector, settings, known)
    test_paths = [str(job.run_dir / cell) for cell in test.columns[IMAGE]]
    answers = {
        "model": load(job.artifacts).answers({IMAGE: test_paths}).boxes,
        "mean_box": [mean_boxes(known, size_of(path)) for path in test_paths],
    }
    finish(
        job, runtime,
        Finished(kind, why, settings, [], {"rows": len(held), **scores}, trained.stopped,
                 packages=_PACKAGES[kind], modules=_MODULES, notes=trained.notes),
        {name: _rows(test.columns["row_id"], said) for name, said in answers.items()},
    )  # fmt: skip


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
