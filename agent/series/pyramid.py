"""The pyramid over a series: level 0 are its points, an entry of a higher level stands for `FAN` of the level below.

Entry `i` of level `k` covers the points from `i * FAN**k` on, by their place in the series, whatever their steps are.
A level holds whole entries only; the newest points that fill none yet are read from below. Pure; `agent.storage.series`
stores the blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from agent.series.columns import BLOCK, POINT, SPAN, Entries

FAN: Final = 16
TOP: Final = 12  # more levels than any series has


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Entries of one level from place `number * BLOCK` on."""

    level: int
    number: int
    entries: Entries


@dataclass(frozen=True, slots=True)
class Piece:
    """Entries `[start, stop)` of a level."""

    level: int
    start: int
    stop: int


def grow(newest: Mapping[int, Block], points: Entries) -> list[Block]:
    """The blocks that change when `points` (of `POINT`) are appended.

    `newest` is the last block of each level, whole or not; it is empty for a new series.
    """
    changed: list[Block] = []
    level, new = 0, points
    while len(new):
        last = newest.get(level) or Block(level, 0, new[:0])
        if len(last.entries) == BLOCK:
            last = Block(level, last.number + 1, last.entries[:0])
        known = len(last.entries)
        entries = np.concatenate([last.entries, new])
        changed += [
            Block(level, last.number + at // BLOCK, entries[at : at + BLOCK]) for at in range(0, len(entries), BLOCK)
        ]
        new = fold(entries[known // FAN * FAN : len(entries) // FAN * FAN])
        level += 1
    return changed


def spans(points: Entries) -> Entries:
    """Each point as a span of its own."""
    found = np.zeros(len(points), dtype=SPAN)
    value, step = points["value"], points["step"]
    finite = np.isfinite(value)
    found["first"] = found["last"] = step
    found["began"] = found["ended"] = points["at"]
    for name in ("low", "high", "mean"):
        found[name] = np.where(finite, value, np.nan)
    for name in ("low_step", "high_step"):
        found[name] = np.where(finite, step, 0)
    found["count"], found["nans"] = finite, np.isnan(value)
    found["ups"], found["downs"] = value == np.inf, value == -np.inf
    return found


def fold(entries: Entries) -> Entries:
    """One span for each `FAN` entries, which are points or spans; their number is a multiple of it."""
    below = spans(entries) if entries.dtype == POINT else entries
    return _folded(below.reshape(-1, FAN))


def fold_all(entries: Entries) -> Any:
    """One span for all of the spans, None for none."""
    return _folded(entries.reshape(1, -1))[0] if len(entries) else None


def _folded(groups: Entries) -> Entries:
    """A span for each row of spans."""
    found = np.zeros(len(groups), dtype=SPAN)
    found["first"], found["last"] = groups["first"].min(axis=1), groups["last"].max(axis=1)
    found["began"], found["ended"] = groups["began"].min(axis=1), groups["ended"].max(axis=1)
    for name in ("count", "nans", "ups", "downs"):
        found[name] = groups[name].sum(axis=1)
    which = np.arange(len(groups))
    some = found["count"] > 0
    lowest = np.where(np.isnan(groups["low"]), np.inf, groups["low"]).argmin(axis=1)
    highest = np.where(np.isnan(groups["high"]), -np.inf, groups["high"]).argmax(axis=1)
    found["low"], found["high"] = groups["low"][which, lowest], groups["high"][which, highest]
    found["low_step"] = np.where(some, groups["low_step"][which, lowest], 0)
    found["high_step"] = np.where(some, groups["high_step"][which, highest], 0)
    share = groups["count"] / np.maximum(found["count"], 1)[:, None]
    with np.errstate(invalid="ignore"):
        mean = np.where(groups["count"] > 0, groups["mean"] * share, 0.0).sum(axis=1)
    found["mean"] = np.where(some, mean, np.nan)
    return found


def cover(start: int, stop: int, *, size: int, most: int) -> list[Piece]:
    """Pieces that together stand for the points `[start, stop)` of a series of `size`, each once and in order.

    The finest level that needs no more than about `most` entries; finer ones at both ends, which it does not meet. The
    last point is always a piece of level 0, so that a curve ends with what was logged.
    """
    start, stop = max(0, start), min(stop, size)
    level = 0
    while level < TOP and (stop - start) // FAN**level > most:
        level += 1
    left: list[Piece] = []
    right: list[Piece] = []
    for at in range(level):  # what is not whole on the level above is taken from this one
        upper = FAN ** (at + 1)
        first, last = -(-start // upper) * upper, (stop - 1) // upper * upper
        if first >= last:
            level = at
            break
        unit = FAN**at
        left.append(Piece(at, start // unit, first // unit))
        right.append(Piece(at, last // unit, stop // unit))
        start, stop = first, last
    unit = FAN**level
    pieces = [*left, Piece(level, start // unit, stop // unit), *reversed(right)]
    return [piece for piece in pieces if piece.start < piece.stop]
