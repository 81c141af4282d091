"""Metric series in the database: the newest rows as hosts sent them, the others as columns under a pyramid.

`metric_chunk` takes rows as they come, so that storing an event is an insert. When an attempt has `FOLD` of them they
move into blocks of columns in the same transaction (`fold`), and readers join both. A point is known by its run, its
attempt and its row, a row without values is one of the series `BARE`. Functions of a connection: this file writes and
reads by row, for `agent.storage.run_events` and `agent.storage.run_reads`; windows are read by `series_reads`. The same
is done with what hosts measure of a run, in the tables `USAGE`.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, Row, delete, insert, select, update

from agent import wire
from agent.domain.events import Measured, MetricRow
from agent.series.columns import POINT, SPAN, Entries, pack, unpack
from agent.series.pyramid import Block, grow
from agent.series.slices import MetricTable, Slice
from agent.storage.series_tables import METRICS, SeriesTables
from agent.storage.tables import attempt

FOLD: Final = 512  # rows
MOST_LOOSE: Final = 8 * FOLD  # rows that wait for missing events to come
BARE: Final = ""  # no metric is called so, see `_name`
NAME_CHARS: Final = 256  # a key of PostgreSQL has room for 2,704 bytes
NO_POINTS: Final = np.zeros(0, dtype=POINT)


def fold(
    connection: Connection,
    run_id: str,
    number: int,
    *,
    folded: int,
    through: int | None,
    tables: SeriesTables = METRICS,
) -> int:
    """Move rows of an attempt into columns, `folded` being how many are there; how many are then.

    Only those of events up to seq `through`, behind which some are missing that may still come; None for all.
    """
    chunk = tables.chunk
    this = [chunk.c.run_id == run_id, chunk.c.attempt == number]
    this += [chunk.c.seq <= through] if through is not None else []
    rows = _decoded(connection.execute(select(chunk).where(*this).order_by(chunk.c.seq)).all())
    for name, points in _columns(rows, first_row=folded).items():
        append(connection, {"run_id": run_id, "attempt": number, "name": name}, points, tables=tables)
    connection.execute(delete(chunk).where(*this))
    return folded + len(rows)


def append(connection: Connection, key: dict[str, Any], points: Entries, *, tables: SeriesTables = METRICS) -> None:
    """Points behind those that the series has."""
    of = {"of_run": key["run_id"], "of_attempt": key["attempt"], "of_name": key["name"]}
    newest: dict[int, Block] = {}
    while row := connection.execute(tables.newest, of | {"of_level": len(newest)}).one_or_none():
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
            this = [tables.block.c[name] == value for name, value in place.items()]
            connection.execute(update(tables.block).where(*this).values(**values))
        else:
            new.append(place | values)
    if new:
        connection.execute(insert(tables.block), new)


def rows_between(
    connection: Connection, run_id: str, number: int, first: int, stop: int, *, folded: int
) -> list[MetricRow]:
    """The rows `[first, stop)` of an attempt, of which `folded` are in columns."""
    found: list[MetricRow] = []
    if first < folded:
        found = from_columns(connection, run_id, number, first, stop)
    if stop > folded:
        found += _newest(connection, run_id, number, METRICS)[max(0, first - folded) : stop - folded]
    return found


def from_columns(connection: Connection, run_id: str, number: int, first: int, stop: int) -> list[MetricRow]:
    """Those of the rows `[first, stop)` that are in columns, put together from the points of all names."""
    values: dict[int, tuple[int, float, dict[str, float]]] = {}
    for name, points in _stored_between(connection, run_id, number, first, stop, METRICS).items():
        for place, step, at, value in points.tolist():
            _, _, named = values.setdefault(place, (step, at, {}))
            if name != BARE:
                named[name] = value
    return [MetricRow(step=step, at=at, values=named) for _, (step, at, named) in sorted(values.items())]


def table_of(connection: Connection, run_id: str, tables: SeriesTables = METRICS) -> MetricTable:
    """What a whole export of the run has, as of now."""
    query = select(attempt.c.number, tables.rows.label("rows"), tables.folded.label("folded")).where(
        attempt.c.run_id == run_id, tables.rows > 0
    )
    seen: dict[str, tuple[int, int, str]] = {}
    parts: list[tuple[int, int]] = []
    for own in connection.execute(query.order_by(attempt.c.number)).all():
        parts.append((own.number, own.rows))
        found = connection.execute(tables.names, {"of_run": run_id, "of_attempt": own.number}).all()
        begins = [(name, first) for name, first in found]
        newest = loose(connection, run_id, own.number, folded=own.folded, tables=tables)
        begins += [(name, int(points["row"][0])) for name, points in newest.items()]
        for name, first in begins:
            seen.setdefault(name, (own.number, first, name))
    return MetricTable(tuple(sorted(seen.keys() - {BARE}, key=lambda name: seen[name])), tuple(parts))


def slice_of(
    connection: Connection, run_id: str, number: int, first: int, stop: int, tables: SeriesTables = METRICS
) -> Slice:
    """The rows `[first, stop)` of an attempt that has as many; those of which nothing was kept are left out."""
    this = (attempt.c.run_id == run_id) & (attempt.c.number == number)
    folded = connection.execute(select(tables.folded).where(this)).scalar_one()
    found = _stored_between(connection, run_id, number, first, stop, tables) if first < folded else {}
    newest = loose(connection, run_id, number, folded=folded, tables=tables) if stop > folded else {}
    for name, points in newest.items():
        found[name] = np.concatenate([found.get(name, NO_POINTS), _rows(points, first, stop)])
    steps, at = np.zeros(stop - first, dtype=np.int64), np.zeros(stop - first)
    known = np.zeros(stop - first, dtype=bool)
    for points in found.values():
        places = points["row"] - first
        known[places], steps[places], at[places] = True, points["step"], points["at"]
    number_of = np.cumsum(known) - 1  # rows without values that were folded before `BARE` was kept are gone
    columns = {
        name: (number_of[points["row"] - first], np.ascontiguousarray(points["value"]))
        for name, points in found.items()
        if name != BARE and len(points)
    }
    return Slice(steps[known], at[known], columns)


def _stored_between(
    connection: Connection, run_id: str, number: int, first: int, stop: int, tables: SeriesTables
) -> dict[str, Entries]:
    """The points of each name in the rows `[first, stop)` that are in columns."""
    of: dict[str, Any] = {"of_run": run_id, "of_attempt": number}
    found: dict[str, Entries] = {}
    for name, _ in connection.execute(tables.names.order_by(tables.block.c.name), of).all():
        which = of | {"of_name": name, "of_level": 0, "of_row": first, "of_stop": stop}
        blocks = [unpack(data, POINT) for data in connection.execute(tables.rows_between, which).scalars()]
        points = _rows(np.concatenate([NO_POINTS, *blocks]), first, stop)
        if len(points):
            found[name] = points
    return found


def _rows(points: Entries, first: int, stop: int) -> Entries:
    found: Entries = points[(points["row"] >= first) & (points["row"] < stop)]
    return found


def loose(
    connection: Connection, run_id: str, number: int, *, folded: int, tables: SeriesTables = METRICS
) -> dict[str, Entries]:
    """The points of each name that are not in columns yet."""
    return _columns(_newest(connection, run_id, number, tables), first_row=folded)


def _newest(connection: Connection, run_id: str, number: int, tables: SeriesTables) -> list[MetricRow]:
    """The rows that are not in columns yet."""
    chunk = tables.chunk
    this = (chunk.c.run_id == run_id) & (chunk.c.attempt == number)
    return _decoded(connection.execute(select(chunk).where(this).order_by(chunk.c.seq)).all())


def _decoded(chunks: Sequence[Row[Any]]) -> list[MetricRow]:
    return [row for chunk in chunks for row in wire.decode(Measured, chunk.rows).rows]


def _columns(rows: Sequence[MetricRow], *, first_row: int) -> dict[str, Entries]:
    """The points of each name, in the order of the rows; a row without values is one of `BARE`."""
    found: dict[str, list[tuple[int, int, float, float]]] = {}
    for number, row in enumerate(rows, first_row):
        for name, value in row.values.items():
            found.setdefault(_name(name), []).append((number, row.step, row.at, value))
        if not row.values:
            found.setdefault(BARE, []).append((number, row.step, row.at, math.nan))
    return {name: np.array(points, dtype=POINT) for name, points in found.items()}


def _name(name: str) -> str:
    """A metric's name as a database can keep it in a key; trainings may call a metric anything."""
    if 0 < len(name) <= NAME_CHARS and "\x00" not in name:
        return name
    clean = name.replace("\x00", "") or "unnamed"
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return clean if len(clean) <= NAME_CHARS else f"{clean[: NAME_CHARS - 9]}~{digest}"
