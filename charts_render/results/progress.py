"""Experiments in their order with the best so far as steps: what was kept, what was tried in vain, what crashed."""

from typing import Final

import numpy as np

from agent.domain.pictures import UNFINISHED, Progress, Trial
from charts_render.curve import LARGEST, Floats, floats
from charts_render.layout import END_GAP, NOTE
from charts_render.lettering import Letters, shorten, width
from charts_render.numerals import step_text, value_text
from charts_render.results.axes import Axes, Space, draw_axes
from charts_render.results.part import RISE, Part
from charts_render.results.trials import STATES, legend, look
from charts_render.results.values import steps_of
from charts_render.scale import free_scale
from charts_render.scene import Ink, Pen
from charts_render.theme import LINE_PX, VALUE_PX

_VALUE = Letters(VALUE_PX, bold=True)
_HEIGHTS = {True: 460.0, False: 360.0}
_NAMED: Final = 10
_NAME_WIDTH = 260.0
_CROWD = 120  # trials from which markers are small


def paint(part: Part, progress: Progress) -> None:
    """Draw everything."""
    trials = progress.trials
    numbers, values = floats([t.number for t in trials]), _values(trials)
    best = steps_of(trials, progress.better)
    y = free_scale(values)
    part.head(progress.heading, _notes(progress, best, values, (y.lo, y.hi)))
    legend(part, trials)
    ends = (float(numbers.min()) - 0.5, float(numbers.max()) + 0.5) if trials else None
    text = value_text(best[-1].value) if best else ""
    right = END_GAP + width(text, _VALUE) if text else 24.0
    space = Space(_HEIGHTS[part.wide], max(right, 40.0))
    known = bool(np.isfinite(values).any())
    names = ("experiment" if trials else "", progress.metric)
    scales = (free_scale(numbers, ends), y)
    axes = draw_axes(part, scales, names, space, whole=True, measured=(bool(trials), known))
    _steps(axes, best, text)
    _dots(axes, trials, numbers, values)
    _names(axes, best)
    if not known:
        middle = (axes.area.x0 + axes.area.x1) / 2, (axes.area.y0 + axes.area.y1) / 2
        part.say(*middle, "no values yet", "empty", align="center")


def _values(trials: tuple[Trial, ...]) -> Floats:
    """NaN for what crashed or was pruned; infinite ones stay."""
    given = floats([trial.value for trial in trials])
    unfinished = np.array([trial.state in UNFINISHED for trial in trials], dtype=bool)
    held = np.where(np.isinf(given), given, np.clip(given, -LARGEST, LARGEST))
    return np.where(unfinished, np.nan, held)


def _notes(progress: Progress, best: list[Trial], values: Floats, ends: tuple[float, float]) -> list[str]:
    notes = []
    if best:
        notes.append(f"best {value_text(best[-1].value)} at {step_text(best[-1].number)}, {progress.better} is better")
    off = int(((values < ends[0]) | (values > ends[1])).sum())
    if off:
        notes.append(f"▲ {off:,} off scale")
    lost = sum(
        1 for t, v in zip(progress.trials, values, strict=True) if np.isnan(v) and t.state in {"kept", "discarded"}
    )
    if lost:
        notes.append(f"{lost:,} without a value")
    return notes


def _steps(axes: Axes, best: list[Trial], text: str) -> None:
    """From each best to the next, then to the right edge, with the last one's value behind it."""
    if not best:
        return
    part, area = axes.part, axes.area
    xs, ys = axes.places(floats([float(t.number) for t in best]), floats([t.value for t in best]))
    across, up = np.append(np.repeat(xs, 2)[1:], area.x1), np.repeat(ys, 2)
    colour = part.colour(0)
    part.line(across, up, Pen(colour, LINE_PX, layer=3.0), part.gid("best"), axes.clip)
    axes.plot.trace(across, up)
    rise = VALUE_PX * RISE
    level = float(np.clip(ys[-1], area.y0 + rise, area.y1 - rise))
    part.text(area.x1 + END_GAP, level - rise, text, Ink(_VALUE, colour), part.gid("value"))


def _dots(axes: Axes, trials: tuple[Trial, ...], numbers: Floats, values: Floats) -> None:
    """A marker for each; those without a value stand on the axis."""
    part, area = axes.part, axes.area
    grow = -3.0 if len(trials) > _CROWD else 2.0
    for state in reversed(STATES):
        of = np.array([trial.state == state for trial in trials], dtype=bool)
        known = of & np.isfinite(values) & axes.y_covers(values)
        xs, ys = axes.places(numbers[known], values[known])
        if xs.size:
            part.dots(xs, ys, look(part, state, grow=grow), part.gid("trials", state))
            axes.plot.dot(xs, ys)
        absent = of & np.isnan(values)
        if absent.any() and state in {*UNFINISHED, "running"}:
            xs = axes.places(numbers[absent], numbers[absent])[0]
            part.dots(xs, np.full(xs.shape, area.y0), look(part, state, grow=grow), part.gid("absent", state))
            axes.plot.dot(xs, np.full(xs.shape, area.y0 + 4))
    axes.outside(0, numbers, values)


def _names(axes: Axes, best: list[Trial]) -> None:
    """What made it better, the latest first, where there is room."""
    named = [trial for trial in reversed(best) if trial.name.strip() and axes.y.covers(trial.value)]
    for trial in named[:_NAMED]:
        text = shorten(trial.name, NOTE, _NAME_WIDTH)
        xs, ys = axes.places(floats([float(trial.number)]), floats([trial.value]))
        spot = axes.claim(text, NOTE, (float(xs[0]), float(ys[0])), 16.0)
        if spot is not None:
            axes.part.text(
                *spot, text, Ink(NOTE, axes.part.palette.ink, backed=True), axes.part.gid("name", trial.number)
            )
