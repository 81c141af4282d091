"""Pictures of results: what there is to see, on the result's card, by command, by button and in words."""

from pathlib import Path

import pytest

from agent.commands.registry import command_of
from agent.commands.typed import words_of
from agent.domain.content import Card, Content
from agent.domain.errors import BadRequest
from agent.domain.events import Ended
from agent.domain.pictures import Bars, Histogram, Lines, Matrix, PictureSpec, Table
from agent.domain.runs import Outcome, Run
from agent.llm.slots.charts import chart_arguments
from agent.runs.pictures.results import VIEWS, ResultView, data_of, picture_of, result_buttons, views_of
from agent.runs.pictures.results import words_of as said_of
from agent.tools.charts.chart_views import ChartView, view_of
from agent.tools.charts.chart_words import arguments_of
from agent.tools.runs.resulting import results_arguments
from agent.wire import decode, encode
from charts_render.alt_text import describe
from charts_render.pool import ChartPool
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.facts import CARD, facts, outcome
from tests.agent.intents import intent_of
from tests.agent.stage import Stage, rows
from tests.fakes import START
from worker.client.blobs import FolderBlobs

A = "r-abc123"
RUN = Run(id=A, session_id="s", requester="u", state="succeeded", spec=SPEC, created_at=START)  # type: ignore[arg-type]


def card_of(content: Content) -> Card:
    assert content.card is not None, content
    return content.card


def sheet(pictures: PictureSpec | None) -> PictureSpec:
    assert pictures is not None
    return pictures


def test_an_overview_fits_the_task(tmp_path: Path) -> None:
    two = sheet(picture_of(RUN, facts(tmp_path).found, "overview"))
    assert [type(one) for one in two.pictures] == [Matrix, Bars, Lines, Lines]
    assert [one.title for one in two.pictures][1:3] == ["importance", "ROC: yes"]
    many = sheet(picture_of(RUN, facts(tmp_path, 4, text=True, weights=0).found, "overview"))
    assert [type(one) for one in many.pictures] == [Matrix, Bars, Histogram, Lines]
    assert "400 sealed test rows" in many.subtitle


def test_every_view_that_is_offered_has_a_picture_and_words(tmp_path: Path) -> None:
    for found in (
        facts(tmp_path).found,
        facts(tmp_path, 4, text=True, weights=0).found,
        facts(tmp_path, 60, rows=3000).found,
    ):
        there = views_of(found)
        for view in VIEWS:
            assert (picture_of(RUN, found, view) is not None) == (view in there), view
            if view in there:
                assert said_of(RUN, found, view).startswith(f"`{A}`, ")
        assert data_of(found, there)["views"] == list(there)


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    found = facts(tmp_path, 60, rows=3000, weights=40).found
    classes = sheet(picture_of(RUN, found, "classes")).pictures[0]
    assert isinstance(classes, Bars)
    assert classes.title == "F1 of each class, 16 most frequent of 60"
    assert len(classes.names) == 16
    columns = sheet(picture_of(RUN, found, "importance")).pictures[0]
    assert isinstance(columns, Bars)
    assert columns.title == "importance, 16 of 40"
    table = sheet(picture_of(RUN, found, "mistakes")).pictures[0]
    assert isinstance(table, Table)
    assert table.title == f"10 of {found.mistakes.count:,} mistakes, the surest first, alike ones once"
    assert "confusion" not in data_of(found, ())


def test_rare_classes_in_one_cell_are_not_called_right(tmp_path: Path) -> None:
    found = facts(tmp_path, 60, rows=3000).found
    (matrix,) = sheet(picture_of(RUN, found, "confusion")).pictures
    assert isinstance(matrix, Matrix)
    assert matrix.others
    known, every = (sum(matrix.counts[at][at] for at in range(count)) for count in (50, 51))
    right = 3000 - found.mistakes.count
    assert known <= right < every
    assert f"{right:,} of 3,000 right" in said_of(RUN, found, "confusion")
    few = sheet(picture_of(RUN, facts(tmp_path, 4).found, "confusion")).pictures[0]
    assert isinstance(few, Matrix)
    assert not few.others


def test_few_rows_make_wide_intervals(tmp_path: Path) -> None:
    (plane,) = sheet(picture_of(RUN, facts(tmp_path).found, "calibration")).pictures
    assert isinstance(plane, Lines)
    (line,) = plane.lines
    for low, value, high in zip(line.low, line.y, line.high, strict=True):
        assert 0 <= low <= value <= high <= 1
        assert high - low > 0.01


