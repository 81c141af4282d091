"""Splits images with boxes, each label on both sides where it can be."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from worker.recipes.boxes.reading import by_image, problems, strata
from worker.recipes.common.columns import find_column
from worker.recipes.common.images import BOXES, IMAGE
from worker.recipes.common.job import Job, write_json
from worker.recipes.common.split import split_rows
from worker.recipes.common.table import BadData, read_table, write_rows
from worker.recipes.common.tables import asked, is_split
from worker.recipes.images.laying import lay


def prepare(job: Job, sealed_dir: Path, *, keep_source: bool = False) -> None:
    """Split and seal; `data/train.csv` has image and boxes, the test part images alone. Raises: BadData."""
    source = job.run_dir / job.data
    if is_split(job, source, sealed_dir):
        print("The data is split already.")
        if not keep_source:
            source.unlink(missing_ok=True)
        return
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
    write_json(
        job.run_dir / "data/split.json",
        {
            "target": job.target,
            "text_column": None,
            "train_rows": len(train),
            "test_rows": len(test),
            "equal_inputs_kept_together": False,
            "seed": job.seed,
            "asked": asked(job),
            "source_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        },
    )
    if not keep_source:
        source.unlink()
    print(f"Split {table.rows:,} images: {len(train):,} to train, {len(test):,} sealed to measure.")
