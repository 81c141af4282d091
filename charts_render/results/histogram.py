"""Counts between edges, as bars from zero for one group, as outlined steps for a few."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.domain.pictures import Histogram
from charts_render.curve import LARGEST, Floats, floats
from charts_render.results.axes import Axes, Space, draw_axes
from charts_render.results.part import Key, Part
from charts_render.results.values import counted
from charts_render.scale import Scale, free_scale
from charts_render.scene import Pen
from charts_render.theme import LINE_PX, MARKER_PX, blend

MOST_GROUPS: Final = 4
_HEIGHTS = {True: 400.0, False: 340.0}
_GAP, _GAP_FROM = 1.5, 7.0  # units cut off a bar on each side, of bars at least so wide
_FAINT = 2 / 9
_MARKED = (0.15, 0.5, 0.8, 0.95)  # of a group's counts, where its markers are
_EVEN = 1e-6  # of a width, by which bins may differ and still count as equal
_SPACE_ABOVE = 1.06
_ALIKE = 1.2  # groups whose sizes differ by less are compared by count
_LEAST = 1e-290  # a smaller count cannot be told from none


@dataclass(frozen=True, slots=True, eq=False)
class _Bins:
    """`low` and `high` edges of shape (bins,), `counts` of shape (groups, bins); what has no width is left out.

    Where `shares`, counts are percents of their group: groups differ in size, and a small one would hardly be seen.
    """

    low: Floats
    high: Floats
    counts: Floats
    left_out: int
    bad: int  # counts that are none
    shares: bool

    @property
    def even(self) -> bool:
        """Whether all bins are as wide."""
        widths = self.high - self.low
        return widths.size == 0 or float(np.ptp(widths)) <= _EVEN * float(widths.max())


def paint(part: Part, histogram: Histogram) -> None:
    """Draw everything."""
    groups = histogram.groups[:MOST_GROUPS]
    bins = _bins(histogram)
    part.head(histogram.heading, _notes(histogram, bins), histogram.unit)
    many = len(groups) > 1
    if many:
        part.legend([Key(i, group.name) for i, group in enumerate(groups)])
    if not bins.low.size or not groups:
        part.empty()
        return
    top = float(bins.counts.max()) * _SPACE_ABOVE
    x = free_scale(np.append(bins.low, bins.high[-1:]), (float(bins.low.min()), float(bins.high.max())))
    y = Scale(0.0, top if top > _LEAST else 1.0)
    axes = draw_axes(part, (x, y), (histogram.x_label, ""), Space(_HEIGHTS[part.wide]))
    for i in range(len(groups)):
        _steps(axes, i, bins) if many else _columns(axes, bins)
    if not top > _LEAST:
        middle = (axes.area.x0 + axes.area.x1) / 2, (axes.area.y0 + axes.area.y1) / 2
        part.say(*middle, "no values yet", "empty", align="center")


def _bins(histogram: Histogram) -> _Bins:
    edges = np.clip(floats(histogram.edges), -LARGEST, LARGEST)
    low, high = edges[:-1], edges[1:]
    sound = high > low  # beyond what an axis can hold there is no width
    groups = histogram.groups[:MOST_GROUPS]
    counts = np.array([counted(group.values) for group in groups]).reshape(len(groups), low.size)
    given = floats([count for group in groups for count in group.values])
    bad = int((~(np.isfinite(given) & (given >= 0))).sum())
    counts = counts[:, sound]
    sizes = counts.sum(axis=1, keepdims=True)
    shares = bool((sizes > 0).sum() > 1 and sizes.max() > _ALIKE * sizes[sizes > 0].min())
    if shares:
        counts = 100 * (counts / np.where(sizes > 0, sizes, 1.0))
    return _Bins(low[sound], high[sound], counts, int((~sound).sum()), bad, shares)


def _notes(histogram: Histogram, bins: _Bins) -> list[str]:
    groups = histogram.groups[:MOST_GROUPS]
    notes = [f"{group.name or 'group'}: none" for group, row in zip(groups, bins.counts, strict=True) if not row.any()]
    notes = notes if len(groups) > 1 and bins.low.size else []
    if bins.shares:
        notes.append("% of each group")
    if not bins.even:
        notes.append("bins of unequal width")
    if bins.left_out:
        notes.append(f"{bins.left_out:,} bins without a width left out")
    if bins.bad:
        notes.append(f"{bins.bad:,} counts missing")
    if len(histogram.groups) > len(groups):
        notes.append(f"+{len(histogram.groups) - len(groups):,} more groups")
    return notes


def _columns(axes: Axes, bins: _Bins) -> None:
    """Bars that touch the axis, with gaps between them where they are wide enough."""
    part = axes.part
    low, heights = axes.places(bins.low, bins.counts[0])
    high = axes.places(bins.high, bins.counts[0])[0]
    cut = _GAP if float(np.median(high - low)) >= _GAP_FROM else 0.0
    for i in np.flatnonzero(bins.counts[0] > 0):
        edges = np.array([low[i] + cut, max(high[i] - cut, low[i] + cut + 1)])
        level = np.array([max(heights[i], axes.area.y0 + 2)])  # a single count is seen beside thousands
        part.area(edges, np.array([axes.area.y0]), level, part.colour(0), 1.5, part.gid("bar", int(i)))


def _steps(axes: Axes, item: int, bins: _Bins) -> None:
    """The outline of a group over its faint area, with a few markers."""
    part, counts = axes.part, bins.counts[item]
    if not counts.any():
        return
    low, heights = axes.places(bins.low, counts)
    high = axes.places(bins.high, counts)[0]
    xs = np.column_stack([low, high]).ravel()
    ys = np.repeat(heights, 2)
    floor = np.full(1, axes.area.y0)
    outline = np.concatenate([xs[:1], xs, xs[-1:]]), np.concatenate([floor, ys, floor])
    shade = blend(part.colour(item), part.palette.ground, _FAINT)
    part.fill(*outline, shade, 1.0 + item * 0.01, part.gid("shade", item), axes.clip)
    part.line(*outline, Pen(part.colour(item), LINE_PX * 0.8, layer=2.0), part.gid("outline", item), axes.clip)
    at = np.unique(np.searchsorted(counts.cumsum(), counts.sum() * np.array(_MARKED)))
    dot = part.dot(item, size=MARKER_PX)
    part.dots((low[at] + high[at]) / 2, heights[at], dot, part.gid("markers", item), axes.clip)
