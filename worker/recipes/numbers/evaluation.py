"""Measures predicted quantities against the sealed ones; what pictures are drawn from goes into `results.json`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.job import Job
from worker.recipes.common.scoring import (
    MODEL,
    Decisive,
    candidates,
    importance_of,
    publish,
    small_object,
    write_results,
)
from worker.recipes.common.sealing import sealed_groups
from worker.recipes.common.table import BadData, Table, number
from worker.recipes.common.test_rows import test_table
from worker.recipes.numbers.results import mistakes, pictured
from worker.recipes.numbers.scores import METRIC, measure

Values = NDArray[np.float64]


More = Callable[[list[str], Values, Values], list[dict[str, Any]]]


def score(job: Job, sealed_dir: Path, *, sealed: bool = True, more: More | None = None) -> None:
    """Measure and write. `sealed=False` says in the card that the labels lay open to the training. Raises: BadData.

    `more(row_ids, true, predicted)` are pictures that a recipe adds.
    """
    truth, tables = candidates(job, sealed_dir)
    row_ids = list(truth)
    wanted = np.array([float(value) for value in truth.values()])
    said = {name: _values(name, table, row_ids) for name, table in tables.items()}
    if job.all_is_test:  # the best constant answer, which nobody could have known before
        said["mean"] = np.full(len(wanted), wanted.mean())
    scores = {name: measure(wanted, values) for name, values in said.items()}

    def score_of(name: str, at: NDArray[np.int64]) -> float:
        return float(np.sqrt(((said[name][at] - wanted[at]) ** 2).mean()))

    deciding = Decisive(METRIC, len(truth), score_of, lower=True, groups=sealed_groups(sealed_dir, row_ids))
    beaten = publish(job, scores, deciding, sealed=sealed)

    def facts() -> dict[str, Any]:
        weights = importance_of(small_object(job.artifacts / "importance.json"))
        found = pictured(wanted, said[MODEL], said[beaten], beaten=beaten, target=job.target, weights=weights)
        table = test_table(job.run_dir / "data/test.csv", row_ids)
        shown = [one["name"] for one in weights["features"]] if weights else []
        cells = {name: table.columns[name] for name in shown if name in table.columns} if table else {}
        found["pictures"].append(mistakes(row_ids, wanted, said[MODEL], cells))
        found["pictures"] += more(row_ids, wanted, said[MODEL]) if more else []
        return found

    write_results(job, facts)


def _values(name: str, table: Table, row_ids: list[str]) -> Values:
    """The predictions in the order of `row_ids`. Raises: BadData."""
    by_row = dict(zip(table.columns["row_id"], table.columns["label"], strict=True))
    values = np.array([np.nan if (value := number(by_row[row_id])) is None else value for row_id in row_ids])
    if not np.isfinite(values).all():
        raise BadData(f"predictions/{name}.csv: the column label holds something that is no number.")
    return values
