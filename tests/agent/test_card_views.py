"""How the live card of a run draws its curves: set by a button or in words, for all, and kept."""

import asyncio
from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.commands.typed import words_of
from agent.domain.charts import ChartSpec
from agent.domain.content import Button, Card
from agent.domain.errors import BadRequest
from agent.domain.inbound import Clicked
from agent.domain.runs import RunState
from agent.runs.cards.card_view import MOST_CHOSEN, CardView, card_view_of, chooser, mark, view_buttons
from agent.tools.cards.card_views import CardArguments, card_arguments
from tests.agent.conftest import Harness
from tests.agent.stage import Stage, rows
from tests.fakes import GUEST, clicked

RUN = "r-abc123"
NAMES = st.lists(st.text(min_size=1), max_size=MOST_CHOSEN, unique_by=mark)
CHOSEN = NAMES.map(lambda names: {"marks": tuple(map(mark, names))}) | st.just({"every": True})
VIEWS = st.builds(
    lambda log, smooth, newest, chosen, other: CardView(log, smooth, newest, other=other, **chosen),
    st.booleans(), st.integers(0, 999), st.booleans(), CHOSEN, st.sampled_from(["", "r-def456"]),
)  # fmt: skip


@given(VIEWS, st.lists(st.text(), max_size=30))
def test_a_view_survives_the_store_and_buttons_change_one_thing(view: CardView, panels: list[str]) -> None:
    assert card_view_of(view.text()) == view
    before = astuple(view)
    shown = [*view_buttons(RUN, view, panels=panels, beside="r-def456"), *chooser(RUN, view, panels).buttons]
    for button in shown:
        assert words_of(f"card {button.subject}") == ("card", button.subject)
        if button.label == "Select":
            assert card_arguments([button.subject]) == {"run": RUN}
            continue
        to = card_view_of(button.subject.removeprefix("r-abc123."), view)
        assert to is not None
        assert sum(one != other for one, other in zip(before, astuple(to), strict=True)) == (
            2 if view.marks and button.label == "All metrics" else 1
        )
        (change,) = {key: value for key, value in card_arguments([button.subject]).items() if key != "run"}.values()
        assert change in (to.log, to.smooth / 1000, to.newest, to.marks, to.every, to.other)


@given(VIEWS, st.lists(st.text(), min_size=1, max_size=200))
def test_what_is_chosen_in_its_menu_becomes_the_view(view: CardView, panels: list[str]) -> None:
    (menu,) = chooser(RUN, view, panels).menus
    assert len({choice.value for choice in menu.choices}) == len(menu.choices)
    assert {choice.value for choice in menu.choices if choice.chosen} == set(view.marks) & set(map(mark, panels))
    for count in range(min(menu.most, len(menu.choices)) + 1):
        picked = tuple(choice.value for choice in menu.choices[:count])
        subject = menu.subject + "".join(picked)
        assert len(subject) <= 40
        assert card_arguments([subject]) == {"run": RUN, "marks": picked}
        to = card_view_of(subject.removeprefix(f"{RUN}."), view)
        assert to == replace(view, marks=picked, every=False)


def test_smoothing_goes_round() -> None:
    view, seen = CardView(), []
    for _ in range(3):
        (button,) = [one for one in view_buttons("r-abc123", view) if "mooth" in one.label]
        view = card_view_of(button.subject.removeprefix("r-abc123."), view) or view
        seen.append((button.label, view.smooth))
    assert seen == [("Smooth", 600), ("Smoother", 900), ("Not smoothed", 0)]


@pytest.mark.parametrize(
    "text", ["x", "l1.", "l2", "l", "w1000", "w٣", "w01", "l1 q1", ".", "m123", "mabcg", "m" + "0" * 20, "c12", "a"]
)
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
    assert words_of("card r-abc123 looks wrong") is None
    assert words_of("card r-abc123 loss?") is None
    assert card_arguments(["r-abc123", "only", "loss", "please"]) == {"run": RUN, "metrics": ("loss",)}
    assert words_of("card r-abc123 my metric") == ("card", "r-abc123", "my", "metric")


