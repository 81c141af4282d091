"""Windows of one run's series, from columns and the newest rows together, in O(what is shown).

Where a later attempt trained steps anew, the earlier one's are not shown. Reads what `agent.storage.series` writes;
called by `agent.storage.run_reads`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, select

from agent.series.columns import BLOCK, POINT, SPAN, Entries, unpack
from agent.series.pyramid import FAN, TOP, cover
from agent.series.window import Stretch, Summary, Window, hidden_pauses, points_in, summary, window
from agent.storage.series import BARE, NO_POINTS, loose
from agent.storage.series_tables import METRICS, MOST_PIECES, SeriesTables
from agent.storage.tables import attempt

MOST_SPANS: Final = 8192  # about, of an attempt: more than any picture has columns
KEPT: Final = 32  # blocks, of at most 270 kB each; a card of long runs shows some 20
_ENDLESS: Final = 2**62


@lru_cache(maxsize=KEPT)
def unpacked_spans(data: bytes) -> Entries:
    """A block of spans, which cannot be changed; those of a card that is drawn again and again are kept."""
    entries = unpack(data, SPAN)
    entries.setflags(write=False)
    return entries


@dataclass(frozen=True, slots=True)
class _Part:
    """An attempt's share of a run: its steps before `until`, where a later attempt went on."""

    number: int
    until: int


