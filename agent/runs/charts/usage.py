"""Charts of what a run used and of how fast it went, by time. Pure: stretches of series in, a chart out.

A gap stays a gap: nothing is drawn between attempts, nor where a host was silent. Knows the names of
`agent.series.usage`; called by `agent.tools.charts.usage_charts`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from agent.domain.charts import Baseline, ChartSpec, Mark, Panel, Series, Theme
from agent.domain.content import Button
from agent.domain.runs import Run
from agent.series.columns import Entries
from agent.series.usage import CPUS, MEMORY, gpu_name, gpu_of
from agent.series.window import PAUSE_S, Stretch, longest_wait_s, usual_s

UsageView = Literal["usage", "gpu", "throughput"]
USAGE_VIEWS: tuple[UsageView, ...] = get_args(UsageView)
USAGE_LABELS: dict[UsageView, str] = {"usage": "Usage", "gpu": "GPU use", "throughput": "Throughput"}
RATE = re.compile(
    r"throughput|(?:_|/)per_?(?:s|secs?|seconds?|min|minute|hour)$|(?:it|its|steps|tokens|samples)/s$", re.IGNORECASE
)
_SILENCE = 6.0  # heartbeats of silence, and a minute, are a gap
_CELLS = 240  # a rate is a mean over one of so many parts of the time that is shown, or over
_ROWS = 4  # so many rows
_FEW = 3.0  # a cell of anything else has so many values at least
_GIB, _MIB = 2.0**30, 2.0**20
_MOST_RATES = 3  # that are drawn
_RATES_READ = 8  # more than are drawn, since some may have nothing in the time that is shown
_TIMES = ((180.0, 1.0, "seconds"), (10_800.0, 60.0, "minutes"), (4 * 86_400.0, 3600.0, "hours"))
_DAY_S = 86_400.0
_LATE = 20.0  # what is shorter than one of so many parts of the time since the beginning says too little in its unit
_SHORTEST = 1000.0
_PACES = ((0.1, 1.0, "s"), (0.1 / 60, 60.0, "min"), (0.0, 3600.0, "h"))
Floats = NDArray[np.float64]
Used = Mapping[str, Sequence[Stretch]]


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Time since the moment `since` (seconds since the epoch) in parts of `unit_s`, which are called `unit`."""

    since: float
    unit_s: float
    unit: str

    def at(self, moments: Floats) -> Floats:
        """Places on the axis."""
        return (moments - self.since) / self.unit_s


@dataclass(frozen=True, slots=True)
class UsageLook:
    """How it is shown; `smooth` is the weight of a moving average."""

    smooth: float = 0.0
    theme: Theme = "light"


def time_axis(stretches: Iterable[Stretch], began: float | None) -> TimeAxis:
    """The axis of some curves, from when the run began, or from the first of them where that is earlier or unknown.

    Its unit is one in which numbers are short; of a late and short part of a run, the unit of that part.
    """
    every = [one.window.spans for one in stretches if len(one.window.spans)]
    first = min((float(spans["began"].min()) for spans in every), default=0.0)
    last = max((float(spans["ended"].max()) for spans in every), default=0.0)
    since = first if began is None else min(began, first)
    short = last - first < (last - since) / _LATE
    length_s = max(last - first, (last - since) / _SHORTEST) if short else last - since
    for most, unit_s, unit in _TIMES:
        if length_s < most:
            return TimeAxis(since, unit_s, unit)
    return TimeAxis(since, _DAY_S, "days")


def usage_chart(run: Run, used: Used, view: UsageView, look: UsageLook, *, began: float | None) -> ChartSpec | None:
    """What a run used: its GPUs, and by `usage` also processors and memory; without a GPU those two. None without data.

    `began` is when the run's first attempt did, on its host's clock.
    """
    shown = {name: stretches for name, stretches in used.items() if stretches}
    if not shown:
        return None
    axis = time_axis([one for stretches in shown.values() for one in stretches], began)
    gpus = sorted({found[0] for name in shown if (found := gpu_of(name))})
    panels = [_busy(shown, gpus, axis), _gpu_memory(shown, gpus, axis)] if gpus else []
    if view == "usage" or not gpus:
        panels += [
            Panel("processors", tuple(_curves(shown, {CPUS: "cores"}, axis, 1.0)), "cores", floor=0.0),
            _bytes("memory", shown, {MEMORY: "memory"}, axis),
        ]
    marks = _marks([one for stretches in shown.values() for one in stretches], axis)
    return _spec(run, "what it used", panels, axis, marks, look)


