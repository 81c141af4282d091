"""Splits tagged sentences; equal ones stay on one side, and each label is on both where it can be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.common.job import Job
from worker.recipes.common.sealing import seal
from worker.recipes.common.split import split_rows
from worker.recipes.common.table import BadData, read_table, write_rows
from worker.recipes.spans.reading import problems, strata, tagged
from worker.recipes.spans.sentences import TEXT, WORDS


def prepare(job: Job, sealed_dir: Path, *, keep_source: bool = False) -> None:
    """Split and seal: `data/train.csv` has text, places of words and tags, the test part no tags. Raises: BadData."""
    seal(job, sealed_dir, lambda source: _split(job, source, sealed_dir), keep_source=keep_source)


def _split(job: Job, source: Path, sealed_dir: Path) -> dict[str, Any]:
    """Write the parts; what `split.json` keeps of them."""
    found = tagged(read_table(source, name=job.dataset_name), job.target, job.text_column)
    if wrong := problems(found):
        raise BadData(" ".join(wrong))
    texts = [sentence.text for sentence in found.sentences]
    train, test = split_rows(strata(found), frac=job.test_frac, seed=job.seed, groups=texts)
    test = np.random.default_rng(job.seed).permutation(test)
    cells = [[sentence.text, json.dumps(sentence.places)] for sentence in found.sentences]
    tags = [json.dumps(one, ensure_ascii=False) for one in found.tags]
    sealed_dir.mkdir(parents=True, exist_ok=True)
    write_rows(sealed_dir / "labels.csv", ["row_id", "label"], ([number, tags[row]] for number, row in enumerate(test)))
    write_rows(
        job.run_dir / "data/test.csv", ["row_id", TEXT, WORDS], ([at, *cells[row]] for at, row in enumerate(test))
    )
    write_rows(job.run_dir / "data/train.csv", [TEXT, WORDS, "tags"], ([*cells[row], tags[row]] for row in train))
    print(f"Split {len(texts):,} sentences: {len(train):,} to train, {len(test):,} sealed to measure.")
    for sentence in found.said:
        print(sentence)
    return {
        "text_column": TEXT,
        "train_rows": len(train),
        "test_rows": len(test),
        "equal_inputs_kept_together": len(set(texts)) < len(texts),
        "form": dict(found.form),
        "plain": found.plain,
    }
