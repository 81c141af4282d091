"""Metric series in the database: the newest rows as hosts sent them, the others as columns under a pyramid.

`metric_chunk` takes rows as they come, so that storing an event is an insert. When an attempt has `FOLD` of them they
move into blocks of columns in the same transaction (`fold`), and readers join both. A point is known by its run, its
attempt and its row; where a later attempt trained steps anew, the earlier one's are kept and exported, but no window
shows them. Functions of a connection: `agent.storage.run_events` writes, `agent.storage.run_reads` reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, Row, and_, bindparam, delete, func, insert, select, update

from agent import wire
from agent.domain.events import Measured, MetricRow
from agent.series.columns import BLOCK, POINT, SPAN, Entries, pack, unpack
from agent.series.pyramid import FAN, Block, cover, grow
from agent.series.window import Summary, Window, summary, window
from agent.storage.tables import attempt, metric_chunk, series_block

FOLD: Final = 512  # rows
MOST_LOOSE: Final = 8 * FOLD  # rows that wait for missing events to come
_ENDLESS: Final = 2**62
_NO_POINTS: Final = np.zeros(0, dtype=POINT)
_OF_LEVEL = and_(
    series_block.c.run_id == bindparam("of_run"),
    series_block.c.attempt == bindparam("of_attempt"),
    series_block.c.name == bindparam("of_name"),
    series_block.c.level == bindparam("of_level"),
)
_NEWEST = select(series_block).where(_OF_LEVEL).order_by(series_block.c.number.desc()).limit(1)
_BLOCKS = (
    select(series_block.c.number, series_block.c.data)
    .where(_OF_LEVEL, series_block.c.number.between(bindparam("of_first"), bindparam("of_last")))
    .order_by(series_block.c.number)
)
_OF_ROWS = (
    select(series_block.c.data)
    .where(_OF_LEVEL, series_block.c.last_row >= bindparam("of_row"), series_block.c.first_row < bindparam("of_stop"))
    .order_by(series_block.c.number)
)
_MEETING = select(func.min(series_block.c.number), func.max(series_block.c.number)).where(
    _OF_LEVEL, series_block.c.last >= bindparam("of_low"), series_block.c.first <= bindparam("of_high")
)
_SIZE = (
    select(series_block.c.number * BLOCK + series_block.c.count)
    .where(_OF_LEVEL)
    .order_by(series_block.c.number.desc())
    .limit(1)
)


def fold(connection: Connection, run_id: str, number: int, *, folded: int, through: int | None) -> int:
    """Move rows of an attempt into columns, `folded` being how many are there; how many are then.

    Only those of events up to seq `through`, behind which some are missing that may still come; None for all. A row
    without any value leaves nothing behind but its number.
    """
    this = [metric_chunk.c.run_id == run_id, metric_chunk.c.attempt == number]
    this += [metric_chunk.c.seq <= through] if through is not None else []
    rows = _decoded(connection.execute(select(metric_chunk).where(*this).order_by(metric_chunk.c.seq)).all())
    for name, points in _columns(rows, first_row=folded).items():
        append(connection, {"run_id": run_id, "attempt": number, "name": name}, points)
    connection.execute(delete(metric_chunk).where(*this))
    return folded + len(rows)


def append(connection: Connection, key: dict[str, Any], points: Entries) -> None:
    """Points behind those that the series has."""
    of = {"of_run": key["run_id"], "of_attempt": key["attempt"], "of_name": key["name"]}
    newest: dict[int, Block] = {}
    while row := connection.execute(_NEWEST, of | {"of_level": len(newest)}).one_or_none():
        level = len(newest)
        newest[level] = Block(level, row.number, unpack(row.data, SPAN if level else POINT))
    new: list[dict[str, Any]] = []
    for block in grow(newest, points):
        place = key | {"level": block.level, "number": block.number}
        first, last = ("first", "last") if block.level else ("step", "step")
        values: dict[str, Any] = {
            "count": len(block.entries),
            "first": int(block.entries[first].min()),
            "last": int(block.entries[last].max()),
            "first_row": 0 if block.level else int(block.entries["row"][0]),
            "last_row": 0 if block.level else int(block.entries["row"][-1]),
            "data": pack(block.entries),
        }
        if block.level in newest and newest[block.level].number == block.number:
            this = [series_block.c[name] == value for name, value in place.items()]
            connection.execute(update(series_block).where(*this).values(**values))
        else:
            new.append(place | values)
    if new:
        connection.execute(insert(series_block), new)


def rows_between(
    connection: Connection, run_id: str, number: int, first: int, stop: int, *, folded: int
) -> list[MetricRow]:
    """The rows `[first, stop)` of an attempt, of which `folded` are in columns."""
    found: list[MetricRow] = []
    if first < folded:
        found = from_columns(connection, run_id, number, first, stop)
    if stop > folded:
        this = (metric_chunk.c.run_id == run_id, metric_chunk.c.attempt == number)
        chunks = connection.execute(select(metric_chunk).where(*this).order_by(metric_chunk.c.seq)).all()
        found += _decoded(chunks)[max(0, first - folded) : stop - folded]
    return found


def from_columns(connection: Connection, run_id: str, number: int, first: int, stop: int) -> list[MetricRow]:
    """Those of the rows `[first, stop)` that are in columns, put together from the points of all names."""
    of: dict[str, Any] = {"of_run": run_id, "of_attempt": number}
    values: dict[int, tuple[int, float, dict[str, float]]] = {}
    names = select(series_block.c.name).where(
        series_block.c.run_id == run_id,
        series_block.c.attempt == number,
        series_block.c.level == 0,
        series_block.c.number == 0,
    )
    for name in connection.execute(names.order_by(series_block.c.name)).scalars():
        which = of | {"of_name": name, "of_level": 0, "of_row": first, "of_stop": stop}
        for data in connection.execute(_OF_ROWS, which).scalars():
            points = unpack(data, POINT)
            inside = points[(points["row"] >= first) & (points["row"] < stop)]
            for place, step, at, value in inside.tolist():
                values.setdefault(place, (step, at, {}))[2][name] = value
    return [MetricRow(step=step, at=at, values=named) for _, (step, at, named) in sorted(values.items())]


def _decoded(chunks: Sequence[Row[Any]]) -> list[MetricRow]:
    return [row for chunk in chunks for row in wire.decode(Measured, chunk.rows).rows]


def _columns(rows: Sequence[MetricRow], *, first_row: int) -> dict[str, Entries]:
    """The points of each name, in the order of the rows."""
    found: dict[str, list[tuple[int, int, float, float]]] = {}
    for number, row in enumerate(rows, first_row):
        for name, value in row.values.items():
            found.setdefault(name, []).append((number, row.step, row.at, value))
    return {name: np.array(points, dtype=POINT) for name, points in found.items()}


@dataclass(frozen=True, slots=True)
class _Part:
    """An attempt's share of a run: its steps before `until`, where a later attempt went on."""

    number: int
    until: int


