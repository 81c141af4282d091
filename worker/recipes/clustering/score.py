"""Measures clusters on the sealed rows: the silhouette decides; ARI and NMI stand beside it where groups are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.clusters.measuring import agreement, silhouettes
from worker.recipes.clusters.results import Measured, pictured
from worker.recipes.clusters.rules import Labels
from worker.recipes.common.job import Job
from worker.recipes.common.scoring import MODEL, Decisive, candidates, publish, small_object, write_results
from worker.recipes.common.table import BadData, Table
from worker.recipes.common.test_rows import test_table

_MOST_MEASURED = 5_000  # sealed rows, beyond which their distances take too long


def score(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Measure and write. `sealed=False` says in the card that the rows lay open to the training. Raises: BadData."""
    truth, tables = candidates(job, sealed_dir)
    with np.load(sealed_dir / "points.npz", allow_pickle=False) as file:
        points = file["points"]
    some = np.random.default_rng(job.seed).permutation(len(points))[:_MOST_MEASURED]
    row_ids = [list(truth)[at] for at in some]
    points, groups = points[some], [truth[row_id] for row_id in row_ids]
    said = {name: _numbers(name, table, row_ids) for name, table in tables.items()}
    each = {name: silhouettes(points, numbers) for name, numbers in said.items()}
    known = any(groups)
    scores = {
        name: {"silhouette": float(values.mean()), **(agreement(groups, said[name]) if known else {})}
        for name, values in each.items()
    }

    def score_of(name: str, at: NDArray[np.int64]) -> float:
        return float(each[name][at].mean())

    beaten = publish(job, scores, Decisive("silhouette", len(points), score_of), sealed=sealed)

    def facts() -> dict[str, Any]:
        cells = test_table(job.run_dir / "data/test.csv", row_ids)
        validation = small_object(job.artifacts / "metrics.json").get("validation")
        tried = validation.get("candidates") if isinstance(validation, dict) else None
        labels = small_object(job.run_dir / "data/split.json").get("labels")
        measured = Measured(points, said[MODEL], each[MODEL], groups if known else None, str(labels))
        return pictured(measured, cells, tried, beaten=beaten)

    write_results(job, facts)


def _numbers(name: str, table: Table, row_ids: list[str]) -> Labels:
    """The clusters in the order of `row_ids`. Raises: BadData."""
    place = {row_id: at for at, row_id in enumerate(table.columns["row_id"])}
    cells = [table.columns["label"][place[row_id]] for row_id in row_ids]
    odd = next((cell for cell in cells if not (cell.isdecimal() and len(cell) < 9)), None)
    if odd is not None:
        raise BadData(f"predictions/{name}.csv holds “{odd[:40]}”, which is no number of a cluster.")
    return np.array([int(cell) for cell in cells], dtype=np.int64)
