"""Measures tags against the sealed ones: F1 of whole spans decides, over all sentences together, as conlleval does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.job import Job
from worker.recipes.common.scoring import MODEL, Decisive, candidates, publish, write_results
from worker.recipes.common.sealing import sealed_groups
from worker.recipes.common.table import BadData, Table
from worker.recipes.common.test_rows import test_table
from worker.recipes.spans.results import Compared, pictured
from worker.recipes.spans.tags import counted, is_plain, measured

_METRIC = "span_f1"


def score(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Measure and write. `sealed=False` says in the card that the tags lay open to the training. Raises: BadData."""
    truth, tables = candidates(job, sealed_dir)
    row_ids, wanted = list(truth), [list(map(str, json.loads(cell))) for cell in truth.values()]
    plain = is_plain(tag for one in wanted for tag in one)
    said = {name: _tags(name, table, row_ids, wanted) for name, table in tables.items()}
    scores = {name: measured(wanted, tags, plain=plain) for name, tags in said.items()}
    counts = {
        name: np.array([counted(one, other, plain=plain) for one, other in zip(wanted, tags, strict=True)])
        for name, tags in said.items()
    }  # (n_sentences, 3)

    def score_of(name: str, at: NDArray[np.int64]) -> float:
        right, found, there = counts[name][at].sum(axis=0)
        return float(2 * right / (found + there)) if found + there else float("nan")

    deciding = Decisive(_METRIC, len(wanted), score_of, groups=sealed_groups(sealed_dir, row_ids))
    beaten = publish(job, scores, deciding, sealed=sealed)

    def facts() -> dict[str, Any]:
        table = test_table(job.run_dir / "data/test.csv", row_ids)
        return pictured(Compared(wanted, said[MODEL], said[beaten], plain, table), beaten=beaten)

    write_results(job, facts)


def _tags(name: str, table: Table, row_ids: Sequence[str], wanted: Sequence[Sequence[str]]) -> list[list[str]]:
    """The tags in the order of `row_ids`. Raises: BadData."""
    cells = dict(zip(table.columns["row_id"], table.columns["label"], strict=True))
    found = []
    for row_id, true in zip(row_ids, wanted, strict=True):
        try:
            tags = json.loads(cells[row_id])
        except ValueError:
            tags = None
        if not isinstance(tags, list) or len(tags) != len(true) or not all(isinstance(tag, str) for tag in tags):
            raise BadData(f"predictions/{name}.csv, row_id {row_id}: there must be a list of {len(true)} tags.")
        found.append(tags)
    return found
