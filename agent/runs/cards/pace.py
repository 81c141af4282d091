"""How fast a run goes and how long it has left, from its newest metric rows. Pure; called by the run card and tools."""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from agent.domain.events import MetricRow
from agent.domain.runs import LIVE, Run
from agent.series.window import OUT_OF_PROPORTION, PAUSE_S


def steps_a_second(rows: Sequence[MetricRow]) -> float | None:
    """Steps a second over the newest rows without a break; None where these are too few.

    Breaks are a step or a clock that goes back (another attempt, another host) and a pause out of proportion to what
    came after it; the newest one, to what came just before it.
    """
    gaps: list[float] = []
    for later, row in pairwise(reversed(rows)):
        gap_s = later.at - row.at
        if row.step > later.step or gap_s < 0:
            break
        gaps.append(gap_s)
    for index, gap_s in enumerate(gaps):
        usual_s = statistics.median(gaps[:index] or gaps[1:2] or gaps)
        if gap_s > max(PAUSE_S, OUT_OF_PROPORTION * usual_s):
            del gaps[index:]
            break
    if not gaps:
        return None
    newest, oldest = rows[-1], rows[-1 - len(gaps)]
    seconds = newest.at - oldest.at
    pace = (newest.step - oldest.step) / seconds if seconds > 0 else 0.0
    return pace if 0 < pace < math.inf else None


def seconds_left(run: Run, rows: Sequence[MetricRow]) -> float | None:
    """Seconds until its last step at the present pace; None where that is not known."""
    pace = steps_a_second(rows) if run.state in LIVE else None
    if pace is None or not run.total_steps or run.step >= run.total_steps:
        return None
    left_s = (run.total_steps - run.step) / pace
    return left_s if math.isfinite(left_s) else None
