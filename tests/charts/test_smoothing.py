"""Smoothed curves: what the moving average is, where it ends, and what the picture and its words say of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.charts import ChartSpec, Panel, Series
from agent.runs.charts.curves import series_of
from agent.series.growing import Growing
from agent.series.slices import Slice
from charts_render.alt_text import describe
from charts_render.curve import Floats, clean
from charts_render.plan import plan
from charts_render.render import compose, render
from charts_render.smoothing import smoothed
from tests.charts.picture_cases import NAMES, ODD, collisions

values = st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=2, max_size=60)
weights = st.floats(0.01, 0.999)


def average(y: list[float], weight: float, **more: object) -> Floats:
    found = smoothed(clean(Series("", range(len(y)), y, **more)), weight)  # type: ignore[arg-type]
    return np.array(y) if found is None else found


def one_by_one(y: list[float], weight: float, counts: list[float]) -> list[float]:
    """As one would write it: a sum and what it weighs, forgotten at every gap."""
    found, total, amount = [], 0.0, 0.0
    for value, count in zip(y, counts, strict=True):
        if math.isnan(value):
            total = amount = 0.0
        else:
            for _ in range(int(count)):
                total, amount = weight * total + value, weight * amount + 1.0
        found.append(value if math.isnan(value) else total / amount)
    return found


@given(values, weights, st.data())
def test_it_is_the_average_that_one_would_write(y: list[float], weight: float, data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 40).map(float), min_size=len(y), max_size=len(y)))
    np.testing.assert_allclose(average(y, weight), one_by_one(y, weight, [1.0] * len(y)), rtol=1e-9, atol=1e-6)
    found = average(y, weight, counts=counts)
    np.testing.assert_allclose(found, one_by_one(y, weight, counts), rtol=1e-9, atol=1e-6)


@given(values, weights)
def test_it_stays_within_the_values_and_nan_stays_nan(y: list[float], weight: float) -> None:
    found, raw = average(y, weight), np.array(y)
    assert (np.isnan(found) == np.isnan(raw)).all()
    seen = np.isfinite(raw)
    assert not seen.any() or (found[seen].min() >= raw[seen].min() and found[seen].max() <= raw[seen].max())


@given(st.floats(-1e300, 1e300), st.integers(2, 40), weights)
def test_a_constant_stays_constant(value: float, count: int, weight: float) -> None:
    assert average([value] * count, weight).tolist() == [value] * count


@given(values)
def test_a_weight_of_nothing_changes_nothing(y: list[float]) -> None:
    assert smoothed(clean(Series("", range(len(y)), y)), 0.0) is None
    np.testing.assert_allclose(average(y, 1e-12), y, rtol=1e-6, atol=1e-3)


@given(values, values, weights)
def test_gaps_and_restarts_separate(before: list[float], after: list[float], weight: float) -> None:
    apart = [*average(before, weight), *average(after, weight)]
    np.testing.assert_allclose(
        average([*before, math.nan, *after], weight),
        [*apart[: len(before)], math.nan, *apart[len(before) :]],
        rtol=1e-12,
        atol=1e-300,  # the smallest numbers have few digits
    )
    again = average([*before, *after], weight, breaks=[len(before)])
    np.testing.assert_allclose(again, apart, rtol=1e-12, atol=1e-300)


def test_a_million_points_as_one_by_one() -> None:
    y = np.random.default_rng(1).normal(size=1_000_000)
    found = smoothed(clean(Series("", np.arange(y.size), y)), 0.99)  # type: ignore[arg-type]
    assert found is not None
    assert found[-1] == pytest.approx(one_by_one(y[-9000:].tolist(), 0.99, [1.0] * 9000)[-1], rel=1e-9)


@pytest.mark.parametrize("y", [[], [3.0], [math.nan, 3.0, math.nan], [math.nan] * 4, [math.inf, 1.0, math.inf]])
def test_single_points_are_not_called_smoothed(y: list[float]) -> None:
    spec = ChartSpec("run", (Panel("loss", (Series("", range(len(y)), y),), smooth=0.9),))
    assert plan(spec).panels[0].smooths == (None,)
    assert not any("smoothed" in note for note in plan(spec).panels[0].notes)
    assert "smoothed" not in describe(spec)
    assert render(spec) == render(replace(spec, panels=(replace(spec.panels[0], smooth=0.0),)))


def noisy(count: int, *, smooth: float, seed: int = 1) -> ChartSpec:
    rng = np.random.default_rng(seed)
    y = 0.3 + 2 * np.exp(-np.arange(count) / (count / 4)) + rng.normal(0, 0.15, count)
    return ChartSpec("run", (Panel("loss", (Series("", range(count), y.tolist()),), better="lower", smooth=smooth),))


@pytest.mark.parametrize("count", [80, 4000])
def test_the_picture_says_it_and_labels_stay_those_of_the_values(count: int) -> None:
    spec, raw = noisy(count, smooth=0.9), noisy(count, smooth=0.0)
    drawn, plain = plan(spec).panels[0], plan(raw).panels[0]
    assert "smoothed 0.9" in drawn.notes
    assert (drawn.ends, drawn.best_of, drawn.y) == (plain.ends, plain.best_of, plain.y)
    assert drawn.notes[0] == plain.notes[0]  # the best value
    assert "the line is smoothed 0.9, these values are not" in describe(spec)
    assert "smoothed" not in describe(raw)
    gids = {shape.gid.partition(":")[0] for shape in compose(spec).shapes}
    assert {"smooth", "raw"} <= gids
    assert not {"mean", "series"} & gids


def test_a_wild_value_does_not_bend_it() -> None:
    y = [1.0 + 0.01 * (i % 3) for i in range(400)]
    y[200] = 1e6
    (panel,) = plan(ChartSpec("run", (Panel("loss", (Series("", range(400), y),), smooth=0.9),))).panels
    (found,) = panel.smooths
    assert found is not None
    assert np.nanmax(found[1]) < 1.1


def test_it_depends_on_no_density_of_what_is_drawn() -> None:
    """Read as spans of a pyramid, a long series is smoothed as its points are, and as TensorBoard would."""
    rng = np.random.default_rng(3)
    y = np.exp(-np.arange(100_000) / 25_000) + rng.normal(0, 0.01, 100_000)
    y[70_000:] += 0.5  # a jump shows how far the line lags behind
    rows = Slice(np.arange(y.size), np.full(y.size, math.nan), {"loss": (np.arange(y.size), y)})
    growing = Growing()
    growing.add(rows)
    spanned = series_of(growing.window("loss"), "loss")
    assert len(spanned.counts) < 10_000
    for weight in (0.9, 0.99, 0.999):
        exact = one_by_one(y.tolist(), weight, [1.0] * y.size)
        smooth, every = (
            plan(ChartSpec("run", (Panel("loss", (series,), smooth=weight),))).panels[0].smooths[0]
            for series in (spanned, Series("", range(y.size), y.tolist()))
        )
        assert smooth is not None
        assert every is not None
        at_ends = np.cumsum(spanned.counts).astype(int) - 1
        np.testing.assert_allclose(smooth[1], np.array(exact)[at_ends], atol=0.02)
        np.testing.assert_allclose(every[1], exact, atol=1e-9)


@given(
    st.lists(st.lists(st.sampled_from(ODD) | st.floats(), max_size=12), max_size=4),
    st.lists(st.sampled_from(ODD) | st.floats(), max_size=12),
    st.sampled_from([*ODD, 0.6, 0.9]) | st.floats(),
    st.booleans(),
)
def test_nothing_raises_and_no_texts_meet(lines: list[list[float]], odd: list[float], weight: float, log: bool) -> None:
    series = tuple(Series(f"run {i}", range(len(y)), y, counts=odd, breaks=odd) for i, y in enumerate(lines))
    spec = ChartSpec(NAMES[0], (Panel(NAMES[1], series, log_scale=log, smooth=weight),))
    render(spec)
    assert not collisions(compose(spec))
    assert describe(spec)
