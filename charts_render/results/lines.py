"""Lines over two free axes: ROC, precision over recall, calibration, a forecast with its intervals.

Lines go through their points in the order given. Names stand beside the plane, at the lines' ends or above it,
wherever there is room; a marker shape repeats what the colour says.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from agent.domain.pictures import Line, Lines
from charts_render.curve import Floats, bounded, finite_runs, floats
from charts_render.layout import END_GAP, NOTE, SWATCH
from charts_render.lettering import Letters, pitch, shorten, width
from charts_render.placement import spread
from charts_render.results.axes import Axes, Space, draw_axes, draw_guide
from charts_render.results.part import RISE, Key, Part
from charts_render.scale import Scale, free_scale
from charts_render.scene import Ink, Pen
from charts_render.theme import LINE_PX, MARKER_PX, NOTE_PX, blend

MOST_LINES: Final = 8
_NAME = Letters(NOTE_PX, bold=True)
_SPARSE = 4
_SQUARE = 610.0  # units of the side of a plane with a name column beside it
_HEIGHTS = {True: 460.0, False: 400.0}  # with a row of its own, and with half of one
_WIDE_END, _NARROW_END = 330.0, 170.0
_NEAR_END = 0.12  # of the axis: a line that ends nearer can be named at its end
_BAND = 2 / 9
_FEW_DOTS = 60


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    """A line made safe: places finite or NaN, all of one length; `low` and `high` are empty without an interval."""

    line: Line
    x: Floats
    y: Floats
    low: Floats
    high: Floats
    lost: int  # points without a place, or an infinite one

    @property
    def last(self) -> int:
        """Of the last point; -1 without any."""
        seen = np.flatnonzero(np.isfinite(self.y))
        return int(seen[-1]) if seen.size else -1


def paint(part: Part, picture: Lines) -> None:
    """Draw everything."""
    paths = [_path(line) for line in picture.lines[:MOST_LINES]]
    x = free_scale(_joined([p.x for p in paths]), picture.x_range, also=_since(picture), pad=False)
    moments = enumerate(picture.moments, picture.first)
    x = replace(x, named=[(place, name) for place, name in moments if x.covers(place)])
    level = [0.0] if picture.guide == "zero" else []
    y = free_scale(_joined([v for p in paths for v in (p.y, p.low, p.high)]), picture.y_range, also=level)
    square = picture.x_range is not None and picture.x_range == picture.y_range
    beside = square and part.wide
    ends = [] if square else _ends(part, paths, x)
    part.head(picture.heading, _notes(picture, paths, x, y))
    keys = [Key(i, p.line.name, p.line.note) for i, p in enumerate(paths)]
    named = len(keys) > 1 or any(key.name or key.note for key in keys)
    if named and not beside and not ends:
        part.legend(keys)
    right = max((width(text, _NAME) for text in ends), default=0.0) + END_GAP if ends else 24.0
    height = _SQUARE if beside else _HEIGHTS[part.wide]
    most_wide = _SQUARE if beside else 1e9
    top = part.depth
    has_any = any(path.last >= 0 for path in paths)
    seen = has_any or picture.x_range is not None, has_any or picture.y_range is not None
    axes = draw_axes(part, (x, y), (picture.x_label, picture.y_label), Space(height, right, most_wide), measured=seen)
    draw_guide(axes, picture.guide)
    _draw_since(axes, picture.since)
    for i, path in enumerate(paths):
        _draw(axes, i, path, alone=len(paths) == 1)
    if named and beside:
        _column(part, keys, axes.area.x1 + 50, -top - 60)
    _draw_ends(axes, paths, ends)
    if not has_any:
        middle = (axes.area.x0 + axes.area.x1) / 2, (axes.area.y0 + axes.area.y1) / 2
        part.say(*middle, "no values yet", "empty", align="center")


def _path(line: Line) -> _Path:
    ranged = bool(line.low)
    x, *values = (floats(v) for v in (line.x, line.y, *((line.low, line.high) if ranged else ())))
    placed = np.isfinite(x)
    lost = int((~placed).sum()) + int(np.isinf(values[0][placed]).sum())
    x, values = np.clip(x[placed], -1e300, 1e300), [bounded(v[placed]) for v in values]
    low, high = values[1:] if ranged else (x[:0], x[:0])
    return _Path(line, x, values[0], np.fmin(low, high), np.fmax(low, high), lost)


def _joined(values: list[Floats]) -> Floats:
    return np.concatenate(values) if values else np.empty(0)


def _since(picture: Lines) -> list[float]:
    return [] if picture.since is None else [picture.since]


def _ends(part: Part, paths: list[_Path], x: Scale) -> list[str]:
    """The texts at the lines' ends, none where a line ends elsewhere or there is no room."""
    texts = [Key(0, p.line.name, p.line.note).text if p.line.name or p.line.note else "" for p in paths]
    max_width = _WIDE_END if part.wide else _NARROW_END
    if len(paths) < 2 or any(not text or width(text, _NAME) > max_width for text in texts):
        return []
    if any(p.last < 0 or x.fraction(p.x[p.last]) < 1 - _NEAR_END for p in paths):
        return []
    return [shorten(text, _NAME, max_width) for text in texts]


