"""How fast a run goes and how long it has left, from its newest metric rows. Pure; called by the run card and tools."""

import statistics
from collections.abc import Sequence

from agent.domain.events import MetricRow
from agent.domain.runs import LIVE, Run
from agent.series.window import OUT_OF_PROPORTION, PAUSE_S


def steps_a_second(rows: Sequence[MetricRow]) -> float | None:
    """Steps a second over the newest rows without a break; None where they do not tell.

    Breaks are a step or a clock that goes back (another attempt, another host) and a pause out of proportion.
    """
    stretch = list(rows[-1:])
    gaps: list[float] = []
    for row in reversed(rows[:-1]):
        gap_s = stretch[-1].at - row.at
        if row.step > stretch[-1].step or gap_s < 0:
            break
        if gaps and gap_s > max(PAUSE_S, OUT_OF_PROPORTION * statistics.median(gaps)):
            break
        stretch.append(row)
        gaps.append(gap_s)
    if len(stretch) < 2:
        return None
    steps, seconds = stretch[0].step - stretch[-1].step, stretch[0].at - stretch[-1].at
    return steps / seconds if steps > 0 and seconds > 0 else None


def seconds_left(run: Run, rows: Sequence[MetricRow]) -> float | None:
    """Seconds until its last step at the pace of now; None where that cannot be said."""
    pace = steps_a_second(rows) if run.state in LIVE else None
    if pace is None or not run.total_steps or run.step >= run.total_steps:
        return None
    return (run.total_steps - run.step) / pace
