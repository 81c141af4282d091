"""A finished tabular model: cells in, class probabilities out.

Copied beside the model; needs numpy and the model's library. It owns the encoding of cells as
numbers, so that training and prediction cannot differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.table import is_missing, number

Feature = dict[str, Any]
_DATE = re.compile(r"\s*(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})(?:[ T](\d{1,2}):(\d{2}))?.*")
_DATE_PARTS = 4
TRUSTED = ["numpy.dtype", "sklearn.compose._column_transformer._RemainderColsList"]


def encode(columns: Mapping[str, Sequence[str]], features: Sequence[Feature]) -> NDArray[np.float64]:
    """Cells as numbers (n_rows, width). A number is itself, a category its index, a date four numbers; NaN is missing.

    A category that training did not know becomes the index after the last.
    """
    blocks = [_ENCODERS[feature["kind"]](columns[feature["column"]], feature) for feature in features]
    return np.column_stack(blocks)


def width(feature: Feature) -> int:
    """How many numbers a feature takes."""
    return _DATE_PARTS if feature["kind"] == "datetime" else 1


def _numbers(cells: Sequence[str], _: Feature) -> NDArray[np.float64]:
    known = {cell: number(cell) for cell in set(cells)}
    return np.array([np.nan if (value := known[cell]) is None else value for cell in cells], dtype=np.float64)


def _codes(cells: Sequence[str], feature: Feature) -> NDArray[np.float64]:
    index = {category: code for code, category in enumerate(feature["categories"])}
    other = len(index)
    return np.array(
        [np.nan if is_missing(cell) else index.get(cell.strip(), other) for cell in cells], dtype=np.float64
    )


def _dates(cells: Sequence[str], feature: Feature) -> NDArray[np.float64]:
    """Days since 2000, month, weekday, hour. (n_rows, 4)"""
    known = {cell: _date_parts(cell, day_first=feature["day_first"]) for cell in set(cells)}
    return np.array([known[cell] for cell in cells], dtype=np.float64)


def _date_parts(cell: str, *, day_first: bool) -> list[float]:
    found = _DATE.fullmatch(cell)
    if found is None:
        return [np.nan] * _DATE_PARTS
    first, second, third = (int(found[part]) for part in (1, 2, 3))
    year, month, day = (
        (first, second, third) if first > 31 else (third, *((second, first) if day_first else (first, second)))
    )
    try:
        date = datetime(year, month, day, int(found[4] or 0), int(found[5] or 0))  # noqa: DTZ001 - as it stands
    except ValueError:
        return [np.nan] * _DATE_PARTS
    days = (date - datetime(2000, 1, 1)).total_seconds() / 86400  # noqa: DTZ001
    return [days, float(month), float(date.weekday()), float(date.hour)]


_ENCODERS = {"number": _numbers, "category": _codes, "datetime": _dates}


class TabularModel:
    """`needs` are the columns it reads, `classes` its answers in the order of the probabilities."""

    def __init__(self, description: dict[str, Any], estimator: Any) -> None:
        self.features: list[Feature] = description["features"]
        self.classes: list[str] = description["classes"]
        self.needs: list[str] = [feature["column"] for feature in self.features]
        self._estimator = estimator

    def shares(self, columns: Mapping[str, Sequence[str]]) -> NDArray[np.float64]:
        """The probability of each class for each row. (n_rows, n_classes)"""
        return class_shares(self._estimator, encode(columns, self.features))


def class_shares(estimator: Any, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities (n_rows, n_classes) of a LightGBM booster or an sklearn estimator."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(rows), dtype=np.float64)
    shares = np.asarray(estimator.predict(rows), dtype=np.float64)
    return np.column_stack([1.0 - shares, shares]) if shares.ndim == 1 else shares


def load(folder: Path) -> TabularModel:
    """The model that training left in `folder`."""
    description = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    if description["kind"] == "lightgbm":
        import lightgbm

        return TabularModel(description, lightgbm.Booster(model_file=str(folder / description["file"])))
    from skops.io import load as load_skops

    return TabularModel(description, load_skops(folder / description["file"], trusted=TRUSTED))
