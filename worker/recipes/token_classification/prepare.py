"""Splits tagged sentences; equal ones stay on one side, and each label is on both where it can be."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from worker.recipes.common.job import Job, write_json
from worker.recipes.common.split import split_rows
from worker.recipes.common.table import BadData, read_table, write_rows
from worker.recipes.common.tables import asked, is_split
from worker.recipes.spans.reading import problems, strata, tagged
from worker.recipes.spans.sentences import TEXT, WORDS


def prepare(job: Job, sealed_dir: Path, *, keep_source: bool = False) -> None:
    """Split and seal: `data/train.csv` has text, places of words and tags, the test part no tags. Raises: BadData."""
    source = job.run_dir / job.data
    if is_split(job, source, sealed_dir):
        print("The data is split already.")
        if not keep_source:
            source.unlink(missing_ok=True)
        return
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
    write_json(
        job.run_dir / "data/split.json",
        {
            "target": job.target,
            "text_column": TEXT,
            "train_rows": len(train),
            "test_rows": len(test),
            "equal_inputs_kept_together": len(set(texts)) < len(texts),
            "seed": job.seed,
            "asked": asked(job),
            "source_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
            "form": dict(found.form),
            "plain": found.plain,
        },
    )
    if not keep_source:
        source.unlink()
    print(f"Split {len(texts):,} sentences: {len(train):,} to train, {len(test):,} sealed to measure.")
    for sentence in found.said:
        print(sentence)
