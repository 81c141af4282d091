"""What a panel will say before it has a place: curves, axis, end labels, notes.

Owns the choice of what is shown and what is left out (and said to be left out). Measures texts, draws nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from agent.domain.charts import Baseline, ChartSpec, Panel
from charts_render.curve import Curve, Floats, clean, decimate, trend
from charts_render.lettering import Letters, pitch, plain, tell_apart, width
from charts_render.numerals import step_text, value_text
from charts_render.scale import Scale, x_scale, y_scale
from charts_render.smoothing import HIGHEST, smoothed
from charts_render.theme import (
    MAX_BASELINES,
    MAX_PANELS,
    MAX_SERIES,
    MULTIPLES_FROM,
    NOTE_PX,
    TWO_COLUMNS_FROM,
    VALUE_PX,
)

VALUE_LETTERS, _NOTE_LETTERS = Letters(VALUE_PX, bold=True), Letters(NOTE_PX)
VALUE_RISE = VALUE_PX * 0.36  # from the base line of an end label to its middle
_WIDE_LABEL, _NARROW_LABEL = 330.0, 150.0  # units that end labels may take beside a full and a half-width plot
_BEST_SHOWN = 3  # more rings than that say nothing
_NARROW_NOTE = 546.0  # units of half a sheet; a best value is not cut off where one among many panels says it
_NAME_WIDTH = 260.0
_BUCKETS, _BREAK_COLUMNS = 90, 400  # a mean spans about nine units of a wide plot; gaps are seen at two units
Trend = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class PanelPlan:
    """A panel's content; `ends` holds the label of each curve's last value, empty for a curve without any.

    `reading` are those of the notes that say how its lines are to be read. `smooths` holds the moving average of each
    curve, None where it is not smoothed. `tones` says which colour and marker
    shape of the theme each curve has; the shape is drawn where `keyed`, which is where a curve has to be told by it.
    Where not `names_marks`, the marks have no names, or have them in the panel above.
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
    reading: tuple[str, ...]
    smooths: tuple[Trend | None, ...]
    tones: tuple[int, ...]
    keyed: bool
    names_marks: bool

    @property
    def end_pitch(self) -> float:
        """Units that the base lines of the end labels have to be apart."""
        return pitch([text for text in self.ends if text], VALUE_LETTERS, least=VALUE_PX * 1.1)

    @property
    def least_height(self) -> float:
        """Units of a plot beside which all end labels have a place of their own."""
        return (sum(1 for text in self.ends if text) - 1) * self.end_pitch + 2 * VALUE_RISE

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
    """All panels over one x axis.

    Of small multiples, what holds for all panels is said once: `legend` holds names in the order of their tones,
    `reading` how their lines are to be read.
    """

    spec: ChartSpec
    panels: tuple[PanelPlan, ...]
    x: Scale
    left_out: int
    legend: tuple[str, ...]
    reading: tuple[str, ...]

    @property
    def whole_steps(self) -> bool:
        """Whether x counts something, so that ticks between integers would be nonsense."""
        curves = [c for p in self.panels for c in p.curves if c.x.size]
        return all(float(c.x[i]).is_integer() for c in curves for i in (0, c.x.size // 2, -1))


@dataclass(frozen=True, slots=True)
class _Manner:
    """How the panels of a chart say things: units for an end label with its name; whether they are small multiples."""

    label_width: float
    multiple: bool
    legend: tuple[str, ...]


def plan(spec: ChartSpec) -> ChartPlan:
    """Clean every series that will be drawn and choose the texts."""
    shown = spec.panels[:MAX_PANELS]
    curves = [tuple(clean(series) for series in panel.series[:MAX_SERIES]) for panel in shown]
    x = x_scale([c for group in curves for c in group], [m.x for panel in shown for m in panel.marks])
    max_width = _NARROW_LABEL if len(shown) >= TWO_COLUMNS_FROM else _WIDE_LABEL
    multiples = len(shown) >= MULTIPLES_FROM
    manner = _Manner(max_width, multiples, _shared(curves) if multiples else ())
    pairs = enumerate(zip(shown, curves, strict=True))
    panels = tuple(_panel(i, panel, group, x, manner) for i, (panel, group) in pairs)
    reading = _common(panels) if multiples else ()
    if multiples:
        above = (None, None, *panels)  # in two columns
        panels = tuple(_terse(panel, other, reading) for panel, other in zip(panels, above, strict=False))
    return ChartPlan(spec, panels, x, len(spec.panels) - len(shown), manner.legend, reading)


def _shared(panels: Sequence[tuple[Curve, ...]]) -> tuple[str, ...]:
    """Names that one legend says for all panels; none where fewer than two panels need any, or colours would not do."""
    several = [[plain(curve.name) for curve in curves] for curves in panels if len(curves) > 1]
    found = tuple(dict.fromkeys(name for names in several for name in names))
    alike = any(len(set(names)) < len(names) for names in several)
    return () if len(several) < 2 or alike or len(found) > MAX_SERIES else found


def _common(panels: Sequence[PanelPlan]) -> tuple[str, ...]:
    """How the lines of all panels are to be read; empty where one is to be read otherwise."""
    longest = max((panel.reading for panel in panels), key=len)
    return longest if all(panel.reading == longest[: len(panel.reading)] for panel in panels) else ()


def _terse(plan: PanelPlan, above: PanelPlan | None, reading: tuple[str, ...]) -> PanelPlan:
    """Without what is said elsewhere: how to read the lines, and what the same marks are called in the panel above."""
    known = above is not None and above.panel.marks == plan.panel.marks
    notes = tuple(note for note in plan.notes if note not in reading)
    return replace(plan, notes=notes, names_marks=plan.names_marks and not known)


def _tones(curves: tuple[Curve, ...], shared: tuple[str, ...]) -> tuple[tuple[int, ...], bool]:
    """Colours of the curves, and whether a legend or an end label tells what they stand for.

    A curve that is alone in its panel and not in the legend has a colour that the legend does not know.
    """
    if not shared:
        return tuple(range(len(curves))), len(curves) > 1
    free = len(shared) % MAX_SERIES
    places = tuple(shared.index(name) if (name := plain(c.name)) in shared else free for c in curves)
    return places, any(plain(c.name) in shared for c in curves)


def _panel(index: int, panel: Panel, curves: tuple[Curve, ...], x: Scale, manner: _Manner) -> PanelPlan:
    baselines = tuple(b for b in panel.baselines if math.isfinite(b.value))[:MAX_BASELINES]
    ends = panel.floor, panel.ceiling
    y = y_scale(curves, [b.value for b in baselines], log=panel.log_scale, ends=ends)
    span = math.inf if y.log else y.hi - y.lo
    values = [value_text(curve.last.y, span) if curve.last else "" for curve in curves]
    labels, legend = values, False
    if len(curves) > 1 and not manner.legend:
        named = [f"{value} {plain(c.name)}" if value else "" for value, c in zip(values, curves, strict=True)]
        legend = max(width(text, VALUE_LETTERS) for text in named) > manner.label_width or not all(values)
        labels = values if legend else named
    best_of = _best_of(curves, panel.better, _BEST_SHOWN)
    if manner.multiple and width("".join(_best_note(panel, curves, best_of, span)), _NOTE_LETTERS) > _NARROW_NOTE:
        best_of = _best_of(curves, panel.better, 1)
    lines = [_lines(curve, y, panel.smooth) for curve in curves]
    trends, smooths = tuple(mean for mean, _ in lines), tuple(smooth for _, smooth in lines)
    notes = _best_note(panel, curves, best_of, span) + _scale_notes(panel, curves, y)
    reading = (smooth_text(panel.smooth),) if any(smooths) else ("bold: mean",) if any(trends) else ()
    notes += [*reading, *_left_out(panel, curves, baselines, x)]
    tones, keyed = _tones(curves, manner.legend)
    return PanelPlan(
        index=index,
        panel=panel,
        curves=curves,
        trends=trends,
        baselines=baselines,
        y=y,
        ends=tuple(labels),
        legend=legend,
        best_of=best_of,
        notes=tuple(notes),
        reading=reading,
        smooths=smooths,
        tones=tones,
        keyed=keyed,
        names_marks=bool(panel.marks),
    )


def _lines(curve: Curve, y: Scale, weight: float) -> tuple[Trend | None, Trend | None]:
    """The mean of what lies on the scale, and its moving average; None for either where there is none.

    What lies beyond the scale is marked at the edge and would only bend them.
    """
    aside = (curve.high > y.hi) | (curve.low < y.lo) if curve.hi > y.hi or curve.lo < y.lo else None
    if weight > 0:
        smooth = smoothed(curve, weight, aside=aside)
        return None, None if smooth is None else (curve.x, smooth)
    xs, ys = decimate(*curve.path, columns=_BREAK_COLUMNS)
    near = curve if aside is None else replace(curve, y=np.where(aside, np.nan, curve.y))
    return trend(near, buckets=_BUCKETS, breaks=xs[np.isnan(ys)]), None


def smooth_text(weight: float) -> str:
    """What is said of smoothing."""
    return f"smoothed {min(weight, HIGHEST):.3g}"


def _best_of(curves: tuple[Curve, ...], better: Literal["", "lower", "higher"], few: int) -> tuple[int, ...]:
    """The curves whose best value gets a ring: all of a few, or the best of more."""
    found = [(i, p.y) for i, c in enumerate(curves) if c.x.size > 1 and (p := c.best(better)) is not None]
    if len(found) <= few:
        return tuple(i for i, _ in found)
    return ((min if better == "lower" else max)(found, key=lambda pair: pair[1])[0],)


def _best_note(panel: Panel, curves: tuple[Curve, ...], best_of: tuple[int, ...], span: float) -> list[str]:
    """`○ best 0.91 at 2,220`, with names instead of places where there are several curves."""
    found = [(curves[i].name, p) for i in best_of if (p := curves[i].best(panel.better)) is not None]
    if len(found) == 1 and len(curves) == 1:
        return [f"○ best {value_text(found[0][1].y, span)} at {step_text(found[0][1].x)}"]
    names = tell_apart([name for name, _ in found], _NOTE_LETTERS, _NAME_WIDTH)
    texts = [f"{name} {value_text(p.y, span)}" for name, (_, p) in zip(names, found, strict=True)]
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
    nans = np.concatenate([np.zeros(0), *[c.nans for c in curves]])
    if nans.size:
        notes.append(f"× NaN {'at' if nans.size == 1 else 'from'} {step_text(float(nans.min()))}")
    return notes


def _left_out(panel: Panel, curves: tuple[Curve, ...], baselines: tuple[Baseline, ...], x: Scale) -> list[str]:
    outside = sum(1 for mark in panel.marks if not x.covers(mark.x))
    counts = (
        (len(panel.series) - len(curves), "series"),
        (len(panel.baselines) - len(baselines), "baselines"),
        (outside, "marks"),
    )
    return [f"+{count:,} more {noun}" for count, noun in counts if count]
