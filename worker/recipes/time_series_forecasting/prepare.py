"""Seals the last steps of each series: what a forecast is measured on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from worker.recipes.common.job import Job, write_json
from worker.recipes.common.sealing import seal
from worker.recipes.common.table import read_table, write_rows
from worker.recipes.series.forecasting import usual_change
from worker.recipes.series.reading import facts_of, series_of

_SHOWN, _MOST_SHOWN = 120, 3  # values before a forecast in a picture, and of how many series
_CHARS = {"month": 7, "quarter": 7, "year": 4}  # of a moment that say which it is


def _split(job: Job, source: Path, sealed_dir: Path) -> dict[str, Any]:
    """Write the parts, of which `data/train.csv` has series, period, moment and value, the test part no values.

    Gives what `split.json` keeps of them.
    """
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
    tails = [values[-shown:] for values in past[:_MOST_SHOWN]]
    chars = _CHARS.get(many.rhythm.unit, 16)
    drawn = [(one.first + len(values), len(tail)) for one, values, tail in zip(many.series, past, tails, strict=False)]
    write_json(
        sealed_dir / "past.json",
        {
            "series": [one.name for one in many.series],
            "scales": [usual_change(values, many.season) for values in past],
            "tails": [tail.tolist() for tail in tails],
            "moments": [
                [many.rhythm.written(number)[:chars] for number in range(after - length, after + many.horizon)]
                for after, length in drawn
            ],
        },
    )
    count = f"{len(many.series):,} series" if len(many.series) > 1 else "One series"
    print(
        f"{count} by {many.rhythm.words}, season {many.season}: the last {many.horizon} of each are sealed to measure."
    )
    for sentence in many.said:
        print(sentence)
    return {
        "train_rows": len(known),
        "test_rows": len(ahead),
        **facts_of(many),
    }


prepare = partial(seal, split=_split)
