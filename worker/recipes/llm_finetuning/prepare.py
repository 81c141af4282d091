"""Splits conversations; those with equal prompts stay on one side, and the sealed ones are not seen at all."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from worker.recipes.common import parting
from worker.recipes.common.job import Job
from worker.recipes.common.sealing import seal, write_sealed
from worker.recipes.common.table import MOST_CELLS, read_table, write_rows
from worker.recipes.language.examples import left_out, together
from worker.recipes.llm_finetuning.inspect import examples


def _split(job: Job, source: Path, sealed_dir: Path) -> dict[str, Any]:
    """Write the parts, of which `data/train.csv` has the examples as JSON, the test part only numbers.

    Gives what `split.json` keeps of them. Raises: BadData.
    """
    table = read_table(source, name=job.dataset_name, most_cells=MOST_CELLS)
    found = examples(table, job)
    way = parting.asked_way(table, job)
    ways = [table.columns[way.column][example.row] for example in found] if way.column else []
    parts = parting.part(job, way, ways, [""] * len(found), together(found))
    train, test = parts.train, parts.test
    write_sealed(sealed_dir, [found[row].written() for row in test.tolist()], parts)
    write_rows(job.run_dir / "data/test.csv", ["row_id"], ([at] for at in range(len(test))))
    write_rows(job.run_dir / "data/train.csv", ["example"], ([found[row].written()] for row in train.tolist()))
    parts.holdout.of(train).write(job.run_dir)
    for said in left_out(table, found):
        print(said)
    print(f"Split {len(found):,} answers: {len(train):,} to train, {len(test):,} sealed to measure{parts.words}.")
    return {
        "text_column": job.text_column,
        "train_rows": len(train),
        "test_rows": len(test),
        "drawn_from": table.drawn_from,
        "how": parts.words,
    }


prepare = partial(seal, split=_split)