def test_words_choose_metrics_and_a_run_beside() -> None:
    for said, wanted in {
        "": {},
        "r-abc123": {"run": RUN},
        "r-abc123 loss, accuracy": {"run": RUN, "metrics": ("loss", "accuracy")},
        "loss vs r-def456": {"metrics": ("loss",), "beside": "r-def456"},
        "r-abc123 vs r-def456 log": {"run": RUN, "beside": "r-def456", "log_scale": True},
        "compare": {"before": "previous"},
        "r-abc123 vs yesterday": {"run": RUN, "before": "yesterday"},
        "alone": {"beside": ""},
        "add accuracy": {"metrics": ("accuracy",), "change": "add"},
        "r-abc123 hide accuracy": {"run": RUN, "metrics": ("accuracy",), "change": "remove"},
        "all metrics": {"every": True},
        "first": {"every": False},
        "r-abc123.c": {"run": RUN, "beside": ""},
        "r-abc123.m": {"run": RUN, "marks": ()},
    }.items():
        assert card_arguments(said.split()) == wanted, said
        if said and "loss" not in said.split()[:1]:
            assert words_of(f"card {said}") == ("card", *said.split()), said


@pytest.mark.parametrize(
    "words",
    ["r-abc123.x", "r-abc123.", "r-abc123.l1 zoom", "r-12", "r-abc123 steps=3-9", "smooth=2", "r-abc123.c12", "add"],
)
def test_what_says_nothing_about_a_card_is_refused(words: str) -> None:
    with pytest.raises(BadRequest):
        card_arguments(words.split())


def the_card(harness: Harness) -> Card | None:
    cards = [content.card for content in harness.adapter.shown if content.card and content.card.kind == "run"]
    return cards[-1] if cards else None


def labelled(harness: Harness, label: str) -> Button | None:
    card = the_card(harness)
    return next((one for one in card.buttons if one.label == label), None) if card else None


async def press(harness: Harness, stage: Stage, label: str) -> str:
    """What a click on the run card answers to its person, once the card has that button."""
    await harness.until(lambda: labelled(harness, label) is not None)
    button = labelled(harness, label)
    assert button is not None
    before = len(harness.adapter.whispers)
    await stage.brain.router.accept(clicked(button))
    await harness.until(lambda: len(harness.adapter.whispers) > before)
    return harness.adapter.whispers[-1][1].text


async def drawn(harness: Harness) -> ChartSpec:
    """The newest chart, once the cards are quiet."""
    count = -1
    while count != len(harness.charts.drawn):
        count = len(harness.charts.drawn)
        await asyncio.sleep(0.1)
    spec = harness.charts.drawn[-1]
    assert isinstance(spec, ChartSpec)
    return spec


async def test_a_card_keeps_its_view_over_refreshes_a_restart_and_the_end(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(*range(1, 101), train_loss=0.5, **{"baseline/majority/loss": 0.9}))
        assert "on a log scale" in await press(harness, stage, "Log scale")
        assert "smoothed by 0.6" in await press(harness, stage, "Smooth")
        assert "newest quarter" in await press(harness, stage, "Zoom")
        await harness.until(lambda: labelled(harness, "Whole run") is not None)
        assert labelled(harness, "Linear scale") is not None
        assert labelled(harness, "Smoother") is not None
        (panel,) = (await drawn(harness)).panels
        assert (panel.log_scale, panel.smooth, list(panel.series[0].x)) == (True, 0.6, list(range(75, 101)))
        assert [line.value for line in panel.baselines] == [0.9]
        await stage.says(run, rows(*range(101, 201), train_loss=0.5))
        await harness.until(lambda: harness.charts.drawn[-1].panels[0].series[0].x[-1] == 200)
        (panel,) = (await drawn(harness)).panels
        assert (panel.log_scale, panel.smooth, min(panel.series[0].x)) == (True, 0.6, 150)
        await stage.ended(run, RunState.STOPPED)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        before = len(harness.charts.drawn)
        await harness.until(lambda: len(harness.charts.drawn) > before)
        assert (await drawn(harness)).panels[0].log_scale
        assert "the whole run" in await press(harness, stage, "Whole run")
        await harness.until(lambda: labelled(harness, "Zoom") is not None)
        (panel,) = (await drawn(harness)).panels
        assert (panel.log_scale, panel.smooth, min(panel.series[0].x)) == (True, 0.6, 1)


