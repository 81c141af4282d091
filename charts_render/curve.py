"""A series made safe to draw, what can be said about it, and its reduction to pixels.

Owns the treatment of gaps, infinities and disorder. Knows numpy and the values of `agent.domain.charts`; knows no
pixels beyond a count of columns, and no matplotlib.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agent.domain.charts import Series

Floats = NDArray[np.float64]
LARGEST = 1e300  # beyond it, sums and differences of limits would overflow
_POINTS_PER_COLUMN = 4
_DENSE, _NOISY_RANGES, _SAMPLE = 800, 8.0, 5_000
_FEWEST_STEPS, _USUAL_STEPS, _WIDE_STEPS = 4, 5.0, 3.0  # a gap is so many times the usual distance, and the wide ones
_MOST_GAPS = 2  # that follow each other; more wide distances in a row are another spacing
_AVERAGED = 1e200  # larger values have no trend: their sum would overflow


class Point(NamedTuple):
    """A place on a curve, in data units."""

    x: float
    y: float


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """`x` finite and rising, the others finite or NaN, all of shape (n,).

    `up`, `down` and `nans` are the x of infinite values, and of those that are NaN.

    `y` lies between `low` and `high`; the three are one array where each entry is a single point. `counts`, also (n,),
    are the points that entries stand for, None for one each; at the x of `breaks` something began anew. A stretch
    without entries that is long beside the others is a gap: an entry of NaN in its middle.
    """

    name: str
    x: Floats
    y: Floats
    low: Floats
    high: Floats
    up: Floats
    down: Floats
    first: Point | None
    last: Point | None
    lowest: Point | None
    highest: Point | None
    counts: Floats | None
    breaks: Floats
    nans: Floats

    @property
    def ranged(self) -> bool:
        """Whether entries stand for many points."""
        return self.low is not self.high

    @property
    def lo(self) -> float:
        """The lowest value; NaN without any."""
        return self.lowest.y if self.lowest else np.nan

    @property
    def hi(self) -> float:
        """The highest value; NaN without any."""
        return self.highest.y if self.highest else np.nan

    @property
    def path(self) -> tuple[Floats, Floats]:
        """What a line through all values runs along: of entries that stand for many, through both their extremes."""
        if not self.ranged:
            return self.x, self.y
        rises = np.append(np.diff(self.y) >= 0, False)
        first, second = np.where(rises, self.low, self.high), np.where(rises, self.high, self.low)
        return np.repeat(self.x, 2), np.stack([first, second], axis=1).ravel()

    def best(self, better: Literal["", "lower", "higher"]) -> Point | None:
        """The earliest lowest or highest finite point; None when nothing is better."""
        return {"": None, "lower": self.lowest, "higher": self.highest}[better]


def clean(series: Series) -> Curve:
    """Any series as a curve: points with a non-finite x are dropped, disorder is sorted, lengths are cut to one."""
    count = min(len(series.x), len(series.y))
    ranged = min(len(series.low), len(series.high)) >= count > 0
    counted = (series.counts,) if len(series.counts) >= count > 0 else ()
    spanned = (series.low, series.high) if ranged else ()
    x, *values = (floats(v, count) for v in (series.x, series.y, *spanned, *counted))
    placed = np.isfinite(x)
    if not placed.all():
        x, values = x[placed], [v[placed] for v in values]
    if x.size and max(-x.min(), x.max()) > LARGEST:
        x = np.clip(x, -LARGEST, LARGEST)
    if (x[1:] < x[:-1]).any():
        order = np.argsort(x, kind="stable")
        x, values = x[order], [v[order] for v in values]
    x, values = _with_gaps(x, values)
    counts = values.pop() if counted else None
    breaks, nans = floats(series.breaks), floats(series.nans)
    nans = np.sort(nans[np.abs(nans) <= LARGEST])
    y = values[0]
    last = _outer(x, y, ~np.isnan(y), -1)
    up, down = x[y == np.inf], x[y == -np.inf]
    limited = [bounded(v) for v in values]
    y, low, high = limited if ranged else limited * 3
    finite = np.isfinite(y)
    if not finite.any():
        return Curve(series.name, x, y, low, high, up, down, None, last, None, None, counts, breaks, nans)
    lowest, highest = _extremes(series, x, low, high)
    first = _outer(x, y, finite, 0)
    return Curve(series.name, x, y, low, high, up, down, first, last, lowest, highest, counts, breaks, nans)


def _with_gaps(x: Floats, values: list[Floats]) -> tuple[Floats, list[Floats]]:
    """With an entry of NaN in the middle of every stretch that has no rows, though they are usually much nearer."""
    steps = np.diff(x)
    known = steps[:: max(1, steps.size // _SAMPLE)]
    known = np.sort(known[known > 0])
    if known.size < _FEWEST_STEPS:
        return x, values
    usual, wide = (known[int((known.size - 1) * share)] for share in (0.5, 0.9))
    starts, ends = _runs(steps > max(_USUAL_STEPS * usual, _WIDE_STEPS * wide))
    before = np.where(starts > 0, steps[starts - 1], 0.0)
    after = np.where(ends < steps.size, steps[np.minimum(ends, steps.size - 1)], 0.0)
    kept = ends - starts <= _MOST_GAPS
    starts, lengths = starts[kept], (ends - starts)[kept]
    places = np.repeat(starts, lengths) + np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = places[steps[places] > _USUAL_STEPS * np.repeat(np.maximum(before, after)[kept], lengths)]
    if not places.size:
        return x, values
    middles = x[places] / 2 + x[places + 1] / 2
    return np.insert(x, places + 1, middles), [np.insert(v, places + 1, np.nan) for v in values]


def bounded(values: Floats) -> Floats:
    """NaN instead of infinities, and nothing so large that a difference would overflow."""
    if np.isinf(values).any():
        values = np.where(np.isinf(values), np.nan, values)
    if values.size and max(-np.fmin.reduce(values), np.fmax.reduce(values)) > LARGEST:
        values = np.clip(values, -LARGEST, LARGEST)
    return values


def _extremes(series: Series, x: Floats, low: Floats, high: Floats) -> tuple[Point, Point]:
    known = series.extremes
    if known is not None and np.isfinite([known.low_x, known.low, known.high_x, known.high]).all():
        ends = (Point(known.low_x, known.low), Point(known.high_x, known.high))
        return ends[0]._replace(y=max(ends[0].y, -LARGEST)), ends[1]._replace(y=min(ends[1].y, LARGEST))
    lowest, highest = int(np.nanargmin(low)), int(np.nanargmax(high))
    return Point(float(x[lowest]), float(low[lowest])), Point(float(x[highest]), float(high[highest]))


def decimate(x: Floats, y: Floats, *, columns: int) -> tuple[Floats, Floats]:
    """At most four points a pixel column (first, lowest, highest, last), so that no extreme is lost.

    A gap stays a gap where it fills at least one column. Short series come back as they are.
    """
    if x.size <= _POINTS_PER_COLUMN * columns:
        return x, y
    starts, ends = _cut(x, columns)
    starts, ends = starts[ends > starts], ends[ends > starts]
    low, high = np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)
    first, last = y[starts], y[ends - 1]
    first, last = np.where(np.isnan(first), low, first), np.where(np.isnan(last), high, last)
    falls = first > last
    ys = np.stack([first, np.where(falls, high, low), np.where(falls, low, high), last], axis=1)  # (columns, 4)
    left, right = x[starts], x[ends - 1]
    middle = left / 2 + right / 2
    second = np.where(ys[:, 1] == first, left, middle)  # a rising or falling column stays a slope, not a stair
    third = np.where(ys[:, 2] == last, right, middle)
    return np.stack([left, second, third, right], axis=1).ravel(), ys.ravel()


def _cut(x: Floats, columns: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Half-open index ranges of equal stretches of x."""
    cuts = np.searchsorted(x, np.linspace(x[0], x[-1], columns + 1)[1:-1])
    return np.append(0, cuts), np.append(cuts, x.size)


