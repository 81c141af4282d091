"""Points over two free axes: residuals, a map of clusters, a metric against its cost.

A crowd is thinned to one point a spot. The names of groups stand on them where the groups lie apart, else above.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.domain.pictures import Points, Scatter
from charts_render.curve import LARGEST, Floats, floats
from charts_render.layout import NOTE
from charts_render.lettering import Letters, shorten, width
from charts_render.placement import Box
from charts_render.results.axes import Axes, Space, draw_axes, draw_guide
from charts_render.results.part import Key, Part
from charts_render.scale import Scale, free_scale
from charts_render.scene import Dot, Ink, Pen
from charts_render.theme import NOTE_PX, SHAPES, readable

MOST_GROUPS: Final = 8
_NAME = Letters(NOTE_PX, bold=True)
_HEIGHTS = {True: 520.0, False: 400.0}
_SIZES = ((60, 16.0), (400, 12.0), (2_000, 9.0), (1 << 62, 7.0))  # of a marker, up to so many points
_THINNED_FROM, _SPOT = 400, 4.0  # points, and units of a spot that one of them takes
_NAMED_POINTS = 14
_NAME_WIDTH = 240.0
_MOST_HIDDEN = 0.5  # of the points of a group


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """`x` and `y` without NaN, infinities kept; `names` belong to them."""

    points: Points
    x: Floats
    y: Floats
    names: tuple[str, ...]
    lost: int


def paint(part: Part, picture: Scatter) -> None:
    """Draw everything; groups are named in place where that can be done."""
    groups = [_group(points) for points in picture.groups[:MOST_GROUPS]]
    apart = len(groups) > 1 and not picture.guide and not picture.front
    if apart and all(g.x.size and g.points.name and not any(g.names) for g in groups):
        trial = Part(part.palette, part.index, part.max_width)
        if _paint(trial, picture, groups, in_place=True):
            part.place(trial, 0, 0)
            part.depth = trial.depth
            return
    _paint(part, picture, groups, in_place=False)


def _paint(part: Part, picture: Scatter, groups: list[_Group], *, in_place: bool) -> bool:
    """Whether every group got its name."""
    x = free_scale(_joined([g.x for g in groups]))
    y = free_scale(_joined([g.y for g in groups]), also=[0.0] if picture.guide == "zero" else [])
    part.head(picture.heading, _notes(picture, groups, x, y))
    if not in_place and (len(groups) > 1 or any(g.points.name for g in groups)):
        part.legend([Key(i, g.points.name, line=False) for i, g in enumerate(groups)])
    has_ticks = any(g.x.size for g in groups) and bool(
        picture.x_label or picture.y_label
    )  # a map's places mean nothing
    axes = draw_axes(
        part,
        (x, y),
        (picture.x_label, picture.y_label),
        Space(_HEIGHTS[part.wide]),
        zero=picture.guide == "zero",
        measured=(has_ticks, has_ticks),
    )
    draw_guide(axes, picture.guide)
    count = sum(g.x.size for g in groups)
    size = next(size for most, size in _SIZES if count <= most)
    for i, group in enumerate(groups):
        _dots(axes, i, group, size, front=bool(picture.front) and group.points.name == picture.front)
    _names(axes, picture, groups, size)
    if not count:
        middle = (axes.area.x0 + axes.area.x1) / 2, (axes.area.y0 + axes.area.y1) / 2
        part.say(*middle, "no points yet", "empty", align="center")
    return not in_place or _in_place(axes, groups)


def _group(points: Points) -> _Group:
    x, y = floats(points.x), floats(points.y)
    placed = ~(np.isnan(x) | np.isnan(y))
    kept = tuple(name for name, keep in zip(points.names, placed, strict=True) if keep) if any(points.names) else ()
    return _Group(points, _held(x[placed]), _held(y[placed]), kept, int((~placed).sum()))


def _held(values: Floats) -> Floats:
    return np.where(np.isinf(values), values, np.clip(values, -LARGEST, LARGEST))


def _joined(values: list[Floats]) -> Floats:
    return np.concatenate(values) if values else np.empty(0)


def _notes(picture: Scatter, groups: list[_Group], x: Scale, y: Scale) -> list[str]:
    off = sum(int(((g.x < x.lo) | (g.x > x.hi) | (g.y < y.lo) | (g.y > y.hi)).sum()) for g in groups)
    counts = (
        (off, f"▲ {off:,} off scale"),
        (lost := sum(g.lost for g in groups), f"{lost:,} without a value"),
        (more := len(picture.groups) - len(groups), f"+{more:,} more groups"),
    )
    return [text for count, text in counts if count]


def _dots(axes: Axes, item: int, group: _Group, size: float, *, front: bool) -> None:
    part = axes.part
    xs, ys = axes.places(group.x, group.y)
    inside = axes.x_covers(group.x) & axes.y_covers(group.y)
    xs, ys = xs[inside], ys[inside]
    if front and xs.size:
        order = np.lexsort((ys, xs))
        across, up = np.repeat(xs[order], 2)[1:], np.repeat(ys[order], 2)[:-1]
        axes.plot.trace(across, up)
        part.line(across, up, Pen(part.colour(item), 3.5, layer=3.0), part.gid("front", item), axes.clip)
    if xs.size > _THINNED_FROM:
        spots = np.unique(np.round(np.column_stack([xs, ys]) / _SPOT), axis=0) * _SPOT
        xs, ys = spots[:, 0], spots[:, 1]
    if xs.size:
        edge = 1.6 if size > 9 else 0.8
        layer = 3.4 if front else 3.2 - item * 0.01
        dot = Dot(
            SHAPES[item % len(SHAPES)], part.colour(item), part.palette.ground, size + (4 if front else 0), edge, layer
        )
        part.dots(xs, ys, dot, part.gid("points", item), axes.clip)
        axes.plot.dot(xs, ys)
    axes.outside(item, group.x, group.y)


def _names(axes: Axes, picture: Scatter, groups: list[_Group], size: float) -> None:
    """Names of single points beside them, those of the front first, as long as there is room."""
    ranked = sorted(enumerate(groups), key=lambda pair: pair[1].points.name != picture.front)
    named = [(i, g, k) for i, g in ranked for k, name in enumerate(g.names) if name.strip()]
    inside = [(i, g, k) for i, g, k in named if axes.x.covers(g.x[k]) and axes.y.covers(g.y[k])]
    for i, group, k in inside[:_NAMED_POINTS]:
        text = shorten(group.names[k], NOTE, _NAME_WIDTH)
        xs, ys = axes.places(group.x[k : k + 1], group.y[k : k + 1])
        spot = axes.claim(text, NOTE, (float(xs[0]), float(ys[0])), size / 2 + 8)
        if spot is not None:
            ink = Ink(NOTE, axes.part.palette.ink, backed=True)
            axes.part.text(*spot, text, ink, axes.part.gid("point-name", f"{i}-{k}"))


def _in_place(axes: Axes, groups: list[_Group]) -> bool:
    """Write each group's name over its middle; False where two would meet, or names hide most points of a group."""
    part = axes.part
    chips: list[Box] = []
    for i, group in enumerate(groups):
        text = shorten(group.points.name, _NAME, _NAME_WIDTH)
        xs, ys = axes.places(group.x, group.y)
        wide, a = width(text, _NAME), axes.area
        x = float(np.clip(np.median(xs) - wide / 2, a.x0 + 8, max(a.x1 - wide - 8, a.x0 + 8)))
        base = float(np.clip(np.median(ys) - 9, a.y0 + 10, a.y1 - 30))
        box = Box(x - 4, base - 11, x + wide + 4, base + 29)
        if any(box.meets(other) for other in axes.plot.texts) or wide > a.width:
            return False
        axes.plot.texts.append(box)
        chips.append(Box(box.x0 - 4, base - 11, box.x1 + 4, base + 29))
        part.rect(chips[-1], part.colour(i), 5.0, part.gid("group-chip", i))
        part.text(x, base, text, Ink(_NAME, readable(part.colour(i), part.palette)), part.gid("group-name", i))
    return all(_hidden(*axes.places(group.x, group.y), chips) <= _MOST_HIDDEN for group in groups)


def _hidden(xs: Floats, ys: Floats, chips: Sequence[Box]) -> float:
    """Which share of some points lies under chips."""
    under = [(xs >= chip.x0) & (xs <= chip.x1) & (ys >= chip.y0) & (ys <= chip.y1) for chip in chips]
    return float(np.any(under, axis=0).mean())
