"""Measures written texts against the sealed ones; what pictures are drawn from goes into `results.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.job import Job
from worker.recipes.common.scoring import MODEL, Decisive, candidates, publish, small_object, write_results
from worker.recipes.common.sealing import sealed_groups
from worker.recipes.common.test_rows import test_table
from worker.recipes.pairs.measure import Measure
from worker.recipes.pairs.results import Written, pictured


def score_pairs(job: Job, sealed_dir: Path, measure: Measure, *, sealed: bool = True) -> None:
    """Measure and write. `sealed=False` says in the card that the answers lay open to the training. Raises: BadData."""
    truth, tables = candidates(job, sealed_dir)
    row_ids, wanted = list(truth), list(truth.values())
    said = {}
    for name, table in tables.items():
        by_row = dict(zip(table.columns["row_id"], table.columns["label"], strict=True))
        said[name] = [by_row[row_id] for row_id in row_ids]
    rows = {name: measure.statistics(texts, wanted) for name, texts in said.items()}
    scores = {name: measure.scores(found) for name, found in rows.items()}

    def score_of(name: str, at: NDArray[np.int64]) -> float:
        return measure.scores(rows[name][at])[measure.metric]

    sources = _sources(job, row_ids)
    groups = sealed_groups(sealed_dir, row_ids)
    beaten = publish(job, scores, Decisive(measure.metric, len(truth), score_of, groups=groups), sealed=sealed)

    def facts() -> dict[str, Any]:
        each = {name: [score_of(name, np.array([at])) for at in range(len(wanted))] for name in (MODEL, beaten)}
        found = Written(
            row_ids, sources or [""] * len(wanted), wanted, said[MODEL], said[beaten], each[MODEL], each[beaten]
        )
        return pictured(found, beaten=beaten, measure=measure, scores=scores)

    write_results(job, facts)


def _sources(job: Job, row_ids: list[str]) -> list[str] | None:
    """What was read for each row, as the training saw it; None where that is not there any more."""
    column = small_object(job.run_dir / "data/split.json").get("text_column")
    table = test_table(job.run_dir / "data/test.csv", row_ids)
    return list(table.columns[column]) if table is not None and column in table.columns else None