def test_a_baseline_that_was_kept_is_not_drawn_beside_itself(tmp_path: Path) -> None:
    found = facts(tmp_path).found
    same = found.model_copy(
        update={"classes": tuple(one.model_copy(update={"baseline_f1": one.f1}) for one in found.classes)}
    )
    drawn = [sheet(picture_of(RUN, one, "classes")).pictures[0] for one in (found, same)]
    assert [len(one.groups) for one in drawn if isinstance(one, Bars)] == [2, 1]


def test_text_of_the_data_stays_text(tmp_path: Path) -> None:
    """A class or a cell that is Markdown must not become a link in the thread."""
    found = facts(tmp_path, 4, text=True).found
    hostile = "`[here](http://evil.example) <!channel>"
    rows = tuple(one.model_copy(update={"true": hostile, "cells": (hostile,)}) for one in found.mistakes.rows)
    said = said_of(
        RUN, found.model_copy(update={"mistakes": found.mistakes.model_copy(update={"rows": rows})}), "mistakes"
    )
    assert said.count("`'[here](http://evil.example) <!channel>`") == 6


def test_an_outcome_of_before_there_were_facts_is_read() -> None:
    old = encode(Outcome(state="succeeded", scorecard=CARD)).decode().replace(',"results":""', "")  # type: ignore[arg-type]
    assert '"results"' not in old
    assert decode(Outcome, old).results == ""


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_survives_a_button_and_typing(view: ResultView) -> None:
    (button, *_) = result_buttons(A, (view,), shown="overview" if view != "overview" else "roc")
    assert button.action == "results"
    assert results_arguments([button.subject]) == {"run": A, "picture": view}
    assert words_of(f"results {button.subject}") == ("results", button.subject)
    assert results_arguments([A, view]) == {"run": A, "picture": view}
    old = ChartView(A, result=view).subject()  # of cards that were posted before
    assert view_of(old) == ChartView(A, result=view)
    assert arguments_of([old]) == {"run": A, "result": view}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (f"chart {A} results", {"run": A, "result": "overview"}),
        (f"chart {A} confusion matrix", {"run": A, "result": "confusion"}),
        (f"chart confusion {A}", {"run": A, "result": "confusion"}),
        ("chart mistakes", {"result": "mistakes"}),
        (f"results {A}", {"run": A}),
        (f"results {A} roc curve", {"run": A, "picture": "roc"}),
        (f"results precision-recall {A}", {"run": A, "picture": "precision-recall"}),  # which the tool knows
        ("results", {}),
    ],
)
def test_words_say_a_picture(words: str, wanted: dict[str, object]) -> None:
    head, *rest = words_of(words) or ()
    command = command_of(head)
    assert command is not None
    assert (command.tool, command.arguments(rest)) == (
        "run_chart" if head == "chart" else "run_results",
        wanted,
    )


@pytest.mark.parametrize(
    "words", [f"{A} roc loss", f"{A} roc confusion", f"{A} roc vs r-def456", f"{A} roc last=5", f"{A} roc log"]
)
def test_two_things_at_once_are_refused(words: str) -> None:
    with pytest.raises(BadRequest):
        arguments_of(words.split())


@pytest.mark.parametrize(
    ("asked", "view"),
    [
        ("show the confusion matrix of that run", "confusion"),
        ("ROC curve please", "roc"),
        ("what did it get wrong?", "mistakes"),
        (f"which mistakes does {A} make", "mistakes"),
        ("feature importance", "importance"),
        ("which columns matter most?", "importance"),
        ("is it well calibrated?", "calibration"),
        ("plot the precision-recall curve", "pr"),
        ("draw a chart of the results", "overview"),
        ("how good is it per class?", "classes"),
    ],
)
def test_plain_words_say_it_too(asked: str, view: str) -> None:
    assert intent_of(asked) in {"run_chart", "run_results"}
    assert chart_arguments(asked) == {"result": view}


@pytest.mark.parametrize(
    ("asked", "intent"),
    [
        ("train a model that finds mistakes in invoices", "train"),
        ("plot roc_auc over time", "run_chart"),
        ("what went wrong?", "run_status"),
        ("what is the result?", "run_status"),
        ("I am confused", None),
    ],
)
def test_other_words_mean_what_they_meant(asked: str, intent: str | None) -> None:
    assert intent_of(asked) == intent
    assert intent != "run_chart" or "result" not in chart_arguments(asked)


