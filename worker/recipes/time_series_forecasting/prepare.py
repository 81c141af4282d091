"""Seals the last steps of each series: what a forecast is measured on."""

from __future__ import annotations

import hashlib
from pathlib import Path

from worker.recipes.common.job import Job, write_json
from worker.recipes.common.table import read_table, write_rows
from worker.recipes.common.tables import asked, is_split
from worker.recipes.series.forecasting import usual_change
from worker.recipes.series.reading import facts_of, series_of

_SHOWN, _MOST_SHOWN = 120, 3  # values before a forecast in a picture, and of how many series


def prepare(job: Job, sealed_dir: Path, *, keep_source: bool = False) -> None:
    """Split and seal; `data/train.csv` has series, period, moment and value, the test part no values."""
    source = job.run_dir / job.data
    if is_split(job, source, sealed_dir):
        print("The data is split already.")
        if not keep_source:
            source.unlink(missing_ok=True)
        return
    many = series_of(read_table(source, name=job.dataset_name), job)
    known: list[list[object]] = []
    ahead: list[list[object]] = []
    answers: list[list[object]] = []
    for one in many.series:
        for at, value in enumerate(one.values.tolist()):
            period = one.first + at
            row = [one.name, period, many.rhythm.written(period)]
            if at < len(one.values) - many.horizon:
                known.append([*row, value])
            else:
                answers.append([len(ahead), value])
                ahead.append([len(ahead), *row])
    sealed_dir.mkdir(parents=True, exist_ok=True)
    write_rows(sealed_dir / "labels.csv", ["row_id", "label"], iter(answers))
    write_rows(job.run_dir / "data/test.csv", ["row_id", "series", "period", "moment"], iter(ahead))
    write_rows(job.run_dir / "data/train.csv", ["series", "period", "moment", "value"], iter(known))
    shown = min(_SHOWN, max(3 * many.horizon, 2 * many.season))
    past = [one.values[: len(one.values) - many.horizon] for one in many.series]
    write_json(
        sealed_dir / "past.json",
        {
            "series": [one.name for one in many.series],
            "scales": [usual_change(values, many.season) for values in past],
            "tails": [values[-shown:].tolist() for values in past[:_MOST_SHOWN]],
        },
    )
    write_json(
        job.run_dir / "data/split.json",
        {
            "target": job.target,
            "text_column": None,
            "train_rows": len(known),
            "test_rows": len(ahead),
            "equal_inputs_kept_together": False,
            "seed": job.seed,
            "asked": asked(job),
            "source_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
            **facts_of(many),
        },
    )
    if not keep_source:
        source.unlink()
    count = f"{len(many.series):,} series" if len(many.series) > 1 else "One series"
    print(
        f"{count} by {many.rhythm.unit}, season {many.season}: the last {many.horizon} of each are sealed to measure."
    )
    for sentence in many.said:
        print(sentence)
