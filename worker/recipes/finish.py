"""What every recipe does first and last: read the split parts; leave artifacts, predictions and the card."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.card import write_card
from worker.recipes.job import Job, copy_predictor, write_environment, write_json, write_predictions
from worker.recipes.table import Table, read_table
from worker.runtime import TrainingRuntime


@dataclass(frozen=True)
class Finished:
    """What a recipe has to say about its result. `validation` holds a dict of metrics per candidate."""

    chosen: str
    why: str
    settings: Mapping[str, Any]
    classes: Sequence[str]
    ignored: Sequence[str]
    validation: Mapping[str, Any]
    stopped: bool
    packages: Sequence[str]
    module: str


def read_parts(job: Job) -> tuple[Table, Table, dict[str, Any]]:
    """The training rows, the test rows (without labels) and `data/split.json`."""
    folder = job.run_dir / "data"
    split: dict[str, Any] = json.loads((folder / "split.json").read_text(encoding="utf-8"))
    return read_table(folder / "train.csv", delimiter=","), read_table(folder / "test.csv", delimiter=","), split


def finish(
    job: Job,
    runtime: TrainingRuntime,
    done: Finished,
    shares: Mapping[str, NDArray[np.float64]],
    row_ids: Sequence[str],
) -> None:
    """Write predictions of each candidate, `metrics.json`, the card, the environment and `predict.py`."""
    for candidate, share in shares.items():
        write_predictions(job, candidate, row_ids, done.classes, share)
    facts = {
        "chosen": done.chosen,
        "why": done.why,
        "classes": list(done.classes),
        "settings": dict(done.settings),
        "ignored": list(done.ignored),
        "stopped": done.stopped,
        "validation": dict(done.validation),
    }
    write_json(job.artifacts / "metrics.json", facts)
    about = {"recipe": job.recipe, "target": job.target, "seed": job.seed, "settings": dict(done.settings)}
    write_json(job.artifacts / "config.json", {**about, "kind": done.chosen, "chosen": done.why})
    write_environment(job, done.packages)
    copy_predictor(job, done.module)
    write_card(job, facts)
    runtime.finish("stopped" if done.stopped else "completed")
