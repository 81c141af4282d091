"""Windows of series as what a chart shows. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agent.domain.charts import Extremes, Series
from agent.series.window import Window

Axis = Literal["step", "time", "epoch"]
Floats = NDArray[np.float64]


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
    x = spans["first"] / 2 + spans["last"] / 2
    if axis == "time":
        x = (spans["began"] / 2 + spans["ended"] / 2 - since) / 3600
    elif axis == "epoch" and clock is not None:
        x = clock.at(x)
    # The first entries that hold a value of such an attempt: it logs nothing before it has made a step.
    began = np.searchsorted(spans["last"], sorted(anew), side="right")
    breaks = x[np.unique(began[began < len(spans)])]
    beyond = [(spans["ups"] > 0, np.inf), (spans["downs"] > 0, -np.inf)]
    if found.exact:
        y = spans["mean"].copy()
        for where, value in beyond:
            y[where] = value
        return Series(name, x, y, breaks=breaks)  # type: ignore[arg-type]  # an array is as good as a sequence
    columns = [np.stack([x, spans["mean"], spans["low"], spans["high"], spans["count"]])]
    columns += [
        np.stack([x[where], *[np.full(where.sum(), value)] * 3, np.ones(where.sum())]) for where, value in beyond
    ]
    x, y, low, high, counts = (joined := np.concatenate(columns, axis=1))[:, np.argsort(joined[0], kind="stable")]
    return Series(name, x, y, low, high, _extremes(found, axis, since, clock), counts, breaks)  # type: ignore[arg-type]


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
