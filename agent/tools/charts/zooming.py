"""Parts of a run that people name by time or by epoch, as the steps that they are. Reads only.

Called by the charts. Knows no words and no pictures.
"""

import math
from collections.abc import Sequence

import numpy as np

from agent.domain.errors import BadRequest
from agent.domain.runs import Run
from agent.run_store import ALL_STEPS, Steps
from agent.runs.charts.curves import Clock, clock_of
from agent.runs.charts.run_charts import clock_name
from agent.stores import Runs

_FINER = 12  # readings, each at least a hundred times finer than the one before, until it is exact


async def clock_in(runs: Runs, run: Run) -> Clock:
    """Which epoch the run is in at a step. Raises: BadRequest."""
    name = clock_name(await runs.metric_names(run.id))
    clock = clock_of((await runs.windows(run.id, [name]))[0]) if name else None
    if clock is None:
        raise BadRequest(f"Run `{run.id}` logs no metric `epoch` that rises, so it cannot be drawn by epoch.")
    return clock


async def steps_of_epochs(runs: Runs, run: Run, first: float | None, last: float | None, newest: float | None) -> Steps:
    """The steps between two epochs, both included, or of the `newest` epochs of the run.

    Raises:
        BadRequest: it counts no epochs, or has no step between these.
    """
    clock = await clock_in(runs, run)
    there = np.array([0.0, float(run.step)])
    begun, reached = clock.at(there)
    if newest is not None:
        first = reached - newest
    low = ALL_STEPS[0] if first is None or first <= begun else math.ceil(_step_at(clock, first) - 1e-9)
    high = ALL_STEPS[1] if last is None or last >= reached else math.floor(_step_at(clock, last) + 1e-9)
    if low > min(high, run.step) or (last is not None and last < begun):
        raise BadRequest(f"Run `{run.id}` has no steps of these epochs; it is in epoch {reached:.4g}.")
    return low, high


def _step_at(clock: Clock, epoch: float) -> float:
    """The inverse of `clock.at`, which rises."""
    return float(Clock(clock.epochs, clock.steps).at(np.array([epoch]))[0])


async def steps_since(runs: Runs, run: Run, names: Sequence[str], minutes: int) -> Steps:
    """The steps of the newest `minutes` in which any of these metrics was logged; all of a run without values."""
    found = [one.spans for one in await runs.windows(run.id, names) if len(one.spans)]
    if not found:
        return ALL_STEPS
    moment = max(float(spans["ended"].max()) for spans in found) - 60.0 * minutes
    return min([await _first_since(runs, run, name, moment) for name in names]), ALL_STEPS[1]


async def _first_since(runs: Runs, run: Run, name: str, moment: float) -> int:
    """The first step of a metric that was logged at this moment or later; behind all steps where there is none."""
    steps = ALL_STEPS
    for _ in range(_FINER):
        (one,) = await runs.windows(run.id, [name], steps)
        later = one.spans[one.spans["ended"] >= moment]
        if not len(later):
            return ALL_STEPS[1]
        first = later[np.argmin(later["first"])]
        if one.exact or first["began"] >= moment or (int(first["first"]), int(first["last"])) == steps:
            return int(first["first"])
        steps = int(first["first"]), int(first["last"])
    return steps[0]
