"""Where everything of a chart lies: one column of panels, or two for four and more.

Knows plans and measures texts; draws nothing. Units of a picture 1200 wide, y upwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from charts_render.lettering import Letters, shorten, tell_apart, width, wrap
from charts_render.placement import Box
from charts_render.plan import ChartPlan, PanelPlan
from charts_render.theme import (
    DESIGN_WIDTH_PX,
    HEADING_PX,
    NOTE_PX,
    SUBTITLE_PX,
    TICK_PX,
    TITLE_PX,
    TWO_COLUMNS_FROM,
)

TITLE, SUBTITLE = Letters(TITLE_PX, bold=True), Letters(SUBTITLE_PX)
HEADING, NOTE, TICK = Letters(HEADING_PX, bold=True), Letters(NOTE_PX), Letters(TICK_PX)
MARGIN = 32.0
GUTTER = 44.0
_TITLE_ROW, _SUBTITLE_ROW, HEADING_ROW, NOTE_ROW, LEGEND_ROW, _MARK_ROW = 54.0, 42.0, 46.0, 36.0, 40.0, 36.0
_TICK_ROW, _X_LABEL_ROW = 44.0, 36.0
_PANEL_GAP = 26.0
_PLOT_HEIGHTS = {0: 300.0, 1: 500.0, 2: 340.0, 3: 285.0, 4: 330.0, 5: 280.0, 6: 280.0, 7: 250.0, 8: 250.0}
_FLAT = 206.0  # of more panels, so that twelve still are one picture
_LEGEND_ROWS = 4
SWATCH, ENTRY_GAP, NAME_WIDTH = 46.0, 30.0, 300.0
END_GAP = 20.0
_Y_TICKS = {1: 6}  # of a higher panel; others have five


@dataclass(frozen=True, slots=True)
class Line:
    """A text and the place it stands on."""

    x: float
    base: float
    text: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A curve's name in the legend; in one for all panels, `curve` is its tone."""

    curve: int
    place: Line


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A panel's places; `column` spans its labels on both sides, `plot` only the data."""

    plan: PanelPlan
    plot: Box
    column: tuple[float, float]
    heading: Line
    unit: Line
    notes: tuple[Line, ...]
    legend: tuple[Entry, ...]
    ticks: tuple[tuple[float, str], ...]
    has_x_ticks: bool


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The whole sheet; `legend` is for all panels."""

    height: float
    title: tuple[Line, ...]
    subtitle: Line
    legend: tuple[Entry, ...]
    reading: Line
    frames: tuple[Frame, ...]
    x_labels: tuple[Line, ...]


def lay_out(chart: ChartPlan) -> Layout:
    """Places for every text and plot; the height follows from the content."""
    more = f"+{chart.left_out:,} more panels" if chart.left_out else ""
    title, subtitle, depth = headline(chart.spec.title, " · ".join(t for t in (chart.spec.subtitle, more) if t))
    legend, reading, depth = _key(chart, depth)
    spans = _columns(len(chart.panels))
    frames: list[Frame] = []
    rows = [chart.panels[i : i + len(spans)] for i in range(0, len(chart.panels), len(spans))]
    edges = [_edges(chart, [p for p in chart.panels if p.index % len(spans) == c]) for c in range(len(spans))]
    for row in rows:
        heads = [_head(plan, spans[plan.index % len(spans)], depth) for plan in row]
        top = max(head.depth for head in heads) + 12
        bottom = top + max(_PLOT_HEIGHTS.get(len(chart.panels), _FLAT), *(plan.least_height for plan in row))
        for plan, head in zip(row, heads, strict=True):
            span, (left, right) = spans[plan.index % len(spans)], edges[plan.index % len(spans)]
            plot = Box(span[0] + left, top, span[1] - right, bottom)
            ticks = _y_ticks(plan, len(chart.panels))
            lowest = plan.index + len(spans) >= len(chart.panels)
            frames.append(Frame(plan, plot, span, head.heading, head.unit, head.notes, head.legend, ticks, lowest))
        depth = bottom + (_TICK_ROW if row is rows[-1] else _PANEL_GAP)
    x_labels = _x_labels(chart, frames)
    height = depth + (_X_LABEL_ROW if x_labels else 0) + 18
    return _upwards(Layout(height, title, subtitle, legend, reading, tuple(frames), x_labels))


def headline(title: str, subtitle: str) -> tuple[tuple[Line, ...], Line, float]:
    """The lines of a sheet's title, its subtitle, and how far down both reach; y downwards."""
    depth = 24.0
    max_width = DESIGN_WIDTH_PX - 2 * MARGIN
    lines = []
    for text in wrap(title[:500].split(), TITLE, max_width, lines=2):
        lines.append(Line(MARGIN, depth + 42, text))
        depth += _TITLE_ROW
    below = Line(MARGIN, depth + 30, shorten(subtitle, SUBTITLE, max_width))
    depth += _SUBTITLE_ROW if below.text else 0.0
    return tuple(lines), below, depth + 14.0


def _key(chart: ChartPlan, depth: float) -> tuple[tuple[Entry, ...], Line, float]:
    """The legend of all panels, how to read their lines on its right or below it, and how far down both reach."""
    span, depth = (MARGIN, DESIGN_WIDTH_PX - MARGIN), depth - 8
    names = tell_apart([name or "unnamed" for name in chart.legend], NOTE, NAME_WIDTH)
    entries, said = _entries(names, span, depth), " · ".join(chart.reading)
    if not entries and not said:
        return (), Line(0, 0, ""), depth + 8
    base = entries[-1].place.base if entries else depth - 12
    end = entries[-1].place.x + SWATCH + width(entries[-1].place.text, NOTE) + ENTRY_GAP if entries else span[1]
    beside = end + width(said, NOTE) <= span[1]
    if said and not beside:
        base += LEGEND_ROW
    x = span[1] - width(said, NOTE) if beside else span[0]
    return entries, Line(x, base, said), base + 22


