"""Splits conversations; those with equal prompts stay on one side, and the sealed ones are not seen at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

from worker.recipes.common.job import Job, write_json
from worker.recipes.common.split import split_rows
from worker.recipes.common.table import read_table, write_rows
from worker.recipes.common.tables import asked, is_split
from worker.recipes.language.examples import together
from worker.recipes.llm_finetuning.inspect import examples


def prepare(job: Job, sealed_dir: Path, *, keep_source: bool = False) -> None:
    """Split and seal; `data/train.csv` has the examples as JSON, the test part only numbers. Raises: BadData."""
    source = job.run_dir / job.data
    if is_split(job, source, sealed_dir):
        print("The data is split already.")
        if not keep_source:
            source.unlink(missing_ok=True)
        return
    found = examples(read_table(source, name=job.dataset_name), job)
    train, test = split_rows([""] * len(found), frac=job.test_frac, seed=job.seed, groups=together(found))
    sealed_dir.mkdir(parents=True, exist_ok=True)
    sealed = ([at, found[row].written()] for at, row in enumerate(test.tolist()))
    write_rows(sealed_dir / "labels.csv", ["row_id", "label"], sealed)
    write_rows(job.run_dir / "data/test.csv", ["row_id"], ([at] for at in range(len(test))))
    write_rows(job.run_dir / "data/train.csv", ["example"], ([found[row].written()] for row in train.tolist()))
    write_json(
        job.run_dir / "data/split.json",
        {
            "target": job.target,
            "text_column": job.text_column,
            "train_rows": len(train),
            "test_rows": len(test),
            "equal_inputs_kept_together": True,
            "seed": job.seed,
            "asked": asked(job),
            "source_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        },
    )
    if not keep_source:
        source.unlink()
    print(f"Split {len(found):,} answers: {len(train):,} to train, {len(test):,} sealed to measure.")