def _notes(picture: Lines, paths: list[_Path], x: Scale, y: Scale) -> list[str]:
    notes = []
    if any(path.low.size for path in paths):
        notes.append("band: interval")
    off = sum(
        int((np.isfinite(p.y) & ((p.x < x.lo) | (p.x > x.hi) | (p.y < y.lo) | (p.y > y.hi))).sum()) for p in paths
    )
    lost = sum(path.lost for path in paths)
    counts = ((off, f"{off:,} off scale"), (lost, f"{lost:,} infinite or without a place"))
    notes += [text for count, text in counts if count]
    if len(picture.lines) > len(paths):
        notes.append(f"+{len(picture.lines) - len(paths):,} more lines")
    return notes


def _draw_since(axes: Axes, since: float | None) -> None:
    """A vertical line where the forecast begins."""
    area, look = axes.area, axes.part.palette
    if since is not None and axes.x.covers(since):
        place = area.x0 + axes.x.fraction(since) * area.width
        pen = Pen(look.muted, 2.0, (2.5, 6.0), 1.2)
        axes.part.line([place, place], [area.y0, area.y1], pen, axes.part.gid("since"))
        if area.x1 - place > width("forecast →", NOTE) + 16:
            ink = Ink(NOTE, look.muted, backed=True)
            axes.part.text(place + 10, area.y1 - 26, "forecast →", ink, axes.part.gid("since-name"))


def _draw(axes: Axes, item: int, path: _Path, *, alone: bool) -> None:
    """The interval, the line, its markers, and what lies beyond the edge."""
    part = axes.part
    colour, clip = part.colour(item), axes.clip
    if path.low.size:
        xs, low = axes.places(path.x, path.low)
        high = axes.places(path.x, path.high)[1]
        for first, last in finite_runs(low + high):
            keep = slice(first, last)
            outline = np.append(xs[keep], xs[keep][::-1]), np.append(high[keep], low[keep][::-1])
            shade = blend(colour, part.palette.ground, _BAND)
            part.fill(*outline, shade, 1.4 - item * 0.01, part.gid("band", f"{item}-{first}"), clip)
    xs, ys = axes.places(path.x, path.y)
    part.line(xs, ys, Pen(colour, LINE_PX, layer=3.0 - item * 0.01), part.gid("line", item), clip)
    axes.plot.trace(xs, ys)
    seen = np.flatnonzero(np.isfinite(ys))
    runs = finite_runs(ys)
    lone = [first for first, last in runs if last - first == 1]
    if path.line.dots and seen.size <= _FEW_DOTS:
        part.dots(xs[seen], ys[seen], part.dot(item, size=MARKER_PX + 3), part.gid("dots", item), clip)
    elif lone:
        part.dots(xs[lone], ys[lone], part.dot(item, size=MARKER_PX + 2), part.gid("lone", item), clip)
    if not alone and seen.size > 1 and not path.line.dots:
        steps = np.hypot(np.diff(xs[seen]), np.diff(ys[seen])).cumsum()
        aims = steps[-1] * (np.arange(_SPARSE) + (0.3 + 0.37 * item) % 1.0) / _SPARSE
        at = np.unique(seen[np.clip(np.searchsorted(steps, aims), 0, seen.size - 1)])
        part.dots(xs[at], ys[at], part.dot(item), part.gid("markers", item), clip)
    axes.outside(item, path.x, path.y)


def _column(part: Part, keys: list[Key], x: float, base: float) -> None:
    """Names and notes below each other, beside the plane."""
    max_width = part.max_width - x - SWATCH
    for key in keys:
        part.key(key, x, base, shorten(key.name or "unnamed", NOTE, max_width))
        if key.note:
            part.say(x + SWATCH, base - 36, shorten(key.note, NOTE, max_width), f"legend-note:{key.item}")
        base -= 86 if key.note else 48


def _draw_ends(axes: Axes, paths: list[_Path], texts: list[str]) -> None:
    """Names at the right, moved apart where they would meet, with a lead to the line's last point."""
    if not texts:
        return
    part, area, rise = axes.part, axes.area, NOTE_PX * RISE
    tips = [axes.places(p.x[p.last : p.last + 1], p.y[p.last : p.last + 1]) for p in paths]
    heights = [float(np.clip(y[0], area.y0, area.y1)) for _, y in tips]
    apart = pitch(texts, _NAME, least=NOTE_PX * 1.2)
    levels = spread(heights, pitch=apart, lo=area.y0 + rise, hi=area.y1 - rise)
    for i, ((xs, _), y, level, text) in enumerate(zip(tips, heights, levels, texts, strict=True)):
        x = float(np.clip(xs[0], area.x0, area.x1))
        if abs(level - y) > NOTE_PX * 0.4 or area.x1 - x > 24:
            lead = [x + 9, max(area.x1 + 4, x + 9), area.x1 + END_GAP - 6]
            part.line(lead, [y, y, level], Pen(part.colour(i), 1.6, (3.0, 4.0), 2.5), part.gid("lead", i))
        part.dots([x], [y], part.dot(i, size=MARKER_PX + 2, layer=4.0), part.gid("end", i))
        part.text(area.x1 + END_GAP, level - rise, text, Ink(_NAME, part.colour(i)), part.gid("end-name", i))
