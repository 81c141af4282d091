"""One metric over steps in bounded memory, with what is needed to tell news from noise. Pure.

Points are kept as means of equally many neighbours; when there are too many, pairs are merged. The noise is taken from
differences of neighbours, so that a trend does not count as noise. Used by `agent.runs.monitoring.rules`.
"""

import math
from array import array
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

_MOST = 512


@dataclass(slots=True)
class Bucket:
    """The mean of `count` points from step `first` to step `last`."""

    first: int
    last: int
    count: int
    mean: float


class Series:
    """The finite values of one metric, oldest first."""

    def __init__(self) -> None:
        """It begins without any point."""
        self.total = 0
        # Of each bucket, as numbers side by side: a bot that watches a thousand series holds half a million buckets.
        self._firsts, self._lasts, self._counts, self._means = array("q"), array("q"), array("q"), array("d")
        self._width = 1
        self._squares = 0.0
        self._pairs = 0
        self._before: float | None = None

    @property
    def buckets(self) -> list[Bucket]:
        """All of them, oldest first."""
        return list(map(Bucket, self._firsts, self._lasts, self._counts, self._means))

    def add(self, step: int, value: float) -> None:
        """The next point. One of an earlier step than the last (a resumed run) undoes what stood from there on."""
        if self._lasts and step < self._lasts[-1]:
            self._undo(step)
        self.total += 1
        if self._before is not None:
            self._squares += (value - self._before) ** 2
            self._pairs += 1
        self._before = value
        if self._counts and self._counts[-1] < self._width:
            count = self._counts[-1] = self._counts[-1] + 1
            self._means[-1] += (value - self._means[-1]) / count
            self._lasts[-1] = step
            return
        self._append(step, step, 1, value)
        if len(self._counts) > _MOST:
            self._merge()

    @property
    def noise(self) -> float:
        """The standard deviation of one point around the trend."""
        return math.sqrt(self._squares / self._pairs / 2) if self._pairs else 0.0

    @property
    def newest(self) -> float:
        """The last point. Raises `IndexError` where there is none."""
        if self._before is None:
            raise IndexError("an empty series")
        return self._before

    def mean_of(self, start: float, end: float) -> "Mean":
        """The mean of the points between two shares of the series, 0 being its begin and 1 its end."""
        counts = np.frombuffer(self._counts, dtype=np.int64)
        middles = np.cumsum(counts) - counts / 2
        return self._mean((middles >= start * self.total) & (middles <= end * self.total))

    def between(self, first: int, last: int) -> "Mean":
        """The mean of the points from one step to another."""
        firsts, lasts = np.frombuffer(self._firsts, dtype=np.int64), np.frombuffer(self._lasts, dtype=np.int64)
        return self._mean((lasts >= first) & (firsts <= last))

    def _mean(self, which: NDArray[np.bool_]) -> "Mean":
        counts = np.frombuffer(self._counts, dtype=np.int64)[which]
        if not (count := int(counts.sum())):
            return Mean(math.nan, 0, math.inf)
        total = float((counts * np.frombuffer(self._means)[which]).sum())
        return Mean(total / count, count, self.noise / math.sqrt(count))

    def _append(self, first: int, last: int, count: int, mean: float) -> None:
        self._firsts.append(first)
        self._lasts.append(last)
        self._counts.append(count)
        self._means.append(mean)

    def _undo(self, step: int) -> None:
        while self._lasts and self._lasts[-1] >= step:
            self.total -= self._counts.pop()
            for column in (self._firsts, self._lasts, self._means):
                column.pop()
        self._before = None

    def _merge(self) -> None:
        buckets = self.buckets
        for column in (self._firsts, self._lasts, self._counts, self._means):
            del column[:]
        for left, right in zip(buckets[::2], buckets[1::2], strict=False):
            count = left.count + right.count
            mean = (left.mean * left.count + right.mean * right.count) / count
            self._append(left.first, right.last, count, mean)
        if len(buckets) % 2:
            self._append(*astuple(buckets[-1]))
        self._width *= 2


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of `count` points and its standard error."""

    value: float
    count: int
    error: float
