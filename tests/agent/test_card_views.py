"""How the live card of a run draws its curves: set by a button or in words, for all, and kept."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.commands import words_of
from agent.domain.charts import ChartSpec
from agent.domain.content import Button, Card
from agent.domain.errors import BadRequest
from agent.domain.runs import RunState
from agent.runs.card_view import CardView, card_view_of, view_buttons
from agent.tools.card_views import card_arguments
from tests.agent.conftest import House
from tests.agent.stage import Stage, rows
from tests.fakes import GUEST, clicked

VIEWS = st.builds(CardView, st.booleans(), st.integers(0, 999), st.booleans())


@given(VIEWS)
def test_a_view_survives_the_store_and_buttons_change_one_thing(view: CardView) -> None:
    assert card_view_of(view.text()) == view
    before = (view.log, view.smooth, view.newest)
    for button in view_buttons("r-abc123", view):
        to = card_view_of(button.subject.removeprefix("r-abc123."), view)
        assert to is not None
        after = (to.log, to.smooth, to.newest)
        assert sum(one != other for one, other in zip(before, after, strict=True)) == 1
        assert words_of(f"card {button.subject}") == ("card", button.subject)
        (change,) = {key: value for key, value in card_arguments([button.subject]).items() if key != "run"}.values()
        assert change in (to.log, to.smooth / 1000, to.newest)


def test_smoothing_goes_round() -> None:
    view, seen = CardView(), []
    for _ in range(3):
        (button,) = [one for one in view_buttons("r-abc123", view) if "mooth" in one.label]
        view = card_view_of(button.subject.removeprefix("r-abc123."), view) or view
        seen.append((button.label, view.smooth))
    assert seen == [("Smooth", 600), ("Smoother", 900), ("Not smoothed", 0)]


@pytest.mark.parametrize("text", ["x", "l1.", "l2", "l", "w1000", "w٣", "w01", "l1 q1", "."])
def test_other_texts_are_no_views(text: str) -> None:
    assert card_view_of(text) is None


def test_words_say_a_change() -> None:
    wanted = {"run": "r-abc123", "log_scale": True, "smooth": 0.6, "newest": True}
    assert card_arguments(["r-abc123", "log,", "smooth=0.6", "zoom"]) == wanted
    assert card_arguments(["linear", "raw", "whole"]) == {"log_scale": False, "smooth": 0.0, "newest": False}
    assert card_arguments(["smoothed"]) == {"smooth": 0.9}
    assert words_of("card r-abc123 log smooth=0.6") == ("card", "r-abc123", "log", "smooth=0.6")
    assert words_of("card games are fun") is None
    assert words_of("card") is None


@pytest.mark.parametrize("words", ["", "r-abc123", "loss", "r-abc123.x", "r-12", "r-abc123 steps=3-9", "smooth=2"])
def test_what_says_nothing_about_a_card_is_refused(words: str) -> None:
    with pytest.raises(BadRequest):
        card_arguments(words.split())


def the_card(house: House) -> Card | None:
    cards = [content.card for content in house.door.shown if content.card and content.card.kind == "run"]
    return cards[-1] if cards else None


def labelled(house: House, label: str) -> Button | None:
    card = the_card(house)
    return next((one for one in card.buttons if one.label == label), None) if card else None


async def press(house: House, stage: Stage, label: str) -> str:
    """What a click on the run card answers to its person, once the card has that button."""
    await house.until(lambda: labelled(house, label) is not None)
    button = labelled(house, label)
    assert button is not None
    before = len(house.door.whispers)
    await stage.brain.desk.accept(clicked(button))
    await house.until(lambda: len(house.door.whispers) > before)
    return house.door.whispers[-1][1].text


async def drawn(house: House) -> ChartSpec:
    """The newest chart, once the cards are quiet."""
    count = -1
    while count != len(house.charts.drawn):
        count = len(house.charts.drawn)
        await asyncio.sleep(0.1)
    spec = house.charts.drawn[-1]
    assert isinstance(spec, ChartSpec)
    return spec


async def test_a_card_keeps_its_view_over_refreshes_a_restart_and_the_end(house: House) -> None:
    async with house.open() as brain:
        stage = Stage(house, brain)
        run = await stage.running()
        await stage.says(run, rows(*range(1, 101), train_loss=0.5, **{"baseline/majority/loss": 0.9}))
        assert "on a log scale" in await press(house, stage, "Log scale")
        assert "smoothed by 0.6" in await press(house, stage, "Smooth")
        assert "newest quarter" in await press(house, stage, "Zoom")
        await house.until(lambda: labelled(house, "Whole run") is not None)
        assert labelled(house, "Linear scale") is not None
        assert labelled(house, "Smoother") is not None
        (panel,) = (await drawn(house)).panels
        assert (panel.log_scale, panel.smooth, list(panel.series[0].x)) == (True, 0.6, list(range(75, 101)))
        assert [line.value for line in panel.baselines] == [0.9]
        await stage.says(run, rows(*range(101, 201), train_loss=0.5))
        await house.until(lambda: house.charts.drawn[-1].panels[0].series[0].x[-1] == 200)
        (panel,) = (await drawn(house)).panels
        assert (panel.log_scale, panel.smooth, min(panel.series[0].x)) == (True, 0.6, 150)
        await stage.ended(run, RunState.STOPPED)
    async with house.open() as brain:
        stage = Stage(house, brain)
        before = len(house.charts.drawn)
        await house.until(lambda: len(house.charts.drawn) > before)
        assert (await drawn(house)).panels[0].log_scale
        assert "the whole run" in await press(house, stage, "Whole run")
        await house.until(lambda: labelled(house, "Zoom") is not None)
        (panel,) = (await drawn(house)).panels
        assert (panel.log_scale, panel.smooth, min(panel.series[0].x)) == (True, 0.6, 1)


async def test_a_card_without_curves_has_no_such_buttons_and_guests_leave_it_alone(house: House) -> None:
    async with house.open() as brain:
        stage = Stage(house, brain)
        run = await stage.running()
        await house.until(lambda: the_card(house) is not None)
        card = the_card(house)
        assert card is not None
        assert "card" not in {button.action for button in card.buttons}
        assert "Guests" in (await stage.asks("card", run.id, "log", person=GUEST)).text
        assert await brain.stores.runs.card_view(run.id) == ""
        assert "smoothed by 0.9" in (await stage.asks("card", run.id, "smooth")).text
        assert await brain.stores.runs.card_view(run.id) == "w900"
