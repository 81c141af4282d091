"""A table as evenly spaced series: which columns say when, how much and of which, and what is wrong with them."""

from __future__ import annotations

import datetime as dt
import importlib.util
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.common.columns import describe, find_column
from worker.recipes.common.job import BadSettings, Job, Setting, read_settings
from worker.recipes.common.numerals import counted
from worker.recipes.common.table import BadData, Table, is_missing, number
from worker.recipes.series.times import Rhythm, moments, odd_one, rhythm_of

SETTINGS = {
    "horizon": Setting(0, 0, 10_000, ("steps", "periods")),  # 0: two seasons, at most a fifth of the shortest series
    "time_column": Setting(None, also=("time", "date", "date_column")),
    "id_column": Setting(None, also=("id", "series", "series_column")),
    "season": Setting(0, 0, 10_000, ("season_length",)),  # 0: by the rhythm of the data
    "windows": Setting(3, 1, 20),  # of the rolling validation
    "model": Setting(None, also=("backbone", "base_model")),  # of Chronos, by Hub id or folder
}
_TIME_NAMES = (
    "t",
    "ts",
    "epoch",
    "unix",
    "date",
    "time",
    "timestamp",
    "datetime",
    "ds",
    "month",
    "year",
    "day",
    "week",
    "period",
    "time_period",
    "quarter",
    "datum",
    "zeit",
    "zeitpunkt",
    "jahr",
    "monat",
    "quartal",
    "woche",
    "tag",
)
_YEARS, _MONTHS, _DAYS = ("year", "jahr"), ("month", "monat"), ("day", "tag")
_HOURS = ("hour", "hr", "stunde", "time", "uhrzeit")
_FEWEST = 12
_MOST_HOLES = 0.5
_SHORT = 0.25  # of the usual length
_MOST_STEPS = 2_000_000
_SEASON_OF_YEARS, _STRONG = range(2, 21), 0.3
_FEWEST_YEARS, _WINDOWS = 40, 3


@dataclass(frozen=True)
class Series:
    """One series, evenly spaced: its name, the number of its first period, its values without holes."""

    name: str
    first: int
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Many:
    """All series of a table with their rhythm. `unused` are further columns, `said` sentences on what was done."""

    series: list[Series]
    rhythm: Rhythm
    season: int
    horizon: int
    time_column: str
    id_column: str | None
    unused: list[str]
    said: list[str]


def time_column(table: Table, *, wanted: str | None = None, target: str = "") -> str | None:
    """The column that says when: the named one, else one whose cells are moments, by its name first."""
    if wanted:
        return find_column(table, wanted, role="time")
    fitting = [name for name in table.names if name != target and _may_be_time(name, table.columns[name])]
    named = [name for name in fitting if name.lower() in _TIME_NAMES]
    years = [name for name in named if name.lower() in _YEARS]
    dated = [name for name in table.names if name != target and describe(table, name)["kind"] == "datetime"]
    return next(iter(years or named or fitting or dated), None)


def moment_columns(table: Table, when: str) -> list[str]:
    """The columns that say together when: a year with its month and day, a date with its hour, else `when` alone."""
    known = {name.lower(): name for name in table.names if name != when}

    def first(names: Sequence[str]) -> list[str]:
        return [known[name] for name in names if name in known][:1]

    if when.lower() in _YEARS:
        month = first(_MONTHS)
        return [when, *month, *(first(_DAYS) if month else [])]
    cells = table.columns[when]
    return [when, *(first(_HOURS) if len(set(cells)) < len(cells) and not any(":" in cell for cell in cells) else [])]


def moment_cells(table: Table, columns: Sequence[str]) -> list[str]:
    """The moment of each row, as these columns say it together."""
    when, *others = columns
    if not others:
        return table.columns[when]
    if when.lower() in _YEARS:
        rows = zip(*(table.columns[name] for name in columns), strict=True)
        return ["-".join(f"{cell.strip():0>2}" for cell in row) for row in rows]
    hours = table.columns[others[0]]
    return [
        f"{day} {hour if ':' in hour else f'{hour}:00'}" for day, hour in zip(table.columns[when], hours, strict=True)
    ]


def _may_be_time(name: str, cells: list[str]) -> bool:
    sample = [cell for cell in cells[:200] if not is_missing(cell)]
    numeric = all(number(cell) is not None for cell in sample)
    return bool(sample) and moments(sample) is not None and (not numeric or name.lower() in _TIME_NAMES)


