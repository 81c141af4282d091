"""One metric over steps in bounded memory, with what is needed to tell news from noise. Pure.

Points are kept as means of equally many neighbours; when there are too many, pairs are merged. The noise is taken from
differences of neighbours, so that a trend does not count as noise. Used by `agent.runs.rules`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

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
        """Nothing yet."""
        self.buckets: list[Bucket] = []
        self.total = 0
        self._width = 1
        self._squares = 0.0
        self._pairs = 0
        self._before: float | None = None

    def add(self, step: int, value: float) -> None:
        """The next point. One of an earlier step than the last (a resumed run) undoes what stood from there on."""
        if self.buckets and step < self.buckets[-1].last:
            self._undo(step)
        self.total += 1
        if self._before is not None:
            self._squares += (value - self._before) ** 2
            self._pairs += 1
        self._before = value
        last = self.buckets[-1] if self.buckets else None
        if last is not None and last.count < self._width:
            last.mean += (value - last.mean) / (last.count + 1)
            last.count += 1
            last.last = step
            return
        self.buckets.append(Bucket(step, step, 1, value))
        if len(self.buckets) > _MOST:
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
        low, high = start * self.total, end * self.total
        seen, count, total = 0, 0, 0.0
        for bucket in self.buckets:
            middle = seen + bucket.count / 2
            seen += bucket.count
            if low <= middle <= high:
                count += bucket.count
                total += bucket.mean * bucket.count
        return Mean(total / count if count else math.nan, count, self.noise / math.sqrt(count) if count else math.inf)

    def between(self, first: int, last: int) -> "Mean":
        """The mean of the points from one step to another."""
        count, total = 0, 0.0
        for bucket in self._around(first, last):
            count += bucket.count
            total += bucket.mean * bucket.count
        return Mean(total / count if count else math.nan, count, self.noise / math.sqrt(count) if count else math.inf)

    def _around(self, first: int, last: int) -> Iterator[Bucket]:
        return (bucket for bucket in self.buckets if bucket.last >= first and bucket.first <= last)

    def _undo(self, step: int) -> None:
        while self.buckets and self.buckets[-1].last >= step:
            self.total -= self.buckets.pop().count
        self._before = None

    def _merge(self) -> None:
        merged: list[Bucket] = []
        for left, right in zip(self.buckets[::2], self.buckets[1::2], strict=False):
            count = left.count + right.count
            mean = (left.mean * left.count + right.mean * right.count) / count
            merged.append(Bucket(left.first, right.last, count, mean))
        if len(self.buckets) % 2:
            merged.append(self.buckets[-1])
        self.buckets, self._width = merged, self._width * 2


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of `count` points and its standard error."""

    value: float
    count: int
    error: float