class SeriesReads:
    """Reads of one run's series on one connection."""

    def __init__(self, connection: Connection, run_id: str) -> None:
        """What is read is what was committed when the first read began."""
        self._connection, self._run_id = connection, run_id
        query = select(attempt.c.number, attempt.c.low_step, attempt.c.folded).where(
            attempt.c.run_id == run_id, attempt.c.rows > 0
        )
        self._parts: list[_Part] = []
        self._folded: dict[int, int] = {}
        until = _ENDLESS
        for row in connection.execute(query.order_by(attempt.c.number.desc())):
            self._parts.insert(0, _Part(row.number, until))
            self._folded[row.number] = row.folded
            until = min(until, row.low_step)
        self._tails: dict[int, dict[str, Entries]] = {}
        self._known: dict[tuple[int, str, int], dict[int, Entries]] = {}  # blocks, by attempt, name and level

    def names(self) -> list[str]:
        """Of all series, the one that began at the lowest step first."""
        of_run = (series_block.c.run_id == self._run_id, series_block.c.level == 0, series_block.c.number == 0)
        first = func.min(series_block.c.first)
        query = select(series_block.c.name).where(*of_run).group_by(series_block.c.name).order_by(first)
        stored = self._connection.execute(query).scalars()
        newest = [name for part in self._parts for name in self._tail(part.number)]
        return list(dict.fromkeys([*stored, *newest]))

    def summary(self, name: str) -> Summary | None:
        """None where no step that counts has it."""
        return summary(self.window(name, most=FAN), self._last_value(name))

    def window(self, name: str, low: int = -_ENDLESS, high: int = _ENDLESS, *, most: int = 8192) -> Window:
        """Steps `low` to `high`, both included, in at most about `most` spans of each attempt."""
        parts: list[Entries] = []
        for part in self._parts:
            top = min(high, part.until - 1)
            parts += self._stored(self._of(part, name), low, top, most)
            parts.append(_between(self._tail(part.number).get(name, _NO_POINTS), low, top))
        return window(name, [part for part in parts if len(part)])

    def points(self, name: str, number: int) -> Entries:
        """All points of one attempt, those too that a later one trained anew, in the order of its rows."""
        of = {"of_run": self._run_id, "of_attempt": number, "of_name": name}
        newest = self._connection.execute(_NEWEST, of | {"of_level": 0}).one_or_none()
        stored = self._blocks(of, 0, 0, newest.number).values() if newest else ()
        return np.concatenate([_NO_POINTS, *stored, self._tail(number).get(name, _NO_POINTS)])

    def _of(self, part: _Part, name: str) -> dict[str, Any]:
        return {"of_run": self._run_id, "of_attempt": part.number, "of_name": name}

    def _tail(self, number: int) -> dict[str, Entries]:
        """The points that are not in columns yet."""
        if number not in self._tails:
            this = (metric_chunk.c.run_id == self._run_id) & (metric_chunk.c.attempt == number)
            chunks = self._connection.execute(select(metric_chunk).where(this).order_by(metric_chunk.c.seq)).all()
            self._tails[number] = _columns(_decoded(chunks), first_row=self._folded[number])
        return self._tails[number]

    def _stored(self, of: dict[str, Any], low: int, high: int, most: int) -> list[Entries]:
        """What is in columns of one attempt."""
        met = self._connection.execute(_MEETING, of | {"of_level": 0, "of_low": low, "of_high": high}).one()
        if met[0] is None:
            return []
        edges = self._blocks(of, 0, met[0], met[0]) | self._blocks(of, 0, met[1], met[1])
        inside = {number: np.flatnonzero(_mask(entries, low, high)) for number, entries in edges.items()}
        start = met[0] * BLOCK + (int(inside[met[0]][0]) if len(inside[met[0]]) else 0)
        stop = met[1] * BLOCK + (int(inside[met[1]][-1]) if len(inside[met[1]]) else len(edges[met[1]]) - 1)
        size = self._connection.execute(_SIZE, of | {"of_level": 0}).scalar_one()
        found = []
        for piece in cover(start, stop + 1, size=size, most=most):
            numbers = piece.start // BLOCK, (piece.stop - 1) // BLOCK
            blocks = self._blocks(of, piece.level, *numbers)
            entries = np.concatenate(list(blocks.values()))
            first = numbers[0] * BLOCK
            found.append(_between(entries[piece.start - first : piece.stop - first], low, high))
        return found

    def _blocks(self, of: dict[str, Any], level: int, first: int, last: int) -> dict[int, Entries]:
        key = (of["of_attempt"], of["of_name"], level)
        known = self._known.setdefault(key, {})
        if not all(number in known for number in range(first, last + 1)):
            which = of | {"of_level": level, "of_first": first, "of_last": last}
            for row in self._connection.execute(_BLOCKS, which):
                if row.number not in known:
                    known[row.number] = unpack(row.data, SPAN if level else POINT)
        return {number: known[number] for number in range(first, last + 1)}

    def _last_value(self, name: str) -> float:
        """Of the newest row that counts; NaN without any."""
        for part in reversed(self._parts):
            points = _between(self._tail(part.number).get(name, _NO_POINTS), -_ENDLESS, part.until - 1)
            if not len(points):
                of = self._of(part, name)
                ends = {"of_level": 0, "of_low": -_ENDLESS, "of_high": part.until - 1}
                newest = self._connection.execute(_MEETING, of | ends).one()[1]
                if newest is not None:
                    points = _between(self._blocks(of, 0, newest, newest)[newest], -_ENDLESS, part.until - 1)
            if len(points):
                return float(points["value"][-1])
        return float("nan")


def _mask(entries: Entries, low: int, high: int) -> Any:
    first, last = ("step", "step") if entries.dtype == POINT else ("first", "last")
    return (entries[last] >= low) & (entries[first] <= high)


def _between(entries: Entries, low: int, high: int) -> Entries:
    """Those that meet the steps `low` to `high`."""
    found: Entries = entries[_mask(entries, low, high)]
    return found
