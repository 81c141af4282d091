"""The curves of a run: bounded however long it trains, and honest about the extremes."""

import math

from agent.domain.events import MetricRow
from agent.runs.charts import MOST, Curves


def rows(values: list[float]) -> list[MetricRow]:
    return [MetricRow(step=step, at=1.0, values={"loss": value}) for step, value in enumerate(values)]


def test_a_week_of_points_is_bounded_and_keeps_its_spikes() -> None:
    values = [1.0 + 0.1 * math.sin(n) for n in range(100_000)]
    values[31_415], values[59_265], values[77_777] = 99.0, -99.0, math.nan
    curves = Curves()
    curves.add(rows(values), (1, 1))
    x, y = curves.columns["loss"]
    assert len(x) == len(y) <= MOST
    assert list(x) == sorted(set(x))
    points = dict(zip(x, y, strict=True))
    assert (points[31_415], points[59_265]) == (99.0, -99.0)
    assert math.isnan(points[77_777])
    assert x[-1] == 99_999


def test_few_points_are_all_kept() -> None:
    curves = Curves()
    curves.add(rows([float(n) for n in range(MOST)]), (1, 1))
    assert list(curves.columns["loss"][0]) == list(range(MOST))


def test_the_beginning_of_a_week_is_drawn_as_finely_as_its_end() -> None:
    curves = Curves()
    for start in range(0, 100_000, 500):
        batch = [MetricRow(step=start + n, at=1.0, values={"loss": math.sin(start + n)}) for n in range(500)]
        curves.add(batch, (1, 1))
    x, _ = curves.columns["loss"]
    assert len(x) <= MOST
    tenths = [sum(start <= step < start + 10_000 for step in x) for start in range(0, 100_000, 10_000)]
    assert min(tenths) > MOST / 40, tenths


def test_many_rows_of_one_step_stay_bounded() -> None:
    curves = Curves()
    curves.add([MetricRow(step=7, at=1.0, values={"loss": float(n)}) for n in range(3 * MOST)], (1, 1))
    x, y = curves.columns["loss"]
    assert len(x) <= MOST
    assert (min(y), y[-1]) == (0.0, float(3 * MOST - 1))
