"""Draws one panel into its frame: grid, marks, baselines, curves, labels.

Knows the sheet and the frame; chooses neither content nor places of frames.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from charts_render.canvas import Sheet
from charts_render.curve import Curve, Floats, decimate, finite_runs
from charts_render.layout import END_GAP, NOTE, SWATCH, TICK, Entry, Frame
from charts_render.lettering import ASCENT, DESCENT, Letters, plain, shorten, width
from charts_render.numerals import value_text
from charts_render.placement import Box, Plot, spread
from charts_render.plan import VALUE_LETTERS, VALUE_RISE
from charts_render.scale import Scale
from charts_render.scene import Align, Dot, Ink, Pen
from charts_render.theme import DASHES, HEADING_PX, LINE_PX, MARKER_PX, NOTE_PX, SHAPES, VALUE_PX, blend

_COLUMN = 2.0  # units of width that decimation keeps apart
_X_TICK_SPACE = 95.0
_SPARSE = 5  # markers along a curve, to tell it from the others without colour
_MARKS_SHOWN = 60
_MARK_NAME_WIDTH = 190.0
_CROWD = 60  # lone points that are drawn large
_SOFT, _SOFT_PX = 4 / 9, 3.0  # of the colour and its width, for all values behind their average


@dataclass(slots=True)
class PanelPainter:
    """One panel on its way to the sheet."""

    sheet: Sheet
    frame: Frame
    x: Scale
    plot: Plot

    def paint(self, *, whole_steps: bool) -> None:
        """Everything, from the back to the front."""
        self._heading()
        self._grid(whole_steps=whole_steps)
        self._marks()
        self._baselines()
        for i, curve in enumerate(self.frame.plan.curves):
            self._curve(i, curve)
            self._beyond(i, curve)
        self._ends()
        self._bests()
        self._baseline_names()
        if self.frame.plan.empty:
            self._nothing_yet()

    def _gid(self, what: str, item: int | str = "") -> str:
        return f"{what}:{self.frame.plan.index}" + (f":{item}" if item != "" else "")

    def _text(self, x: float, base: float, text: str, what: str, *, align: Align = "left") -> None:
        letters = TICK if what in {"x-tick", "y-tick"} else NOTE
        self.sheet.text(x, base, text, Ink(letters, self.sheet.palette.muted, align), self._gid(what))

    def _colour(self, i: int) -> str:
        return self.sheet.palette.lines[self.frame.plan.tones[i]]

    def _shape(self, i: int) -> str:
        return SHAPES[self.frame.plan.tones[i]] if self.frame.plan.keyed else "o"

    def _dash(self, i: int) -> tuple[float, ...]:
        return DASHES[self.frame.plan.tones[i]] if self.frame.plan.keyed else ()

    def _at(self, x: float, y: float) -> tuple[float, float]:
        area = self.plot.area
        return area.x0 + self.x.fraction(x) * area.width, area.y0 + self.frame.plan.y.fraction(y) * area.height

    def _heading(self) -> None:
        frame, look = self.frame, self.sheet.palette
        title = Ink(Letters(HEADING_PX, bold=True), look.ink)
        self.sheet.text(frame.heading.x, frame.heading.base, frame.heading.text, title, self._gid("heading"))
        for line, what in [(frame.unit, "unit"), *[(note, "note") for note in frame.notes]]:
            self._text(line.x, line.base, line.text, what)
        for entry in frame.legend:
            legend_entry(self.sheet, entry, frame.plan.tones[entry.curve], of=frame.plan.index)

    def _grid(self, *, whole_steps: bool) -> None:
        area, look, y = self.plot.area, self.sheet.palette, self.frame.plan.y
        for tick, text in self.frame.ticks:
            level = area.y0 + y.fraction(tick) * area.height
            self.sheet.line([area.x0, area.x1], [level, level], Pen(look.grid, 1.6, layer=0.5), self._gid("grid"))
            self._text(area.x0 - 14, level - TICK.size_px * 0.36, text, "y-tick", align="right")
        axis = Pen(look.muted, 2.0, layer=1.0)
        self.sheet.line([area.x0, area.x1], [area.y0, area.y0], axis, self._gid("axis"))
        for tick, text in self._x_ticks(whole=whole_steps):
            x = area.x0 + self.x.fraction(tick) * area.width
            self.sheet.line([x, x], [area.y0, area.y0 - 7], axis, self._gid("x-tick-line"))
            if self.frame.has_x_ticks:
                self._text(x, area.y0 - 38, text, "x-tick", align="center")

    def _x_ticks(self, *, whole: bool) -> list[tuple[float, str]]:
        area = self.plot.area
        for at_most in range(max(2, int(area.width / _X_TICK_SPACE)), 1, -1):
            ticks = self.x.ticks(at_most=at_most, whole=whole)
            places = [(self.x.fraction(t) * area.width, width(text, TICK) / 2) for t, text in ticks]
            if all(b - a > half + other + 16 for (a, half), (b, other) in pairwise(places)):
                return ticks
        return self.x.ticks(at_most=1, whole=whole)[:1]

    def _marks(self) -> None:
        """Faint vertical lines. Names go from the latest back; one that would meet another is left out.

        A tick at the top of the y axis has its number beside the names: they begin to the right of it.
        """
        area, look, column = self.plot.area, self.sheet.palette, self.frame.column
        levels = [self.frame.plan.y.fraction(tick) for tick, _ in self.frame.ticks]
        first = area.x0 - 8 if max(levels, default=0.0) * area.height > area.height - 8 else -math.inf
        shown = sorted((m for m in self.frame.plan.panel.marks if self.x.covers(m.x)), key=lambda m: m.x)
        thinned = shown[:: -(-len(shown) // _MARKS_SHOWN)] if shown else []
        free, said = column[1], ""
        for i, mark in reversed(list(enumerate(thinned))):
            x = area.x0 + self.x.fraction(mark.x) * area.width
            self.sheet.line([x, x], [area.y0, area.y1 + 6], Pen(look.muted, 1.8, (2.5, 6.0), 1.2), self._gid("mark", i))
            name = shorten(mark.name, NOTE, _MARK_NAME_WIDTH)
            wide = width(name, NOTE)
            left = max(min(x - wide / 2, free - wide), min(first, free - wide))
            if self.frame.plan.names_marks and name != said and left >= max(column[0], first, x - wide - 4):
                self._text(left, area.y1 + 15, name, "mark-name")
                free, said = left - 16, name

    def _baselines(self) -> None:
        area = self.plot.area
        pen = Pen(self.sheet.palette.muted, 3.0, (11.0, 7.0), 1.5)
        for i, baseline in enumerate(self.frame.plan.baselines):
            if self.frame.plan.y.covers(baseline.value):
                level = self._at(0.0, baseline.value)[1]
                self.sheet.line([area.x0, area.x1], [level, level], pen, self._gid("baseline", i))

    def _curve(self, i: int, curve: Curve) -> None:
        """The line through all values, its lone points as dots.

        Where it is smoothed, or too dense and noisy to be followed, the average is a bold line before it.
        """
        area, average = self.plot.area, self.frame.plan.smooths[i] or self.frame.plan.trends[i]
        columns = max(8, int(area.width * min(self.sheet.scale, 2.0) / _COLUMN))
        xs, ys = self._places(*decimate(*curve.path, columns=columns))
        pen = Pen(self._colour(i), LINE_PX, self._dash(i), layer=3.0 - i * 0.01)
        if average is None:
            self._lone_dots(i, xs, ys)
            self.sheet.line(xs, ys, pen, self._gid("series", i), area)
        else:
            soft = blend(self._colour(i), self.sheet.palette.ground, _SOFT)
            self.sheet.line(xs, ys, Pen(soft, _SOFT_PX, layer=2.0 - i * 0.01), self._gid("raw", i), area)
            self.plot.trace(xs, ys)
            xs, ys = self._places(*decimate(*average, columns=columns))
            if self.frame.plan.smooths[i]:
                self._lone_dots(i, xs, ys)
            self.sheet.line(xs, ys, pen, self._gid("smooth" if self.frame.plan.smooths[i] else "mean", i), area)
        self.plot.trace(xs, ys)
        if self.frame.plan.keyed:
            dot = Dot(self._shape(i), self._colour(i), self.sheet.palette.ground, MARKER_PX, layer=3.2)
            self._sparse_dots(i, xs, ys, dot)

    def _places(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        area = self.plot.area
        ys = np.clip(self.frame.plan.y.fractions(y), -3.0, 4.0)  # far beyond the edge is far enough for the drawing
        return area.x0 + self.x.fractions(x) * area.width, area.y0 + ys * area.height

    def _lone_dots(self, i: int, xs: Floats, ys: Floats) -> None:
        """A point between two gaps has no line to lie on."""
        runs = finite_runs(ys)
        lone = [a for a, b in runs if xs[b - 1] - xs[a] < LINE_PX / 2 and np.ptp(ys[a:b]) < LINE_PX]
        if lone:
            size = MARKER_PX if len(lone) < _CROWD else MARKER_PX * 0.6
            dot = Dot(self._shape(i), self._colour(i), self.sheet.palette.ground, size, 1.2)
            self.sheet.dots(xs[lone], ys[lone], dot, self._gid("lone", i), _grown(self.plot.area, MARKER_PX))

    def _sparse_dots(self, i: int, xs: Floats, ys: Floats, dot: Dot) -> None:
        """A few markers along the curve, shifted from curve to curve so that they do not hide each other."""
        seen = np.flatnonzero(np.isfinite(ys))
        if seen.size:
            area = self.plot.area
            aims = area.x0 + area.width * (np.arange(_SPARSE) + (0.25 + 0.61 * i) % 1.0) / _SPARSE
            at = np.unique(seen[np.clip(np.searchsorted(xs[seen], aims), 0, seen.size - 1)])
            self.sheet.dots(xs[at], ys[at], dot, self._gid("markers", i), area)

    def _beyond(self, i: int, curve: Curve) -> None:
        """On the edge, triangles for infinite values and for finite ones off the scale, crosses for NaN."""
        area, y = self.plot.area, self.frame.plan.y
        above = curve.x[curve.high > y.hi] if curve.hi > y.hi else curve.x[:0]
        below = curve.x[curve.low < y.lo] if curve.lo < y.lo else curve.x[:0]
        for xs, level, shape, what in (
            (np.concatenate([curve.up, above]), area.y1 - 9, "^", "above"),
            (np.concatenate([curve.down, below]), area.y0 + 9, "v", "below"),
            (curve.nans, area.y0 + 9, "X", "nan"),
        ):
            places = np.unique(np.round(self.x.fractions(xs) * area.width / 14)) * 14 + area.x0
            if places.size:
                dot = Dot(shape, self._colour(i), self.sheet.palette.ground, 17.0, 1.5, 4.5)
                self.sheet.dots(places, np.full(places.shape, level), dot, self._gid(what, i))

    def _ends(self) -> None:
        """A dot on every last point and its value in the column at the right, moved apart where they would meet."""
        area, plan, look = self.plot.area, self.frame.plan, self.sheet.palette
        ends = [(i, curve.last) for i, curve in enumerate(plan.curves) if curve.last is not None]
        tips = [self._at(*last) for _, last in ends]
        lo, hi = area.y0 + VALUE_RISE, area.y1 - VALUE_RISE
        levels = spread([y for _, y in tips], pitch=plan.end_pitch, lo=lo, hi=hi)
        for (i, _), (x, y), level in zip(ends, tips, levels, strict=True):
            colour = self._colour(i)
            if abs(level - y) > VALUE_PX * 0.4 or area.x1 - x > 24:
                lead = [x + 9, max(area.x1 + 4, x + 9), area.x1 + END_GAP - 6]
                self.sheet.line(lead, [y, y, level], Pen(colour, 1.6, (3.0, 4.0), 2.5), self._gid("lead", i))
            self.sheet.dots([x], [y], Dot(self._shape(i), colour, look.ground, MARKER_PX + 3), self._gid("end", i))
            ink = Ink(VALUE_LETTERS, colour)
            self.sheet.text(area.x1 + END_GAP, level - VALUE_RISE, plan.ends[i], ink, self._gid("value", i))

    def _bests(self) -> None:
        plan = self.frame.plan
        for i in plan.best_of:
            best = plan.curves[i].best(plan.panel.better)
            if best is not None:
                x, y = self._at(*best)
                ring = Dot("o", "none", self.sheet.palette.ink, 24.0, 2.6, 4.8)
                self.sheet.dots([x], [y], ring, self._gid("best", i))
                self.plot.texts.append(Box(x - 14, y - 14, x + 14, y + 14))

    def _nothing_yet(self) -> None:
        """In the middle, or as near to it as names of baselines leave room; not at all where they fill the plot."""
        area, said = self.plot.area, "no values yet"
        x, middle, half = (area.x0 + area.x1) / 2, (area.y0 + area.y1) / 2, width(said, NOTE) / 2
        bases = [middle + way for way in (0.0, -36.0, 36.0, -72.0, 72.0)]
        boxes = [Box(x - half, base - NOTE_PX * DESCENT, x + half, base + NOTE_PX * ASCENT) for base in bases]
        spacious = [_grown(box, 6.0) for box in boxes]  # names of other scripts reach further up and down
        spot = self.plot.claim(spacious)
        if spot is not None or not self.plot.texts:
            self._text(x, middle if spot is None else bases[spacious.index(spot)], said, "empty", align="center")

    def _baseline_names(self) -> None:
        """`name value` on the dashed line where it hides the least; with an arrow when the line lies off the scale."""
        area, plan = self.plot.area, self.frame.plan
        for i, baseline in enumerate(plan.baselines):
            shown = plan.y.covers(baseline.value)
            arrow = "" if shown else " ↑" if baseline.value > plan.y.hi else " ↓"
            tail = f" {value_text(baseline.value)}{arrow}"
            text = shorten(baseline.name, NOTE, area.width - 24 - width(tail, NOTE)) + tail
            level, wide = self._at(0.0, baseline.value)[1], width(text, NOTE)
            steps = np.linspace(area.x0 + 8, max(area.x1 - wide - 8, area.x0 + 8), 7)
            heights = (level + 9, level - 30) if shown else (area.y1 - 30, area.y0 + 14, area.y1 - 64, area.y0 + 46)
            spots = [(float(x), h) for h in heights for x in steps]
            self._claim(text.strip(), spots, Ink(NOTE, self.sheet.palette.muted, backed=True), ("baseline-name", i))

    def _claim(self, text: str, places: list[tuple[float, float]], ink: Ink, gid: tuple[str, int]) -> None:
        """Write the text at the best of the places (left end, base), if there is one."""
        size, wide = ink.letters.size_px, width(text, ink.letters)
        boxes = [Box(x - 3, base - size * DESCENT, x + wide + 3, base + size * ASCENT) for x, base in places]
        spot = self.plot.claim(boxes)
        if spot is not None:
            self.sheet.text(spot.x0 + 3, spot.y0 + size * DESCENT, plain(text), ink, self._gid(*gid))


def legend_entry(sheet: Sheet, entry: Entry, tone: int, *, of: int | str) -> None:
    """A stroke and a marker as the curve has them, and its name; `of` says in the gid whose legend it is."""
    x, middle, colour = entry.place.x, entry.place.base + NOTE_PX * 0.34, sheet.palette.lines[tone]
    sheet.line([x, x + SWATCH - 12], [middle, middle], Pen(colour, LINE_PX, DASHES[tone]), f"swatch:{of}:{entry.curve}")
    dot = Dot(SHAPES[tone], colour, sheet.palette.ground, MARKER_PX)
    sheet.dots([x + (SWATCH - 12) / 2], [middle], dot, f"swatch-dot:{of}:{entry.curve}")
    ink = Ink(NOTE, sheet.palette.ink)
    sheet.text(x + SWATCH, entry.place.base, entry.place.text, ink, f"legend:{of}:{entry.curve}")


def _grown(box: Box, by: float) -> Box:
    return Box(box.x0 - by, box.y0 - by, box.x1 + by, box.y1 + by)
