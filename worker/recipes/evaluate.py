"""Step 4 of a run, and the only reader of the sealed labels: score each candidate's predictions.

`python -m worker.recipes.evaluate --run-dir . --sealed-dir S` writes `scorecard.json` and puts the measured numbers
into `artifacts/metrics.json` and `artifacts/README.md`. Exits 65 with `error.json` when predictions do not fit the
sealed rows. What pictures are drawn from is `results.json` (fields of `agent.domain.results.Results`), which tells of
single sealed rows too; nothing that goes wrong with it costs the result.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.card import write_card
from worker.recipes.job import Job, leave, read_job, step, write_json
from worker.recipes.mistakes import single_rows
from worker.recipes.results import Answers, classification, importance_of
from worker.recipes.scores import decisive_metric, measure
from worker.recipes.table import BadData, Table, number, read_table

log = logging.getLogger(__name__)
_MODEL = "model"
_SMALL_BYTES = 1024**2


@dataclass(frozen=True)
class _Said:
    """A candidate's checked predictions: probabilities (n_rows, n_classes) in the order of `row_ids`."""

    row_ids: list[str]
    shares: NDArray[np.float64]

    def codes(self, truth: dict[str, str], classes: list[str]) -> NDArray[np.int64]:
        """The true class of each row, as a position in `classes`."""
        return np.searchsorted(classes, [truth[row_id] for row_id in self.row_ids])


def evaluate(job: Job, sealed_dir: Path, *, sealed: bool = True) -> None:
    """Score and write. `sealed=False` says in the card that the labels lay open to the training. Raises: BadData."""
    labels = read_table(sealed_dir / "labels.csv", delimiter=",")
    truth = dict(zip(labels.columns["row_id"], labels.columns["label"], strict=True))
    files = sorted((job.run_dir / "predictions").glob("*.csv"))
    names = [path.stem for path in files]
    if _MODEL not in names or len(names) < 2:
        raise BadData("The training left no predictions of a model and of at least one baseline; nothing to compare.")
    tables = {path.stem: read_table(path, delimiter=",") for path in files}
    classes = _classes(truth, tables)
    said = {name: _checked(name, table, truth, classes) for name, table in tables.items()}
    results = {
        name: measure([truth[row_id] for row_id in one.row_ids], classes, one.shares) for name, one in said.items()
    }
    metric = decisive_metric(len(classes))
    others = sorted((found[metric], name) for name, found in results.items() if name != _MODEL)
    scorecard = {
        "metric": metric,
        "higher_is_better": True,
        "model": {"name": _MODEL, "value": results[_MODEL][metric]},
        "baselines": [{"name": name, "value": value} for value, name in others],
        "all_metrics": results[_MODEL],
        "test_rows": len(truth),
    }
    write_json(job.run_dir / "scorecard.json", scorecard)
    # The first of equals, as the scorecard's reader picks it.
    beaten = max(others, key=lambda pair: pair[0])[1]
    _tell(job, truth, classes, (said[_MODEL], said[beaten]), beaten)
    _publish(job, scorecard, results, sealed=sealed)


def _classes(truth: dict[str, str], tables: dict[str, Table]) -> list[str]:
    named = {name[2:] for table in tables.values() for name in table.names if name.startswith("p_")}
    return sorted(named | set(truth.values()))


def _tell(job: Job, truth: dict[str, str], classes: list[str], both: tuple[_Said, _Said], beaten: str) -> None:
    """Write `results.json` of the model beside the baseline that it had to beat; without it there are no pictures."""
    model, baseline = both
    place = {row_id: at for at, row_id in enumerate(baseline.row_ids)}
    theirs = baseline.shares[[place[row_id] for row_id in model.row_ids]]
    answers = Answers(classes, model.codes(truth, classes), model.shares, theirs, beaten)
    try:
        weights = importance_of(_object(job.artifacts / "importance.json"))
        column = _object(job.run_dir / "data/split.json").get("text_column")
        facts = classification(answers) | {"importance": weights}
        facts |= single_rows(
            answers,
            model.row_ids,
            job.run_dir / "data/test.csv",
            text=column if isinstance(column, str) else None,
            weights=weights,
        )
        text = json.dumps({"found": facts}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        (job.run_dir / "results.json").write_text(text, encoding="utf-8")
    except Exception:  # files of a training that can hold anything; the scorecard stands already
        log.exception("There will be no pictures of this result, because their facts could not be made:")


def _object(path: Path) -> dict[str, Any]:
    """A small JSON object that a training wrote; empty where it is none."""
    if not path.is_file() or path.stat().st_size > _SMALL_BYTES:
        return {}
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _checked(name: str, table: Table, truth: dict[str, str], classes: list[str]) -> _Said:
    """Raises: BadData."""
    for column in ("row_id", "label"):
        if column not in table.columns:
            raise BadData(f"predictions/{name}.csv has no column {column}.")
    row_ids = table.columns["row_id"]
    _refuse_other_rows(name, row_ids, truth)
    shares = np.column_stack([_share_column(name, table, label) for label in classes])  # (n_rows, n_classes)
    if not np.allclose(shares.sum(axis=1), 1.0, atol=1e-3):
        raise BadData(f"predictions/{name}.csv: the probabilities of a row do not add up to 1.")
    if [classes[code] for code in shares.argmax(axis=1)] != table.columns["label"]:
        shares = _following(name, table.columns["label"], classes, shares)
    return _Said(row_ids, shares)


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


def _share_column(name: str, table: Table, label: str) -> NDArray[np.float64]:
    """The probabilities of one class; a class that training never saw has probability 0."""
    cells = table.columns.get(f"p_{label}")
    if cells is None:
        return np.zeros(table.rows)
    values = np.array([np.nan if (value := number(cell)) is None else value for cell in cells])
    if not ((values >= 0) & (values <= 1)).all():
        raise BadData(
            f"predictions/{name}.csv: the column p_{label} holds something that is no probability from 0 to 1."
        )
    return values


def _following(name: str, labels: list[str], classes: list[str], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Allow a label that ties with the most probable class; refuse any other disagreement."""
    for row, label in enumerate(labels):
        if label not in classes or shares[row, classes.index(label)] < shares[row].max() - 1e-6:
            raise BadData(f"predictions/{name}.csv: the label “{label}” is not the most probable class of its row.")
        shares[row, classes.index(label)] += 1e-9
    return shares


def _publish(job: Job, scorecard: dict[str, Any], results: dict[str, dict[str, float]], *, sealed: bool) -> None:
    path = job.artifacts / "metrics.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    known["test"] = {"rows": scorecard["test_rows"], "metric": scorecard["metric"], "sealed": sealed, **results}
    write_json(path, known)
    write_card(job, known)


def _some(row_ids: list[str]) -> str:
    return ", ".join(row_ids[:3]) + (", …" if len(row_ids) > 3 else "")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Score a run's predictions against the sealed labels.")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--sealed-dir", type=Path, required=True)
    given = parser.parse_args(arguments)
    return step(given.run_dir, lambda: evaluate(read_job(given.run_dir), given.sealed_dir))


if __name__ == "__main__":
    leave(main())
