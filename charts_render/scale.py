"""From data units to a fraction of an axis: limits that one wild value cannot spoil, linear or logarithmic.

Knows curves and numbers, not pixels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from charts_render.curve import LARGEST, Curve, Floats
from charts_render.numerals import linear_ticks, log_ticks, tick_texts, value_text

_SAMPLE = 20_000  # points that limits are judged by; the exact extremes are known beside it
_WILD_RATIO = 6.0  # a range is spoilt when a few points make it this many times longer
_FEW = 500  # one point in so many counts as few
_FEWEST_TO_JUDGE = 8
_NARROWEST = 1e-6  # relative to the values: a narrower range would only magnify the rounding of 32 bits
_ROUNDING = 1e-14  # relative to the size of places: nearer ones are the same
_NOTHING = 1e-290  # smaller sizes are none: a part of them would be 0
_PAD_FRAC = 0.07
_LOWEST_LOG = -200.0  # smaller values lie off the scale; the padding must not underflow
_HIGHEST_LOG = 307.0  # its ticks are numbers too
_BASELINE_REACH = 1.5  # a baseline so many ranges away still belongs on the axis


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from `lo` to `hi`, `lo < hi`; both above 0 when `log`. `named` are evenly spaced places with names."""

    lo: float
    hi: float
    log: bool = False
    named: Sequence[tuple[float, str]] = ()

    def fractions(self, values: Floats | Sequence[float]) -> Floats:
        """Places on the axis, 0 at `lo` and 1 at `hi`, not clipped; NaN stays NaN."""
        data = np.asarray(values, dtype=np.float64)
        if not self.log:
            with np.errstate(over="ignore"):  # infinitely far from the axis is far enough
                return (data - self.lo) / (self.hi - self.lo)
        lo, hi = np.log10(self.lo), np.log10(self.hi)
        safe: Floats = np.log10(np.where(data > 0, data, np.nan))
        places: Floats = (np.where(data <= 0, lo - 10 * (hi - lo), safe) - lo) / (hi - lo)
        return places

    def fraction(self, value: float) -> float:
        """One place on the axis, held within it."""
        return float(np.clip(self.fractions([value])[0], 0.0, 1.0))

    def covers(self, value: float) -> bool:
        """Whether the value lies on the axis."""
        return self.lo <= value <= self.hi

    def ticks(self, *, at_most: int, whole: bool = False) -> list[tuple[float, str]]:
        """Positions in data units with their labels; of named places the middle ones of as many equal parts."""
        if self.named:
            parts = min(at_most, len(self.named))
            return [self.named[((2 * part + 1) * len(self.named) - 1) // (2 * parts)] for part in range(parts)]
        if self.log:
            return [(t, value_text(t)) for t in log_ticks(self.lo, self.hi, at_most=at_most)]
        ticks = linear_ticks(self.lo, self.hi, at_most=at_most, whole=whole)
        return list(zip(ticks, tick_texts(ticks), strict=True))


def x_scale(curves: Iterable[Curve], marks: Iterable[float]) -> Scale:
    """The common x axis: from the first to the last place with data, without any over the marks.

    Steps are places, not values: however near they are beside their size, they have the whole axis.
    """
    ends = [float(v) for c in curves if c.x.size for v in (c.x[0], c.x[-1])]
    places = [m for m in marks if abs(m) <= LARGEST]
    if not ends:
        return Scale(*_opened(min(places, default=0.0), max(places, default=1.0)))
    lo, hi = min(ends), max(ends)
    size = max(abs(lo), abs(hi))
    if hi - lo > max(size * _ROUNDING, _NOTHING):
        return Scale(lo, hi)
    max_width = max(min(1.0, size * 0.1), size * 2 * _ROUNDING) if size > _NOTHING else 1.0
    return Scale(lo - max_width, hi + max_width)


def y_scale(
    curves: Sequence[Curve],
    baselines: Iterable[float],
    *,
    log: bool,
    ends: tuple[float | None, float | None] = (None, None),
) -> Scale:
    """The y axis of a panel; linear when `log` is impossible. Without data it runs over the baselines, or 0 to 1.

    `ends` are the lowest and the highest value of a linear axis, where they are set.
    """
    drawn = [c for c in curves if c.first is not None]
    log = log and bool(drawn) and all(c.lo > 0 for c in drawn)
    limits = [_robust_limits(c, log=log) for c in drawn]
    levels = [b for b in baselines if abs(b) <= LARGEST and (b > 0 or not log)]
    if log:
        levels = [float(np.log10(b)) for b in levels]
    if not limits:
        limits = [(min(levels, default=0.0), max(levels, default=1.0))]
    floor, ceiling = (float(end) if end is not None and abs(end) <= LARGEST else None for end in ends)
    if not log:
        limits += [(end, end) for end in (floor, ceiling) if end is not None]
    lo, hi = _with_levels(min(a for a, _ in limits), max(b for _, b in limits), levels)
    if log:
        lo, hi = max(lo, _LOWEST_LOG), max(hi, _LOWEST_LOG)
    lo, hi = _opened(lo, hi, least=np.log10(1 + _NARROWEST) if log else None)
    pad = (hi - lo) * _PAD_FRAC
    if log:
        return Scale(float(10.0 ** (lo - pad)), float(10.0 ** min(hi + pad, _HIGHEST_LOG)), log=True)
    return _fixed(lo - pad, hi + pad, floor, ceiling)


def _fixed(lo: float, hi: float, floor: float | None, ceiling: float | None) -> Scale:
    """The scale with the ends that are set; where nothing else lies between them, with room beside the one that is."""
    if floor is not None and ceiling is not None and floor < ceiling:
        return Scale(*_opened(floor, ceiling))
    if floor is not None:
        return Scale(floor, hi if _opened(floor, hi) == (floor, hi) else floor + max(1.0, abs(floor) / 10))
    if ceiling is not None:
        return Scale(lo if _opened(lo, ceiling) == (lo, ceiling) else ceiling - max(1.0, abs(ceiling) / 10), ceiling)
    return Scale(lo, hi)


def free_scale(
    values: Floats, fixed: tuple[float, float] | None = None, *, also: Iterable[float] = (), pad: bool = True
) -> Scale:
    """An axis of its own: `fixed` where that is a range, else all values but a few wild ones, and those of `also`."""
    if fixed is not None and all(abs(end) <= LARGEST for end in fixed) and fixed[0] < fixed[1]:
        return Scale(*_opened(*fixed))
    seen = values[np.abs(values) <= LARGEST]  # NaN is no smaller
    limits = _spared(seen, float(seen.min()), float(seen.max())) if seen.size else None
    levels = [level for level in also if abs(level) <= LARGEST]
    if limits is None:
        return Scale(*_opened(min(levels, default=0.0), max(levels, default=1.0)))
    lo, hi = _opened(min([limits[0], *levels]), max([limits[1], *levels]))
    max_width = (hi - lo) * _PAD_FRAC if pad else 0.0
    return Scale(lo if lo in levels else lo - max_width, hi if hi in levels else hi + max_width)


def _with_levels(lo: float, hi: float, levels: Iterable[float]) -> tuple[float, float]:
    reach = max(hi - lo, abs(hi) * 0.5) * _BASELINE_REACH
    near = [b for b in levels if lo - reach <= b <= hi + reach]
    return min([lo, *near]), max([hi, *near])


def _opened(lo: float, hi: float, *, least: float | None = None) -> tuple[float, float]:
    """Limits with a length worth an axis: a constant gets room on both sides."""
    size = max(abs(lo), abs(hi))
    if hi - lo > (max(size * _NARROWEST, 1e-290) if least is None else least):
        return lo, hi
    max_width = max(size * 0.1, 1e-290) if least is None else 0.1
    return (lo - max_width, hi + max_width) if size > 0 else (lo - 1.0, hi + 1.0)


def _robust_limits(curve: Curve, *, log: bool) -> tuple[float, float]:
    """All values, unless a few of them make the range many times longer: then the range of the others."""
    y = np.concatenate([curve.low, curve.high]) if curve.ranged else curve.y
    y = y[:: max(1, y.size // _SAMPLE)]
    y = y[np.isfinite(y)]
    lo, hi = curve.lo, curve.hi
    if log:
        y, lo, hi = np.log10(y), float(np.log10(lo)), float(np.log10(hi))
    return _spared(y, lo, hi)


def _spared(y: Floats, lo: float, hi: float) -> tuple[float, float]:
    """The limits of finite values, without the few of them that make the range many times longer."""
    if y.size < _FEWEST_TO_JUDGE:
        return lo, hi
    few = max(1, y.size // _FEW)
    ordered = np.sort(y)
    core_lo, core_hi = float(ordered[few]), float(ordered[-1 - few])
    core = core_hi - core_lo
    if not core > abs(core_hi) * _NARROWEST:
        return lo, hi
    reach = core * _WILD_RATIO
    return (
        lo if lo >= core_lo - reach else core_lo - core * 0.1,
        hi if hi <= core_hi + reach else core_hi + core * 0.1,
    )
