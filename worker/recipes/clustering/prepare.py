"""Seals a part of the rows, as points of the space that the others span, and their known groups if there are some."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.clusters.reading import asked_of
from worker.recipes.clusters.space import space_of
from worker.recipes.common.job import Job
from worker.recipes.common.sealing import seal
from worker.recipes.common.split import split_rows
from worker.recipes.common.table import MOST_CELLS, read_table, write_rows


def _split(job: Job, source: Path, sealed_dir: Path) -> dict[str, Any]:
    """Write the parts; what `split.json` keeps of them. Raises: BadData, BadSettings."""
    table = read_table(source, name=job.dataset_name, most_cells=MOST_CELLS)
    wanted = asked_of(table, job)
    names = [feature["column"] for feature in wanted.features]
    train, test = split_rows([""] * table.rows, frac=job.test_frac, seed=job.seed)
    test = np.random.default_rng(job.seed).permutation(test)  # the order of the file must not tell the group
    cells = table.columns
    space = space_of({name: [cells[name][row] for row in train] for name in names}, wanted.features)
    sealed_dir.mkdir(parents=True, exist_ok=True)
    points = space.points({name: [cells[name][row] for row in test] for name in names})
    np.savez_compressed(sealed_dir / "points.npz", allow_pickle=False, points=points)
    groups = [cells[wanted.labels][row].strip() for row in test] if wanted.labels else [""] * len(test)
    write_rows(sealed_dir / "labels.csv", ["row_id", "label"], enumerate(groups))
    rows = ([number, *(cells[name][row] for name in names)] for number, row in enumerate(test))
    write_rows(job.run_dir / "data/test.csv", ["row_id", *names], rows)
    write_rows(job.run_dir / "data/train.csv", names, ([cells[name][row] for name in names] for row in train))
    print(f"Split {table.rows:,} rows: {len(train):,} to find clusters in, {len(test):,} sealed to measure.")
    if wanted.labels:
        print(f"The groups in “{wanted.labels}” are sealed: clusters are compared with them, and never learn them.")
    return {
        "target": "",
        "labels": wanted.labels,
        "features": wanted.features,
        "ignored": wanted.ignored,
        "train_rows": len(train),
        "test_rows": len(test),
    }


prepare = partial(seal, split=_split)
