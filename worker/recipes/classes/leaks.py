"""Find columns that give the target away: each column alone, judged by cross-validation on at most 20 000 rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.columns import describe
from worker.recipes.common.table import Table, is_missing, number

SURE_ACCURACY = 0.98
_ROWS = 20_000
_FOLDS = 3


def find_leaks(table: Table, target: str, *, seed: int = 7) -> list[dict[str, Any]]:
    """The fields of each Leak, best first. A leak makes at most a quarter of the mistakes of always guessing."""
    known = np.array([not is_missing(cell) for cell in table.columns[target]])
    rows = np.flatnonzero(known)
    if len(rows) > _ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _ROWS, replace=False))
    labels, codes = np.unique([table.columns[target][row].strip() for row in rows], return_inverse=True)
    counts = np.bincount(codes)
    if len(labels) < 2 or counts.min() < _FOLDS:
        return []
    majority = float(counts.max() / counts.sum())
    found = []
    for name in table.names:
        if name == target:
            continue
        cells = [table.columns[name][row] for row in rows]
        accuracy, why = _alone(describe(table, name), cells, codes, [str(label) for label in labels], seed)
        if accuracy > SURE_ACCURACY and 1 - accuracy < (1 - majority) / 4:
            why += f"; always guessing the most frequent class gives {majority:.1%}"
            found.append({"column": name, "accuracy": round(accuracy, 4), "why": why})
    return sorted(found, key=lambda leak: -leak["accuracy"])


def _alone(
    column: Mapping[str, Any], cells: list[str], codes: NDArray[np.int64], labels: list[str], seed: int
) -> tuple[float, str]:
    """How well this column alone predicts, and how."""
    name, kind = column["name"], column["kind"]
    if kind in {"constant", "empty"}:
        return 0.0, ""
    if kind == "text":
        return _label_in_text(cells, codes, labels), "the label itself stands in the text"
    tries = [(_mapping_accuracy(cells, codes, seed), f"each value of “{name}” goes with one class")]
    if column["missing"]:
        there = ["" if is_missing(cell) else "there" for cell in cells]
        tries.append((_mapping_accuracy(there, codes, seed), f"whether “{name}” has a value tells the class"))
    if kind in {"number", "identifier", "boolean"}:
        values = np.array([np.nan if (value := number(cell)) is None else value for cell in cells])
        why = f"a few thresholds on “{name}” alone tell the classes apart"
        tries.append((_tree_accuracy(values, codes, seed), why))
    best, why = max(tries)
    return best, why


def _folds(codes: NDArray[np.int64], seed: int) -> Any:
    from sklearn.model_selection import StratifiedKFold

    return StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(codes, codes)


def _mapping_accuracy(cells: list[str], codes: NDArray[np.int64], seed: int) -> float:
    """Accuracy of `value -> its most frequent class`, learned on the other folds."""
    _, values = np.unique(cells, return_inverse=True)
    right = 0
    for train, test in _folds(codes, seed):
        table = np.zeros((int(values.max()) + 1, int(codes.max()) + 1))
        np.add.at(table, (values[train], codes[train]), 1.0)
        guess = np.where(table.sum(axis=1) > 0, table.argmax(axis=1), np.bincount(codes[train]).argmax())
        right += int((guess[values[test]] == codes[test]).sum())
    return right / len(codes)


def _tree_accuracy(values: NDArray[np.float64], codes: NDArray[np.int64], seed: int) -> float:
    from sklearn.tree import DecisionTreeClassifier

    right = 0
    columns = values.reshape(-1, 1)  # (n_rows, 1)
    for train, test in _folds(codes, seed):
        tree = DecisionTreeClassifier(max_depth=4, random_state=seed).fit(columns[train], codes[train])
        right += int((tree.predict(columns[test]) == codes[test]).sum())
    return right / len(codes)


def _label_in_text(cells: list[str], codes: NDArray[np.int64], labels: list[str]) -> float:
    """Accuracy of reading the label off the text; where none or several stand in it, the most frequent class."""
    if min(map(len, labels)) < 3:
        return 0.0
    fallback = int(np.bincount(codes).argmax())
    right = 0
    for cell, code in zip(cells, codes, strict=True):
        text = cell.lower()
        seen = [index for index, label in enumerate(labels) if label.lower() in text]
        right += int((seen[0] if len(seen) == 1 else fallback) == code)
    return right / len(codes)