async def test_the_result_card_shows_the_overview_and_leads_to_the_rest(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(
            run, rows(1, 2, 3, train_loss=0.5), Ended(outcome=outcome(harness.folder, facts(harness.folder)))
        )
        await harness.until(lambda: any(_is_result(content) for content in harness.adapter.shown))
        (card,) = [card_of(content) for content in harness.adapter.shown if _is_result(content)]
        assert card.picture is not None
        assert Path(card.picture.path).exists()
        labels = {button.label: button for button in card.buttons}
        assert list(labels)[:5] == ["Confusion", "Mistakes", "Importance", "Classes", "Curves"]
        mistakes = card_of(await stage.asks("results", labels["Mistakes"].subject))
        assert "the surest: row" in mistakes.body
        assert "Results" in {button.label for button in mistakes.buttons}
        curves = card_of(await stage.asks("chart", labels["Curves"].subject))
        (back,) = [button for button in curves.buttons if button.label == "Results"]
        again = card_of(await stage.asks(back.action, back.subject))
        assert again.title == f"Results of {run.id}"
        assert again.picture is not None


async def test_the_overview_is_drawn_once_also_over_a_restart(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(
            run, rows(1, 2, 3, train_loss=0.5), Ended(outcome=outcome(harness.folder, facts(harness.folder)))
        )
        await harness.until(lambda: any(_is_result(content) for content in harness.adapter.shown))
        await brain.cards.refresh(run.id)
    async with harness.open() as brain:
        await brain.cards.refresh(run.id)
    assert len([spec for spec in harness.charts.drawn if isinstance(spec, PictureSpec)]) == 1


def _is_result(content: Content) -> bool:
    return content.card is not None and content.card.kind == "result"


async def test_a_question_in_the_thread_is_answered_with_the_picture(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(
            run, rows(1, 2, 3, train_loss=0.5), Ended(outcome=outcome(harness.folder, facts(harness.folder)))
        )
        await harness.until(lambda: any(_is_result(content) for content in harness.adapter.shown))
        text = await stage.tells("what did it get wrong?")
        assert text == f"Mistakes of `{run.id}`.", "what its card says is not said again"
        cards = [content.card for content in harness.adapter.shown if content.card]
        (shown,) = [card for card in cards if card.title == f"Mistakes of {run.id}"]
        assert shown.picture is not None
        assert "mistakes; the surest: row" in shown.body


async def test_a_run_without_results_says_so(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3, train_loss=0.5))
        assert "is running and has no result" in (await stage.asks("chart", run.id, "results")).text
        await stage.says(run, Ended(outcome=outcome(harness.folder, None)))
        assert "has a result but no pictures" in (await stage.asks("results", run.id)).text
        curves = card_of(await stage.asks("chart", run.id))
        assert "Results" not in {button.label for button in curves.buttons}


@pytest.mark.parametrize("data", [b"", b"{", b'{"found": {"kind": "other"}}', b"x" * 2_000_000])
async def test_facts_that_are_not_there_or_something_else_cost_the_picture_only(harness: Harness, data: bytes) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        bad = outcome(harness.folder, None)
        if data:
            bad = bad.model_copy(
                update={"results": FolderBlobs(harness.folder / "blobs").put_bytes(data, name="x").sha256}
            )
        else:
            bad = bad.model_copy(update={"results": "../../etc/passwd"})
        await stage.says(run, Ended(outcome=bad))
        await harness.until(lambda: any(_is_result(content) for content in harness.adapter.shown))
        (card,) = [card_of(content) for content in harness.adapter.shown if _is_result(content)]
        assert card.picture is None
        assert card.table is not None
        assert "no pictures" in (await stage.asks("chart", run.id, "roc")).text


async def test_the_pictures_are_drawn_for_real(tmp_path: Path) -> None:
    pool = ChartPool()
    try:
        for found in (
            facts(tmp_path).found,
            facts(tmp_path, 4, text=True, weights=0).found,
            facts(tmp_path, 60, rows=3000, weights=40).found,
        ):
            for view in views_of(found):
                spec = sheet(picture_of(RUN, found, view))
                assert (await pool.render(spec)).startswith(b"\x89PNG")
                assert describe(spec)
    finally:
        await pool.close()
