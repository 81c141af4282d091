"""Splits images with boxes, each label on both sides where it can be."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from worker.recipes.boxes.reading import by_image, problems, strata
from worker.recipes.common import parting
from worker.recipes.common.annotations import BOXES, IMAGE
from worker.recipes.common.columns import find_column
from worker.recipes.common.job import Job
from worker.recipes.common.sealing import seal, write_sealed
from worker.recipes.common.table import BadData, read_table, write_rows
from worker.recipes.images.laying import equal_images, lay


def _split(job: Job, source: Path, sealed_dir: Path) -> dict[str, Any]:
    """Write the parts, of which `data/train.csv` has image and boxes, the test part images alone.

    Gives what `split.json` keeps of them. Raises: BadData.
    """
    table = read_table(source, name=job.dataset_name)
    way = parting.asked_way(table, job)
    table = by_image(table, find_column(table, job.target), keep=way.column)
    if wrong := problems(table):
        raise BadData(" ".join(wrong))
    same = equal_images(source, table)
    ways = table.columns[way.column] if way.column else []
    parts = parting.part(job, way, ways, strata(table), same if len(set(same)) < len(same) else None)
    train, test = parts.train, parts.test
    sealed_dir.mkdir(parents=True, exist_ok=True)
    table = lay(source, table, job.run_dir, sealed_dir, test.tolist())
    images, boxes = table.columns[IMAGE], table.columns[BOXES]
    write_sealed(sealed_dir, [boxes[row] for row in test], parts)
    write_rows(job.run_dir / "data/test.csv", ["row_id", IMAGE], ([at, images[row]] for at, row in enumerate(test)))
    write_rows(job.run_dir / "data/train.csv", [IMAGE, BOXES], ([images[row], boxes[row]] for row in train))
    parts.holdout.of(train).write(job.run_dir)
    print(f"Split {table.rows:,} images: {len(train):,} to train, {len(test):,} sealed to measure{parts.words}.")
    return {
        "train_rows": len(train),
        "test_rows": len(test),
        "how": parts.words,
    }


prepare = partial(seal, split=_split)
