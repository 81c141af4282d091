"""Smoothing of a curve: an exponential moving average that owes nothing to a start at zero.

Pure. Knows numpy and curves, neither scales nor pixels. Called by `charts_render.plan`.
"""

import numpy as np
from numpy.typing import NDArray

from charts_render.curve import Curve, Floats

HIGHEST = 0.999  # a weight above it would average over more entries than any picture has columns
_MOST = 2.0**53  # points that one entry stands for
_NEGLIGIBLE = 2.0**-60  # a weight below it changes no float


def smoothed(curve: Curve, weight: float, *, aside: NDArray[np.bool_] | None = None) -> Floats | None:
    """The moving average at every entry of a curve, of shape (n,); None where nothing is averaged.

    It counts points, whatever stands for them: the point `k` before counts `weight` to the power of `k`, and the sum is
    divided by what all of them count, as TensorBoard does. An entry that is the mean of many points counts as so many
    that all have its value. Entries `aside` (shape (n,)) count nothing. NaN stays NaN; gaps and `curve.breaks`
    separate. None for a weight of 0, and where no stretch has two values: a single point is not smoothed.
    """
    y, weight = curve.y, min(weight, HIGHEST)
    finite = np.isfinite(y)
    if not weight > 0 or not finite.any():
        return None
    starts = _starts(curve, finite)
    index = np.arange(y.size)
    if not (finite & (index > starts)).any():
        return None
    counted = finite if aside is None else finite & ~aside
    counts = np.ones(y.shape) if curve.counts is None else np.nan_to_num(curve.counts, posinf=0.0, neginf=0.0)
    counts = np.clip(counts, 0.0, _MOST)
    faded = np.exp(counts * np.log(weight))  # what is left of all before an entry
    amounts = np.where(counted, (1 - faded) / (1 - weight), 0.0)
    # In parts of a power of two beside the largest value: their sums cannot overflow, and no digit changes.
    size = 2.0 ** (int(np.frexp(np.abs(y[finite]).max())[1]) - 1)
    total = _sums(amounts * np.where(counted, y / size, 0.0), faded, index - starts)
    amount = _sums(amounts, faded, index - starts)
    means = np.divide(total, amount, out=np.full(y.shape, np.nan), where=finite & (amount > 0)) * size
    held: Floats = np.clip(means, np.min(y[finite]), np.max(y[finite]))  # rounding must not leave the range; NaN stays
    return held


def _starts(curve: Curve, finite: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The index at which the stretch of each entry began, of shape (n,)."""
    begins = np.zeros(finite.shape, dtype=bool)
    begins[0] = True
    begins[1:] = ~finite[:-1]  # a NaN ends a stretch; that it is a stretch of its own does no harm
    at = np.searchsorted(curve.x, curve.breaks)
    begins[at[at < begins.size]] = True
    return np.maximum.accumulate(np.where(begins, np.arange(begins.size), 0))


def _sums(values: Floats, faded: Floats, reach: NDArray[np.intp]) -> Floats:
    """For each entry the sum of those up to `reach` (n,) before it, each times the `faded` (n,) of those behind it.

    By doubling: sums over 2, 4, 8 ... entries, until what would be added is nothing. Only sums of one sign of weight,
    so that no digits are lost.
    """
    sums, faded, step = values.copy(), faded.copy(), 1
    while step < sums.size and faded.any():
        near = reach[step:] >= step
        sums[step:] += np.where(near, faded[step:] * sums[:-step], 0.0)
        faded[step:] *= faded[:-step]
        faded[faded < _NEGLIGIBLE] = 0.0
        step *= 2
    return sums
