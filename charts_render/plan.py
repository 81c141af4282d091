"""What a panel will say before it has a place: curves, axis, end labels, notes.

Owns the choice of what is shown and what is left out (and said to be left out). Measures texts, draws nothing.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from agent.domain.charts import Baseline, ChartSpec, Panel
from charts_render.curve import Curve, Floats, clean, decimate, trend
from charts_render.lettering import Letters, plain, width
from charts_render.numerals import step_text, value_text
from charts_render.scale import Scale, x_scale, y_scale
from charts_render.smoothing import HIGHEST, smoothed
from charts_render.theme import MAX_BASELINES, MAX_PANELS, MAX_SERIES, VALUE_PX

VALUE_LETTERS = Letters(VALUE_PX, bold=True)
_WIDE_LABEL, _NARROW_LABEL = 330.0, 150.0  # units that end labels may take beside a full and a half-width plot
_BEST_SHOWN = 3  # more rings than that say nothing
_NAME_LENGTH = 16
_BUCKETS, _BREAK_COLUMNS = 90, 400  # a mean spans about nine units of a wide plot; gaps are seen at two units
Trend = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class PanelPlan:
    """A panel's content; `ends` holds the label of each curve's last value, empty for a curve without any.

    `smooths` holds the moving average of each curve, None where it is not smoothed.
    """

    index: int
    panel: Panel
    curves: tuple[Curve, ...]
    trends: tuple[Trend | None, ...]
    baselines: tuple[Baseline, ...]
    y: Scale
    ends: tuple[str, ...]
    legend: bool
    best_of: tuple[int, ...]
    notes: tuple[str, ...]
    smooths: tuple[Trend | None, ...]

    @property
    def end_width(self) -> float:
        """Units of the widest end label."""
        return max((width(text, VALUE_LETTERS) for text in self.ends), default=0.0)

    @property
    def empty(self) -> bool:
        """Whether there is no value at all."""
        return all(curve.last is None for curve in self.curves)


@dataclass(frozen=True, slots=True, eq=False)
class ChartPlan:
    """All panels over one x axis."""

    spec: ChartSpec
    panels: tuple[PanelPlan, ...]
    x: Scale
    left_out: int

    @property
    def whole_steps(self) -> bool:
        """Whether x counts something, so that ticks between integers would be nonsense."""
        curves = [c for p in self.panels for c in p.curves if c.x.size]
        return all(float(c.x[i]).is_integer() for c in curves for i in (0, c.x.size // 2, -1))


def plan(spec: ChartSpec) -> ChartPlan:
    """Clean every series that will be drawn and choose the texts."""
    shown = spec.panels[:MAX_PANELS]
    curves = [tuple(clean(series) for series in panel.series[:MAX_SERIES]) for panel in shown]
    x = x_scale([c for group in curves for c in group], [m.x for panel in shown for m in panel.marks])
    narrow = len(shown) == MAX_PANELS
    pairs = enumerate(zip(shown, curves, strict=True))
    panels = tuple(_panel(i, panel, group, x, narrow=narrow) for i, (panel, group) in pairs)
    return ChartPlan(spec, panels, x, len(spec.panels) - len(shown))


def _panel(index: int, panel: Panel, curves: tuple[Curve, ...], x: Scale, *, narrow: bool) -> PanelPlan:
    baselines = tuple(b for b in panel.baselines if math.isfinite(b.value))[:MAX_BASELINES]
    ends = panel.floor, panel.ceiling
    y = y_scale(curves, [b.value for b in baselines], log=panel.log_scale, ends=ends)
    values = [value_text(curve.last.y) if curve.last else "" for curve in curves]
    labels, legend = values, False
    if len(curves) > 1:
        named = [f"{value} {plain(c.name)}" if value else "" for value, c in zip(values, curves, strict=True)]
        room = _NARROW_LABEL if narrow else _WIDE_LABEL
        legend = max(width(text, VALUE_LETTERS) for text in named) > room or not all(values)
        labels = values if legend else named
    best_of = _best_of(curves, panel.better)
    lines = [_lines(curve, y, panel.smooth) for curve in curves]
    trends, smooths = tuple(mean for mean, _ in lines), tuple(smooth for _, smooth in lines)
    notes = _best_note(panel, curves, best_of) + _scale_notes(panel, curves, y)
    if any(smooths):
        notes += [smooth_text(panel.smooth)] + (["band: range"] if any(trends) else [])
    else:
        notes += ["line: mean, band: range"] if any(trends) else []
    notes += _left_out(panel, curves, baselines, x)
    return PanelPlan(index, panel, curves, trends, baselines, y, tuple(labels), legend, best_of, tuple(notes), smooths)


def _lines(curve: Curve, y: Scale, weight: float) -> tuple[Trend | None, Trend | None]:
    """The mean of what lies on the scale, and its moving average; None for either where there is none.

    What lies beyond the scale is marked at the edge and would only bend them. Where the mean is one over stretches, it
    is those that are averaged: so the smoothed line is never rougher than the line of the same chart without smoothing.
    """
    xs, ys = decimate(curve.x, curve.y, columns=_BREAK_COLUMNS)
    aside = (curve.high > y.hi) | (curve.low < y.lo) if curve.hi > y.hi or curve.lo < y.lo else None
    near = curve if aside is None else replace(curve, y=np.where(aside, np.nan, curve.y))
    found = trend(near, buckets=_BUCKETS, breaks=xs[np.isnan(ys)])
    mean = (xs, ys) if found is None and curve.ranged else found
    if not weight > 0:
        return mean, None
    if found is None:
        smooth = smoothed(curve, weight, aside=aside)
        return mean, None if smooth is None else (curve.x, smooth)
    half = (curve.x[-1] - curve.x[0]) / (2 * _BUCKETS)  # a stretch that holds a break begins anew
    smooth = smoothed(replace(curve, x=found[0], y=found[1], counts=None, breaks=curve.breaks - half), weight)
    return mean, None if smooth is None else (found[0], smooth)


def smooth_text(weight: float) -> str:
    """What is said of smoothing."""
    return f"smoothed {min(weight, HIGHEST):.3g}"


def _best_of(curves: tuple[Curve, ...], better: Literal["", "lower", "higher"]) -> tuple[int, ...]:
    """The curves whose best value gets a ring: all of a few, or the best of many."""
    found = [(i, p.y) for i, c in enumerate(curves) if c.x.size > 1 and (p := c.best(better)) is not None]
    if len(found) <= _BEST_SHOWN:
        return tuple(i for i, _ in found)
    return ((min if better == "lower" else max)(found, key=lambda pair: pair[1])[0],)


def _best_note(panel: Panel, curves: tuple[Curve, ...], best_of: tuple[int, ...]) -> list[str]:
    """`○ best 0.91 at 2,220`, with names instead of places where there are several curves."""
    found = [(curves[i].name, p) for i in best_of if (p := curves[i].best(panel.better)) is not None]
    if len(found) == 1 and len(curves) == 1:
        return [f"○ best {value_text(found[0][1].y)} at {step_text(found[0][1].x)}"]
    texts = [f"{plain(name)[:_NAME_LENGTH]} {value_text(p.y)}" for name, p in found]
    return ["○ best " + ", ".join(texts)] if texts else []


def _scale_notes(panel: Panel, curves: tuple[Curve, ...], y: Scale) -> list[str]:
    notes: list[str] = []
    if y.log:
        notes.append("log scale")
    elif panel.log_scale and any(c.first is not None for c in curves):
        notes.append("linear: log needs values above 0")
    highest = max((c.hi for c in curves if c.first is not None), default=y.hi)
    lowest = min((c.lo for c in curves if c.first is not None), default=y.lo)
    if highest > y.hi:
        notes.append(f"▲ off scale, up to {value_text(highest)}")
    if lowest < y.lo:
        notes.append(f"▼ off scale, down to {value_text(lowest)}")
    infinite = sum(c.up.size + c.down.size for c in curves)
    if infinite:
        notes.append(f"{infinite:,} infinite")
    return notes


def _left_out(panel: Panel, curves: tuple[Curve, ...], baselines: tuple[Baseline, ...], x: Scale) -> list[str]:
    outside = sum(1 for mark in panel.marks if not x.covers(mark.x))
    counts = (
        (len(panel.series) - len(curves), "series"),
        (len(panel.baselines) - len(baselines), "baselines"),
        (outside, "marks"),
    )
    return [f"+{count:,} more {noun}" for count, noun in counts if count]
