"""Turns windows of series into the curves of a chart. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agent.domain.charts import Extremes, Series
from agent.series.columns import Entries
from agent.series.window import Window

Axis = Literal["step", "time", "epoch"]
Floats = NDArray[np.float64]
_TORN = 6.0  # times as long as its points usually take


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """Which epoch a run is in: `epochs` at `steps`, both rising. In between and beyond, epochs pass evenly."""

    steps: Floats
    epochs: Floats

    def at(self, steps: Floats) -> Floats:
        """The epochs of some steps."""
        found: Floats = np.interp(steps, self.steps, self.epochs)
        for beyond, end, other in ((steps < self.steps[0], 0, 1), (steps > self.steps[-1], -1, -2)):
            slope = (self.epochs[end] - self.epochs[other]) / (self.steps[end] - self.steps[other])
            found[beyond] = self.epochs[end] + slope * (steps[beyond] - self.steps[end])
        return found


def clock_of(found: Window) -> Clock | None:
    """From a window of a metric that counts epochs; None where it does not rise."""
    spans = found.spans[found.spans["count"] > 0]
    steps, epochs = spans["first"] / 2 + spans["last"] / 2, spans["mean"]
    rising = np.append(True, np.diff(np.maximum.accumulate(epochs)) > 0) if len(epochs) else np.zeros(0, dtype=bool)
    steps, epochs = steps[rising], epochs[rising]
    return Clock(steps, epochs) if len(steps) > 1 and bool((np.diff(steps) > 0).all()) else None


def series_of(
    found: Window,
    name: str,
    *,
    axis: Axis = "step",
    since: float = 0.0,
    clock: Clock | None = None,
    anew: Sequence[int] = (),
) -> Series:
    """A curve under `name`; by `time`, x are hours from the moment `since` (seconds since the epoch).

    By `epoch`, x are what `clock` says. Infinite values become points of their own, which a chart marks at its edge.
    `anew` are the steps behind which later attempts went on.
    """
    spans = found.spans
    starts, stops = (spans["began"], spans["ended"]) if axis == "time" else (spans["first"], spans["last"])
    starts, stops = (_placed(ends, axis, since, clock) for ends in (starts, stops))
    x = starts / 2 + stops / 2
    x[:1] = starts[:1]  # a curve begins where its first point is
    # The first entries that hold a value of such an attempt: it logs nothing before it has made a step.
    began = np.searchsorted(spans["last"], sorted(anew), side="right")
    breaks = x[np.unique(began[began < len(spans)])]
    nans = x[spans["nans"] > 0]
    beyond = [(spans["ups"] > 0, np.inf), (spans["downs"] > 0, -np.inf)]
    if found.exact:
        y = spans["mean"].copy()
        for where, value in beyond:
            y[where] = value
        return Series(name, x, y, breaks=breaks, nans=nans)  # type: ignore[arg-type]  # an array is a sequence, too
    columns = [_columns(spans, x, starts, stops)]
    columns += [
        np.stack([x[where], *[np.full(where.sum(), value)] * 3, np.ones(where.sum())]) for where, value in beyond
    ]
    x, y, low, high, counts = (joined := np.concatenate(columns, axis=1))[:, np.argsort(joined[0], kind="stable")]
    extremes = _extremes(found, axis, since, clock)
    return Series(name, x, y, low, high, extremes, counts, breaks, nans)  # type: ignore[arg-type]


def _placed(places: Floats, axis: Axis, since: float, clock: Clock | None) -> Floats:
    """Steps or moments as x."""
    if axis == "time":
        return (places - since) / 3600
    return clock.at(places) if axis == "epoch" and clock is not None else places.astype(np.float64)


def _columns(spans: Entries, x: Floats, starts: Floats, stops: Floats) -> Floats:
    """x, mean, low, high and count (5, n) of spans in the middle of their places.

    One that is far too long for its points holds a stretch without any, and has an entry at each of its ends.
    """
    count = spans["count"]
    several = count > 1
    if not several.any():
        return np.stack([x, spans["mean"], spans["low"], spans["high"], count])
    usual = np.median((stops - starts)[several] / count[several])
    torn = several & (stops - starts > _TORN * usual * count)
    whole, held = ~torn, spans[torn]
    early = {name: held[name + "_step"] / 2 < held["first"] / 4 + held["last"] / 4 for name in ("low", "high")}
    parts = [np.stack([x[whole], *(spans[name][whole] for name in ("mean", "low", "high")), count[whole]])]
    for places, ours in ((starts[torn], early), (stops[torn], {name: ~mask for name, mask in early.items()})):
        low, high = (np.where(ours[name], held[name], held["mean"]) for name in ("low", "high"))
        parts.append(np.stack([places, held["mean"], low, high, count[torn] / 2]))
    return np.concatenate(parts, axis=1)


def _extremes(found: Window, axis: Axis, since: float, clock: Clock | None) -> Extremes | None:
    spans = found.spans
    if not spans["count"].any():
        return None
    lowest, highest = spans[np.nanargmin(spans["low"])], spans[np.nanargmax(spans["high"])]
    at_low, at_high = float(lowest["low_step"]), float(highest["high_step"])
    if axis == "time":  # the moment of one point within a span is not kept
        at_low, at_high = (float((s["began"] / 2 + s["ended"] / 2 - since) / 3600) for s in (lowest, highest))
    elif axis == "epoch" and clock is not None:
        at_low, at_high = clock.at(np.array([at_low, at_high])).tolist()
    return Extremes(at_low, float(lowest["low"]), at_high, float(highest["high"]))
