"""The finished forecaster: a horizon in, the next moments with their values and 90 % intervals out.

Needs numpy, and statsforecast for ETS and ARIMA, LightGBM for the method with lags, chronos-forecasting for Chronos.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from worker.recipes.common.estimators import loading
from worker.recipes.common.table import BadData, Table
from worker.recipes.series.forecasting import Values, forecast, load_booster, load_chronos, widths
from worker.recipes.series.times import Rhythm

_MOST_STEPS = 5_000


@dataclass(frozen=True)
class Ahead:
    """What comes: for each series its name, moments, values and interval."""

    names: list[str]
    moments: list[list[str]]
    values: list[Values]
    low: list[Values]
    high: list[Values]

    def said(self) -> list[dict[str, Any]]:
        """One answer a step, series after series."""
        return [
            {"kind": "step", "series": name, "moment": moment, "value": value, "low": low, "high": high}
            for name, moments, *parts in zip(self.names, self.moments, self.values, self.low, self.high, strict=True)
            for moment, value, low, high in zip(moments, *(part.tolist() for part in parts), strict=True)
        ]

    def cells(self) -> Iterator[list[str]]:
        """The same as cells."""
        for one in self.said():
            yield [one["moment"], *(f"{one[name]:.8g}" for name in ("value", "low", "high"))]


class Model:
    """`needs` is the horizon: how many steps after the end of the data it learned from."""

    needs: Sequence[str] = ["horizon"]
    added: Sequence[str] = ["moment", "value", "low", "high"]

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self._about = description
        parts = {name: description[name] for name in ("unit", "end", "weekday", "minute")}
        self._rhythm = Rhythm(**parts, every=description.get("every", 1))
        self._fitted = _fitted(folder, description["kind"])
        periods: dict[str, list[int]] = {}
        values: dict[str, list[float]] = {}
        with (folder / "history.csv").open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                periods.setdefault(row["series"], []).append(int(row["period"]))
                values.setdefault(row["series"], []).append(float(row["value"]))
        self._names = list(periods)
        self._next = [periods[name][-1] + 1 for name in self._names]
        self._histories = [np.array(values[name]) for name in self._names]

    def ahead(self, steps: int, *, skip: int = 0) -> Ahead:
        """The forecast of `steps` steps, the first `skip` after the training part left out."""
        season, whole = int(self._about["season"]), steps + skip
        found = forecast(self._about["kind"], self._histories, whole, season, fitted=self._fitted)
        half = [widths(self._about["spread"], history, whole, season) for history in self._histories]
        moments = [
            [self._rhythm.written(number) for number in range(first + skip, first + whole)] for first in self._next
        ]
        return Ahead(
            self._names,
            moments,
            [values[skip:] for values in found],
            [(values - wide)[skip:] for values, wide in zip(found, half, strict=True)],
            [(values + wide)[skip:] for values, wide in zip(found, half, strict=True)],
        )

    def read(self, table: Table) -> Table:
        """A row for each step of each series, where a file says how many steps are asked for. Raises: BadData."""
        if "horizon" not in table.columns:
            return table
        said = table.columns["horizon"][0]
        rows = self._steps(said) * len(self._names)
        columns = {"horizon": [said] * rows}
        if len(self._names) > 1:
            columns["series"] = [name for name in self._names for _ in range(rows // len(self._names))]
        return replace(table, names=list(columns), columns=columns, lines=list(range(1, rows + 1)))

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Ahead:
        """The steps after the end of the file that it learned from, the sealed part included. Raises: BadData."""
        return self.ahead(self._steps(columns["horizon"][0]), skip=int(self._about["horizon"]))

    def _steps(self, cell: str) -> int:
        """How many steps a cell asks for. Raises: BadData."""
        said = cell.strip() or str(self._about["horizon"])
        if not said.isdigit() or not 1 <= int(said) <= _MOST_STEPS:
            raise BadData(
                f"A horizon is a whole number of {self._about['unit']}s from 1 to {_MOST_STEPS:,}, not “{said}”."
            )
        return int(said)


def _fitted(folder: Path, kind: str) -> Any:
    if kind == "chronos":
        return load_chronos(folder / "chronos")
    return load_booster(folder) if kind == "lightgbm" else None


load = loading(Model)
