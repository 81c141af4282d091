"""Whether a step does anything: how long it has been silent, and how long it may be.

Owns the judgement; opens /proc through `worker.host.processes` only. Asked by `worker.supervisor.stage`. A sign of life
is a metric, output (also without the end of a line) or a checkpoint. Before the first metric of a training, and in the
steps around it, bytes that the processes read or write count too: a download or the reading of a large file says
nothing for long. Source of the numbers: the project's reliability notes (15 min, ten usual steps, 45 min for the first
step).
"""

import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable

from agent.domain.events import MetricRow

_KEPT = 200
_MOVED = 4096  # bytes; less is what a loop that only waits may read


class Silence:
    """One step's signs of life."""

    def __init__(
        self,
        *,
        quiet_s: float,
        first_quiet_s: float,
        median_steps: float,
        moved: Callable[[], dict[int, int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`moved` tells the bytes that each process has read and written so far."""
        self._quiet_s, self._first_quiet_s, self._median_steps = quiet_s, first_quiet_s, median_steps
        self._moved, self._clock = moved, clock
        self._gaps: deque[float] = deque(maxlen=_KEPT)
        self._last_at: float | None = None
        self._last_step = 0
        self._signs: tuple[object, ...] = ()
        self._since = clock()
        self._bytes: dict[int, int] = {}

    def rows(self, rows: Iterable[MetricRow]) -> None:
        """New metrics: their distance in time is what a usual step takes. More rows of one step say nothing of it."""
        for row in rows:
            if self._last_at is not None:
                if row.step == self._last_step:
                    continue
                if row.at >= self._last_at:
                    self._gaps.append(row.at - self._last_at)
            self._last_at, self._last_step = row.at, row.step

    @property
    def limit_s(self) -> float:
        """How long it may be silent now."""
        if not self._gaps:  # also after one metric: nobody knows yet what a step takes
            return self._first_quiet_s
        return max(self._quiet_s, self._median_steps * statistics.median(self._gaps))

    def look(self, *signs: object) -> float:
        """Seconds of silence. `signs` are what changes when it does something."""
        now = self._clock()
        if signs != self._signs or (self._last_at is None and self._bytes_moved()):
            self._signs, self._since = signs, now
        return now - self._since

    def _bytes_moved(self) -> bool:
        now = self._moved()
        grown = sum(max(0, amount - self._bytes.get(pid, 0)) for pid, amount in now.items())
        if grown >= _MOVED:
            self._bytes = now
            return True
        return False
