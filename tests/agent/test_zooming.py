"""Parts of a run by time and by epoch: in words, in sentences, and as the steps that they are."""

import pytest

from agent.domain.content import Content
from agent.domain.errors import BadRequest
from agent.domain.events import Measured, MetricRow
from agent.llm.slots.charts import chart_arguments
from agent.tools.charts.chart_words import arguments_of
from tests.agent.conftest import Harness
from tests.agent.intents import intent_of
from tests.agent.stage import Stage


def test_words_say_times_and_epochs() -> None:
    for said, wanted in {
        "r-abc123 loss last=2h": {"run": "r-abc123", "metrics": ("loss",), "minutes": 120},
        "last=90m": {"minutes": 90},
        "last=3epochs": {"newest_epochs": 3.0},
        "last=1epoch": {"newest_epochs": 1.0},
        "loss epochs=2-4.5": {"metrics": ("loss",), "first_epoch": 2.0, "last_epoch": 4.5},
        "epochs=2-": {"first_epoch": 2.0},
        "epochs=-3": {"last_epoch": 3.0},
        "last=500": {"newest": 500},
        "gpu last=2h": {"used": "gpu", "minutes": 120},
    }.items():
        assert arguments_of(said.split()) == wanted, said


@pytest.mark.parametrize(
    "word", ["epochs=4-2", "epochs=3", "epochs=-", "epochs=x", "last=2y", "last=0h", "last=0epochs"]
)
def test_what_is_no_part_is_said(word: str) -> None:
    with pytest.raises(BadRequest, match=r"no (?:epochs|time|steps)"):
        arguments_of([word])


def test_sentences_say_times_and_epochs() -> None:
    for said, wanted in {
        "plot the loss of the last 2 hours": {"metrics": ("loss",), "minutes": 120},
        "draw the loss of the last half hour": {"metrics": ("loss",), "minutes": 30},
        "chart the accuracy of the last 3 epochs": {"metrics": ("accuracy",), "newest_epochs": 3.0},
        "loss of epochs 2 to 4": {"metrics": ("loss",), "first_epoch": 2.0, "last_epoch": 4.0},
        "loss of the last 500 steps": {"metrics": ("loss",), "newest": 500},
        "plot the loss of the last 2h": {"metrics": ("loss",), "minutes": 120},
        "plot the loss of the last 30m": {"metrics": ("loss",), "minutes": 30},
        "plot the loss of the last 2.5 hours": {"metrics": ("loss",), "minutes": 150},
        "plot the last hour and a half": {"minutes": 90},
        "plot the last 2 hours and 10 minutes": {"minutes": 130},
        "draw the gpu memory of the last 2h": {"used": "gpu", "minutes": 120},
        "plot the loss from step 100 to step 200": {"metrics": ("loss",), "first_step": 100, "last_step": 200},
        "plot the loss of steps 1,000 to 2,000": {"metrics": ("loss",), "first_step": 1000, "last_step": 2000},
        "plot the loss since step 500": {"metrics": ("loss",), "first_step": 500},
        "plot the loss until step 1k": {"metrics": ("loss",), "last_step": 1000},
        "plot the loss of the first 100 steps": {"metrics": ("loss",), "last_step": 100},
        "plot the loss since epoch 2": {"metrics": ("loss",), "first_epoch": 2.0},
        "plot the loss of the last 500": {"metrics": ("loss",), "newest": 500},
        "plot loss last 100 of r-abc123": {"metrics": ("loss",), "newest": 100},
        "plot loss after the first 100 steps": {"metrics": ("loss",), "first_step": 100},
        "plot the loss without the first 2 epochs": {"metrics": ("loss",), "first_epoch": 2.0},
        "skip the first 100 steps in the chart": {"first_step": 100},
        "plot the loss since step 1.5k": {"metrics": ("loss",), "first_step": 1500},
        "plot the loss of the last 3 runs": {"metrics": ("loss",)},
        "plot the first 4 metrics": {},
        "plot the last 200 rounds": {"newest": 200},
    }.items():
        assert (intent_of(said), chart_arguments(said)) == ("run_chart", wanted), said


@pytest.mark.parametrize(
    "said",
    [
        "plot the loss from 100 to 200",
        "plot the loss around step 500",
        "draw the curves from step 1.000 to 2.000",
        "plot the last 1.000 steps",
        "plot the last 1e4 steps",
        "plot the first 10% of the loss",
        "plot the last 2 and a half hours",
        "draw the gpu usage of the last 500 steps",
    ],
)
def test_a_part_that_cannot_be_read_is_not_the_whole_run(said: str) -> None:
    with pytest.raises(BadRequest, match="Say"):
        chart_arguments(said)


def drawn(harness: Harness, axis: str) -> tuple[int, float, float]:
    """How many points the newest chart along this axis has, not the live card by step; where it begins and ends."""
    x = [spec for spec in harness.charts.drawn if spec.x_label == axis][-1].panels[0].series[0].x
    return len(x), float(x[0]), float(x[-1])


async def test_a_time_is_the_steps_that_were_logged_in_it(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        began = harness.clock.now().timestamp()
        for first in range(0, 6000, 1000):
            logged = [
                MetricRow(step=step, at=began + 10 * step, values={"loss": 1 / (step + 1)})
                for step in range(first, first + 1000)
            ]
            await stage.says(run, Measured(rows=tuple(logged)))
        card = (await stage.asks("chart", run.id, "loss", "last=1h")).card
        count, first_hour, last_hour = drawn(harness, "hours")
        assert count == 361  # the beginning of the hour and its end
        assert last_hour - first_hour == pytest.approx(1.0)
        assert card is not None
        (back,) = [button for button in card.buttons if button.label == "Whole run"]
        (earlier,) = [button for button in card.buttons if button.label == "Earlier"]
        await stage.asks("chart", earlier.subject)
        assert drawn(harness, "hours")[1] < first_hour  # still along hours
        await stage.asks("chart", back.subject)
        assert drawn(harness, "hours")[1:] == (0.0, pytest.approx(59990 / 3600))
        await stage.asks("chart", run.id, "loss", "last=30d")
        assert drawn(harness, "hours")[1] == 0.0
        assert "one of them" in (await stage.asks("chart", run.id, "last=1h", "steps=3-9")).text


async def test_epochs_are_steps_too(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        began = harness.clock.now().timestamp()
        logged = [MetricRow(step=s, at=began, values={"loss": 1 / s, "epoch": s / 50}) for s in range(1, 501)]
        await stage.says(run, Measured(rows=tuple(logged)))

        async def asks(*words: str) -> Content:
            return await stage.asks("chart", run.id, "loss", *words)

        await asks("epochs=2-4")
        assert drawn(harness, "epoch") == (101, pytest.approx(2.0), pytest.approx(4.0))
        await asks("last=3epochs")
        assert drawn(harness, "epoch") == (151, pytest.approx(7.0), pytest.approx(10.0))
        await asks("epochs=9-")
        assert drawn(harness, "epoch") == (51, pytest.approx(9.0), pytest.approx(10.0))
        await asks("epochs=0-99")
        assert drawn(harness, "epoch")[0] == 500
        assert "it is in epoch 10" in (await asks("epochs=12-14")).text
        other = await stage.running()
        await stage.says(other, Measured(rows=(MetricRow(step=1, at=began, values={"loss": 1.0}),)))
        assert "no metric `epoch`" in (await stage.asks("chart", other.id, "last=2epochs")).text
