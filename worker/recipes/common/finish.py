"""What every recipe does first and last: read the split parts; leave artifacts, predictions and the card."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trainyard import TrainingRuntime
from worker.recipes.common.card import write_card
from worker.recipes.common.job import Job, copy_predictor, write_environment, write_json
from worker.recipes.common.table import Table, read_table, write_rows


@dataclass(frozen=True)
class Finished:
    """What a recipe has to say about its result. `validation` holds a dict of metrics per candidate.

    `limits` are sentences for the card on what the model cannot do; `modules` what its `predict` imports; `found` are
    the settings that a search chose, where it chose the model too; `notes` sentences for the result card on what
    happened in the training.
    """

    chosen: str
    why: str
    settings: Mapping[str, Any]
    ignored: Sequence[str]
    validation: Mapping[str, Any]
    stopped: bool
    packages: Sequence[str]
    modules: Sequence[str]
    limits: Sequence[str] = ()
    found: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()


def read_parts(job: Job) -> tuple[Table, Table, dict[str, Any]]:
    """The training rows, the test rows (without labels) and `data/split.json`."""
    folder = job.run_dir / "data"
    split: dict[str, Any] = json.loads((folder / "split.json").read_text(encoding="utf-8"))
    return read_table(folder / "train.csv", delimiter=","), read_table(folder / "test.csv", delimiter=","), split


def finish(
    job: Job,
    runtime: TrainingRuntime,
    done: Finished,
    predictions: Mapping[str, tuple[Sequence[str], Iterator[Sequence[object]]]],
) -> None:
    """Write each candidate's predictions (header and rows), `metrics.json`, card, environment and `predict.py`."""
    folder = job.run_dir / "predictions"
    folder.mkdir(exist_ok=True)
    for candidate, (names, rows) in predictions.items():
        write_rows(folder / f"{candidate}.csv", names, rows)
    facts = {
        "chosen": done.chosen,
        "why": done.why,
        "limits": list(done.limits),
        "notes": list(done.notes),
        "settings": dict(done.settings),
        "ignored": list(done.ignored),
        "stopped": done.stopped,
        "validation": dict(done.validation),
    }
    write_json(job.artifacts / "metrics.json", facts)
    about = {"recipe": job.recipe, "target": job.target, "seed": job.seed, "settings": dict(done.settings)}
    said = {"kind": done.chosen, "chosen": done.why, "found": dict(done.found), "notes": list(done.notes)}
    write_json(job.artifacts / "config.json", {**about, **said})
    write_environment(job, done.packages)
    copy_predictor(job, done.modules)
    write_card(job, facts)
    runtime.finish("stopped" if done.stopped else "completed")