def trend(curve: Curve, *, buckets: int, breaks: Floats) -> tuple[Floats, Floats] | None:
    """Means over `buckets` equal stretches of x, or None where the line itself can be followed: short, or calm.

    A stretch that holds one of the `breaks` (x of gaps) has no mean, so a gap is not bridged.
    """
    if curve.first is None or not (curve.ranged or curve.x.size >= _DENSE) or not _noisy(curve):
        return None
    edges = np.linspace(curve.x[0], curve.x[-1], buckets + 1)
    starts, ends = _cut(curve.x, buckets)
    held = ends > starts
    finite = np.isfinite(curve.y)
    counts = np.add.reduceat(finite, starts[held], dtype=np.float64)
    sums = np.add.reduceat(np.where(finite, curve.y, 0.0), starts[held])
    broken = np.isin(np.flatnonzero(held), np.searchsorted(edges[1:-1], breaks, side="right"))
    ys = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=(counts > 0) & ~broken)
    return (edges[:-1] / 2 + edges[1:] / 2)[held], ys


def _noisy(curve: Curve) -> bool:
    """Whether neighbours differ so much that the line, laid straight, would be many ranges long."""
    y = curve.path[1]
    y = y[:: max(1, y.size // _SAMPLE)]
    y = y[np.isfinite(y)]
    if y.size < 2 or max(-curve.lo, curve.hi) > _AVERAGED:
        return False
    low, high = np.percentile(y, (1, 99))
    return bool(np.abs(np.diff(np.clip(y, low, high))).sum() > _NOISY_RANGES * (high - low) > 0)


def finite_runs(y: Floats) -> list[tuple[int, int]]:
    """Half-open index ranges of the stretches between gaps."""
    starts, ends = _runs(np.isfinite(y))
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _runs(mask: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Half-open index ranges of the stretches that are true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return edges[::2], edges[1::2]


def _outer(x: Floats, y: Floats, present: NDArray[np.bool_], end: Literal[0, -1]) -> Point | None:
    """The first (0) or last (-1) point that is present."""
    if not present.any():
        return None
    at = int(present.argmax()) if end == 0 else present.size - 1 - int(present[::-1].argmax())
    return Point(float(x[at]), float(y[at]))


def floats(values: Sequence[float], count: int | None = None) -> Floats:
    """The first `count` values, or all; integers too long for a float become infinite."""
    count = len(values) if count is None else count
    try:
        return np.asarray(values, dtype=np.float64)[:count]
    except OverflowError:  # an integer too long for a float
        return np.array([as_float(v) for v in islice(values, count)], dtype=np.float64)


def as_float(value: float) -> float:
    """A number as a float; integers too long for one become infinite."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
