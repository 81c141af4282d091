"""Charts on request: views in buttons and words, and the tool over a real store."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.commands.typed import words_of
from agent.domain.charts import ChartSpec
from agent.domain.content import Card, Content
from agent.domain.errors import BadRequest
from agent.domain.events import Accepted
from agent.domain.runs import RunState
from agent.llm.slots.charts import card_arguments, chart_arguments
from agent.runs.cards.card_view import mark
from agent.tools.charts.chart_views import ChartView, buttons, selector, view_of
from agent.tools.charts.chart_words import arguments_of
from tests.agent.conftest import Harness
from tests.agent.intents import intent_of
from tests.agent.stage import Stage, rows, saved

IDS = st.text(alphabet="0123456789abcdefghjkmnpqrstvwxyz", min_size=6, max_size=6).map(lambda text: f"r-{text}")
STEPS = st.none() | st.integers(-(10**15), 10**15)


@given(
    st.builds(
        ChartView,
        IDS,
        st.lists(st.text(max_size=8).map(mark), max_size=4).map(tuple),
        STEPS,
        STEPS,
        st.none() | st.integers(1, 10**12),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.integers(0, 99),
        st.booleans(),
        st.lists(IDS, max_size=4).map(tuple),
        smooth=st.integers(0, 999),
    )
)
def test_a_view_survives_a_button(view: ChartView) -> None:
    assert view_of(view.subject()) == view


@pytest.mark.parametrize(
    "subject",
    ["", "r-abc", "r-abc123.x", "r-abc123.s5", "r-abc123.mzzzz", "r-abc123.v12", "r-abc123.n-1", "r-abc123.w1000"],
)
def test_other_subjects_are_no_views(subject: str) -> None:
    assert view_of(subject) is None


async def test_hours_count_from_the_host_where_the_script_never_said_that_it_began(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.create()
        await stage.says(run, Accepted(boot_id="b"), rows(1, 2, 3, start=3600.0, pace_s=1800.0))
        await stage.asks("chart", run.id, "time", "steps=2-3")
        drawn = [spec for spec in harness.charts.drawn if isinstance(spec, ChartSpec)]
        (spec,) = [spec for spec in drawn if spec.x_label == "hours"]
        assert list(spec.panels[0].series[0].x) == [1.5, 2.0]


def test_words_say_a_view() -> None:
    words = ["r-abc123", "loss,", "grad_norm", "last=500", "log", "vs", "r-def456"]
    wanted = {
        "run": "r-abc123",
        "metrics": ("loss", "grad_norm"),
        "newest": 500,
        "log_scale": True,
        "others": ("r-def456",),
    }
    assert arguments_of(words) == wanted
    assert arguments_of(["steps=100-", "time"]) == {"first_step": 100, "by_time": True}
    assert arguments_of(["loss", "by", "epoch"]) == {"metrics": ("loss",), "by_epoch": True}
    assert arguments_of([]) == {}
    assert chart_arguments("loss of r-abc123 by epoch") == {"metrics": ("loss",), "by_epoch": True}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("put both curves over each other, hours on x", {"before": "previous", "by_time": True}),
        ("loss against wall clock time", {"metrics": ("loss",), "by_time": True}),
        ("zeig beide Läufe nach Epochs", {"before": "previous", "by_epoch": True}),
        ("is the gpu asleep? its usage over the last 3 hours", {"used": "gpu", "minutes": 180}),
        ("l'utilisation du gpu", {"used": "gpu"}),
        ("draw gpu and ram", {"used": "usage"}),
        ("a graph of the gpu", {"used": "gpu"}),
        ("curves with the wall clock along the bottom", {"by_time": True}),
        ("the loss of the last 50 rounds", {"metrics": ("loss",), "newest": 50}),
    ],
)
def test_how_a_chart_is_drawn_is_read_as_people_say_it(words: str, wanted: dict[str, object]) -> None:
    assert chart_arguments(words) == wanted


def test_smoothing_is_a_word_a_number_or_a_sentence() -> None:
    assert arguments_of(["r-abc123", "loss", "smooth"]) == {"run": "r-abc123", "metrics": ("loss",), "smooth": 0.9}
    assert arguments_of(["smooth=0.6", "log"]) == {"smooth": 0.6, "log_scale": True}
    assert arguments_of(["smooth=0"]) == {}
    assert arguments_of(["r-abc123.w600"]) == {"run": "r-abc123", "smooth": 0.6}
    assert words_of("chart r-abc123 loss smoothed") == ("chart", "r-abc123", "loss", "smoothed")
    for said, weight in {
        "plot the loss smoothed": 0.9,
        "smooth it": 0.9,
        "smooth the loss by 0.6": 0.6,
        "can you smooth the curves by 0.6?": 0.6,
        "draw the accuracy with smoothing 0.95": 0.95,
        "plot it smoothed, last 500 steps": 0.9,
    }.items():
        assert (intent_of(said), chart_arguments(said).get("smooth")) == ("run_chart", weight), said
    for said in ("plot the loss without smoothing", "plot the loss, not smoothed", "draw it unsmoothed"):
        assert (intent_of(said), chart_arguments(said).get("smooth")) == ("run_chart", None), said
    assert intent_of("train again with label smoothing 0.1") != "run_chart"
    assert "smooth" not in chart_arguments("plot the run with label smoothing 0.1")


def test_a_button_smooths_more_and_then_no_more() -> None:
    view, seen = ChartView("r-abc123", log=True), []
    for _ in range(4):
        (button,) = [one for one in buttons(view, first=0, last=9, more=False) if "mooth" in one.label]
        found = view_of(button.subject)
        assert found is not None
        view = found
        seen.append((button.label, view.smooth, view.log))
    assert seen == [("Smooth", 600, True), ("Smoother", 900, True), ("Not smoothed", 0, True), ("Smooth", 600, True)]


@pytest.mark.parametrize(
    "words",
    ["steps=9-3", "steps=x", "smooth=1", "smooth=x", "smooth=.", "last=-4", "last=", "r-12 loss", "r-abc123 vs"],
)
def test_what_cannot_be_read_is_said(words: str) -> None:
    with pytest.raises(BadRequest):
        arguments_of(words.split())


def test_one_can_zoom_in_and_get_back() -> None:
    whole = ChartView("r-abc123")
    labels = {one.label: view_of(one.subject) for one in buttons(whole, first=0, last=1000, more=True)}
    assert labels["Zoom in"] == ChartView("r-abc123", low=500)
    assert labels["Log scale"] == ChartView("r-abc123", log=True)
    assert labels["More metrics"] == ChartView("r-abc123", page=1)
    assert labels["All metrics"] == ChartView("r-abc123", every=True)
    assert "All metrics" not in {one.label for one in buttons(whole, first=0, last=1000, more=False)}
    assert "Whole run" not in labels
    inside = {one.label: view_of(one.subject) for one in buttons(labels["Zoom in"], first=500, last=1000, more=False)}
    assert inside["Whole run"] == whole
    assert inside["Earlier"] == ChartView("r-abc123", low=250, high=750)
    assert "Later" not in inside  # it ends with the newest step
    assert inside["Zoom out"] == ChartView("r-abc123", low=250)
    early = {one.label: view_of(one.subject) for one in buttons(inside["Earlier"], first=250, last=750, more=False)}
    assert early["Later"] == ChartView("r-abc123", low=500, high=1000)
    assert early["Zoom out"] == ChartView("r-abc123", low=0, high=1000)
    assert "Zoom out" not in labels


@given(
    st.lists(st.text(), max_size=40),
    st.builds(ChartView, IDS, low=STEPS, high=STEPS, others=st.lists(IDS, max_size=4).map(tuple), log=st.booleans()),
)
def test_a_menu_leads_to_the_same_steps_of_what_was_chosen(names: list[str], view: ChartView) -> None:
    menus = selector(view, names)
    for menu in menus:
        for count in range(menu.most + 1):
            values = tuple(choice.value for choice in menu.choices[:count])
            subject = menu.subject + "".join(values)
            assert len(subject) <= 90
            assert view_of(subject) == replace(view, marks=values)
    assert bool(menus) == (len(names) > 1) or len(view.subject()) > 60


def test_all_metrics_may_be_asked_for() -> None:
    assert arguments_of(["r-abc123", "all", "metrics", "log"]) == {"run": "r-abc123", "every": True, "log_scale": True}
    assert arguments_of(["metrics"]) == {"metrics": ("metrics",)}
    for said in ("plot all metrics", "draw all the curves", "chart every metric as small multiples"):
        assert (intent_of(said), chart_arguments(said)) == ("run_chart", {"every": True}), said
    assert chart_arguments("plot the loss of all runs") == {"metrics": ("loss",)}


def sheets(harness: Harness) -> list[list[str]]:
    """The panels of every chart so far; the live card draws its own meanwhile."""
    return [[panel.title for panel in spec.panels] for spec in harness.charts.drawn]


async def test_all_metrics_come_on_one_sheet(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, **{f"m{number}": 0.5 for number in range(14)}))
        card = card_of(await stage.asks("chart", run.id))
        assert max(map(len, sheets(harness))) == 4
        (button,) = [one for one in card.buttons if one.label == "All metrics"]
        sheet = card_of(await stage.asks("chart", button.subject))
        assert [f"m{number}" for number in range(12)] in sheets(harness)
        (more,) = [one for one in sheet.buttons if one.label == "More metrics"]
        await stage.asks("chart", more.subject)
        assert ["m12", "m13"] in sheets(harness)
        (menu,) = card.menus
        chosen = "".join(choice.value for choice in menu.choices if choice.label in {"m3", "m13"})
        picked = card_of(await stage.asks("chart", menu.subject + chosen))
        assert ["m3", "m13"] in sheets(harness)
        assert [choice.label for choice in picked.menus[0].choices if choice.chosen] == ["m3", "m13"]


def test_what_a_button_carries_may_be_typed() -> None:
    """The terminal shows a button as the words to type."""
    for button in buttons(ChartView("r-abc123", low=50, others=("r-def456",)), first=50, last=100, more=True):
        words = words_of(f"chart {button.subject}")
        assert words == ("chart", button.subject)
        assert arguments_of(words[1:])["run"] == "r-abc123"
    assert words_of("chart r-abc123 train_loss last=50 log") is not None
    assert words_of("chart shows nothing, why?") is None


def card_of(content: Content) -> Card:
    assert content.card is not None, content
    return content.card


async def test_chosen_metrics_of_the_newest_steps(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(*range(1, 101), train_loss=0.5, grad_norm=2.0))
        card = card_of(await stage.asks("chart", run.id, "loss", "last=10", "log"))
        (panel,) = next(spec.panels for spec in harness.charts.drawn if spec.panels[0].log_scale)
        assert panel.title == "loss"
        assert list(panel.series[0].x) == list(range(91, 101))
        assert card.picture is not None
        labels = {one.label for one in card.buttons} - {"Earlier"}
        assert labels <= {"Zoom in", "Zoom out", "Whole run", "Linear scale", "Smooth", "Usage"}


async def test_runs_are_laid_over(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        one, two = await stage.running(), await stage.running()
        await stage.says(one, rows(1, 2, 3, train_loss=0.5))
        await stage.says(two, rows(1, 2, train_loss=0.7))
        await stage.asks("chart", one.id, "vs", two.id)
        (panel,) = next(spec.panels for spec in harness.charts.drawn if two.id in spec.title and one.id in spec.title)
        assert [series.name for series in panel.series] == [one.id, two.id]


async def test_unknown_metrics_are_named_with_what_there_is(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        assert "no metrics yet" in (await stage.asks("chart", run.id)).text
        await stage.says(run, rows(1, 2, train_loss=0.5))
        assert "`train_loss`" in (await stage.asks("chart", run.id, "bleu")).text
        assert "no values" in (await stage.asks("chart", run.id, "loss", "steps=50-60")).text


async def test_each_word_finds_its_metrics_and_one_that_finds_none_is_said(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, loss=0.5, eval_loss=0.6, accuracy=0.7))
        content = await stage.asks("chart", run.id, "loss", "bleu", "acc")
        assert sheets(harness)[-1] == ["loss", "accuracy"]
        assert card_of(content).footer == "No metric is called `bleu`."


async def test_no_button_of_many_chosen_metrics_is_refused(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        names = [f"metric_{number}" for number in range(18)]
        await stage.says(run, rows(*range(1, 51), **dict.fromkeys([*names, "loss"], 0.5)))
        card = card_of(await stage.asks("chart", run.id, "metric"))
        (more,) = [button for button in card.buttons if button.label == "More metrics"]
        assert card_of(await stage.asks("chart", more.subject)).picture
        assert [f"metric {n}" for n in range(4, 8)] in sheets(harness)


async def test_a_metric_may_have_a_name_of_two_words(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, other=1.0, **{"Train loss": 0.5}))
        assert "No metric" not in await stage.tells("plot the train loss")
        assert ["Train loss"] in sheets(harness)


async def test_a_button_leads_to_its_view(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(*range(1, 101), train_loss=0.5, other=1.0))
        card = card_of(await stage.asks("chart", run.id, "loss"))
        (zoom,) = [one for one in card.buttons if one.label == "Zoom in"]
        again = card_of(await stage.asks("chart", zoom.subject))
        (panel,) = next(spec.panels for spec in harness.charts.drawn if min(spec.panels[0].series[0].x) > 1)
        assert (panel.title, min(panel.series[0].x)) == ("loss", 51)
        assert "Whole run" in {one.label for one in again.buttons}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("loss of the last 500 steps, log scale", {"metrics": ("loss",), "newest": 500, "log_scale": True}),
        ("plot accuracy of r-abc123 against r-def456", {"metrics": ("accuracy",), "others": ("r-def456",)}),
        ("show me the chart over time", {"by_time": True}),
        ("draw train loss from steps 100 to 2000", {"metrics": ("train loss",), "first_step": 100, "last_step": 2000}),
    ],
)
def test_plain_words_say_it_too(words: str, wanted: dict[str, object]) -> None:
    assert intent_of(words) == "run_chart"
    assert chart_arguments(words) == wanted


async def test_a_chart_by_epoch_counts_what_the_run_counts(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        refused = await stage.asks("chart", run.id, "by", "epoch")
        assert "no metrics yet" in refused.text
        await stage.says(run, rows(1, 2, train_loss=1.0))
        assert "no metric `epoch`" in (await stage.asks("chart", run.id, "by", "epoch")).text
        for step in range(100, 400, 100):
            await stage.says(run, rows(step, train_loss=1 / step, epoch=step / 100))
        await stage.asks("chart", run.id, "by", "epoch")
        (spec,) = {id(spec): spec for spec in harness.charts.drawn if spec.x_label == "epoch"}.values()
        (panel,) = spec.panels
        assert panel.title == "loss"
        assert list(panel.series[0].x) == pytest.approx([0.01, 0.02, 1.0, 2.0, 3.0])
        card = (await stage.asks("chart", run.id, "by", "epoch", "log")).card
        assert card is not None
        assert all(".e" in button.subject for button in card.buttons if button.label != "Usage")


async def test_a_smoothed_chart_starts_anew_with_each_attempt(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3, 4, train_loss=0.5), saved(2))
        card = card_of(await stage.asks("chart", run.id, "loss", "smooth=0.6"))
        (panel,) = next(spec.panels for spec in harness.charts.drawn if spec.panels[0].smooth)
        assert (panel.smooth, list(panel.series[0].breaks)) == (0.6, [])
        await stage.asks("pause", run.id)
        await stage.ended(run, RunState.PAUSED)
        await stage.asks("resume", run.id)
        await stage.says(run, rows(3, 4, 5, train_loss=0.1))
        (smoother,) = [one for one in card.buttons if one.label == "Smoother"]
        await stage.asks("chart", smoother.subject)
        (panel,) = next(spec.panels for spec in harness.charts.drawn if spec.panels[0].smooth == 0.9)
        assert list(panel.series[0].breaks) == [3.0]


async def test_a_run_is_held_against_the_one_before_it_or_yesterdays(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        first = await stage.running()
        assert "no other run that began" in (await stage.asks("chart", first.id, "vs", "previous")).text
        await stage.says(first, rows(1, 2, train_loss=0.9))
        await stage.ended(first, RunState.STOPPED)
        harness.clock.forward(86_400)
        second = await stage.running()
        await stage.says(second, rows(1, 2, train_loss=0.7))
        await stage.ended(second, RunState.STOPPED)
        third = await stage.running()
        await stage.says(third, rows(1, 2, train_loss=0.5))
        for words, other in (("previous", second), ("yesterday", first)):
            card = card_of(await stage.asks("chart", third.id, "loss", "vs", words))
            assert card.title == f"Chart of {third.id} and {other.id}"
        harness.clock.forward(10 * 86_400)
        assert "ended yesterday (" in (await stage.asks("chart", third.id, "vs", "yesterday")).text


def test_the_run_to_hold_against_may_be_named_by_its_day() -> None:
    assert arguments_of(["r-abc123", "loss", "vs", "yesterday"]) == {
        "run": "r-abc123", "metrics": ("loss",), "before": "yesterday",
    }  # fmt: skip
    assert arguments_of(["previous"]) == {"metrics": ("previous",)}  # a metric may be called so
    for said, before in {
        "loss of the last 500 steps, log scale, compared with yesterday's run": "yesterday",
        "compare it with yesterday’s run": "yesterday",
        "plot the loss against the last run": "previous",
        "chart the accuracy vs the previous run": "previous",
        "draw the loss of the last run": None,
        "plot the loss against time": None,
    }.items():
        assert (intent_of(said), chart_arguments(said).get("before")) == ("run_chart", before), said


def test_the_live_card_may_be_spoken_of() -> None:
    for said, wanted in {
        "put the card on a log scale": {"log_scale": True},
        "smooth the live card by 0.6": {"smooth": 0.6},
        "zoom the run's card": {"newest": True},
        "the card should be linear and show the whole run": {"log_scale": False, "newest": False},
        "show all metrics on the card": {"every": True},
        "the card should draw only the loss and the accuracy": {"metrics": ("loss", "accuracy")},
        "compare the run's card with the previous run": {"before": "previous"},
        "compare the card with yesterday's run": {"before": "yesterday"},
        "lay r-def456 over the card of r-abc123": {"run": "r-abc123", "beside": "r-def456"},
        "hold r-abc123's card against r-def456": {"run": "r-abc123", "beside": "r-def456"},
        "show the card alone again": {"beside": ""},
        "stop comparing on the card": {"beside": ""},
        "take the other run off the card": {"beside": ""},
        "put only the train loss on the card": {"metrics": ("train loss",)},
        "show everything on the card": {"every": True},
        "the live card should draw valid_loss only": {"metrics": ("valid_loss",)},
        "card of r-abc123: only the loss": {"metrics": ("loss",)},
        "make sure the card shows the accuracy": {"metrics": ("accuracy",)},
        "reset the card": {"log_scale": False, "smooth": 0.0, "newest": False, "every": False, "beside": ""},
    }.items():
        assert (intent_of(said), card_arguments(said)) == ("set_card", wanted), said
    assert intent_of("train a model that predicts fraud from the card table") == "train"


def test_what_only_speaks_of_a_card_changes_none() -> None:
    for said, wanted in {
        "train a model on the card table with metrics": "train",
        "predict the card type with the last run": "predict",
        "look at the card data with the last run": "inspect_dataset",
        "clone the run without the card column, metrics accuracy": "clone_run",
        "stop the run, the card shows loss exploding": "stop_run",
        "please stop it, the card shows the loss is nan": "stop_run",
        "kill r-abc123, the card shows no progress in metrics": "kill_run",
        "pause the run and show the card with the loss": "pause_run",
        "why does the card show no loss?": "run_status",
        "the card shows a nan loss, why?": "run_status",
        "what metrics does the card show": "run_metrics",
        "show me the card of r-abc123": "run_status",
        "compare the card of the last two runs": "compare_runs",
        "the card column is linear in price": None,
        "hold on": None,
    }.items():
        assert intent_of(said) in {wanted, None}, said  # None: which of two is meant is asked
    said = "this card transaction table shows metrics per customer, predict churn"
    assert intent_of(said) in {"train", "predict"}  # the conversation says which
    for said in ("draw all", "draw them all, please", "chart everything", "I want small multiples"):
        assert (intent_of(said), chart_arguments(said)) == ("run_chart", {"every": True}), said
