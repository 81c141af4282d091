"""Horizontal bars from zero: importance of features, scores of each class.

Negative values go left of zero, a missing one is said, an infinite one reaches the edge. Every bar has its value.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.domain.pictures import Bars
from charts_render.curve import LARGEST, Floats, floats
from charts_render.lettering import Letters, shorten, tell_apart, width
from charts_render.numerals import aligned_texts, value_text
from charts_render.placement import Box
from charts_render.results.part import RISE, Key, Part
from charts_render.scene import Dot, Ink, Pen
from charts_render.theme import MARKER_PX

MOST_GROUPS: Final = 4
_MOST_BARS = 36
_THICK, _THIN = 26.0, 16.0
_PITCH_ONE, _PITCH_MANY, _GROUP_GAP = 43.0, 29.0, 16.0
_NAMES_SHARE = {True: 0.36, False: 0.42}  # of a whole row, and of half of one
_NAME = Letters(26.0)
_VALUE, _SMALL_VALUE = Letters(26.0, bold=True), Letters(24.0)
_PAD = 12.0


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What is drawn: `values` and `errors` of shape (groups, names), infinities and NaN kept."""

    names: tuple[str, ...]
    groups: tuple[str, ...]
    values: Floats
    errors: Floats
    lo: float
    hi: float
    known: float  # the end that the axis must have, 0 without one

    @property
    def many(self) -> bool:
        return len(self.groups) > 1

    @property
    def letters(self) -> Letters:
        return _SMALL_VALUE if self.many else _VALUE

    def fraction(self, value: float) -> float:
        """Its place between both ends, held within them."""
        held = min(max(value, -LARGEST), LARGEST)
        return min(max((held - self.lo) / (self.hi - self.lo), 0.0), 1.0)


def paint(part: Part, bars: Bars) -> None:
    """Draw everything."""
    shown = _rows(bars)
    part.head(bars.heading, _notes(bars, shown), bars.unit)
    if not shown.names or not shown.groups:
        part.empty()
        return
    if shown.many:
        part.legend([Key(i, name, line=False) for i, name in enumerate(shown.groups)])
    part.depth += 8
    names = min(
        max(width(shorten(n, _NAME, 900), _NAME) for n in shown.names), part.max_width * _NAMES_SHARE[part.wide]
    )
    flat = aligned_texts(shown.values.ravel().tolist(), none="no value")
    texts = [flat[i : i + len(shown.names)] for i in range(0, len(flat), len(shown.names))]
    behind = max(width(text, shown.letters) for row in texts for text in row) + _PAD + 12
    x0, x1 = names + 16 + (12 if shown.lo < 0 else 0), part.max_width - behind
    pitch = _PITCH_MANY if shown.many else _PITCH_ONE
    top = part.depth
    for row, name in enumerate(tell_apart(shown.names, _NAME, names)):
        high = pitch * len(shown.groups)
        level = -part.depth - high / 2 - _NAME.size_px * RISE
        ink = Ink(_NAME, part.palette.ink, "right")
        part.text(names, level, name, ink, part.gid("name", row))
        for group in range(len(shown.groups)):
            middle = -part.depth - (group + 0.5) * pitch
            _bar(part, shown, (group, row), (x0, x1, middle), texts[group][row])
        part.depth += high + (_GROUP_GAP if shown.many else 0)
    bottom = part.depth - (_GROUP_GAP if shown.many else 0) + 4
    for name, value, colour in (("zero", 0.0, part.palette.muted), ("most", shown.known, part.palette.grid)):
        if name == "zero" or value:
            x = x0 + shown.fraction(value) * (x1 - x0)
            pen = Pen(colour, 2.0, layer=3.0 if name == "zero" else 0.5)
            part.line([x, x], [-top + 4, -bottom], pen, part.gid(name))
    part.depth += 8


