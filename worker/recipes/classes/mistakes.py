"""What is told of single rows of the test part: the surest mistakes, and how long the texts are that are got wrong.

Reads `data/test.csv`, which the training could have rewritten: its cells are shown and decide nothing. What comes out
holds sealed labels, so it must not be laid where a training can read. Called by `worker.recipes.classes.evaluation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.classes.results import Answers
from worker.recipes.common.annotations import IMAGE
from worker.recipes.common.scoring import short
from worker.recipes.common.table import Table
from worker.recipes.common.test_rows import test_table

MOST_MISTAKES = 10
MOST_COLUMNS = 3
_BINS = 16
_FEWEST_WORDS = 3  # on average


def single_rows(
    answers: Answers, row_ids: Sequence[str], test: Path, *, text: str | None, weights: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The table of mistakes and, for texts, their lengths. `weights` says which columns are worth showing."""
    table = test_table(test, row_ids)
    found: dict[str, Any] = {"mistakes": _mistakes(answers, row_ids, table, _columns(table, text, weights))}
    if table is not None and text in table.columns:
        found["lengths"] = _lengths(answers, table.columns[text])
    return found


def _columns(table: Table | None, text: str | None, weights: Mapping[str, Any] | None) -> list[str]:
    """Which columns tell a person most about a row: the text, else what the model leans on, else the first."""
    if table is None:
        return []
    known = {short(name): name for name in table.names if name not in {"row_id", IMAGE}}
    if text in table.columns and text is not None:
        return [text]
    strongest = [feature["name"] for feature in weights["features"]] if weights else []
    named = [known[name] for name in strongest if name in known]
    return list(dict.fromkeys([*named, *known.values()]))[:MOST_COLUMNS]


def _mistakes(answers: Answers, row_ids: Sequence[str], table: Table | None, columns: list[str]) -> dict[str, Any]:
    """Where the model was wrong and surest of it, the surest first; of rows that look alike only the first."""
    guess, sure = answers.guess, answers.shares.max(axis=1)
    wrong = np.flatnonzero(guess != answers.codes)
    rows: dict[str, dict[str, Any]] = {}
    for at in wrong[np.argsort(-sure[wrong], kind="stable")]:
        cells = [short(table.columns[name][at]) for name in columns] if table else []
        row: dict[str, Any] = {
            "row": short(row_ids[at], 20),
            "true": short(answers.classes[answers.codes[at]]),
            "predicted": short(answers.classes[guess[at]]),
            "confidence": round(float(sure[at]), 4),
            "cells": cells,
        }
        rows.setdefault(repr([row | {"row": ""}]) if cells else row["row"], row)
        if len(rows) == MOST_MISTAKES:
            break
    return {"count": len(wrong), "columns": [short(name) for name in columns], "rows": list(rows.values())}


def _lengths(answers: Answers, texts: Sequence[str]) -> dict[str, Any]:
    """How many texts of which length were got right and wrong; the longest hundredth is one number beside them.

    In words, or in characters where the texts are written without spaces.
    """
    lengths, unit = np.array([len(text.split()) for text in texts], dtype=np.int64), "words"
    if lengths.mean() < _FEWEST_WORDS:
        lengths, unit = np.array([len(text) for text in texts], dtype=np.int64), "characters"
    end = int(max(np.quantile(lengths, 0.99), lengths.min() + 1))
    step = max(1, -(-(end + 1 - int(lengths.min())) // _BINS))  # whole words a bin
    edges = np.arange(int(lengths.min()), end + 1 + step, step)
    right = answers.guess == answers.codes
    counts = [np.histogram(lengths[side], bins=edges)[0].tolist() for side in (right, ~right)]
    beyond = int((lengths > edges[-1]).sum())
    return {"unit": unit, "edges": edges.tolist(), "right": counts[0], "wrong": counts[1], "beyond": beyond}
