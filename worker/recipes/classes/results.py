"""What the evaluation saw, as small bounded facts that pictures are drawn from: numbers in, plain JSON values out.

Pure: truth, classes and probabilities, no files. The sizes here are those that `agent.domain.results` accepts. What is
told of single rows is in `worker.recipes.classes.mistakes`. Called by `worker.recipes.classes.evaluation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.scoring import named, rounded, short

MOST_CLASSES = 50  # with a row of their own; the rest is counted together
MOST_CURVES = 6
MOST_POINTS = 200
BINS = 10
OTHERS = "(others)"

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Answers:
    """What is true and what the model said, row by row.

    `codes` are positions in `classes` (n_rows,), `shares` probabilities (n_rows, n_classes). `baseline` holds those of
    the strongest baseline, called `beaten`.
    """

    classes: Sequence[str]
    codes: Codes
    shares: Numbers
    baseline: Numbers
    beaten: str

    @property
    def guess(self) -> Codes:
        """The most probable class of each row."""
        return np.asarray(self.shares.argmax(axis=1), dtype=np.int64)


def classification(answers: Answers) -> dict[str, Any]:
    """Every picture's facts of a classifier that follow from its answers alone; at least one row."""
    return {
        "kind": "classification",
        "rows": len(answers.codes),
        "class_count": len(answers.classes),
        "confusion": _confusion(answers),
        "curves": _curves(answers),
        "calibration": _calibration(answers),
        "classes": _scores(answers),
        "beaten": named(answers.beaten),
    }


def _largest(answers: Answers, most: int) -> Codes:
    """The classes that are true or said most often, in their own order."""
    count = len(answers.classes)
    seen = np.bincount(answers.codes, minlength=count) + np.bincount(answers.guess, minlength=count)
    ranked = np.argsort(-seen, kind="stable")[:most]
    return np.asarray(np.sort(ranked), dtype=np.int64)


def _confusion(answers: Answers) -> dict[str, Any]:
    """Counts, a row for each true class; the rare ones of very many are one row and column together."""
    kept = _largest(answers, MOST_CLASSES)
    place = np.full(len(answers.classes), len(kept), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    labels = [short(answers.classes[code]) for code in kept]
    if len(kept) < len(answers.classes):
        labels.append(OTHERS)
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, (place[answers.codes], place[answers.guess]), 1)
    return {"labels": labels, "counts": counts.tolist()}


def _curves(answers: Answers) -> list[dict[str, Any]]:
    """ROC and precision over recall: of the second class of two, else of each of the most frequent against the rest.

    A class that is true of no row, or of every row, has neither.
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

    if len(answers.classes) == 2:
        chosen = [1]
    else:
        support = np.bincount(answers.codes, minlength=len(answers.classes))
        chosen = np.argsort(-support, kind="stable")[:MOST_CURVES].tolist()
    found = []
    for code in chosen:
        truth = answers.codes == code
        if truth.all() or not truth.any():
            continue
        said = answers.shares[:, code]
        false_rate, true_rate, _ = roc_curve(truth, said)
        precision, recall, _ = precision_recall_curve(truth, said)
        precision, recall = precision[-2::-1], recall[-2::-1]  # without the last, which no threshold has
        found.append(
            {
                "label": short(answers.classes[code]),
                "share": rounded(truth.mean()),
                "roc": {**thinned(false_rate, true_rate), "area": rounded(roc_auc_score(truth, said))},
                "pr": {**thinned(recall, precision), "area": rounded(average_precision_score(truth, said))},
            }
        )
    return found


def thinned(x: Numbers, y: Numbers, most: int = MOST_POINTS) -> dict[str, list[float]]:
    """At most `most` of a curve's own points, evenly along its length, always with its ends.

    Along its length, so that a steep part keeps its corners: evenly along x would skip the rise that matters most.
    """
    if len(x) > most:
        gone = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
        at = np.unique(np.searchsorted(gone, np.linspace(0.0, gone[-1], most)).clip(0, len(x) - 1))
        at[0], at[-1] = 0, len(x) - 1
        x, y = x[at], y[at]
    return {"x": [rounded(value) for value in x], "y": [rounded(value) for value in y]}


def _calibration(answers: Answers) -> dict[str, Any]:
    """Whether 80 % means 80 %: in ten equal spans of what was said, how often it was true; and the mean gap.

    Of two classes it is the second's probability, else that of the class which was said. The gap is the expected
    calibration error of Naeini et al. 2015, weighted by rows.
    """
    if len(answers.classes) == 2:
        label, said, truth = answers.classes[1], answers.shares[:, 1], answers.codes == 1
    else:
        label, said, truth = "", answers.shares.max(axis=1), answers.codes == answers.guess
    spans = np.minimum((said * BINS).astype(np.int64), BINS - 1).clip(0)
    bins, gap = [], 0.0
    for span in range(BINS):
        inside = spans == span
        count = int(inside.sum())
        if not count:
            continue
        predicted, observed = float(said[inside].mean()), float(truth[inside].mean())
        bins.append({"count": count, "predicted": rounded(predicted), "observed": rounded(observed)})
        gap += count / len(said) * abs(predicted - observed)
    return {"label": short(label), "bins": bins, "error": rounded(gap)}


def _scores(answers: Answers) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class, the most frequent first, with the baseline's F1."""
    from sklearn.metrics import f1_score, precision_recall_fscore_support

    every = list(range(len(answers.classes)))
    precision, recall, f1, support = precision_recall_fscore_support(
        answers.codes, answers.guess, labels=every, zero_division=0.0
    )
    theirs = f1_score(answers.codes, answers.baseline.argmax(axis=1), labels=every, average=None, zero_division=0.0)
    ranked = np.argsort(-np.asarray(support), kind="stable")[:MOST_CLASSES]
    return [
        {
            "label": short(answers.classes[code]),
            "support": int(support[code]),
            "precision": rounded(precision[code]),
            "recall": rounded(recall[code]),
            "f1": rounded(f1[code]),
            "baseline_f1": rounded(theirs[code]),
        }
        for code in ranked
    ]
