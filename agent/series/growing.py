"""Series in memory with the same pyramid as in the database: rows are added, windows are read in O(what is shown).

For what has no database: a file that is charted. Pure.
"""

from typing import Final

import numpy as np

from agent.series.columns import BLOCK, POINT, Entries
from agent.series.pyramid import Block, cover, grow
from agent.series.slices import Slice
from agent.series.window import Window, window

_ENDLESS: Final = 2**62


class Growing:
    """All series of one file, in the order of their rows."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.rows = 0
        self._levels: dict[str, list[list[Entries]]] = {}  # of each name and level the blocks
        self._ends: dict[str, list[tuple[int, int]]] = {}  # lowest and highest step of each block of points

    def add(self, rows: Slice) -> None:
        """Rows behind those that are there."""
        for name, (places, values) in rows.columns.items():
            points = np.empty(len(places), dtype=POINT)
            points["row"], points["step"] = places + self.rows, rows.steps[places]
            points["at"], points["value"] = rows.at[places], values
            self._append(name, points)
        self.rows += len(rows)

    def _append(self, name: str, points: Entries) -> None:
        levels, ends = self._levels.setdefault(name, []), self._ends.setdefault(name, [])
        newest = {n: Block(n, len(blocks) - 1, blocks[-1]) for n, blocks in enumerate(levels)}
        for block in grow(newest, points):
            if block.level == len(levels):
                levels.append([])
            levels[block.level][block.number :] = [block.entries]
            if block.level == 0:
                steps = block.entries["step"]
                ends[block.number :] = [(int(steps.min()), int(steps.max()))]

    @property
    def names(self) -> list[str]:
        """In the order in which they were first seen."""
        return list(self._levels)

    @property
    def last_step(self) -> int:
        """The highest step; 0 without any."""
        return max((high for ends in self._ends.values() for _, high in ends), default=0)

    def window(self, name: str, low: int = -_ENDLESS, high: int = _ENDLESS, *, most: int = 8192) -> Window:
        """Steps `low` to `high`, both included, in at most about `most` spans."""
        levels, ends = self._levels[name], self._ends[name]
        met = [number for number, (first, last) in enumerate(ends) if last >= low and first <= high]
        if not met:
            return window(name, [])
        size = (len(ends) - 1) * BLOCK + len(levels[0][-1])
        start, stop = met[0] * BLOCK, min(size, (met[-1] + 1) * BLOCK)
        if any(ends[number][0] < low or ends[number][1] > high for number in met):
            begin, end = (self._inside(levels[0][number], low, high) for number in (met[0], met[-1]))
            start += int(begin[0]) if len(begin) else 0
            stop = met[-1] * BLOCK + int(end[-1]) + 1 if len(end) else stop
        parts = []
        for piece in cover(start, stop, size=size, most=most):
            for number in range(piece.start // BLOCK, (piece.stop - 1) // BLOCK + 1):
                at = number * BLOCK
                entries = levels[piece.level][number][max(0, piece.start - at) : piece.stop - at]
                parts.append(entries[self._inside(entries, low, high)])
        return window(name, parts)

    @staticmethod
    def _inside(entries: Entries, low: int, high: int) -> Entries:
        first, last = ("step", "step") if entries.dtype == POINT else ("first", "last")
        found: Entries = np.flatnonzero((entries[last] >= low) & (entries[first] <= high))
        return found