def _bar(part: Part, shown: _Rows, at: tuple[int, int], place: tuple[float, float, float], text: str) -> None:
    """One bar, its whisker and its value. `place`: both ends of the axis, and the level."""
    (group, row), (x0, x1, middle) = at, place
    value, error, look = float(shown.values[at]), float(shown.errors[at]), part.palette
    item, thick = f"{group}-{row}", _THIN if shown.many else _THICK
    zero, rise = x0 + shown.fraction(0.0) * (x1 - x0), shown.letters.size_px * RISE
    if np.isnan(value):
        part.say(zero + _PAD, middle - _NAME.size_px * RISE, text, f"missing:{item}")
        return
    tip = x0 + shown.fraction(value) * (x1 - x0)
    left, right = min(zero, tip), max(zero, tip)
    part.rect(Box(left, middle - thick / 2, right, middle + thick / 2), part.colour(group), 1.5, part.gid("bar", item))
    ends = [left, right]
    if np.isinf(value):
        dot = Dot(">" if value > 0 else "<", part.colour(group), look.ground, MARKER_PX + 9)
        part.dots([tip], [middle], dot, part.gid("beyond", item))
        ends = [left - 10, right + 10]
    elif shown.many:
        part.dots([tip], [middle], part.dot(group, size=MARKER_PX + 6), part.gid("tip", item))
        ends = [left - 8, right + 8]
    if np.isfinite(error) and error > 0 and np.isfinite(value):
        whisker = [x0 + shown.fraction(value + sign * error) * (x1 - x0) for sign in (-1, 1)]
        pen = Pen(look.ink, 2.2, layer=3.1)
        part.line(whisker, [middle, middle], pen, part.gid("whisker", item))
        for i, end in enumerate(whisker):
            part.line([end, end], [middle - 6, middle + 6], pen, part.gid("whisker-end", f"{item}-{i}"))
        ends += whisker
    part.text(max(ends) + _PAD, middle - rise, text, Ink(shown.letters, look.ink), part.gid("value", item))


def _rows(bars: Bars) -> _Rows:
    groups = bars.groups[:MOST_GROUPS]
    most = max(4, _MOST_BARS // max(len(groups), 1))
    count = len(bars.names)
    values = np.array([floats(g.values) for g in groups]).reshape(len(groups), count)
    errors = np.abs(np.array([floats(g.errors or [math.nan] * count) for g in groups]).reshape(values.shape))
    if count > most and groups:  # the longest are shown, the longest first
        longest = np.fmax.reduce(np.abs(values), axis=0)
        shown = np.argsort(-np.where(np.isnan(longest), -1.0, longest), kind="stable")[:most]
        values, errors = values[:, shown], errors[:, shown]
        names = tuple(bars.names[i] for i in shown)
    else:
        names = bars.names[:most]
    errors = np.where(errors <= LARGEST, errors, np.nan)
    held = np.clip(values[np.isfinite(values)], -LARGEST, LARGEST)
    reach = np.nan_to_num(errors)[np.isfinite(values)]
    lo = float(min((held - reach).min(initial=0.0), 0.0))
    known = bars.most if bars.most is not None and 0 < bars.most <= LARGEST else 0.0
    hi = float(max((held + reach).max(initial=0.0), known, 0.0))
    if not hi - lo > 1e-290:
        hi = lo + 1.0
    return _Rows(names, tuple(g.name for g in groups), values, errors, max(lo, -LARGEST), min(hi, LARGEST), known)


def _notes(bars: Bars, shown: _Rows) -> list[str]:
    counts = ((len(bars.names) - len(shown.names), "more"), (len(bars.groups) - len(shown.groups), "more groups"))
    notes = [f"+{count:,} {noun}" for count, noun in counts if count]
    if len(bars.names) > len(shown.names):
        notes.append("the longest first")
    if bars.most is not None and shown.hi > bars.most > 0:
        notes.append(f"some above {value_text(bars.most)}")
    return notes
