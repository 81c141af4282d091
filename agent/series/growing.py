"""Series in memory with the same pyramid as in the database: rows are added, windows are read in O(what is shown).

For what has no database: a file that is charted. Where steps of a series go back, training went on from there: as with
attempts, what was trained anew is shown as the later pass left it. Pure.
"""

from typing import Final

import numpy as np

from agent.series.columns import BLOCK, POINT, Entries
from agent.series.pyramid import Block, cover, grow
from agent.series.slices import Slice
from agent.series.window import Window, window

_ENDLESS: Final = 2**62


class _Pass:
    """Points of one series whose steps do not fall."""

    def __init__(self) -> None:
        self.levels: list[list[Entries]] = []  # of each level the blocks
        self.ends: list[tuple[int, int]] = []  # lowest and highest step of each block of points

    def append(self, points: Entries) -> None:
        newest = {n: Block(n, len(blocks) - 1, blocks[-1]) for n, blocks in enumerate(self.levels)}
        for block in grow(newest, points):
            if block.level == len(self.levels):
                self.levels.append([])
            self.levels[block.level][block.number :] = [block.entries]
            if block.level == 0:
                steps = block.entries["step"]
                self.ends[block.number :] = [(int(steps[0]), int(steps[-1]))]

    def parts(self, low: int, high: int, most: int) -> list[Entries]:
        """What lies between two steps, both included, in at most about `most` entries."""
        met = [number for number, (first, last) in enumerate(self.ends) if last >= low and first <= high]
        if not met:
            return []
        size = (len(self.ends) - 1) * BLOCK + len(self.levels[0][-1])
        start, stop = met[0] * BLOCK, min(size, (met[-1] + 1) * BLOCK)
        if any(self.ends[number][0] < low or self.ends[number][1] > high for number in met):
            begin, end = (_inside(self.levels[0][number], low, high) for number in (met[0], met[-1]))
            start += int(begin[0]) if len(begin) else 0
            stop = met[-1] * BLOCK + int(end[-1]) + 1 if len(end) else stop
        parts = []
        for piece in cover(start, stop, size=size, most=most):
            for number in range(piece.start // BLOCK, (piece.stop - 1) // BLOCK + 1):
                at = number * BLOCK
                entries = self.levels[piece.level][number][max(0, piece.start - at) : piece.stop - at]
                parts.append(entries[_inside(entries, low, high)])
        return parts


class Growing:
    """All series of one file, in the order of their rows."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.rows = 0
        self._passes: dict[str, list[_Pass]] = {}  # of each name, each from a higher step on than the one before

    def add(self, rows: Slice) -> None:
        """Rows behind those that are there."""
        for name, (places, values) in rows.columns.items():
            points = np.empty(len(places), dtype=POINT)
            points["row"], points["step"] = places + self.rows, rows.steps[places]
            points["at"], points["value"] = rows.at[places], values
            falls = np.flatnonzero(np.diff(points["step"]) < 0) + 1
            for part in np.split(points, falls):
                self._append(name, part)
        self.rows += len(rows)

    def _append(self, name: str, points: Entries) -> None:
        passes = self._passes.setdefault(name, [])
        first = int(points["step"][0]) if len(points) else _ENDLESS
        if passes and passes[-1].ends and first < passes[-1].ends[-1][1]:
            while passes and passes[-1].ends[0][0] >= first:
                passes.pop()
            passes.append(_Pass())
        elif not passes:
            passes.append(_Pass())
        passes[-1].append(points)

    @property
    def names(self) -> list[str]:
        """In the order in which they were first seen."""
        return list(self._passes)

    @property
    def last_step(self) -> int:
        """The highest step that counts; 0 without any."""
        return max((passes[-1].ends[-1][1] for passes in self._passes.values() if passes[-1].ends), default=0)

    def began_anew(self, name: str) -> tuple[int, ...]:
        """The steps behind which it was trained anew."""
        return tuple(one.ends[0][0] - 1 for one in self._passes[name][1:])

    def window(self, name: str, low: int = -_ENDLESS, high: int = _ENDLESS, *, most: int = 8192) -> Window:
        """Steps `low` to `high`, both included, in at most about `most` spans of each pass."""
        passes = self._passes[name]
        last = [*self.began_anew(name), _ENDLESS]
        found = [one.parts(low, min(high, until), most) for one, until in zip(passes, last, strict=True)]
        return window(name, [part for parts in found for part in parts])


def _inside(entries: Entries, low: int, high: int) -> Entries:
    first, last = ("step", "step") if entries.dtype == POINT else ("first", "last")
    found: Entries = np.flatnonzero((entries[last] >= low) & (entries[first] <= high))
    return found
