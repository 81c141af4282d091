"""Numbers as people read them: values, tick positions and tick labels. Pure text, no drawing."""

import math
from collections.abc import Sequence
from itertools import pairwise

_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
_SPELLED_OUT = 1e10  # a smaller tick label needs no unit where that would give it two decimals
_SHOWN_FRAC = 0.01  # a span of less needs more than four digits
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def value_text(value: float, span: float = math.inf) -> str:
    """About four significant digits: `0.3127`, `12,346`, `1.5M`, `3.2e-5`, `∞`; minus zero is `0`.

    More of them where values beside it lie within a `span` that these would not show: `0.99997`.
    """
    size = abs(value)
    if 1e-3 <= size < 1e6 and 0 < span < size * _SHOWN_FRAC:
        return f"{value:,.{min(15, 2 - math.floor(math.log10(span)))}f}".rstrip("0").rstrip(".")
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if size == 0:
        return "0"
    if size >= 999.95e12 or size < 1e-3:
        return _scientific(value)
    for unit, suffix in _SUFFIXES:
        if size >= unit:
            return f"{value / unit:.4g}{suffix}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def step_text(x: float) -> str:
    """A position on the x axis, without the rounding that a metric gets: `123,456`."""
    return f"{x:,.0f}" if x == math.floor(x) and abs(x) < 1e12 else value_text(x)


def share_text(share: float) -> str:
    """A share as a percentage; all and nothing are said only of all and nothing: `<1 %`, `>99 %`."""
    if math.isnan(share):
        return "–"
    if 0 < share < 0.005:
        return "<1 %"
    if 0.995 <= share < 1:
        return ">99 %"
    return f"{share * 100:.0f} %"


def count_text(count: float, *, brief: bool = False) -> str:
    """A count in few letters: `97`, `1,204` (`1.2k` when brief), `31k`, `1.5M`."""
    if brief and 999.5 <= count < 999_500:
        return f"{count / 1000:.1f}k" if count < 9_950 else f"{count / 1000:.0f}k"
    if brief and 999_500 <= count < 999.5e12:
        return value_text(float(f"{count:.2g}"))
    if 10_000 <= count < 999_500:
        return f"{count / 1000:.0f}k"
    return value_text(count)


def aligned_texts(values: Sequence[float], *, none: str, digits: int = 3) -> list[str]:
    """Values under each other: as many decimals for all as the largest needs, more where one would read as zero."""
    sizes = [abs(v) for v in values if math.isfinite(v) and v]
    if not sizes or not 1e-2 <= max(sizes) < 1000:
        return [none if math.isnan(v) else value_text(v) for v in values]
    most = digits - 1 - math.floor(math.log10(max(sizes)))
    decimals = next(d for d in range(most + 1) if d == most or all(_is_whole(v * 10**d) for v in sizes))
    texts = []
    for value in values:
        text = f"{value:.{decimals}f}" if math.isfinite(value) else none if math.isnan(value) else value_text(value)
        is_lost = math.isfinite(value) and float(text) == 0
        texts.append(value_text(value) if is_lost else text)
    return texts


def linear_ticks(lo: float, hi: float, *, at_most: int, whole: bool = False) -> list[float]:
    """Round positions inside `[lo, hi]`, evenly spaced; `whole` keeps them integers."""
    raw = (hi - lo) / max(at_most, 1)
    decade = 10.0 ** math.floor(math.log10(raw))
    step = next(decade * s for s in _STEPS if decade * s >= raw * (1 - 1e-9))
    if whole:
        step = max(1.0, math.ceil(step))
    first, last = math.ceil(lo / step - 1e-9), math.floor(hi / step + 1e-9)
    return [i * step for i in range(first, last + 1)][: 4 * at_most]


def log_ticks(lo: float, hi: float, *, at_most: int) -> list[float]:
    """Powers of ten, with 2 and 5 between them where there is room, or a plain grid inside one decade."""
    low, high = math.floor(math.log10(lo)), math.ceil(math.log10(hi))
    found: list[float] = []
    for digits in ((1, 2, 5), (1, 3), (1,)):
        found = [d * 10.0**e for e in range(low, high + 1) for d in digits if lo <= d * 10.0**e <= hi]
        if 3 <= len(found) <= at_most + 1:
            return found
    if len(found) > at_most:
        return found[:: math.ceil(len(found) / at_most)]
    return linear_ticks(lo, hi, at_most=at_most)


def tick_texts(ticks: Sequence[float]) -> list[str]:
    """Labels of evenly spaced ticks: one unit and one number of decimals for all of them."""
    largest = max((abs(t) for t in ticks), default=0.0)
    if largest == 0:
        return ["0"] * len(ticks)
    step = min((b - a for a, b in pairwise(ticks) if b > a), default=largest)
    unit, suffix = _unit(largest)
    decimals = next((d for d in range(15) if (size := step / unit * 10**d) > 0.5 and _is_whole(size)), 15)
    if decimals > (1 if largest < _SPELLED_OUT else 3) and 1 < unit <= largest < 1e15:  # `999,920`, not `999.92k`
        decimals, unit, suffix = next((d for d in range(3) if _is_whole(step * 10**d)), 3), 1.0, ""
    return [_trim(f"{t / unit:,.{decimals}f}", suffix) for t in ticks]


def _unit(largest: float) -> tuple[float, str]:
    if largest >= 1e15 or largest < 1e-3:
        exponent = math.floor(math.log10(largest))
        return 10.0**exponent, f"e{exponent}"
    return next(((u, s) for u, s in (*_SUFFIXES, (1e3, "k")) if largest >= u * (10 if s == "k" else 1)), (1.0, ""))


def _trim(text: str, suffix: str) -> str:
    """Zero needs neither unit nor sign."""
    return "0" if float(text.replace(",", "")) == 0 else text + suffix


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) < 1e-6 * max(1.0, abs(value))


def _scientific(value: float) -> str:
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"
