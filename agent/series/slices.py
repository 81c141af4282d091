"""Some rows of metrics by column, as they were logged. Stores and readers of files make them, exports write them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MetricTable:
    """What there is to export of a run: all names in the order in which they were first seen, then by name.

    `parts` are its attempts that logged anything, oldest first, and how many rows each has.
    """

    names: tuple[str, ...]
    parts: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        """Of all attempts."""
        return sum(count for _, count in self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """Rows that follow each other. `columns`: of each name the places of its rows within the slice, and its values.

    `at` are seconds since the epoch. A row that no column has was logged without values.
    """

    steps: Ints
    at: Floats
    columns: Mapping[str, tuple[Ints, Floats]]

    def __len__(self) -> int:
        """Rows."""
        return len(self.steps)

    def filled(self, name: str, missing: Any) -> list[Any]:
        """The column as a list, `missing` where a row does not have it."""
        if name not in self.columns:
            return [missing] * len(self)
        places, values = self.columns[name]
        if len(places) == len(self):
            found: list[Any] = values.tolist()
            return found
        found = [missing] * len(self)
        for place, value in zip(places.tolist(), values.tolist(), strict=True):
            found[place] = value
        return found


def cut(parts: Sequence[tuple[int, int]], size: int) -> list[tuple[int, int, int]]:
    """Attempt, first row and the row behind the last of slices of at most `size` rows that cover all `parts`."""
    return [(number, at, min(count, at + size)) for number, count in parts for at in range(0, count, size)]
