"""Splits a run's data once, whichever task it is, and says so in `data/split.json`, which is written last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from worker.recipes.common.holdout import GROUP
from worker.recipes.common.job import Job, write_json
from worker.recipes.common.parting import Parts
from worker.recipes.common.split import numbered
from worker.recipes.common.table import read_table, write_rows

Split = Callable[[Job, Path, Path], dict[str, Any]]


def seal(job: Job, sealed_dir: Path, split: Split, *, keep_source: bool = False) -> None:
    """Split unless that was done before, and take the source away, which has the answers.

    `split(job, source, sealed_dir)` writes `data/train.csv`, `data/test.csv` and `labels.csv` in `sealed_dir`; what it
    gives is kept in `data/split.json`. Raises: BadData, as `split` does.
    """
    source = job.run_dir / job.data
    if is_split(job, source, sealed_dir):
        print("The data is split already.")
    else:
        usual = {"target": job.target, "text_column": None, "how": ""}
        known = {"seed": job.seed, "asked": asked(job), "source_sha256": _sha256(source)}
        write_json(job.run_dir / "data/split.json", {**usual, **split(job, source, sealed_dir), **known})
    if not keep_source:
        source.unlink(missing_ok=True)


def write_sealed(sealed_dir: Path, answers: Sequence[object], parts: Parts) -> None:
    """Write the answers of the test rows, in their order, with the group of each where rows stay together."""
    groups = parts.holdout.of(parts.test).groups
    names = ["row_id", "label", *([GROUP] if groups is not None else [])]
    numbers = [[number] for number in numbered(groups)] if groups is not None else [[] for _ in answers]
    sealed_dir.mkdir(parents=True, exist_ok=True)
    rows = ([at, answer, *number] for at, (answer, number) in enumerate(zip(answers, numbers, strict=True)))
    write_rows(sealed_dir / "labels.csv", names, rows)


def sealed_groups(sealed_dir: Path, row_ids: Sequence[str]) -> list[Hashable] | None:
    """The group of each test row, in the order of `row_ids`; None where rows stand alone."""
    columns = read_table(sealed_dir / "labels.csv", delimiter=",").columns
    if GROUP not in columns:
        return None
    of_row = dict(zip(columns["row_id"], columns[GROUP], strict=True))
    return [of_row[row_id] for row_id in row_ids]


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