def series_of(table: Table, job: Job) -> Many:
    """Every series of a table. Raises: BadData, BadSettings."""
    settings = read_settings(job.settings, SETTINGS)
    if settings["model"]:
        _require_chronos(settings["model"])
    target = find_column(table, job.target)
    when = time_column(table, wanted=settings["time_column"], target=target)
    if when is None:
        raise BadData(f"No column says when. Name it: `time_column=…`. The columns are: {', '.join(table.names)}.")
    columns = moment_columns(table, when)
    cells = moment_cells(table, columns)
    at = moments(cells)
    if at is None:
        odd = odd_one(cells)
        raise BadData(
            f"“{when}” does not say when: line {table.lines[odd]} has “{cells[odd][:40]}”. Write all moments in one "
            "way, such as 2026-01-31 or 2026-01-31 08:00."
        )
    names = _names(table, settings["id_column"], columns, target, at)
    values = _numbers(table, target)
    grouped: dict[str, dict[dt.datetime, list[float]]] = {}
    for name, moment, value in zip(names[1], at, values, strict=True):
        grouped.setdefault(name, {}).setdefault(moment, []).append(value)
    rhythm = rhythm_of([sorted(one) for one in grouped.values()])
    if rhythm is None:
        raise BadData(
            f"The moments in “{when}” are not evenly spaced: minutes, hours, days, weeks, months, quarters or years."
        )
    said = [f"The moments are read from {' and '.join(columns)}."] if len(columns) > 1 else list[str]()
    found = [_even(name, one, rhythm, said) for name, one in sorted(grouped.items())]
    found = _long_enough(found, settings["horizon"], rhythm, said)
    shortest = min(len(one.values) for one in found)
    season = settings["season"] or _season(found, rhythm, settings["horizon"] or shortest // 5)
    horizon = settings["horizon"] or max(1, min(max(2 * season, 6), shortest // 5))
    if shortest < _FEWEST:
        raise BadData(f"A series of {shortest} {rhythm.steps} is too short: at least {_FEWEST} are needed.")
    if shortest < 2 * horizon + 2:
        short = min(found, key=lambda one: len(one.values)).name
        of = f" of “{short}”" if len(found) > 1 else ""
        raise BadSettings(
            f"The series{of} has {shortest} {rhythm.steps}; a horizon of {horizon} needs at least "
            f"{2 * horizon + 2}. Ask for a shorter horizon."
        )
    used = {target, *columns, *names[0], *job.drop_columns}
    unused = [name for name in table.names if name not in used]
    if unused:
        said.append(f"Not used: {', '.join(unused)}. A forecast learns from the past of “{target}” alone.")
    return Many(found, rhythm, season, horizon, when, " and ".join(names[0]) or None, unused, _counted(said))


def _require_chronos(model: str) -> None:
    """Raises: BadSettings where the package is not there."""
    if importlib.util.find_spec("chronos") is None:
        raise BadSettings(
            f"The model “{model}” needs the package chronos-forecasting, which this host lacks. Install it beside the "
            "worker, or leave `model` out: seasonal naive, ETS, ARIMA and LightGBM with lags are tried."
        )


def _names(
    table: Table, wanted: str | None, moments_in: Sequence[str], target: str, at: list[dt.datetime]
) -> tuple[list[str], list[str]]:
    """The columns that tell series apart, and the name of each row's series; one series where no moment is twice."""
    if wanted:
        column = find_column(table, wanted, role="id")
        return [column], table.columns[column]
    if len(set(at)) == len(at):
        return [], [""] * table.rows
    others = [name for name in table.names if name not in {*moments_in, target}]
    others.sort(key=lambda name: len(set(table.columns[name])))
    words = [name for name in others if describe(table, name)["kind"] in {"category", "boolean"}]
    for columns in [*itertools.combinations(others, 1), *itertools.combinations(words, 2)]:
        cells = [" / ".join(row) for row in zip(*(table.columns[name] for name in columns), strict=True)]
        if len(set(zip(cells, at, strict=True))) == len(at):
            return list(columns), cells
    return [], [""] * table.rows


def _numbers(table: Table, target: str) -> list[float]:
    values = []
    for cell, line in zip(table.columns[target], table.lines, strict=True):
        value = number(cell)
        if value is None and not is_missing(cell):
            raise BadData(f"Line {line}: “{cell[:40]}” in “{target}” is no number; a forecast needs numbers.")
        values.append(float("nan") if value is None else value)
    return values


def _even(name: str, rows: dict[dt.datetime, list[float]], rhythm: Rhythm, said: list[str]) -> Series:
    """The series on every period between its first and last; holes are filled in a straight line."""
    numbers: dict[int, list[float]] = {}
    for moment, values in rows.items():
        numbers.setdefault(rhythm.number(moment), []).extend(value for value in values if not np.isnan(value))
    known = {at: float(np.mean(values)) for at, values in numbers.items() if values}
    if len(known) < 2:
        raise BadData(f"The series{f' “{name}”' if name else ''} has fewer than two values.")
    first, last = min(known), max(known)
    if last - first >= _MOST_STEPS:
        raise BadData(f"From its first to its last moment a series has {last - first + 1:,} {rhythm.steps}; too many.")
    whole = np.arange(first, last + 1)
    holes = len(whole) - len(known)
    if holes > _MOST_HOLES * len(whole):
        raise BadData(
            f"More than half of the {rhythm.steps}{f' of “{name}”' if name else ''} have no value. Send evenly spaced "
            "rows, such as the mean of each hour or day."
        )
    said += ["hole"] * holes + ["twice"] * sum(len(values) > 1 for values in numbers.values())
    at = sorted(known)
    return Series(name, first, np.interp(whole, at, [known[one] for one in at]))


def _long_enough(found: list[Series], horizon: int, rhythm: Rhythm, said: list[str]) -> list[Series]:
    """The series that can be learned and measured, where most can; the others would shorten what is forecast of all."""
    typical = sorted(len(one.values) for one in found)[len(found) // 2]
    needed = max(_FEWEST, _SHORT * typical, 2 * horizon + 2)
    long = [one for one in found if len(one.values) >= needed]
    if 2 * len(long) <= len(found):
        return found
    if short := [f"“{one.name}” ({len(one.values)})" for one in found if len(one.values) < needed]:
        more = f" and {len(short) - 5} more" if len(short) > 5 else ""
        said.append(f"Left out, too short beside the others: {', '.join(short[:5])}{more} {rhythm.steps}.")
    return long


def _counted(said: list[str]) -> list[str]:
    counts = Counter(said)
    found = [one for one in counts if one not in {"hole", "twice"}]
    if counts["hole"]:
        filled = counted(counts["hole"], "missing value was", "missing values were")
        found.append(f"{filled} filled in a straight line.")
    if counts["twice"]:
        moments_there = counted(counts["twice"], "moment stands", "moments stand")
        found.append(f"{moments_there} there more than once; the mean of its values was taken.")
    return found


def _season(series: list[Series], rhythm: Rhythm, horizon: int) -> int:
    """The usual season of the rhythm; of years, the strongest cycle of 2 to 20 where there is one.

    The last steps, which may be sealed, play no role in it.
    """
    usual = rhythm.season
    if rhythm.unit != "year":
        return usual if min(len(one.values) for one in series) > 2 * usual else 1
    values = max(series, key=lambda one: len(one.values)).values
    values = values[: len(values) - horizon]
    if len(values) < _FEWEST_YEARS:
        return 1
    change = values - values.mean()
    power = float((change**2).sum()) or 1.0
    strength = {lag: float((change[lag:] * change[:-lag]).sum()) / power for lag in _SEASON_OF_YEARS}
    peaks = [lag for lag in list(_SEASON_OF_YEARS)[1:-1] if strength[lag] > max(strength[lag - 1], strength[lag + 1])]
    best = max(peaks, key=lambda lag: strength[lag], default=1)
    return _nearby(values, best, horizon) if best > 1 and strength[best] > _STRONG else 1


def _nearby(values: NDArray[np.float64], peak: int, horizon: int) -> int:
    """The peak or the lag beside it whose seasonal naive forecasts are best, by rolling origin.

    Cycles of years are no whole number long, and their autocorrelation is nearly as high beside its peak.
    """
    outs = [at * horizon for at in range(1, _WINDOWS + 1) if len(values) - at * horizon >= 2 * (peak + 1)]

    def error(lag: int) -> float:
        ends = [(values[: len(values) - out], values[len(values) - out :][:horizon]) for out in outs]
        return sum(float(np.abs(np.resize(past[-lag:], horizon) - came).mean()) for past, came in ends)

    return min((peak, peak - 1, peak + 1), key=error)


def facts_of(many: Many) -> dict[str, Any]:
    """What `split.json` and the model keep of them."""
    rhythm = many.rhythm
    return {
        "unit": rhythm.unit, "end": rhythm.end, "weekday": rhythm.weekday, "minute": rhythm.minute,
        "every": rhythm.every,
        "season": many.season, "horizon": many.horizon, "time_column": many.time_column, "id_column": many.id_column,
        "unused": many.unused,
    }  # fmt: skip
