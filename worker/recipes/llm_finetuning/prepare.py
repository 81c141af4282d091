"""Splits conversations; those with equal prompts stay on one side, and the sealed ones are not seen at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from worker.recipes.common.job import Job
from worker.recipes.common.sealing import seal
from worker.recipes.common.split import split_rows
from worker.recipes.common.table import read_table, write_rows
from worker.recipes.language.examples import together
from worker.recipes.llm_finetuning.inspect import examples


def prepare(job: Job, sealed_dir: Path, *, keep_source: bool = False) -> None:
    """Split and seal; `data/train.csv` has the examples as JSON, the test part only numbers. Raises: BadData."""
    seal(job, sealed_dir, lambda source: _split(job, source, sealed_dir), keep_source=keep_source)


def _split(job: Job, source: Path, sealed_dir: Path) -> dict[str, Any]:
    """Write the parts; what `split.json` keeps of them."""
    found = examples(read_table(source, name=job.dataset_name), job)
    train, test = split_rows([""] * len(found), frac=job.test_frac, seed=job.seed, groups=together(found))
    sealed_dir.mkdir(parents=True, exist_ok=True)
    sealed = ([at, found[row].written()] for at, row in enumerate(test.tolist()))
    write_rows(sealed_dir / "labels.csv", ["row_id", "label"], sealed)
    write_rows(job.run_dir / "data/test.csv", ["row_id"], ([at] for at in range(len(test))))
    write_rows(job.run_dir / "data/train.csv", ["example"], ([found[row].written()] for row in train.tolist()))
    print(f"Split {len(found):,} answers: {len(train):,} to train, {len(test):,} sealed to measure.")
    return {
        "text_column": job.text_column,
        "train_rows": len(train),
        "test_rows": len(test),
        "equal_inputs_kept_together": True,
    }
