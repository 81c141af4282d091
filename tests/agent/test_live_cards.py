"""A run's card says how it stands also while its picture is long in coming."""

import asyncio
from pathlib import Path

import pytest

from agent.domain.charts import ChartSpec
from agent.domain.content import Card
from agent.domain.events import Ended, Logged, Noted
from agent.domain.runs import ExitClass, Outcome, RunState
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.stage import Stage
from tests.agent.test_results import rows
from tests.agent.test_watching import card_of
from tests.fakes import FakeCharts


class SlowCharts(FakeCharts):
    """Draws nothing until it is let go, like a process of charts that is not warm yet."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.asked = 0

    async def render(self, spec: ChartSpec) -> bytes:
        self.asked += 1
        await self.go.wait()
        return await super().render(spec)


class FullDisk(FakeCharts):
    """Its pictures have nowhere to go."""

    async def render(self, spec: ChartSpec) -> bytes:
        raise OSError(28, "No space left on device")


class NumberedCharts(FakeCharts):
    """No two of its pictures are the same."""

    async def render(self, spec: ChartSpec) -> bytes:
        return await super().render(spec) + str(len(self.drawn)).encode()


async def test_the_end_of_a_run_does_not_wait_for_its_picture(harness: Harness) -> None:
    charts = harness.charts = SlowCharts()

    def ended_cards() -> list[Card]:
        cards = [content.card for content in harness.adapter.shown if content.card and content.card.kind == "run"]
        return [card for card in cards if any(fact.value == "failed" for fact in card.facts)]

    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        failed = Outcome(state=RunState.FAILED, reason="It broke.")
        await stage.says(run, rows(1, 2, 3, train_loss=0.5), Ended(outcome=failed))
        await harness.until(lambda: bool(ended_cards()))
        assert ended_cards()[0].picture is None
        charts.go.set()
        await harness.until(lambda: ended_cards()[-1].picture is not None)
        assert len(ended_cards()) == 1  # one message, edited


async def test_a_drawing_that_breaks_costs_the_picture_and_not_the_card(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.charts = FullDisk()
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        failed = Outcome(state=RunState.FAILED, reason="It broke.")
        await stage.says(run, rows(1, 2, 3, train_loss=0.5), Ended(outcome=failed))
        await harness.until(lambda: any("It broke." in text for text in harness.adapter.texts()))
        (card,) = [content.card for content in harness.adapter.shown if content.card and content.card.kind == "run"]
        assert [fact.value for fact in card.facts if fact.name == "State"] == ["failed"]
        assert card.picture is None
        assert card.footer.endswith(" · its chart could not be drawn")
        assert "could not be drawn" in card_of(await stage.asks("chart", run.id)).footer
        assert "No space left on device" in caplog.text


async def test_the_end_of_a_run_does_not_wait_for_the_picture_of_what_was_before(harness: Harness) -> None:
    charts = harness.charts = SlowCharts()

    def states() -> list[str]:
        cards = [content.card for content in harness.adapter.shown if content.card and content.card.kind == "run"]
        return [fact.value for card in cards for fact in card.facts if fact.name == "State"]

    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3, train_loss=0.5))
        await harness.until(lambda: charts.asked == 1)
        failed = Outcome(state=RunState.FAILED, reason="It broke.")
        await stage.says(run, Ended(outcome=failed))
        await harness.until(lambda: states() == ["failed"])
        charts.go.set()
        await harness.until(lambda: any(c.card and c.card.picture for c in harness.adapter.shown))
        assert states() == ["failed"]


async def test_a_state_alone_draws_no_chart_anew(harness: Harness) -> None:
    """What changed is the card; its curves are the same, and so is its picture."""

    charts = harness.charts = NumberedCharts()

    def shown() -> list[Card]:
        return [c.card for c in harness.adapter.shown if c.card and c.card.kind == "run" and c.card.picture]

    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3, train_loss=0.5))
        await harness.until(lambda: bool(shown()))
        drawn, first = len(charts.drawn), shown()[-1].picture
        await stage.says(run, Noted(text="Its disk is nearly full."), Logged(lines=("epoch 2",)))
        await harness.until(lambda: any("epoch 2" in str(card) for card in shown()))
        assert shown()[-1].picture == first
        assert len(charts.drawn) == drawn
        assert first is not None
        Path(first.path).unlink()  # by somebody who cleaned up
        await stage.says(run, Logged(lines=("epoch 3",)))
        await harness.until(lambda: shown()[-1].picture != first)
        await stage.says(run, rows(4, train_loss=0.4))
        await harness.until(lambda: len(charts.drawn) == drawn + 2)
        await stage.says(run, Ended(outcome=Outcome(state=RunState.FAILED, reason="It broke.")))
        await harness.until(lambda: any(fact.value == "failed" for card in shown() for fact in card.facts))
        assert len(charts.drawn) == drawn + 2


async def test_a_restart_leaves_what_is_over_alone(harness: Harness) -> None:
    ended = Outcome(state=RunState.STOPPED, reason="Stopped by people.")
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        over = await stage.running()
        await stage.says(over, rows(1, 2, 3, train_loss=0.5), Ended(outcome=ended))
        await harness.until(lambda: any("was stopped" in text for text in harness.adapter.texts()))
        live = await stage.running()
        await stage.says(live, rows(1, 2, train_loss=0.5))
        await harness.until(lambda: any("step 2" in text or "2 of" in text for text in _shown(harness)))
        await brain.delivery.idle()
    drawn, before = (
        len(harness.charts.drawn),
        {ref: len(versions) for ref, versions in harness.adapter.messages.items()},
    )
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        live = await brain.stores.runs.get(live.id)
        await brain.service.stop(live.id)
        await harness.until(lambda: any("stopping" in text for text in _shown(harness)))
        await brain.delivery.idle()
    changed = {ref for ref, versions in harness.adapter.messages.items() if len(versions) != before.get(ref)}
    assert {card.title.split()[0] for ref in changed if (card := harness.adapter.messages[ref][-1].card)} == {live.id}
    assert len(harness.charts.drawn) - drawn == 1


async def test_a_program_that_left_nothing_to_measure_has_succeeded(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        done = Outcome(state=RunState.SUCCEEDED, exit_code=0)
        await stage.says(run, rows(1, 2, 3, train_loss=0.25), Ended(outcome=done))
        await harness.until(lambda: any(card.kind == "result" for card in _cards(harness)))
        (card,) = [card for card in _cards(harness) if card.kind == "result"]
        assert card.title == f"{run.id} succeeded"
        assert "nothing was measured" in card.body
        assert [(fact.name, fact.value) for fact in card.facts] == [("train loss", "0.25")]
        assert card.footer == "Numbers as reported by train.py"
        assert "left no model" in (await stage.asks("predict", run.id, "age=3")).text


def _cards(harness: Harness) -> list[Card]:
    return [content.card for content in harness.adapter.shown if content.card]


def _shown(harness: Harness) -> list[str]:
    return [f"{card.title} {[fact.value for fact in card.facts]}" for card in _cards(harness)]


async def test_what_ended_an_attempt_that_is_tried_again_is_said_once_in_the_thread(harness: Harness) -> None:
    why = "Its supervisor on host gpu-1 was killed or crashed."
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        run = await stage.ended(run, RunState.LOST, ExitClass.LOST, why)
        assert run.state is RunState.QUEUED
        assert run.note.startswith("Its supervisor on host gpu-1 was killed or crashed; restart 1 of 3 comes in")
        said = f"Attempt 1 of run `{run.id}` ended. {why} It is tried again by itself."
        await harness.until(lambda: said in harness.adapter.texts())
        await brain.cards.refresh(run.id)
        await brain.delivery.idle()
        assert harness.adapter.texts().count(said) == 1


async def test_a_lost_run_that_a_person_tries_again_is_not_said_to_have_done_so_itself(harness: Harness) -> None:
    spec = SPEC.model_copy(update={"auto_resume": False})
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.ended(await stage.running(spec), RunState.LOST, ExitClass.LOST, "Its host is gone.")
        await harness.until(lambda: any("is lost. Its host is gone." in text for text in harness.adapter.texts()))
        await brain.service.retry(run.id)
        await brain.cards.refresh(run.id)
        await brain.delivery.idle()
        assert not any("by itself" in text for text in harness.adapter.texts())
