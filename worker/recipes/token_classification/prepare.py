"""Splits tagged sentences; equal ones stay on one side, and each label is on both where it can be."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from worker.recipes.common import parting
from worker.recipes.common.job import Job
from worker.recipes.common.sealing import seal, write_sealed
from worker.recipes.common.table import BadData, read_table, write_rows
from worker.recipes.spans.reading import problems, strata, tagged
from worker.recipes.spans.sentences import TEXT, WORDS


def _split(job: Job, source: Path, sealed_dir: Path) -> dict[str, Any]:
    """Write the parts, of which `data/train.csv` has text, places of words and tags, the test part no tags.

    Gives what `split.json` keeps of them. Raises: BadData.
    """
    table = read_table(source, name=job.dataset_name)
    found = tagged(table, job.target, job.text_column)
    if wrong := problems(found):
        raise BadData(" ".join(wrong))
    texts = [sentence.text for sentence in found.sentences]
    way = parting.asked_way(table, job)
    ways = [table.columns[way.column][sentence.row] for sentence in found.sentences] if way.column else []
    parts = parting.part(job, way, ways, strata(found), texts if len(set(texts)) < len(texts) else None)
    train, test = parts.train, parts.test
    cells = [[sentence.text, json.dumps(sentence.places)] for sentence in found.sentences]
    tags = [json.dumps(one, ensure_ascii=False) for one in found.tags]
    write_sealed(sealed_dir, [tags[row] for row in test], parts)
    write_rows(
        job.run_dir / "data/test.csv", ["row_id", TEXT, WORDS], ([at, *cells[row]] for at, row in enumerate(test))
    )
    write_rows(job.run_dir / "data/train.csv", [TEXT, WORDS, "tags"], ([*cells[row], tags[row]] for row in train))
    parts.holdout.of(train).write(job.run_dir)
    print(f"Split {len(texts):,} sentences: {len(train):,} to train, {len(test):,} sealed to measure{parts.words}.")
    for sentence in found.said:
        print(sentence)
    return {
        "text_column": TEXT,
        "train_rows": len(train),
        "test_rows": len(test),
        "how": parts.words,
        "form": dict(found.form),
        "plain": found.plain,
    }


prepare = partial(seal, split=_split)
