"""Moments and their rhythm. Copied beside a finished model; standard library only.

A moment is a number of periods since a fixed one, so that months and years of different lengths are evenly spaced.
"""

from __future__ import annotations

import calendar
import datetime as dt
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

_QUARTER = re.compile(r"\s*(?:(?P<year>\d{4})[\s_-]*Q(?P<quarter>[1-4])|Q([1-4])[\s_/-]*(\d{4}))\s*", re.IGNORECASE)
_MONTH_NUMBER = re.compile(r"(\d{4})-?M(\d{1,2})", re.IGNORECASE)
_EPOCH = re.compile(r"\s*\d{9,10}(\d{3})?(\.0)?\s*")  # seconds or milliseconds since 1970
_YEAR = re.compile(r"\s*(\d{4})(\.0)?\s*")
_DATES = (
    "%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d",
    "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y",
    "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d. %b %Y", "%b %d, %Y", "%b %d %Y",
    "%Y-%m", "%Y/%m", "%m/%Y", "%m.%Y", "%m-%Y", "%b %Y", "%b-%Y", "%b-%y", "%b %y", "%Y %b", "%Y-%b", "%Y-%b-%d",
)  # fmt: skip
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DIGITS = {6: "%Y%m", 8: "%Y%m%d"}
_NAME = re.compile(r"[^\W\d_]{3,}")
_MONTHS = {
    name: english
    for english, names in {
        "Jan": "jan jän", "Feb": "feb", "Mar": "mar mär mrz", "Apr": "apr", "May": "may mai", "Jun": "jun",
        "Jul": "jul", "Aug": "aug", "Sep": "sep", "Oct": "oct okt", "Nov": "nov", "Dec": "dec dez",
    }.items()
    for name in names.split()
}  # fmt: skip
_FEWEST_WORKING_DAYS = 15
_MINUTES_A_DAY = 1440
_DAYS = {"hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 30.4, "quarter": 91.3, "year": 365.25}
_MILLISECONDS = 1e11  # more seconds than these are none: it would be the year 5138
_START = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - all moments here are without a zone
SEASONS = {"hour": 24, "day": 7, "working day": 5, "week": 52, "month": 12, "quarter": 4, "year": 1, "step": 1}


def moments(cells: Sequence[str]) -> list[dt.datetime] | None:
    """The moments that cells say; None where one is none, or where they are written in several ways."""
    texts = [_plain(cell) for cell in cells]
    if all(_YEAR.fullmatch(text) for text in texts):
        return [dt.datetime(int(text[:4]), 1, 1) for text in texts]  # noqa: DTZ001 - of the data, wherever they are
    if quarters := [found for text in texts if (found := _QUARTER.fullmatch(text))]:
        if len(quarters) < len(texts):
            return None
        pairs = [(found[1] or found[4], found[2] or found[3]) for found in quarters]
        return [dt.datetime(int(year), 3 * int(quarter) - 2, 1) for year, quarter in pairs]  # noqa: DTZ001
    if all(_EPOCH.fullmatch(text) for text in texts):
        seconds = [float(text) / (1000 if float(text) > _MILLISECONDS else 1) for text in texts]
        return [_START + dt.timedelta(seconds=one) for one in seconds]
    return _written(texts)


def _written(texts: Sequence[str]) -> list[dt.datetime] | None:
    """The moments in the one way of writing that all have; of two ways in that which leaves fewer holes."""
    ways = list[list[dt.datetime]]()
    for form in _forms(texts):
        read = _read(texts, form)
        if read is not None and not form:
            return read
        ways += [] if read is None else [read]
    return max(ways, key=_covered) if len(ways) > 1 else next(iter(ways), None)


def odd_one(cells: Sequence[str]) -> int:
    """The first cell that does not say when as those before it do, of cells that are no moments together."""
    texts = [_plain(cell) for cell in cells]

    def reached(fits: Callable[[str], object]) -> int:
        return next((at for at, text in enumerate(texts) if not fits(text)), 0)

    ways: list[Callable[[str], object]] = [_YEAR.fullmatch, _QUARTER.fullmatch, _EPOCH.fullmatch]
    ways += [partial(_alone, form=form) for form in _forms(texts)]
    return max(reached(fits) for fits in ways)


def _alone(text: str, form: str) -> list[dt.datetime] | None:
    return _read([text], form)


def _plain(cell: str) -> str:
    """A moment with its month in English and short."""
    text = _MONTH_NUMBER.sub(r"\1-\2", cell.strip())
    return _NAME.sub(lambda name: _MONTHS.get(name[0][:3].lower(), name[0]), text)


def _forms(texts: Sequence[str]) -> list[str]:
    """The ways of writing that the first moment fits into; an empty one is that of ISO."""
    first = texts[:1]
    if not first or first[0].isdigit():
        return [form for text in first if (form := _DIGITS.get(len(text)))]
    forms = ["", *(day + clock for clock in _CLOCKS for day in _DATES)]
    return [form for form in forms if _read(first, form) is not None]


def _read(texts: Sequence[str], form: str) -> list[dt.datetime] | None:
    try:
        known = {text: dt.datetime.strptime(text, form) if form else _iso(text) for text in set(texts)}  # noqa: DTZ007
    except ValueError:
        return None
    return [known[text] for text in texts]


def _covered(found: Sequence[dt.datetime]) -> float:
    """The share of the periods between the first and the last moment that have one: days as months have holes."""
    rhythm = rhythm_of([sorted(found)])
    if rhythm is None:
        return 0.0
    numbers = {rhythm.number(at) for at in found}
    return len(numbers) / (max(numbers) - min(numbers) + 1)


def _iso(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=None)


@dataclass(frozen=True)
class Rhythm:
    """How far apart the moments of a series are. `end`: they are the last day of a month, quarter or year.

    `every` counts the minutes of the unit `minute`. A working day is none of a weekend.
    """

    unit: str
    end: bool = False
    weekday: int = 0
    minute: int = 0
    every: int = 1

    @property
    def words(self) -> str:
        """What one step is."""
        return f"{self.every} minutes" if self.unit == "minute" and self.every > 1 else self.unit

    @property
    def steps(self) -> str:
        """What several steps are."""
        return f"steps of {self.words}" if self.unit == "minute" and self.every > 1 else f"{self.unit}s"

    @property
    def season(self) -> int:
        """The steps of the usual season: a day of minutes and hours, a week of days, a year of the others."""
        return max(1, _MINUTES_A_DAY // self.every) if self.unit == "minute" else SEASONS[self.unit]

    def number(self, at: dt.datetime) -> int:
        """Periods since the year 1."""
        match self.unit:
            case "hour":
                return at.toordinal() * 24 + at.hour
            case "minute":
                return (at.toordinal() * _MINUTES_A_DAY + at.hour * 60 + at.minute - self.minute) // self.every
            case "day":
                return at.toordinal()
            case "working day":
                week, day = divmod(at.toordinal() - 1, 7)
                return week * 5 + min(day, 4)
            case "week":
                return (at.toordinal() - self.weekday - 1) // 7
            case "month":
                return at.year * 12 + at.month - 1
            case "quarter":
                return at.year * 4 + (at.month - 1) // 3
            case _:
                return at.year

    def moment(self, number: int) -> dt.datetime:
        """The moment of a period."""
        match self.unit:
            case "hour":
                return dt.datetime.fromordinal(number // 24) + dt.timedelta(hours=number % 24, minutes=self.minute)
            case "minute":
                days, minutes = divmod(number * self.every + self.minute, _MINUTES_A_DAY)
                return dt.datetime.fromordinal(days) + dt.timedelta(minutes=minutes)
            case "day":
                return dt.datetime.fromordinal(number)
            case "working day":
                week, day = divmod(number, 5)
                return dt.datetime.fromordinal(week * 7 + day + 1)
            case "week":
                return dt.datetime.fromordinal(number * 7 + self.weekday + 1)
            case _:
                return self._of_months(number)

    def _of_months(self, number: int) -> dt.datetime:
        months = {"month": 1, "quarter": 3, "year": 12}[self.unit]
        year, month = divmod(number * months + (months - 1 if self.end else 0), 12)
        return dt.datetime(year, month + 1, calendar.monthrange(year, month + 1)[1] if self.end else 1)  # noqa: DTZ001

    def written(self, number: int) -> str:
        """The moment as people write it."""
        at = self.moment(number)
        if self.unit == "year":
            return str(at.year)
        return f"{at:%Y-%m-%d %H:%M}" if self.unit in {"hour", "minute"} else f"{at:%Y-%m-%d}"


def rhythm_of(series: Sequence[Sequence[dt.datetime]]) -> Rhythm | None:
    """The rhythm of sorted moments, by the most frequent distance; None where there is none."""
    gaps = Counter(
        (later - earlier).total_seconds() / 86_400
        for one in series
        for earlier, later in itertools.pairwise(one)
        if later > earlier
    )
    if not gaps:
        return None
    usual = gaps.most_common(1)[0][0]
    every = [at for one in series for at in one]
    if usual < _DAYS["hour"] * 0.85 or _DAYS["hour"] * 1.15 < usual < 0.85:
        minutes = round(usual * _MINUTES_A_DAY)
        return Rhythm("minute", minute=every[0].minute % minutes, every=minutes) if minutes else None
    unit = min(_DAYS, key=lambda unit: abs(_DAYS[unit] - usual) / _DAYS[unit])
    if abs(_DAYS[unit] - usual) / _DAYS[unit] > 0.15:
        return None
    if unit == "day" and len(every) >= _FEWEST_WORKING_DAYS and all(at.weekday() < 5 for at in every):
        return Rhythm("working day")
    first = all(at.day == 1 for at in every)
    end = unit in {"month", "quarter", "year"} and not first and all(at.day > 27 for at in every)
    return Rhythm(unit, end, weekday=every[0].weekday(), minute=every[0].minute)
