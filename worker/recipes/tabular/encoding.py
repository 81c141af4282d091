"""Cells of a table as numbers, the same in training and in prediction. Copied beside the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.estimators import read_estimator
from worker.recipes.common.numerals import plain_numbers
from worker.recipes.common.table import MISSING, is_missing, number

Feature = dict[str, Any]
_DATE = re.compile(r"\s*(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})(?:[ T](\d{1,2}):(\d{2}))?.*")
_NAMED = re.compile(
    r"\s*(?:(\d{1,2})[-. ]{1,2}([^\W\d_]{3,9})\.?[-, ]{1,2}(\d{4}|\d{2})|([^\W\d_]{3,9})\.? (\d{1,2}),? (\d{4}))"
    r"([ T]\d{1,2}:\d{2}.*)?\s*"
)
_MONTHS = ("jan jän", "feb", "mar mär mrz", "apr", "may mai", "jun", "jul", "aug", "sep", "oct okt", "nov", "dec dez")
_THIS_CENTURY = 70  # a year of two digits below it is one of ours
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
    odd = [cell for cell, value in known.items() if value is None and not is_missing(cell)]
    if odd:  # in a row that somebody wrote for a prediction: those of a file were read so already
        plain = plain_numbers({"": odd}, MISSING)[0].get("", odd)
        known |= {cell: number(value) for cell, value in zip(odd, plain, strict=True)}
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
    found, named = _DATE.fullmatch(cell), _NAMED.fullmatch(cell)
    if named:
        found, day_first = _DATE.fullmatch(_numbered(named)), True
    if found is None:
        return [np.nan] * _DATE_PARTS
    first, second, third = (int(found[part]) for part in (1, 2, 3))
    year, month, day = (
        (first, second, third) if first > 31 else (third, *((second, first) if day_first else (first, second)))
    )
    year += 0 if year > 99 else 2000 if year < _THIS_CENTURY else 1900
    try:
        date = datetime(year, month, day, int(found[4] or 0), int(found[5] or 0))  # noqa: DTZ001 - as it stands
    except ValueError:
        return [np.nan] * _DATE_PARTS
    days = (date - datetime(2000, 1, 1)).total_seconds() / 86400  # noqa: DTZ001
    return [days, float(month), float(date.weekday()), float(date.hour)]


def _numbered(named: re.Match[str]) -> str:
    """A date with the name of its month as day.month.year; of another word none."""
    day, word, year, clock = named[1] or named[5], named[2] or named[4], named[3] or named[6], named[7] or ""
    month = next((at for at, words in enumerate(_MONTHS, 1) if word[:3].lower() in words.split()), 0)
    return f"{day}.{month}.{year}{clock}"


_ENCODERS = {"number": _numbers, "category": _codes, "datetime": _dates}


def load_estimator(folder: Path, description: Mapping[str, Any]) -> Any:
    """The LightGBM booster or the sklearn pipeline that `description` names in `folder`."""
    if description["kind"] == "lightgbm":
        import lightgbm

        return lightgbm.Booster(model_file=str(folder / description["file"]))
    return read_estimator(folder / description["file"], trusted=TRUSTED)