def _x_labels(chart: ChartPlan, frames: list[Frame]) -> tuple[Line, ...]:
    """One below all columns that end on one level, else one below each."""
    lowest = [frame.plot for frame in frames if frame.has_x_ticks]
    level = len({plot.y1 for plot in lowest}) == 1
    lines = []
    for left, right in [(lowest[0], lowest[-1])] if level else [(plot, plot) for plot in lowest]:
        text = shorten(chart.spec.x_label, NOTE, right.x1 - left.x0)
        lines.append(Line((left.x0 + right.x1) / 2, right.y1 + _TICK_ROW + 24, text))
    return tuple(line for line in lines if line.text)


def _columns(panels: int) -> list[tuple[float, float]]:
    left, right = MARGIN, DESIGN_WIDTH_PX - MARGIN
    if panels < TWO_COLUMNS_FROM:
        return [(left, right)]
    middle = DESIGN_WIDTH_PX / 2
    return [(left, middle - GUTTER / 2), (middle + GUTTER / 2, right)]


def _y_ticks(plan: PanelPlan, panels: int) -> tuple[tuple[float, str], ...]:
    """None where there is nothing to measure."""
    return () if plan.empty and not plan.baselines else tuple(plan.y.ticks(at_most=_Y_TICKS.get(panels, 5)))


def _edges(chart: ChartPlan, panels: list[PanelPlan]) -> tuple[float, float]:
    """Room left and right of the plots of one column, so that they share both edges."""
    left = max((width(text, TICK) for p in panels for _, text in _y_ticks(p, len(chart.panels))), default=0.0)
    right = max((p.end_width for p in panels), default=0.0)
    return min(left, 220.0) + 14, max(right + END_GAP, 40.0)


@dataclass(frozen=True, slots=True)
class _Head:
    heading: Line
    unit: Line
    notes: tuple[Line, ...]
    legend: tuple[Entry, ...]
    depth: float


def _head(plan: PanelPlan, span: tuple[float, float], depth: float) -> _Head:
    """The rows above a plot: title and unit, notes, legend, names of marks."""
    left, right = span
    max_width = right - left
    unit = shorten(f"({plan.panel.unit})" if plan.panel.unit else "", NOTE, max_width / 3)
    names = plan.panel.title or (plan.panel.series[0].name if plan.panel.series else "")
    title = shorten(names, HEADING, max_width - (width(unit, NOTE) + 12 if unit else 0))
    used = width(title, HEADING) + 12
    heading, unit_line = Line(left, depth + 32, title), Line(left + used, depth + 32, unit)
    used += width(unit, NOTE) + 24
    note = " · ".join(plan.notes)
    notes: tuple[Line, ...] = ()
    if note and used + width(note, NOTE) <= max_width:
        notes = (Line(right - width(note, NOTE), depth + 32, note),)
        depth += HEADING_ROW
    else:
        depth += HEADING_ROW
        lines = wrap(list(plan.notes), NOTE, max_width, lines=3, joint=" · ")
        notes = tuple(Line(left, depth + 26 + i * NOTE_ROW, text) for i, text in enumerate(lines))
        depth += len(lines) * NOTE_ROW
    legend = _legend(plan, span, depth) if plan.legend else ()
    depth = legend[-1].place.base + 14 if legend else depth
    return _Head(heading, unit_line, notes, legend, depth + (_MARK_ROW if plan.names_marks else 0))


def _legend(plan: PanelPlan, span: tuple[float, float], depth: float) -> tuple[Entry, ...]:
    max_width = min(NAME_WIDTH, (span[1] - span[0] - ENTRY_GAP) / 2 - SWATCH)
    return _entries(tell_apart([curve.name or "unnamed" for curve in plan.curves], NOTE, max_width), span, depth)


def _entries(names: Sequence[str], span: tuple[float, float], depth: float) -> tuple[Entry, ...]:
    """Names that are short enough already, in rows."""
    left, right = span
    x, row, entries = left, 0, list[Entry]()
    for i, name in enumerate(names):
        wide = SWATCH + width(name, NOTE)
        if x > left and x + wide > right:
            x, row = left, row + 1
        if row < _LEGEND_ROWS:
            entries.append(Entry(i, Line(x, depth + 28 + row * LEGEND_ROW, name)))
        x += wide + ENTRY_GAP
    return tuple(entries)


def _upwards(sheet: Layout) -> Layout:
    """The same places with y growing upwards."""
    height = sheet.height

    def up(line: Line) -> Line:
        return Line(line.x, height - line.base, line.text)

    frames = tuple(
        Frame(
            f.plan,
            Box(f.plot.x0, height - f.plot.y1, f.plot.x1, height - f.plot.y0),
            f.column,
            up(f.heading),
            up(f.unit),
            tuple(up(n) for n in f.notes),
            tuple(Entry(e.curve, up(e.place)) for e in f.legend),
            f.ticks,
            f.has_x_ticks,
        )
        for f in sheet.frames
    )
    legend = tuple(Entry(e.curve, up(e.place)) for e in sheet.legend)
    x_labels = tuple(up(label) for label in sheet.x_labels)
    title, subtitle, reading = tuple(up(line) for line in sheet.title), up(sheet.subtitle), up(sheet.reading)
    return Layout(height, title, subtitle, legend, reading, frames, x_labels)