class SeriesReads:
    """Reads of one run's series on one connection."""

    def __init__(self, connection: Connection, run_id: str, tables: SeriesTables = METRICS) -> None:
        """What is read is what was committed when the first read began."""
        self._connection, self._run_id, self._tables = connection, run_id, tables
        low = [] if tables.low is None else [tables.low.label("low_step")]
        query = select(attempt.c.number, tables.folded.label("folded"), *low).where(
            attempt.c.run_id == run_id, tables.rows > 0
        )
        self._parts: list[_Part] = []
        self._folded: dict[int, int] = {}
        until = _ENDLESS
        for row in connection.execute(query.order_by(attempt.c.number.desc())):
            self._parts.insert(0, _Part(row.number, until))
            self._folded[row.number] = row.folded
            until = min(until, row.low_step) if low else until
        self._tails: dict[int, dict[str, Entries]] = {}
        self._known: dict[tuple[int, str, int], dict[int, Entries]] = {}  # blocks, by attempt, name and level

    def names(self) -> list[str]:
        """Of all series, the one that began at the lowest step first."""
        stored = self._connection.execute(self._tables.names_of_run, {"of_run": self._run_id}).scalars()
        newest = [name for part in self._parts for name in self._tail(part.number)]
        return [name for name in dict.fromkeys([*stored, *newest]) if name != BARE]

    def summary(self, name: str) -> Summary | None:
        """None where no step that counts has it."""
        return summary(self.window(name, most=FAN), self._end_value(name, first=True), self._end_value(name))

    def window(self, name: str, low: int = -_ENDLESS, high: int = _ENDLESS, *, most: int = MOST_SPANS) -> Window:
        """Steps `low` to `high`, both included, in at most about `most` spans of each attempt."""
        parts: list[Entries] = []
        for part in self._parts:
            top = min(high, part.until - 1)
            parts += self._stored(self._of(part, name), low, top, most)
            parts.append(_between(self._tail(part.number).get(name, NO_POINTS), low, top))
        return window(name, [part for part in parts if len(part)])

    def stretches(
        self, name: str, low: int = -_ENDLESS, high: int = _ENDLESS, *, most: int = MOST_SPANS
    ) -> list[Stretch]:
        """As `window`, each attempt by itself, in the order of its rows: those too that a later one trained anew.

        Where something took out of proportion long within a span, that span is given in all its detail, so that a pause
        is seen at any zoom.
        """
        found: list[Stretch] = []
        for part in self._parts:
            of = self._of(part, name)
            tail = _between(self._tail(part.number).get(name, NO_POINTS), low, high)
            whole = window(name, [*self._stored(of, low, high, most), tail], by_step=False)
            shown = whole.spans
            for place in reversed(hidden_pauses(shown)):  # from the end, so that places stay
                span, count = shown[place], points_in(shown[place : place + 1])
                inside = window(name, self._stored(of, int(span["first"]), int(span["last"]), 2 * count), by_step=False)
                points = inside.spans[
                    (inside.spans["began"] >= span["began"]) & (inside.spans["ended"] <= span["ended"])
                ]
                if points_in(points) == count:  # else its steps are those of others too
                    shown = np.concatenate([shown[:place], points, shown[place + 1 :]])
            if len(shown):
                found.append(Stretch(part.number, Window(name, shown, whole.exact)))
        return found

    def highest(self, name: str) -> int | None:
        """The highest place of a series; None without any."""
        found: list[int] = []
        for part in self._parts:
            ends = {"of_level": 0, "of_low": -_ENDLESS, "of_high": _ENDLESS}
            stored = self._connection.execute(self._tables.meeting, self._of(part, name) | ends).one()[3]
            tail = self._tail(part.number).get(name, NO_POINTS)
            found += ([] if stored is None else [int(stored)]) + ([int(tail["step"].max())] if len(tail) else [])
        return max(found, default=None)

    def densest(self) -> str | None:
        """The series with the most points, of `BARE` too; None without any."""
        sizes: dict[str, int] = {}
        for name, size in self._connection.execute(self._tables.sizes_of_run, {"of_run": self._run_id}):
            sizes[name] = sizes.get(name, 0) + size
        for part in self._parts:
            for name, points in self._tail(part.number).items():
                sizes[name] = sizes.get(name, 0) + len(points)
        return max(sizes, key=lambda name: (sizes[name], name), default=None)

    def points(self, name: str, number: int) -> Entries:
        """All points of one attempt, those too that a later one trained anew, in the order of its rows."""
        of = {"of_run": self._run_id, "of_attempt": number, "of_name": name}
        newest = self._connection.execute(self._tables.newest, of | {"of_level": 0}).one_or_none()
        stored = self._blocks(of, 0, 0, newest.number).values() if newest else ()
        return np.concatenate([NO_POINTS, *stored, self._tail(number).get(name, NO_POINTS)])

    def _of(self, part: _Part, name: str) -> dict[str, Any]:
        return {"of_run": self._run_id, "of_attempt": part.number, "of_name": name}

    def _tail(self, number: int) -> dict[str, Entries]:
        """The points that are not in columns yet."""
        if number not in self._tails:
            folded = self._folded[number]
            self._tails[number] = loose(self._connection, self._run_id, number, folded=folded, tables=self._tables)
        return self._tails[number]

    def _stored(self, of: dict[str, Any], low: int, high: int, most: int) -> list[Entries]:
        """What is in columns of one attempt."""
        query = self._tables.meeting, of | {"of_level": 0, "of_low": low, "of_high": high}
        first, last, lowest, highest, size = self._connection.execute(*query).one()
        if first is None:
            return []
        start, stop = first * BLOCK, min(size, (last + 1) * BLOCK)
        if lowest < low or highest > high:  # else all of these blocks are within
            self._fetch(of, [(0, first, first), (0, last, last)])
            edges = {number: self._blocks(of, 0, number, number)[number] for number in (first, last)}
            inside = {number: np.flatnonzero(_mask(entries, low, high)) for number, entries in edges.items()}
            start += int(inside[first][0]) if len(inside[first]) else 0
            stop = last * BLOCK + (int(inside[last][-1]) + 1 if len(inside[last]) else len(edges[last]))
        pieces = cover(start, stop, size=size, most=most)
        self._fetch(of, [(piece.level, piece.start // BLOCK, (piece.stop - 1) // BLOCK) for piece in pieces])
        found = []
        for piece in pieces:
            blocks = self._blocks(of, piece.level, piece.start // BLOCK, (piece.stop - 1) // BLOCK)
            for number, entries in blocks.items():
                begin = number * BLOCK
                found.append(_between(entries[max(0, piece.start - begin) : piece.stop - begin], low, high))
        return found

    def _fetch(self, of: dict[str, Any], wanted: Iterable[tuple[int, int, int]]) -> None:
        """Read the blocks (level, first and last number) that are not known yet, mostly with one statement."""
        known = [self._known.setdefault((of["of_attempt"], of["of_name"], level), {}) for level in range(TOP + 1)]
        missing = [
            (level, first, last)
            for level, first, last in dict.fromkeys(wanted)
            if not all(number in known[level] for number in range(first, last + 1))
        ]
        for at in range(0, len(missing), MOST_PIECES):
            asked = missing[at : at + MOST_PIECES]
            which = of | {
                f"{key}_{n}": value
                for n, piece in enumerate(asked)
                for key, value in zip(("level", "first", "last"), piece, strict=True)
            }
            for level, number, data in self._connection.execute(self._tables.blocks[len(asked) - 1], which):
                if number not in known[level]:
                    known[level][number] = unpacked_spans(data) if level else unpack(data, POINT)

    def _blocks(self, of: dict[str, Any], level: int, first: int, last: int) -> dict[int, Entries]:
        self._fetch(of, [(level, first, last)])
        known = self._known[of["of_attempt"], of["of_name"], level]
        return {number: known[number] for number in range(first, last + 1)}

    def _end_value(self, name: str, *, first: bool = False) -> float:
        """Of the newest row that counts, or of the first; NaN without any."""
        for part in self._parts if first else reversed(self._parts):
            newest = _between(self._tail(part.number).get(name, NO_POINTS), -_ENDLESS, part.until - 1)
            of = self._of(part, name)
            ends = {"of_level": 0, "of_low": -_ENDLESS, "of_high": part.until - 1}
            place = self._connection.execute(self._tables.meeting, of | ends).one()[0 if first else 1]
            if place is not None and (first or not len(newest)):
                newest = _between(self._blocks(of, 0, place, place)[place], -_ENDLESS, part.until - 1)
            if len(newest):
                return float(newest["value"][0 if first else -1])
        return float("nan")


def _mask(entries: Entries, low: int, high: int) -> Any:
    first, last = ("step", "step") if entries.dtype == POINT else ("first", "last")
    return (entries[last] >= low) & (entries[first] <= high)


def _between(entries: Entries, low: int, high: int) -> Entries:
    """Those that meet the steps `low` to `high`."""
    mask = _mask(entries, low, high)
    found: Entries = entries if mask.all() else entries[mask]
    return found