async def test_a_card_without_curves_has_no_such_buttons_and_guests_leave_it_alone(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await harness.until(lambda: the_card(harness) is not None)
        card = the_card(harness)
        assert card is not None
        assert "no metrics yet" in (await stage.asks("card", run.id)).text
        assert "card" not in {button.action for button in card.buttons}
        assert "Guests" in (await stage.asks("card", run.id, "log", person=GUEST)).text
        assert await brain.stores.runs.card_view(run.id) == ""
        assert "smoothed by 0.9" in (await stage.asks("card", run.id, "smooth")).text
        assert await brain.stores.runs.card_view(run.id) == "w900"


async def test_people_choose_its_metrics_in_a_menu(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        values = {f"metric_{number}": 0.5 for number in range(6)}
        await stage.says(run, rows(*range(1, 11), train_loss=0.5, valid_loss=0.6, **values))
        await harness.until(lambda: labelled(harness, "Select") is not None)
        button = labelled(harness, "Select")
        assert button is not None
        await stage.brain.router.accept(clicked(button))
        await harness.until(lambda: bool(harness.adapter.whispers))
        asked = harness.adapter.whispers[-1][1].card
        assert asked is not None
        (menu,) = asked.menus
        assert [choice.label for choice in menu.choices] == ["loss", *values]
        assert not any(choice.chosen for choice in menu.choices)
        picked = [choice.value for choice in menu.choices if choice.label in {"loss", "metric_5"}]

        async def choose(*chosen: str) -> str:
            before = len(harness.adapter.whispers)
            act = Clicked(action=menu.action, subject=menu.subject + "".join(chosen))
            await stage.brain.router.accept(clicked(button).model_copy(update={"act": act, "event_id": str(chosen)}))
            await harness.until(lambda: len(harness.adapter.whispers) > before)
            return harness.adapter.whispers[-1][1].text

        assert "`loss`, `metric_5`" in await choose(*picked)
        await harness.until(lambda: len(harness.charts.drawn[-1].panels) == 2)
        assert [(panel.title, len(panel.series)) for panel in (await drawn(harness)).panels] == [
            ("loss", 2), ("metric 5", 1),
        ]  # fmt: skip
        (again,) = (await stage.asks("card", run.id)).card.menus  # type: ignore[union-attr]
        assert [choice.label for choice in again.choices if choice.chosen] == ["loss", "metric_5"]
        assert "of all metrics" in (await stage.asks("card", run.id, "all")).text
        await harness.until(lambda: len(harness.charts.drawn[-1].panels) == 7)
        assert "of `metric_3`" in (await stage.asks("card", run.id, "metric_3")).text
        await harness.until(lambda: len(harness.charts.drawn[-1].panels) == 1)
        assert "has `loss`, `metric_0`" in (await stage.asks("card", run.id, "nonsense")).text
        assert "6 metrics of" in (await stage.asks("card", run.id, "metric")).text
        await choose()
        await harness.until(lambda: len(harness.charts.drawn[-1].panels) == 4)


async def test_another_run_is_laid_over_its_curves_and_taken_away(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        first = await stage.running()
        await stage.says(first, rows(*range(1, 21), train_loss=0.9, valid_loss=0.8))
        await harness.until(lambda: labelled(harness, "Zoom") is not None)
        assert labelled(harness, "Compare") is None
        await stage.ended(first, RunState.STOPPED)
        second = await stage.running()
        await stage.says(second, rows(*range(1, 11), train_loss=0.5, valid_loss=0.4))
        await harness.until(lambda: (the_card(harness) or Card(kind="run", title="")).title.startswith(second.id))
        assert f"beside `{first.id}`" in await press(harness, stage, "Compare")
        await harness.until(lambda: labelled(harness, "Alone") is not None)
        (panel,) = (await drawn(harness)).panels
        assert (panel.title, [line.name for line in panel.series]) == ("valid loss", [second.id, first.id])
        assert [int(line.x[-1]) for line in panel.series] == [10, 20]
        assert (
            f"`{second.id}` cannot be held against itself"
            in (await stage.asks("card", second.id, "vs", second.id)).text
        )
        assert "There is no run" in (await stage.asks("card", second.id, "vs", "r-zzzzzz")).text
        assert (await press(harness, stage, "Alone")).endswith("shows the whole run.")
        await harness.until(lambda: labelled(harness, "Compare") is not None)
        (panel,) = (await drawn(harness)).panels
        assert [line.name for line in panel.series] == ["train", "valid"]


async def test_metrics_are_chosen_by_the_names_that_people_see(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, train_loss=0.5, valid_loss=0.4, loss_scale=1.0, lr=0.1, **{"my metric": 1.0}))
        for said, shown in {
            "train_loss": "of `loss`.",
            "lr": "of `learning_rate`.",
            "learning rate": "of `learning_rate`.",
            "my metric, loss": "of `loss`, `my metric`.",
            "loss nonsense": "of `loss`. No metric of it is called `nonsense`.",
            "metric loss": "of `loss`, `my metric`.",
        }.items():
            assert (await stage.asks("card", run.id, *said.split())).text.endswith(shown), said


async def test_metrics_are_added_to_a_card_and_taken_off(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, train_loss=0.5, auc=0.7, f1=0.6, lr=0.1, norm=1.0, seen=3))
        for said, shown in {
            "loss": "of `loss`.",
            "add f1 auc": "of `loss`, `auc`, `f1`.",
            "add f1": "shows that already. It shows `loss`, `auc`, `f1`.",
            "hide auc": "of `loss`, `f1`.",
            "without auc": "does not show that. It shows `loss`, `f1`.",
            "remove loss f1": f"shows nothing else. Say what it is to draw: `card {run.id} loss`.",
            "add lr norm seen": f"such as `card {run.id} loss learning_rate norm seen`.",
            "all": "of all metrics.",
            "hide seen": f"such as `card {run.id} loss seen`.",
        }.items():
            assert (await stage.asks("card", run.id, *said.split())).text.endswith(shown), said


@pytest.mark.parametrize("marks", [["loss"], ["12ab.l1"], ["12AB"], ["12ab\n"]])
def test_only_marks_come_into_the_store(marks: list[str]) -> None:
    with pytest.raises(ValidationError):
        CardArguments.model_validate({"run": RUN, "marks": marks})


async def test_of_a_run_beside_only_what_both_have_is_laid_over(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        other = await stage.running()
        await stage.says(other, rows(*range(1, 201), train_loss=0.9))
        await stage.ended(other, RunState.STOPPED)
        empty = await stage.running()
        await stage.ended(empty, RunState.STOPPED)
        run = await stage.running()
        await stage.says(run, rows(*range(1, 101), train_loss=0.5, valid_loss=0.4))
        assert "nothing of it to lay over" in (await stage.asks("card", run.id, "vs", empty.id)).text
        await harness.until(lambda: labelled(harness, "Alone") is not None)
        (panel,) = (await drawn(harness)).panels
        assert [line.name for line in panel.series] == ["train", "valid"]
        said = await stage.asks("card", run.id, "vs", other.id, "zoom")
        assert said.text.endswith(f"now shows the newest quarter of its steps, beside `{other.id}`.")
        await harness.until(lambda: harness.charts.drawn[-1].panels[0].title == "train loss")
        (panel,) = (await drawn(harness)).panels
        assert [(line.name, min(line.x), max(line.x)) for line in panel.series] == [
            (run.id, 75, 100), (other.id, 75, 100),
        ]  # fmt: skip


async def test_of_very_many_metrics_it_says_how_many_are_drawn(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, **{f"metric_{number}": 0.5 for number in range(40)}))
        asked = (await stage.asks("card", run.id)).card
        assert asked is not None
        assert f"`card {run.id} NAME`" in asked.body
        assert "of the first 12 of its 40 metrics" in (await stage.asks("card", run.id, "all")).text
        assert "of `metric_39`" in (await stage.asks("card", run.id, "metric_39")).text