def throughput_chart(
    run: Run, paces: Sequence[Stretch], rates: Used, look: UsageLook, *, began: float | None
) -> ChartSpec | None:
    """Steps a second over time, and below what the run itself logs as such (`rates`). None where nothing tells."""
    axis = time_axis([*paces, *(one for stretches in rates.values() for one in stretches)], began)
    pace = pace_curve(paces, axis)
    panels = []
    if np.isfinite(pace.y).any():
        fastest = float(np.nanmax(pace.y))
        _, times, unit = next(one for one in _PACES if fastest >= one[0])
        said = f"{run.spec.unit.split()[-1]}s"
        scaled = Series(pace.name, pace.x, (np.asarray(pace.y) * times).tolist())
        panels.append(Panel("throughput", (scaled,), f"{said}/{unit}", floor=0.0))
    for name in list(rates)[:_MOST_RATES]:
        lines = _curves(rates, {name: name}, axis, 1.0)
        lowest = min((float(np.nanmin(line.low or line.y)) for line in lines if np.isfinite(line.y).any()), default=0.0)
        panels.append(Panel(name.replace("_", " "), tuple(lines), floor=0.0 if lowest >= 0 else None))
    if not panels:
        return None
    return _spec(run, "how fast it went", panels, axis, _marks(paces, axis), look)


def usage_button(run: Run) -> Button:
    """The button to the chart of what a run uses; read by `agent.tools.charts.chart_views`."""
    view: UsageView = "gpu" if run.spec.gpus else "usage"
    return Button(action="chart", subject=f"{run.id}.u{view}", label=USAGE_LABELS[view])


def rate_names(names: Iterable[str]) -> list[str]:
    """The metrics by which a run itself says how fast it goes; the first few, since a script may log thousands."""
    return list(islice((name for name in names if RATE.search(name)), _RATES_READ))


def pace_curve(paces: Sequence[Stretch], axis: TimeAxis) -> Series:
    """Steps a second at each moment: the steps between two rows over the time between them, never across attempts."""
    whole = [one.window.spans for one in paces]
    length = _length_s(paces)
    parts = []
    for spans in whole:
        cell = max(length / _CELLS, _ROWS * usual_s(spans))
        parts += [_rates(times, steps, cell) for times, steps in _segments(spans)]
    return _joined("steps", [(axis.at(times), (rates,)) for times, rates in parts if len(times)])


def _segments(spans: Entries) -> list[tuple[Floats, Floats]]:
    """Moments and steps of rows, cut where there was a pause, or a step or the clock went back."""
    times = np.stack([spans["began"], spans["ended"]], axis=1).ravel()
    steps = np.stack([spans["first"], spans["last"]], axis=1).ravel().astype(np.float64)
    wait = longest_wait_s(spans)
    within = np.arange(len(times)) % 2 == 1  # from the first row of a span to its last: no pause is within
    jumps = np.append(True, (np.diff(times) < 0) | (np.diff(steps) < 0) | ((np.diff(times) > wait) & ~within[1:]))
    edges = [*np.flatnonzero(jumps).tolist(), len(times)]
    return [(times[a:b], steps[a:b]) for a, b in pairwise(edges)]


def _rates(times: Floats, steps: Floats, cell_s: float) -> tuple[Floats, Floats]:
    """Steps a second over cells of about `cell_s` seconds, at their middles; the outer ones reach to both ends."""
    cells = np.floor((times - times[0]) / cell_s) if cell_s > 0 else np.arange(len(times))
    knots = np.unique(np.concatenate([[0], np.flatnonzero(np.diff(cells) > 0) + 1, [len(times) - 1]]))
    if len(knots) > 2 and times[knots[-1]] - times[knots[-2]] < cell_s / 2:  # too short to tell
        knots = np.delete(knots, -2)
    at, passed = times[knots], np.diff(times[knots])
    gone = passed > 0
    rates = np.diff(steps[knots])[gone] / passed[gone]
    if not len(rates):
        return np.zeros(0), np.zeros(0)
    middles = ((at[1:] + at[:-1]) / 2)[gone]
    return np.concatenate([at[:1], middles, at[-1:]]), np.concatenate([rates[:1], rates, rates[-1:]])


def _busy(used: Used, gpus: Sequence[int], axis: TimeAxis) -> Panel:
    names = {gpu_name(number, "busy"): f"GPU {number}" for number in gpus}
    return Panel("GPU busy", tuple(_curves(used, names, axis, 0.01)), "%", floor=0.0, ceiling=100.0)


def _gpu_memory(used: Used, gpus: Sequence[int], axis: TimeAxis) -> Panel:
    totals = {
        number: max(float(one.window.spans["high"].max()) for one in used[gpu_name(number, "total")])
        for number in gpus
        if gpu_name(number, "total") in used
    }
    sizes = sorted(set(totals.values()))
    guides = [Baseline("the card has" if len(sizes) == 1 else "a card has", size) for size in sizes]
    names = {gpu_name(number, "memory"): f"GPU {number}" for number in gpus}
    return _bytes("GPU memory", used, names, axis, guides)


def _bytes(title: str, used: Used, names: Mapping[str, str], axis: TimeAxis, guides: Sequence[Baseline] = ()) -> Panel:
    """Bytes in the unit that fits the largest of them."""
    most = max((float(one.window.spans["high"].max()) for name in names for one in used.get(name, ())), default=0.0)
    part, unit = (_GIB, "GiB") if most >= _GIB else (_MIB, "MiB")
    lines = tuple(Baseline(guide.name, guide.value / part) for guide in guides)
    return Panel(title, tuple(_curves(used, names, axis, part)), unit, lines, floor=0.0)


