"""Splits images with boxes, each label on both sides where it can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.boxes.reading import by_image, problems, strata
from worker.recipes.common.columns import find_column
from worker.recipes.common.images import BOXES, IMAGE
from worker.recipes.common.job import Job
from worker.recipes.common.sealing import seal
from worker.recipes.common.split import split_rows
from worker.recipes.common.table import BadData, read_table, write_rows
from worker.recipes.images.laying import lay


def prepare(job: Job, sealed_dir: Path, *, keep_source: bool = False) -> None:
    """Split and seal; `data/train.csv` has image and boxes, the test part images alone. Raises: BadData."""
    seal(job, sealed_dir, lambda source: _split(job, source, sealed_dir), keep_source=keep_source)


def _split(job: Job, source: Path, sealed_dir: Path) -> dict[str, Any]:
    """Write the parts; what `split.json` keeps of them."""
    table = read_table(source, name=job.dataset_name)
    table = by_image(table, find_column(table, job.target))
    if wrong := problems(table):
        raise BadData(" ".join(wrong))
    train, test = split_rows(strata(table), frac=job.test_frac, seed=job.seed)
    test = np.random.default_rng(job.seed).permutation(test)
    sealed_dir.mkdir(parents=True, exist_ok=True)
    table = lay(source, table, job.run_dir, sealed_dir, test.tolist())
    images, boxes = table.columns[IMAGE], table.columns[BOXES]
    write_rows(sealed_dir / "labels.csv", ["row_id", "label"], ([at, boxes[row]] for at, row in enumerate(test)))
    write_rows(job.run_dir / "data/test.csv", ["row_id", IMAGE], ([at, images[row]] for at, row in enumerate(test)))
    write_rows(job.run_dir / "data/train.csv", [IMAGE, BOXES], ([images[row], boxes[row]] for row in train))
    print(f"Split {table.rows:,} images: {len(train):,} to train, {len(test):,} sealed to measure.")
    return {
        "train_rows": len(train),
        "test_rows": len(test),
    }
