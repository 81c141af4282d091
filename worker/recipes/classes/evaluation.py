"""Measures class probabilities against sealed labels; what pictures are drawn from goes into `results.json`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.classes.mistakes import single_rows
from worker.recipes.classes.predictions import majority_shares
from worker.recipes.classes.results import Answers, classification
from worker.recipes.classes.scores import decisive, decisive_metric, measure
from worker.recipes.common.job import Job
from worker.recipes.common.scoring import (
    MODEL,
    Decisive,
    candidates,
    importance_of,
    publish,
    small_object,
    write_results,
)
from worker.recipes.common.sealing import sealed_groups
from worker.recipes.common.table import BadData, Table, number


@dataclass(frozen=True)
class _Said:
    """A candidate's checked predictions: probabilities (n_rows, n_classes) in the order of `row_ids`."""

    row_ids: list[str]
    shares: NDArray[np.float64]

    def in_order_of(self, row_ids: list[str]) -> NDArray[np.float64]:
        """The probabilities in another order of the same rows."""
        place = {row_id: at for at, row_id in enumerate(self.row_ids)}
        return self.shares[[place[row_id] for row_id in row_ids]]

    def codes(self, truth: dict[str, str], classes: list[str]) -> NDArray[np.int64]:
        """The true class of each row, as a position in `classes`."""
        return np.searchsorted(classes, [truth[row_id] for row_id in self.row_ids])


More = Callable[[Answers, list[str]], dict[str, Any]]


def score(job: Job, sealed_dir: Path, *, sealed: bool = True, more: More | None = None) -> None:
    """Measure and write. `sealed=False` says in the card that the labels lay open to the training. Raises: BadData.

    `more(answers, row_ids)` are facts that a recipe adds.
    """
    truth, tables = candidates(job, sealed_dir)
    classes = _classes(truth, tables)
    said = {name: _checked(name, table, classes) for name, table in tables.items()}
    if job.all_is_test:  # the best constant answer, which nobody could have known before
        said["majority"] = _Said(list(truth), majority_shares(list(truth.values()), classes, len(truth)))
    scores = {
        name: measure([truth[row_id] for row_id in one.row_ids], classes, one.shares) for name, one in said.items()
    }
    metric = decisive_metric(len(classes))
    row_ids = said[MODEL].row_ids
    codes = said[MODEL].codes(truth, classes)
    shares = {name: one.in_order_of(row_ids) for name, one in said.items()}

    def score_of(name: str, at: NDArray[np.int64]) -> float:
        return decisive(codes[at], shares[name][at])

    deciding = Decisive(metric, len(truth), score_of, groups=sealed_groups(sealed_dir, row_ids))
    beaten = publish(job, scores, deciding, sealed=sealed)
    write_results(job, lambda: _facts(job, truth, classes, (said[MODEL], said[beaten]), beaten, more))


def _classes(truth: dict[str, str], tables: dict[str, Table]) -> list[str]:
    named = {name[2:] for table in tables.values() for name in table.names if name.startswith("p_")}
    return sorted(named | set(truth.values()))


def _facts(
    job: Job, truth: dict[str, str], classes: list[str], both: tuple[_Said, _Said], beaten: str, more: More | None
) -> dict[str, Any]:
    """The model beside the baseline that it had to beat."""
    model, baseline = both
    theirs = baseline.in_order_of(model.row_ids)
    answers = Answers(classes, model.codes(truth, classes), model.shares, theirs, beaten)
    weights = importance_of(small_object(job.artifacts / "importance.json"))
    column = small_object(job.run_dir / "data/split.json").get("text_column")
    text = column if isinstance(column, str) else None
    rows = single_rows(answers, model.row_ids, job.run_dir / "data/test.csv", text=text, weights=weights)
    added = more(answers, model.row_ids) if more else {}
    return classification(answers) | {"importance": weights} | rows | added


def _checked(name: str, table: Table, classes: list[str]) -> _Said:
    """Raises: BadData."""
    shares = np.column_stack([_share_column(name, table, label) for label in classes])  # (n_rows, n_classes)
    if not np.allclose(shares.sum(axis=1), 1.0, atol=1e-3):
        raise BadData(f"predictions/{name}.csv: the probabilities of a row do not add up to 1.")
    if [classes[code] for code in shares.argmax(axis=1)] != table.columns["label"]:
        shares = _following(name, table.columns["label"], classes, shares)
    return _Said(table.columns["row_id"], shares)


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
