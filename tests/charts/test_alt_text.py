"""The sentences say what the picture says."""

import math

from hypothesis import given, settings

from agent.domain.charts import Baseline, ChartSpec, Panel, Series
from charts_render.alt_text import describe
from charts_render.gallery import examples
from tests.charts.pictures import chart, curve
from tests.charts.test_render import _specs


def test_first_last_best_and_baseline_are_said() -> None:
    spec = chart(curve(2, 0.5, 1), unit="nats", better="lower", baselines=(Baseline("majority", 0.7),))
    assert describe(spec) == (
        "Chart: Ticket classifier. loss: goes from 2 to 1 nats at step 2, best 0.5 (lower is better) at step 1; "
        "baseline majority 0.7."
    )


def test_empty_single_and_infinite() -> None:
    assert "loss: no values yet." in describe(chart(curve(math.nan)))
    assert "loss: is 3 at step 0." in describe(chart(curve(3)))
    assert "goes from 1 to ∞ at step 1, 1 infinite" in describe(chart(curve(1, math.inf)))
    assert describe(ChartSpec("", ())) == "Chart. It has no panels yet."


def test_long_charts_stay_short() -> None:
    many = Panel("m" * 900, tuple(Series("s" * 900, (1,), (2,)) for _ in range(50)))
    assert len(describe(ChartSpec("t", (many,) * 9))) <= 1500
    assert "7 more series" in describe(examples("light")["overlay-eight"])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(_specs)
def test_no_data_raises(spec: ChartSpec) -> None:
    assert describe(spec).startswith("Chart")