def _curves(used: Used, names: Mapping[str, str], axis: TimeAxis, part: float) -> list[Series]:
    """A line a name, in parts of `part`."""
    return [_curve(used.get(name, ()), said, axis, part) for name, said in names.items()]


def _curve(stretches: Sequence[Stretch], said: str, axis: TimeAxis, part: float) -> Series:
    """Each value where there are few, else cells of time with their mean, lowest and highest value."""
    count = sum(len(one.window.spans) for one in stretches)
    exact = count <= _CELLS and all(one.window.exact for one in stretches)
    length_s = _length_s(stretches)
    columns = ("mean",) if exact else ("mean", "low", "high")
    pieces: list[Entries] = []
    for one in stretches:
        spans = one.window.spans
        usual = usual_s(spans)
        apart = np.abs(spans["began"][1:] - spans["ended"][:-1])  # a clock that is set back leaves a gap behind, too
        silent = np.flatnonzero(apart > max(_SILENCE * usual, PAUSE_S))
        split = np.split(spans, silent + 1)
        pieces += split if exact else [_cells(piece, max(length_s / _CELLS, _FEW * usual)) for piece in split]
    if not exact:  # what is said of the line's ends is what was measured there
        pieces[0] = np.concatenate([stretches[0].window.spans[:1], pieces[0]])
        pieces[-1] = np.concatenate([pieces[-1], stretches[-1].window.spans[-1:]])
    placed = [(axis.at(piece["began"] / 2 + piece["ended"] / 2), piece) for piece in pieces]
    return _joined(said, [(x, tuple(piece[column] / part for column in columns)) for x, piece in placed])


def _cells(spans: Entries, cell_s: float) -> Entries:
    """Spans that follow each other as one for each `cell_s` seconds: their moments, mean, lowest and highest value."""
    cells = np.floor((spans["began"] - spans["began"][0]) / cell_s) if cell_s > 0 else np.arange(len(spans))
    starts = np.append(0, np.flatnonzero(np.diff(cells) != 0) + 1)
    found = np.zeros(len(starts), dtype=spans.dtype)
    found["began"], found["ended"] = (
        np.minimum.reduceat(spans["began"], starts),
        np.maximum.reduceat(spans["ended"], starts),
    )
    found["low"], found["high"] = np.fmin.reduceat(spans["low"], starts), np.fmax.reduceat(spans["high"], starts)
    found["count"] = np.add.reduceat(spans["count"], starts)
    total = np.add.reduceat(np.where(spans["count"] > 0, spans["mean"] * spans["count"], 0.0), starts)
    found["mean"] = np.divide(total, found["count"], out=np.full(len(starts), np.nan), where=found["count"] > 0)
    return found


def _length_s(stretches: Iterable[Stretch]) -> float:
    every = [one.window.spans for one in stretches if len(one.window.spans)]
    ends = (float(spans["ended"].max()) for spans in every), (float(spans["began"].min()) for spans in every)
    return max(ends[0], default=0.0) - min(ends[1], default=0.0)


def _joined(name: str, pieces: Sequence[tuple[Floats, tuple[Floats, ...]]]) -> Series:
    """Pieces as one line with gaps between them, in the order of time."""
    xs: list[float] = []
    columns: list[list[float]] = [[] for _ in (pieces[0][1] if pieces else ((),))]
    for x, values in sorted(pieces, key=lambda piece: float(piece[0][0])):
        if xs:
            xs.append(max(xs[-1], float(x[0])))
            for column in columns:
                column.append(np.nan)
        xs += x.tolist()
        for column, new in zip(columns, values, strict=True):
            column += new.tolist()
    mean, *range_ = (tuple(column) for column in columns)
    low, high = range_ or ((), ())
    return Series(name, tuple(xs), mean, low, high)


def _marks(stretches: Iterable[Stretch], axis: TimeAxis) -> tuple[Mark, ...]:
    """Where each attempt after the first began."""
    first: dict[int, float] = {}
    for one in stretches:
        began = float(one.window.spans["began"].min())
        first[one.attempt] = min(began, first.get(one.attempt, began))
    later = sorted(number for number in first if number > 1)
    return tuple(Mark(float(axis.at(np.array(first[number]))), f"attempt {number}") for number in later)


def _spec(
    run: Run, said: str, panels: Sequence[Panel], axis: TimeAxis, marks: tuple[Mark, ...], look: UsageLook
) -> ChartSpec:
    return ChartSpec(
        title=f"{run.id} · {said}",
        panels=tuple(replace(panel, marks=marks, smooth=look.smooth) for panel in panels),
        subtitle=f"{run.spec.title} · {run.spec.host}",
        x_label=axis.unit,
        theme=look.theme,
    )
