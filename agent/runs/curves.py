"""Windows of series as what a chart shows. Pure."""

from typing import Literal

import numpy as np

from agent.domain.charts import Extremes, Series
from agent.series.window import Window

Axis = Literal["step", "time"]


def series_of(found: Window, name: str, *, axis: Axis = "step", since: float = 0.0) -> Series:
    """A curve under `name`; by `time`, x are hours from the moment `since` (seconds since the epoch).

    Infinite values become points of their own, which a chart marks at its edge.
    """
    spans = found.spans
    if axis == "step":
        x = spans["first"] / 2 + spans["last"] / 2
    else:
        x = (spans["began"] / 2 + spans["ended"] / 2 - since) / 3600
    beyond = [(spans["ups"] > 0, np.inf), (spans["downs"] > 0, -np.inf)]
    if found.exact:
        y = spans["mean"].copy()
        for where, value in beyond:
            y[where] = value
        return Series(name, x, y)  # type: ignore[arg-type]  # an array is as good as a sequence
    columns = [np.stack([x, spans["mean"], spans["low"], spans["high"]])]
    columns += [np.stack([x[where], *[np.full(where.sum(), value)] * 3]) for where, value in beyond]
    x, y, low, high = (joined := np.concatenate(columns, axis=1))[:, np.argsort(joined[0], kind="stable")]
    return Series(name, x, y, low, high, _extremes(found, axis, since))


def _extremes(found: Window, axis: Axis, since: float) -> Extremes | None:
    spans = found.spans
    if not spans["count"].any():
        return None
    lowest, highest = spans[np.nanargmin(spans["low"])], spans[np.nanargmax(spans["high"])]
    at_low, at_high = float(lowest["low_step"]), float(highest["high_step"])
    if axis == "time":  # the moment of one point within a span is not kept
        at_low, at_high = (float((s["began"] / 2 + s["ended"] / 2 - since) / 3600) for s in (lowest, highest))
    return Extremes(at_low, float(lowest["low"]), at_high, float(highest["high"]))
