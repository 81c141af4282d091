"""Splits a run's data once, whichever task it is, and says so in `data/split.json`, which is written last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker.recipes.common.job import Job, write_json


def seal(job: Job, sealed_dir: Path, split: Callable[[Path], dict[str, Any]], *, keep_source: bool) -> None:
    """Split unless that was done before, and take the source away, which has the answers.

    `split(source)` writes `data/train.csv`, `data/test.csv` and `labels.csv` in `sealed_dir`; what it gives is kept in
    `data/split.json`. Raises: BadData, as `split` does.
    """
    source = job.run_dir / job.data
    if is_split(job, source, sealed_dir):
        print("The data is split already.")
    else:
        usual = {"target": job.target, "text_column": None, "equal_inputs_kept_together": False}
        known = {"seed": job.seed, "asked": asked(job), "source_sha256": _sha256(source)}
        write_json(job.run_dir / "data/split.json", {**usual, **split(source), **known})
    if not keep_source:
        source.unlink(missing_ok=True)


def is_split(job: Job, source: Path, sealed_dir: Path) -> bool:
    """Whether an earlier attempt finished the split: of this source, if there is one. `split.json` is written last."""
    folder = job.run_dir / "data"
    parts = (folder / "train.csv", folder / "test.csv", folder / "split.json", sealed_dir / "labels.csv")
    if not all(path.is_file() for path in parts):
        return False
    if not source.exists():
        return True
    known = json.loads((folder / "split.json").read_text(encoding="utf-8"))
    same = known["seed"] == job.seed and known.get("asked") == asked(job)
    return bool(same and known["source_sha256"] == _sha256(source))


def asked(job: Job) -> list[object]:
    """What of a request the split depends on, beyond the seed."""
    way = [job.split["kind"], job.split["column"]] if job.split.get("column") else []
    return [job.recipe, job.target, job.text_column, list(job.drop_columns), job.test_frac, *way]


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
