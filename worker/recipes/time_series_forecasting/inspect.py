"""What this recipe says of a file before it is forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from worker.recipes.common.columns import describe as describe_column
from worker.recipes.common.columns import useful, values_of
from worker.recipes.common.job import BadSettings, Job
from worker.recipes.common.table import BadData, Table, is_missing, number
from worker.recipes.numbers.target import describe
from worker.recipes.series.reading import Many, moment_cells, moment_columns, series_of, time_column
from worker.recipes.series.times import moments

__all__ = [
    "READS_TEXT",
    "describe",
    "effort",
    "fits",
    "leaks",
    "problems",
    "reads",
    "spacing",
    "suggest_target",
    "warnings",
]
READS_TEXT = False
OWN_SPLIT = True
WHOLE = True  # rows belong together, so none is left out
_FEW = 1  # columns beside moment and target: the one that tells series apart


def suggest_target(table: Table, *, asked: bool) -> str | None:  # noqa: ARG001 - a column is found by the same signs
    """The only column of numbers beside moments, and beside what tells several series apart."""
    when = time_column(table)
    if when is None:
        return None
    columns = moment_columns(table, when)
    others = [name for name in table.names if name not in columns]
    numbers = [name for name in others if describe_column(table, name)["kind"] == "number"]
    if len(numbers) != 1 or len(others) > 2:
        return None
    found = moments(moment_cells(table, columns))
    again = found is not None and len(set(found)) < len(found)
    return numbers[0] if len(others) <= 1 + again else None


def reads(table: Table, target: str) -> list[str]:
    """The columns that say when."""
    when = time_column(table, target=target)
    return moment_columns(table, when) if when else []


def fits(table: Table, columns: list[dict[str, Any]], target: str) -> float:
    """Moments that hardly repeat, and nothing else to learn a number from."""
    when = time_column(table, target=target)
    if when is None or any(number(cell) is None and not is_missing(cell) for cell in table.columns[target]):
        return 0.0
    others = [name for name in useful(columns, target) if name not in moment_columns(table, when)]
    found = moments(moment_cells(table, moment_columns(table, when)))
    return 2.0 * float(len(others) <= _FEW and found is not None and len(set(found)) * 20 > table.rows)


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a forecast of this column. Horizon and columns are the plan's: `effort` refuses those."""
    odd = next((cell for cell in table.columns[target] if number(cell) is None and not is_missing(cell)), None)
    if odd is not None:
        return [f"The target “{target}” holds what is no number (“{odd[:40]}”); a forecast needs numbers."]
    values = values_of(table, target)
    if len(values) == 1:
        return [f"The target “{target}” is always {next(iter(values))}; there is nothing to forecast."]
    return []


def warnings(table: Table, target: str) -> list[str]:
    """What was done to the series, in sentences, where they can be read without further settings."""
    many = _read(table, target)
    if isinstance(many, str):
        return [many]
    count = f"{len(many.series)} series told apart by “{many.id_column}”" if many.id_column else "One series"
    said = (
        f"{count} by {many.rhythm.words} over “{many.time_column}”, season {many.season}; usual horizon {many.horizon}."
    )
    return [said, *many.said]


def spacing(table: Table, target: str) -> str:
    """How far apart its moments are; empty where they cannot be read without further settings."""
    many = _read(table, target)
    return "" if isinstance(many, str) else many.rhythm.words


def _read(table: Table, target: str) -> Many | str:
    """The series of a target, read once for each table, or why they cannot be read."""
    key = ("series", target)
    if key not in table.known:
        try:
            table.known[key] = series_of(table, _plain(target))
        except (BadData, BadSettings) as error:
            table.known[key] = str(error)
    known: Many | str = table.known[key]
    return known


def leaks(_table: Table, _target: str) -> list[dict[str, Any]]:
    """Only the past of the target is learned from."""
    return []


def effort(table: Table, job: Job) -> float:
    """The work of this run, as a multiple of one with the recipe's own settings. Raises: BadData, BadSettings."""
    series_of(table, job)
    return float(job.settings.get("windows") or 3) / 3


def _plain(target: str) -> Job:
    """A job with nothing but a target."""
    return Job("", Path(), "", "time_series_forecasting", target, None, (), {}, 0, 0.2, "", "")
