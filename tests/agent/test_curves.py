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
