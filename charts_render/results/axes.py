"""Two free axes with their grid, ticks and names, for every picture that has a plane of points.

Owns how a plane looks; the kinds own what lies on it. Values far beyond an axis are marked at its edge.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from charts_render.curve import Floats
from charts_render.layout import NOTE, NOTE_ROW, TICK
from charts_render.lettering import ASCENT, DESCENT, Letters, shorten, width
from charts_render.placement import Box, Plot
from charts_render.results.part import RISE, Part
from charts_render.scale import Scale
from charts_render.scene import Dot, Pen
from charts_render.theme import LINE_PX

_Y_TICK_SPACE, _X_TICK_SPACE = 62.0, 95.0
_LABELS_MOST = 220.0
_EDGE_STEP = 14.0
_OVER = 20.0  # units that a tick's label may reach beyond the picture
_HIDDEN = 8.0  # cells of what is drawn that a name may lie on


@dataclass(frozen=True, slots=True, eq=False)
class Axes:
    """A plane in its place; `plot` remembers what texts may not hide."""

    part: Part
    x: Scale
    y: Scale
    plot: Plot

    @property
    def area(self) -> Box:
        """Where the data lie."""
        return self.plot.area

    @property
    def clip(self) -> Box:
        """A little more, so that a line along an edge keeps its width."""
        a = self.area
        return Box(a.x0 - LINE_PX, a.y0 - LINE_PX, a.x1 + LINE_PX, a.y1 + LINE_PX)

    def places(self, xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
        """Units of the picture; far beyond the edge is far enough for the drawing."""
        a = self.area
        across, up = np.clip(self.x.fractions(xs), -3.0, 4.0), np.clip(self.y.fractions(ys), -3.0, 4.0)
        return a.x0 + across * a.width, a.y0 + up * a.height

    def x_covers(self, xs: Floats) -> NDArray[np.bool_]:
        """Which lie on the x axis."""
        return (xs >= self.x.lo) & (xs <= self.x.hi)

    def y_covers(self, ys: Floats) -> NDArray[np.bool_]:
        """Which lie on the y axis."""
        return (ys >= self.y.lo) & (ys <= self.y.hi)

    def claim(self, text: str, letters: Letters, at: tuple[float, float], off: float) -> tuple[float, float] | None:
        """Left end and base for a text beside a point, where it hides the least; None where there is no room."""
        (x, y), wide, size = at, width(text, letters), letters.size_px
        rise = size * RISE
        spots = [
            (x + off, y - rise),
            (x - off - wide, y - rise),
            (x - wide / 2, y + off),
            (x - wide / 2, y - off - size),
        ]
        near = off * 0.6
        spots += [(x - near - wide, y + near), (x + near, y + near)]
        spots += [(x + near, y - near - size * 0.72), (x - near - wide, y - near - size * 0.72)]
        boxes = [Box(a - 3, b - size * DESCENT, a + wide + 3, b + size * ASCENT) for a, b in spots]
        spot = self.plot.claim(boxes, most=_HIDDEN)
        return None if spot is None else (spot.x0 + 3, spot.y0 + size * DESCENT)

    def outside(self, item: int, xs: Floats, ys: Floats) -> int:
        """Triangles at the edge for points beyond it, infinite ones too; how many points they stand for."""
        lost = ~(np.isnan(xs) | np.isnan(ys)) & (
            (xs < self.x.lo) | (xs > self.x.hi) | (ys < self.y.lo) | (ys > self.y.hi)
        )
        if not lost.any():
            return 0
        a = self.area
        xs, ys = self.places(xs[lost], ys[lost])
        up, down = ys > a.y1 + 1e-6, ys < a.y0 - 1e-6
        right, left = (xs > a.x1 + 1e-6) & ~up & ~down, (xs < a.x0 - 1e-6) & ~up & ~down
        for where, shape in ((up, "^"), (down, "v"), (right, ">"), (left, "<")):
            if where.any():
                places = np.column_stack(
                    [np.clip(xs[where], a.x0 + 9, a.x1 - 9), np.clip(ys[where], a.y0 + 9, a.y1 - 9)]
                )
                places = np.unique(np.round(places / _EDGE_STEP) * _EDGE_STEP, axis=0)
                dot = Dot(shape, self.part.colour(item), self.part.palette.ground, 17.0, 1.5, 4.5)
                gid = self.part.gid("beyond", f"{item}{shape}")
                self.part.dots(places[:, 0], places[:, 1], dot, gid, self.clip)
        return int(lost.sum())


@dataclass(frozen=True, slots=True)
class Space:
    """What a plane may take: its height, the room it leaves at the right, the most of its own width."""

    height: float
    right: float = 24.0
    most_wide: float = 1e9


def draw_axes(
    part: Part,
    scales: tuple[Scale, Scale],
    names: tuple[str, str],
    space: Space,
    *,
    whole: bool = False,
    zero: bool = False,
    measured: tuple[bool, bool] = (True, True),
) -> Axes:
    """Names, grid and ticks of x and y below what the part has; leaves its depth below the x axis.

    `whole` keeps the ticks of x integers, `zero` stresses the level 0, `measured`
    says whether the ticks of x and of y mean anything; where they do not there are none.
    """
    height, right = space.height, space.right
    x, y = scales
    part.say(0, -part.depth - 26, shorten(names[1], NOTE, part.max_width - right), "y-name")
    part.depth += NOTE_ROW + 14 if names[1] else 12
    ticks = [] if not measured[1] else y.ticks(at_most=max(2, int(height / _Y_TICK_SPACE)))
    left = 0.0 if not ticks else min(max((width(text, TICK) for _, text in ticks), default=0.0), _LABELS_MOST) + 14
    wide = min(part.max_width - left - right, space.most_wide)
    area = Box(left, -part.depth - height, left + wide, -part.depth)
    look = part.palette
    for tick, text in ticks:
        level = area.y0 + y.fraction(tick) * height
        strong = zero and tick == 0
        pen = Pen(look.muted if strong else look.grid, 1.6, layer=0.9 if strong else 0.5)
        part.line([area.x0, area.x1], [level, level], pen, part.gid("grid"))
        part.say(area.x0 - 14, level - TICK.size_px * RISE, text, "y-tick", letters=TICK, align="right")
    axis = Pen(look.muted, 2.0, layer=1.0)
    if any(measured):
        part.line([area.x0, area.x1], [area.y0, area.y0], axis, part.gid("axis"))
    for tick, text in [] if not measured[0] else _x_ticks(x, wide, whole=whole):
        place = area.x0 + x.fraction(tick) * wide
        part.line([place, place], [area.y0, area.y0 - 7], axis, part.gid("x-tick-line"))
        half = width(text, TICK) / 2
        if place - half >= -_OVER and place + half <= part.max_width + _OVER:
            part.say(place, area.y0 - 38, text, "x-tick", letters=TICK, align="center")
    part.depth += height + (46 if measured[0] else 12)
    if names[0]:
        part.say((area.x0 + area.x1) / 2, -part.depth - 24, shorten(names[0], NOTE, wide), "x-name", align="center")
        part.depth += NOTE_ROW
    return Axes(part, x, y, Plot(area))


def draw_guide(axes: Axes, guide: Literal["", "zero", "rising"]) -> None:
    """A faint line along 0, or through equal values."""
    lo, hi = max(axes.x.lo, axes.y.lo), min(axes.x.hi, axes.y.hi)
    pen = Pen(axes.part.palette.muted, 2.4, (9.0, 8.0), 1.2)
    if guide == "rising" and lo < hi:
        places = axes.places(np.array([lo, hi]), np.array([lo, hi]))
        axes.part.line(*places, pen, axes.part.gid("guide"), axes.clip)
    elif guide == "zero":
        level = axes.places(np.zeros(1), np.zeros(1))[1][0]
        axes.part.line([axes.area.x0, axes.area.x1], [level, level], pen, axes.part.gid("guide"), axes.clip)


def _x_ticks(x: Scale, wide: float, *, whole: bool) -> list[tuple[float, str]]:
    for at_most in range(max(2, int(wide / _X_TICK_SPACE)), 1, -1):
        ticks = x.ticks(at_most=at_most, whole=whole)
        places = [(x.fraction(t) * wide, width(text, TICK) / 2) for t, text in ticks]
        if all(b - a > half + other + 16 for (a, half), (b, other) in pairwise(places)):
            return ticks
    return x.ticks(at_most=1, whole=whole)[:1]
