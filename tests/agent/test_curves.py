"""What a window looks like in a chart."""

import math

import numpy as np
import pytest

from agent.domain.runs import Outcome, RunState
from agent.runs.charts.curves import clock_of, series_of
from agent.runs.charts.run_charts import Look, chart_of, file_chart
from agent.series.columns import POINT
from agent.series.pyramid import FAN, cover, fold, spans
from agent.series.window import Window, window
from tests.agent.facts import CARD
from tests.agent.test_usage import A_RUN


def a_window(values: list[float], *, folded: bool) -> Window:
    points = np.zeros(len(values), dtype=POINT)
    points["step"] = points["row"] = np.arange(len(values))
    points["at"], points["value"] = 1000.0 + 3600 * points["row"], values
    return window("loss", [fold(points)] if folded else [points])


def test_points_are_drawn_as_they_are() -> None:
    found = series_of(a_window([1.0, math.nan, math.inf, -math.inf, 2.0], folded=False), "train")
    assert (found.name, list(found.x)) == ("train", [0, 1, 2, 3, 4])
    assert [str(value) for value in found.y] == ["1.0", "nan", "inf", "-inf", "2.0"]
    assert (len(found.low), found.extremes) == (0, None)


def test_spans_say_mean_and_range_and_where_the_extremes_are() -> None:
    values = [float(n) for n in range(2 * FAN)]
    values[3], values[FAN + 2] = -50.0, math.inf
    found = series_of(a_window(values, folded=True), "train")
    assert list(found.x) == [0.0, 23.5, 23.5]
    assert max(found.y) == math.inf
    assert found.low[0] == -50.0
    assert found.extremes is not None
    assert (found.extremes.low_x, found.extremes.low) == (3.0, -50.0)
    assert (found.extremes.high_x, found.extremes.high) == (31.0, 31.0)


def test_by_time_the_axis_is_hours() -> None:
    found = series_of(a_window([5.0, 6.0, 7.0], folded=False), "train", axis="time", since=1000.0)
    assert list(found.x) == [0.0, 1.0, 2.0]


def counted_in(epochs: list[float], steps: list[int]) -> Window:
    points = np.zeros(len(epochs), dtype=POINT)
    points["step"], points["value"] = steps, epochs
    return window("epoch", [points])


def test_by_epoch_steps_between_and_beyond_are_counted_evenly() -> None:
    clock = clock_of(counted_in([1.0, math.nan, 2.0, 2.0, 4.0], [10, 15, 20, 25, 60]))
    assert clock is not None
    assert clock.at(np.array([0.0, 10.0, 15.0, 20.0, 40.0, 60.0, 80.0])).tolist() == [0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0]
    found = series_of(a_window([5.0, 6.0, 7.0], folded=False), "train", axis="epoch", clock=clock)
    assert list(found.x) == pytest.approx([0.0, 0.1, 0.2])
    values = [float(n) for n in range(2 * FAN)]
    found = series_of(a_window(values, folded=True), "train", axis="epoch", clock=clock)
    assert found.extremes is not None
    assert (found.extremes.low_x, found.extremes.high_x) == (0.0, clock.at(np.array([31.0]))[0])


@pytest.mark.parametrize("epochs", [[], [1.0], [2.0, 2.0], [3.0, 2.0, 1.0], [math.nan, 1.0], [math.inf, 1.0, 0.5]])
def test_what_does_not_rise_is_no_clock(epochs: list[float]) -> None:
    assert clock_of(counted_in(epochs, list(range(len(epochs))))) is None


def test_a_window_ends_with_a_point() -> None:
    for size in (16, 17, 256, 4096, 100_000):
        pieces = cover(0, size, size=size, most=16)
        assert pieces[-1].level == 0


def test_nothing_finite_has_no_extremes() -> None:
    found = series_of(a_window([math.nan] * FAN, folded=True), "x")
    assert found.extremes is None
    assert np.isnan(found.y).all()
    assert len(spans(np.zeros(0, dtype=POINT))) == 0


def test_parts_share_a_panel_however_other_programs_call_them() -> None:
    names = ["loss", "eval_loss", "val_accuracy", "train/accuracy", "evaluation"]
    curves = {name: a_window([1.0, 2.0], folded=False) for name in names}
    spec, _ = file_chart("log.jsonl", {"": curves}, Look(), since=0.0)
    shown = {panel.title: [series.name for series in panel.series] for panel in spec.panels}
    assert shown == {"loss": ["eval", "loss"], "accuracy": ["train", "val"], "evaluation": ["evaluation"]}


def test_smoothing_knows_where_attempts_began_and_what_spans_weigh() -> None:
    found = series_of(a_window([1.0, 2.0, 3.0, 4.0], folded=False), "train", anew=[2, 50])
    assert (list(found.breaks), len(found.counts)) == ([3.0], 0)
    by_time = series_of(a_window([1.0, 2.0, 3.0], folded=False), "train", axis="time", since=1000.0, anew=[1])
    assert list(by_time.breaks) == [2.0]
    values = [float(n) for n in range(2 * FAN)]
    values[3], values[4] = math.inf, math.nan
    spanned = series_of(a_window(values, folded=True), "train", anew=[FAN + 2])
    assert list(spanned.breaks) == [23.5]  # the span that holds the first value of the new attempt
    assert [c for c, y in zip(spanned.counts, spanned.y, strict=True) if math.isfinite(y)] == [FAN - 2, FAN]


def test_a_look_smooths_every_panel() -> None:
    curves = {"loss": a_window([1.0, 2.0], folded=False), "lr": a_window([1.0, 2.0], folded=False)}
    spec, _ = file_chart("a file", {"": curves}, Look(smooth=0.6), since=0.0)
    assert [panel.smooth for panel in spec.panels] == [0.6, 0.6]


def test_what_a_run_was_measured_by_goes_before_the_name_of_a_metric() -> None:
    curves = {"accuracy": a_window([1.0, 2.0], folded=False), "churn": a_window([1.0, 2.0], folded=False)}
    card = CARD.model_copy(update={"metric": "churn", "higher_is_better": False})
    outcome = Outcome(state=RunState.SUCCEEDED, scorecard=card, chosen="lightgbm", seconds=9.0)
    for run, directions in (
        (A_RUN, ["higher", ""]),
        (A_RUN.model_copy(update={"outcome": outcome}), ["higher", "lower"]),
    ):
        spec = chart_of(run, curves, Look())
        assert spec is not None
        assert [panel.better for panel in spec.panels] == directions
