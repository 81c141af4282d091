"""Decimation, axes, numbers, label placement and colours, without a picture."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.domain.charts import Series
from charts_render.curve import clean, decimate, finite_runs
from charts_render.lettering import Letters, tell_apart, width
from charts_render.numerals import (
    aligned_texts,
    count_text,
    linear_ticks,
    log_ticks,
    share_text,
    tick_texts,
    value_text,
)
from charts_render.placement import Box, Plot, spread
from charts_render.scale import y_scale
from charts_render.theme import DASHES, PALETTES, SHAPES


def test_decimation_keeps_extremes_ends_and_order() -> None:
    rng = np.random.default_rng(1)
    x, y = np.arange(100_000.0), rng.normal(0, 1, 100_000)
    y[777], y[55_555] = 99.0, -99.0
    xs, ys = decimate(x, y, columns=300)
    assert xs.size <= 1200
    assert (ys.max(), ys.min(), ys[0], ys[-1]) == (99.0, -99.0, y[0], y[-1])
    assert (np.diff(xs) >= 0).all()
    assert abs(xs[ys.argmax()] - 777) < 100_000 / 300


def test_decimation_keeps_gaps_and_slopes() -> None:
    x = np.arange(10_000.0)
    xs, ys = decimate(x, np.where((x >= 4000) & (x < 5000), np.nan, x), columns=100)
    assert len(finite_runs(ys)) == 2
    assert np.nanmax(np.abs(xs - ys)) == 0  # a slope is no stair


def test_short_series_stay_as_they_are() -> None:
    x = np.arange(10.0)
    assert decimate(x, x, columns=100)[0] is x


def test_disorder_is_sorted_and_lost_places_are_dropped() -> None:
    curve = clean(Series("a", (3, 1, math.nan, 2, 9), (30, 10, 99, 20)))
    assert curve.x.tolist() == [1, 2, 3]
    assert curve.y.tolist() == [10, 20, 30]


def test_first_last_and_best_skip_gaps() -> None:
    curve = clean(Series("a", range(6), (math.nan, 5, 2, 2, 7, math.nan)))
    assert (curve.first, curve.last) == ((1, 5), (4, 7))
    assert (curve.best("lower"), curve.best("higher"), curve.best("")) == ((2, 2), (4, 7), None)


def test_values_under_each_other_share_their_decimals() -> None:
    assert aligned_texts([0.94, 0.925, 0.9, math.nan], none="-") == ["0.940", "0.925", "0.900", "-"]
    assert aligned_texts([0.5, 1e-5, 0.0, -0.25], none="-") == ["0.500", "1e-5", "0", "-0.250"]
    assert aligned_texts([3.0, 12.0], none="-") == ["3", "12"]
    assert aligned_texts([1e6, 2.0, math.inf], none="-") == ["1M", "2", "∞"]


def test_shares_and_counts_say_all_and_nothing_only_of_all_and_nothing() -> None:
    shares = {0: "0 %", 1e-9: "<1 %", 0.31: "31 %", 0.9999: ">99 %", 1: "100 %", math.nan: "–"}
    assert [share_text(share) for share in shares] == list(shares.values())
    assert [count_text(c) for c in (97, 1204, 31_400, 1_500_000)] == ["97", "1,204", "31k", "1.5M"]
    assert [count_text(c, brief=True) for c in (97, 999, 1204, 9_960, 1_512_000)] == [
        "97",
        "999",
        "1.2k",
        "10k",
        "1.5M",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.31274, "0.3127"), (-0.0, "0"), (12345.6, "12,346"), (1_500_000, "1.5M"), (3.2e-5, "3.2e-5"),
        (1e300, "1e300"), (math.inf, "∞"), (math.nan, "NaN"), (1, "1"), (-2.5, "-2.5"), (2.1e12, "2.1T"),
    ],
)  # fmt: skip
def test_values_read_well(value: float, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("ticks", "expected"),
    [
        ([0, 0.5, 1], ["0", "0.5", "1.0"]), ([0, 20_000], ["0", "20k"]), ([0, 1e-4, 2e-4], ["0", "1e-4", "2e-4"]),
        ([1000, 2000], ["1,000", "2,000"]), ([0.25, 0.5], ["0.25", "0.50"]), ([0], ["0"]),
        ([999_920, 999_940], ["999,920", "999,940"]), ([12_000, 12_250], ["12,000", "12,250"]),
        ([1e12, 1e12 + 1], ["1,000,000,000,000", "1,000,000,000,001"]),
        ([0.9999996, 0.9999999], ["0.9999996", "0.9999999"]),
        ([1.25e12, 1.5e12], ["1.25T", "1.50T"]), ([0, 1_500_000], ["0", "1.5M"]),
    ],
)  # fmt: skip
def test_tick_labels_share_unit_and_decimals(ticks: list[float], expected: list[str]) -> None:
    assert tick_texts(ticks) == expected


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(1, 8))
def test_ticks_lie_inside_and_are_even(lo: float, span: float, at_most: int) -> None:
    ticks = linear_ticks(lo, lo + span, at_most=at_most)
    slack = span * 1e-6
    assert all(lo - slack <= t <= lo + span + slack for t in ticks)
    assert len(ticks) <= at_most + 1
    assert len({round(b - a, 9) for a, b in pairwise(ticks)}) <= 1 or np.ptp(np.diff(ticks)) < slack


ENDS = st.one_of(st.none(), st.sampled_from([0.0, 100.0, -1e300, 1e301, math.nan, math.inf, 10**400]), st.floats())


@given(st.lists(st.one_of(st.floats(), st.just(0.0)), max_size=9), ENDS, ENDS, st.booleans())
@example([1.0, 7.0e287], None, None, True)
@example([1.0, 1.3e288], None, None, True)
def test_ends_of_an_axis_that_are_set_hold_whatever_is_drawn(
    values: list[float], floor: float | None, ceiling: float | None, log: bool
) -> None:
    scale = y_scale([clean(Series("a", range(len(values)), values))], [], log=log, ends=(floor, ceiling))
    assert -math.inf < scale.lo < scale.hi < math.inf
    set_ends = [end for end in (floor, ceiling) if end is not None and abs(end) <= 1e300]
    if not scale.log and len(set_ends) == 1:
        assert set_ends[0] in (scale.lo, scale.hi)
    if (
        not scale.log
        and len(set_ends) == 2
        and set_ends[1] - set_ends[0] > max(1.0, abs(set_ends[0]), abs(set_ends[1]))
    ):
        assert [scale.lo, scale.hi] == set_ends
    assert all(math.isfinite(at) for at, _ in scale.ticks(at_most=5))


def test_a_share_has_all_of_its_axis_and_a_count_begins_at_zero() -> None:
    few = clean(Series("a", range(3), (96.0, 97.0, 96.5)))
    scale = y_scale([few], [], log=False, ends=(0.0, 100.0))
    assert (scale.lo, scale.hi) == (0.0, 100.0)
    assert [text for _, text in scale.ticks(at_most=6)] == ["0", "20", "40", "60", "80", "100"]
    scale = y_scale([few], [], log=False, ends=(0.0, None))
    assert (scale.lo, scale.hi) == (0.0, pytest.approx(97 * 1.07))
    assert y_scale([clean(Series("a", (1,), (0.0,)))], [], log=False, ends=(0.0, None)).lo == 0.0
    assert y_scale([few], [], log=True, ends=(0.0, 100.0)).lo > 90


def test_log_ticks_are_powers_where_there_are_many() -> None:
    assert log_ticks(1e-3, 1e3, at_most=8) == pytest.approx([10.0**e for e in range(-3, 4)])
    assert 3 <= len(log_ticks(2, 9, at_most=5)) <= 9


@given(st.lists(st.floats(-50, 350), max_size=8))
def test_spread_keeps_order_distance_and_bounds(wanted: list[float]) -> None:
    placed = spread(wanted, pitch=30, lo=0, hi=300)
    ranked = [placed[i] for i in sorted(range(len(wanted)), key=lambda i: wanted[i])]
    assert all(b - a >= 30 - 1e-6 for a, b in pairwise(ranked))
    assert all(-1e-6 <= p <= 300 + 1e-6 for p in placed)


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread([200.0, 10.0, 100.0], pitch=30, lo=0, hi=300) == [200.0, 10.0, 100.0]


def test_a_text_avoids_the_line_and_other_texts() -> None:
    plot = Plot(Box(0, 0, 300, 100))
    plot.trace(np.array([0.0, 300.0]), np.array([20.0, 20.0]))
    on_line, free = Box(10, 10, 60, 30), Box(10, 60, 60, 80)
    assert plot.claim([on_line, free]) == free
    assert plot.claim([free]) is None


# Source: Machado, Oliveira, Fernandes 2009, severity 1.0, on linear RGB.
_BLIND = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}


def _lab(rgb: np.ndarray) -> np.ndarray:
    xyz = rgb @ np.array([[0.4124, 0.2126, 0.0193], [0.3576, 0.7152, 0.1192], [0.1805, 0.0722, 0.9505]])
    f = np.cbrt(np.clip(xyz / [0.9505, 1.0, 1.089], 1e-6, None))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def _linear(colour: str) -> np.ndarray:
    s = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["protanopia", "deuteranopia"])
def test_any_two_of_eight_lines_keep_apart_for_the_colour_blind(theme: str, kind: str) -> None:
    seen = [_lab(np.clip(np.array(_BLIND[kind]) @ _linear(c), 0, 1)) for c in PALETTES[theme].lines]  # type: ignore[index]
    looks = list(zip(seen, DASHES, SHAPES, strict=True))
    for (a, dash, shape), (b, other, marker) in combinations(looks, 2):
        assert dash != other or float(np.linalg.norm(a - b)) > 12
        assert shape != marker


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_values_and_small_print_stand_out_from_the_ground(theme: str) -> None:
    look = PALETTES[theme]  # type: ignore[index]
    luminance = {
        c: float(_linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (look.ground, look.ink, look.muted, *look.lines)
    }
    ground = luminance.pop(look.ground)
    ratios = {c: (max(y, ground) + 0.05) / (min(y, ground) + 0.05) for c, y in luminance.items()}
    assert min(ratios.values()) >= 3.0, ratios  # WCAG for large letters
    assert ratios[look.muted] >= 4.5


def test_values_that_are_near_to_each_other_have_the_digits_that_tell_them_apart() -> None:
    assert [value_text(v, 4e-5) for v in (0.99997, 0.9999866, -1.5)] == ["0.99997", "0.9999866", "-1.5"]
    assert value_text(12_345.678, 2.0) == "12,345.68"
    assert value_text(0.5371, 0.2) == "0.5371"


def test_a_narrow_range_has_its_axis_to_itself() -> None:
    values = [0.9999 + 2e-5 * math.sin(n) for n in range(300)]
    found = y_scale([clean(Series("a", range(300), values))], [], log=False)
    assert (found.lo, found.hi) == pytest.approx((0.99988, 0.99992), abs=1e-5)
    assert len({text for _, text in found.ticks(at_most=5)}) >= 3
    assert y_scale([clean(Series("a", range(3), [1.0, 1.0 + 1e-8, 1.0]))], [], log=False).hi > 1.05  # rounding


def test_names_keep_what_tells_them_apart() -> None:
    letters = Letters(26.0)
    many = [f"sweep-of-the-learning-rate-{n}-with-a-tail-that-is-the-same" for n in range(8)]
    for names in (many, [f"{'run' * 30}{n}" for n in range(3)], ["eval/loss", "train/loss"]):
        short = tell_apart(names, letters, 200)
        assert len(set(short)) == len(names)
        assert max(width(text, letters) for text in short) <= 200
