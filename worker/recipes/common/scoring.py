"""What every evaluation of predictions does: read them, refuse what does not fit, write down what was measured."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.card import write_card
from worker.recipes.common.intervals import intervals
from worker.recipes.common.job import NOT_KEPT, Job, write_json
from worker.recipes.common.table import BadData, Table, read_table

log = logging.getLogger(__name__)
MODEL = "model"
NAME_CHARS = 80
DIGITS = 5
_SMALL_BYTES = 1024**2
_WRITTEN = {
    "ets": "ETS",
    "arima": "ARIMA",
    "gmm": "GMM",
    "hdbscan": "HDBSCAN",
    "lightgbm": "LightGBM",
    "tfidf": "TF-IDF",
}


def candidates(job: Job, sealed_dir: Path) -> tuple[dict[str, str], dict[str, Table]]:
    """The sealed answer of each row, and the predictions of the model, of each baseline, and of what was not kept.

    Raises: BadData.
    """
    labels = read_table(sealed_dir / "labels.csv", delimiter=",")
    truth = dict(zip(labels.columns["row_id"], labels.columns["label"], strict=True))
    files = sorted((job.run_dir / "predictions").glob("*.csv"))
    names = [path.stem for path in files]
    baselines = [name for name in names if name != MODEL and not name.endswith(NOT_KEPT)]
    if MODEL not in names or not (baselines or job.all_is_test):
        raise BadData("The training left no predictions of a model and of at least one baseline; nothing to compare.")
    tables = {path.stem: read_table(path, delimiter=",") for path in files}
    for name, table in tables.items():
        for column in ("row_id", "label"):
            if column not in table.columns:
                raise BadData(f"predictions/{name}.csv has no column {column}.")
        _refuse_other_rows(name, table.columns["row_id"], truth)
    return truth, tables


@dataclass(frozen=True)
class Decisive:
    """The metric that decides, and how it is found on some of the rows, which says how sure it is.

    `lower`: a lower value is better. `score_of(candidate, rows)` is the metric of a candidate at positions of rows;
    `groups` are what rows belong to that are of one thing.
    """

    metric: str
    rows: int
    score_of: Callable[[str, NDArray[np.int64]], float]
    lower: bool = False
    groups: Sequence[Hashable] | None = None

    def sure(self, beaten: str, *, seed: int) -> dict[str, list[float]]:
        """The intervals of the model's score and of its advantage over the baseline `beaten`."""
        ours, theirs = partial(self.score_of, MODEL), partial(self.score_of, beaten)
        return intervals(ours, theirs, self.rows, seed=seed, lower=self.lower, groups=self.groups)


def publish(job: Job, scores: Mapping[str, Mapping[str, float]], decisive: Decisive, *, sealed: bool) -> str:
    """Write `scorecard.json`, the measured numbers and the card; the candidate that pictures show beside the model.

    `scores` are the metrics of each candidate; those of one that was not kept are shown and decide nothing. Pictures
    show the baseline that is hardest to beat, and where that is the model itself, the best of the others.
    """
    metric, lower = decisive.metric, decisive.lower
    different = {name: found for name, found in scores.items() if found != scores[MODEL]}
    not_kept = {name.removesuffix(NOT_KEPT): scores[name] for name in scores if name.endswith(NOT_KEPT)}
    scores = {name: found for name, found in scores.items() if not name.endswith(NOT_KEPT)}
    others = sorted((found[metric], name) for name, found in scores.items() if name != MODEL)
    # The first of equals, as the scorecard's reader picks it.
    beaten = (min if lower else max)(others, key=lambda pair: pair[0])[1]
    sure = decisive.sure(beaten, seed=job.seed)
    write_json(
        job.run_dir / "scorecard.json",
        {
            "metric": metric,
            "higher_is_better": not lower,
            "model": {"name": MODEL, "value": scores[MODEL][metric]},
            "baselines": [{"name": name, "value": value} for value, name in others],
            "not_kept": [{"name": name, "value": found[metric]} for name, found in not_kept.items()],
            "all_metrics": dict(scores[MODEL]),
            "test_rows": decisive.rows,
            **sure,
        },
    )
    path = job.artifacts / "metrics.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known["test"] = {
        "rows": decisive.rows,
        "metric": metric,
        "lower": lower,
        "sealed": sealed,
        "sure": sure or None,
        **scores,
        **{f"{name} (not kept)": found for name, found in not_kept.items()},
    }
    write_json(path, known)
    if not job.all_is_test:
        write_card(job, known)
    if beaten in different or not different:
        return beaten
    return (min if lower else max)(different, key=lambda name: different[name][metric])


def write_results(job: Job, facts: Callable[[], dict[str, Any]]) -> None:
    """Write `results.json`; without it there are no pictures, and that is all that goes wrong."""
    try:
        text = json.dumps({"found": facts()}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        (job.run_dir / "results.json").write_text(text, encoding="utf-8")
    except Exception:  # files of a training that can hold anything; the scorecard stands already
        log.exception("There will be no pictures of this result, because their facts could not be made:")


def small_object(path: Path) -> dict[str, Any]:
    """A small JSON object that a training wrote; empty where it is none."""
    if not path.is_file() or path.stat().st_size > _SMALL_BYTES:
        return {}
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def short(text: str, most: int = NAME_CHARS) -> str:
    """One line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def named(candidate: str, most: int = NAME_CHARS) -> str:
    """A candidate such as `mean_box` or `tfidf` as people write it."""
    kept = candidate.removesuffix(NOT_KEPT)
    words = (_WRITTEN.get(word, word) for word in kept.split("_"))
    return short(" ".join(words) + ("" if kept == candidate else ", not kept"), most)


def rounded(value: float) -> float:
    """As many digits as a picture shows."""
    return round(float(value), DIGITS)


def importance_of(found: object, most: int = 30) -> dict[str, Any] | None:
    """What the training says its model leans on, from a file that it wrote: checked, the strongest first, else None."""
    if not isinstance(found, Mapping) or found.get("kind") not in {"gain", "coefficient", "words"}:
        return None
    pairs = found.get("features")
    if not isinstance(pairs, list):
        return None
    weights = []
    for pair in pairs[:10_000]:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            return None
        name, value = pair
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e300:
            return None
        weights.append((short(name), float(value)))
    weights.sort(key=lambda pair: -pair[1])
    whole = sum(value for _, value in weights)
    if not whole or not math.isfinite(whole):
        return None
    if found["kind"] == "words":  # a few of very many: the strongest is the measure
        whole = weights[0][1]
    return {
        "kind": found["kind"],
        "features": [{"name": name, "share": rounded(value / whole)} for name, value in weights[:most]],
        "left_out": max(0, len(weights) - most),
    }


def _refuse_other_rows(name: str, row_ids: list[str], truth: dict[str, str]) -> None:
    twice = [row_id for row_id, times in Counter(row_ids).items() if times > 1]
    if twice:
        raise BadData(f"predictions/{name}.csv predicts {len(twice)} rows more than once (row_id {_some(twice)}).")
    missing = sorted(truth.keys() - set(row_ids))
    extra = [row_id for row_id in row_ids if row_id not in truth]
    if extra:
        raise BadData(f"predictions/{name}.csv has {len(extra)} rows that were not asked for (row_id {_some(extra)}).")
    if missing:
        raise BadData(f"predictions/{name}.csv lacks {len(missing)} of {len(truth)} rows (row_id {_some(missing)}).")


def _some(row_ids: list[str]) -> str:
    return ", ".join(row_ids[:3]) + (", …" if len(row_ids) > 3 else "")
