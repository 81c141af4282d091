"""Where labels go: a column of labels without collisions, and free spots beside the lines.

Pure geometry in pixels, y upwards. Knows boxes and points, not what they stand for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from charts_render.curve import Floats

_CELL_PX = 6.0
_TEXT_COST = 1e6


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, y upwards."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        """Pixels."""
        return self.x1 - self.x0

    @property
    def height(self) -> float:
        """Pixels."""
        return self.y1 - self.y0

    def meets(self, other: "Box") -> bool:
        """Whether the two share more than an edge."""
        return self.x0 < other.x1 and other.x0 < self.x1 and self.y0 < other.y1 and other.y0 < self.y1

    def holds(self, other: "Box") -> bool:
        """Whether the other lies inside."""
        return self.x0 <= other.x0 and other.x1 <= self.x1 and self.y0 <= other.y0 and other.y1 <= self.y1


def spread(wanted: Sequence[float], *, pitch: float, lo: float, hi: float) -> list[float]:
    """Positions as near to the wanted ones as possible, at least `pitch` apart, in the same order, within `[lo, hi]`.

    Least squares by pooling neighbours. More labels than fit are pressed together evenly.
    """
    if not wanted:
        return []
    pitch = min(pitch, (hi - lo) / max(len(wanted) - 1, 1))
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    pools: list[list[float]] = []  # [sum, count] of the shifted positions
    for rank, i in enumerate(order):
        pools.append([wanted[i] - rank * pitch, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1] = [pools[-1][0] + total, pools[-1][1] + count]
    flat = [total / count for total, count in pools for _ in range(int(count))]
    highest = hi - (len(wanted) - 1) * pitch
    placed = [0.0] * len(wanted)
    for rank, i in enumerate(order):
        placed[i] = min(max(flat[rank], lo), highest) + rank * pitch
    return placed


@dataclass(slots=True)
class Plot:
    """The area of one plot, what is drawn there already, and where a text still fits."""

    area: Box
    texts: list[Box] = field(default_factory=list)
    _ink: Floats = field(init=False)

    def __post_init__(self) -> None:
        """An empty grid of cells."""
        self._ink = np.zeros((int(self.area.height / _CELL_PX) + 1, int(self.area.width / _CELL_PX) + 1))

    def trace(self, xs: Floats, ys: Floats) -> None:
        """Remember a line; NaN breaks it."""
        along = np.linspace(0.0, 1.0, 9)
        if xs.size > 1:
            xs = (xs[:-1, None] + np.diff(xs)[:, None] * along).ravel()
            ys = (ys[:-1, None] + np.diff(ys)[:, None] * along).ravel()
        self.dot(xs, ys, weight=1.0)

    def dot(self, xs: Floats, ys: Floats, *, weight: float = 4.0) -> None:
        """Remember points; a text that hides one hides as much as `weight` cells of a line."""
        rows, columns = (ys - self.area.y0) / _CELL_PX, (xs - self.area.x0) / _CELL_PX
        inside = (rows >= 0) & (rows < self._ink.shape[0]) & (columns >= 0) & (columns < self._ink.shape[1])
        self._ink[rows[inside].astype(int), columns[inside].astype(int)] = weight

    def claim(self, spots: Iterable[Box], *, most: float = _TEXT_COST) -> Box | None:
        """The spot that hides the least, earlier ones first; None where every spot would meet another text.

        `most` is how many cells of what is drawn it may hide.
        """
        best, cost = None, most
        for rank, spot in enumerate(spots):
            price = self._price(spot) + 0.5 * rank
            if price < cost:
                best, cost = spot, price
        if best is not None:
            self.texts.append(best)
        return best

    def _price(self, spot: Box) -> float:
        if not self.area.holds(spot) or any(spot.meets(text) for text in self.texts):
            return _TEXT_COST
        rows = slice(int((spot.y0 - self.area.y0) / _CELL_PX), int((spot.y1 - self.area.y0) / _CELL_PX) + 1)
        columns = slice(int((spot.x0 - self.area.x0) / _CELL_PX), int((spot.x1 - self.area.x0) / _CELL_PX) + 1)
        return float(self._ink[rows, columns].sum())
