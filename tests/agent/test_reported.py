"""Pictures that trainings log: what is kept of them, and what people see."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agent.commands.registry import command_of
from agent.commands.typed import words_of
from agent.domain.content import Card, Content
from agent.domain.errors import BadRequest
from agent.domain.events import Accepted, Ended, Pictured, Started
from agent.domain.pictures import Images, PictureSpec, Points, Reported, Scatter
from agent.domain.results import Results
from agent.domain.runs import ExitClass, Run
from agent.llm.slots.charts import results_arguments as pictures_asked
from agent.runs.pictures.reported import reported_button, sheet_of
from agent.storage.database import Database
from agent.tools.runs.resulting import results_arguments
from agent.wire import decode, encode
from bot.console.paint import card_panel
from charts_render.alt_text import describe
from charts_render.render import compose, render
from tests.agent.conftest import Harness
from tests.agent.databases import on_both
from tests.agent.engine import SPEC, Engine
from tests.agent.facts import facts, outcome
from tests.agent.intents import intent_of
from tests.agent.stage import Stage, rows
from tests.agent.test_run_life import failed, paused
from tests.charts.picture_cases import collisions
from tests.fakes import START
from tests.recipes.test_pictures import log_each
from trainyard import TrainingRuntime
from worker.client.blobs import FolderBlobs

A, B = "a" * 64, "b" * 64


@pytest.fixture
def engine(either_database: Database) -> Engine:
    return Engine(either_database)


def reported(name: str = "residuals", sha256: str = A, step: int = 1) -> Pictured:
    return Pictured(name=name, form="scatter", step=step, sha256=sha256)


async def kept(engine: Engine, run: Run) -> list[tuple[str, int, str, int]]:
    return [(one.name, one.step, one.sha256[0], one.attempt) for one in await engine.runs.pictures(run.id)]


@on_both
async def test_the_newest_of_each_name_is_kept(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(
        run, Accepted(boot_id="b"), Started(model="m", total_steps=9), reported(), reported("map"), reported(step=2)
    )
    assert await kept(engine, run) == [("map", 1, "a", 1), ("residuals", 2, "a", 1)]
    await engine.says(run, reported(sha256=B, step=1))  # back to a checkpoint: later said, not a higher step
    assert await kept(engine, run) == [("map", 1, "a", 1), ("residuals", 1, "b", 1)]
    assert engine.changed[-1] == run.id


@on_both
async def test_what_is_sent_again_or_late_changes_nothing(engine: Engine) -> None:
    run = await engine.create()
    run = await engine.says(run, Accepted(boot_id="b"))
    events = [engine.event(run, reported(step=step, sha256=sha)) for step, sha in ((1, A), (2, B), (3, A))]
    await engine.service.take([events[2]])
    assert await kept(engine, run) == [("residuals", 3, "a", 1)]
    await engine.service.take([*events, *events])
    assert await kept(engine, run) == [("residuals", 3, "a", 1)]
    engine.restart()
    await engine.service.take(events[::-1])
    assert await kept(engine, run) == [("residuals", 3, "a", 1)]


@on_both
async def test_an_attempt_that_goes_on_keeps_those_of_earlier_ones(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, Accepted(boot_id="b"), Started(model="m", total_steps=9), reported(step=5), reported("map"))
    await engine.service.pause(run.id)
    await engine.says(run, paused())
    await engine.service.resume(run.id)
    run = await engine.says(run, Accepted(boot_id="b"), reported(step=4, sha256=B))
    assert run.attempt == 2
    assert await kept(engine, run) == [("map", 1, "a", 1), ("residuals", 4, "b", 2)]
    await engine.says(run, reported("map", step=9), attempt=1)  # of a superseded attempt
    assert await kept(engine, run) == [("map", 1, "a", 1), ("residuals", 4, "b", 2)]
    await engine.says(run, reported("last", step=9), failed(ExitClass.USER_ERROR))
    assert [name for name, *_ in await kept(engine, run)] == ["last", "map", "residuals"]


@on_both
async def test_a_step_that_no_database_holds_is_no_picture(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, Accepted(boot_id="b"), reported(step=2**70), reported("map"))
    assert [name for name, *_ in await kept(engine, run)] == ["map"]


@pytest.mark.parametrize("name", ["", "A", "a b", "a.b", "-a", "a" * 33, "a\n", "é", "../a"])
def test_names_are_fit_for_buttons(name: str) -> None:
    with pytest.raises(ValidationError):
        reported(name)


def test_what_was_stored_under_the_old_names_is_read() -> None:
    """Files of before 2026-11-24 say `form` for `kind`, and have `left_out` beside the picture."""
    old = {"form": "scatter", "title": "t", "groups": [{"x": [1], "y": ["Infinity"]}]}
    one = decode(Reported, json.dumps({"step": 7, "left_out": 3, "picture": old}))
    assert (one.step, one.picture) == (7, Scatter("t", (Points("", (1,), (math.inf,)),), left_out=3))
    pictured = {"kind": "pictured", "rows": 1, "beaten": "mean", "words": ""}
    found = {**pictured, "pictures": [{"view": "residuals", "picture": old}]}
    (shown,) = decode(Results, json.dumps({"found": found})).found.pictures  # type: ignore[union-attr]
    assert (shown.origin, shown.picture.kind) == ("measured", "scatter")


# In the thread

R = "r-abc123"
RUN = Run(id=R, session_id="s", requester="u", state="running", spec=SPEC, created_at=START)  # type: ignore[arg-type]


def files_of(folder: Path, **about: Any) -> dict[str, Reported]:
    """A picture of each kind, as a script's runtime writes it, by name."""
    runtime = TrainingRuntime("r", folder)
    runtime.log_metrics(step=40, loss=1.0)
    names = log_each(runtime, **about)
    runtime.finish()
    return {name: Reported.model_validate(json.loads((folder / f"pictures/{name}.json").read_text())) for name in names}


def stored(harness: Harness, name: str, reported: Reported) -> Pictured:
    """In the store, and what its host says of it."""
    kept = FolderBlobs(harness.folder / "blobs").put_bytes(encode(reported), name=name)
    return Pictured(name=name, form=reported.picture.kind, step=reported.step, sha256=kept.sha256)


def card_of(content: Content) -> Card:
    assert content.card is not None, content
    return content.card


def newest_sheet(harness: Harness) -> PictureSpec:
    return [spec for spec in harness.charts.drawn if isinstance(spec, PictureSpec)][-1]


def labels(card: Card) -> list[str]:
    return [button.label for button in card.buttons]


async def test_they_are_shown_while_it_trains_by_name_and_together(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3, train_loss=0.5))
        await harness.until(lambda: bool(harness.adapter.shown))
        assert "has logged no pictures" in (await stage.asks("results", run.id, "pictures")).text
        assert "is running and has no result" in (await stage.asks("results", run.id)).text
        files = files_of(harness.folder / "run")
        await stage.says(run, *(stored(harness, name, reported) for name, reported in files.items()))
        every = card_of(await stage.asks("results", run.id))
        assert every.title == f"Pictures of {run.id}"
        assert "reported by train.py at step 40; not measured on sealed test rows" in every.body
        assert every.picture is not None
        sheet = newest_sheet(harness)
        assert len(sheet.pictures) == 4
        assert "reported by train.py at step 40" in sheet.subtitle
        assert labels(every) == [
            "Confusion", "Entities", "Forecast", "Lengths", "Mistakes", "Residuals", "Samples", "Scores", "Curves",
        ]  # fmt: skip
        for button in every.buttons[:-1]:
            one = card_of(await stage.asks(button.action, button.subject))
            assert one.title == f"{button.label} of {run.id}"
            assert "Pictures" not in labels(one)
            assert button.label not in labels(one)
        typed = await stage.asks("results", run.id, "residuals")
        assert card_of(typed).title == f"Residuals of {run.id}"
        missing = await stage.asks("results", run.id, "nothing")
        assert "has no picture `nothing`. It logged `confusion`, `entities`, `forecast`" in missing.text


async def test_the_live_card_leads_to_them_once_there_are_some(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3, train_loss=0.5))
        await brain.cards.refresh(run.id)
        await brain.delivery.idle()
        assert "Pictures" not in labels(card_of(harness.adapter.shown[-1]))
        await stage.says(run, stored(harness, "residuals", files_of(harness.folder / "run")["residuals"]))
        await brain.cards.refresh(run.id)
        await brain.delivery.idle()
        (button,) = [button for button in card_of(harness.adapter.shown[-1]).buttons if button.label == "Pictures"]
        assert card_of(await stage.asks(button.action, button.subject)).title == f"Residuals of {run.id}"


async def test_what_was_measured_goes_first_and_what_was_told_stays_within_reach(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        files = files_of(harness.folder / "run")
        await stage.says(
            run, rows(1, 2, 3, train_loss=0.5), *(stored(harness, n, reported) for n, reported in files.items())
        )
        await stage.says(run, Ended(outcome=outcome(harness.folder, facts(harness.folder))))
        await harness.until(lambda: any(card.card and card.card.kind == "result" for card in harness.adapter.shown))
        (result,) = [card_of(one) for one in harness.adapter.shown if one.card and one.card.kind == "result"]
        assert labels(result)[:5] == ["Confusion", "Mistakes", "Importance", "Pictures", "Curves"]
        measured = card_of(await stage.asks("results", run.id, "confusion"))
        assert "sealed test rows" in measured.body
        assert "reported" not in measured.body
        reported = card_of(await stage.asks("results", run.id, "reported", "confusion"))
        assert "reported by train.py" in reported.body
        assert labels(reported)[-2:] == ["Results", "Curves"]
        assert card_of(await stage.asks("results", run.id)).title == f"Results of {run.id}"


async def test_of_an_earlier_attempt_is_said(harness: Harness) -> None:
    """Another program may have reported it."""
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        files = files_of(harness.folder / "run")
        await stage.says(
            run, stored(harness, "residuals", files["residuals"]), stored(harness, "map", files["residuals"])
        )
        await brain.service.pause(run.id)
        await stage.says(run, paused())
        await brain.service.resume(run.id)
        run = await stage.says(run, Accepted(boot_id="b"), stored(harness, "map", files["residuals"]))
        assert run.attempt == 2
        old = card_of(await stage.asks("results", run.id, "residuals"))
        assert "reported by train.py at step 40 in attempt 1; not measured" in old.body
        sheet = newest_sheet(harness)
        assert "in attempt 1" in sheet.subtitle
        assert "attempt" not in card_of(await stage.asks("results", run.id, "map")).body


async def test_one_that_is_gone_is_said(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, reported("residuals"), reported("map", B))
        bad = FolderBlobs(harness.folder / "blobs").put_bytes(b'{"step": 1}', name="x")
        await stage.says(run, reported("odd", bad.sha256))
        for name in ("residuals", "odd"):
            assert f"logged `{name}`, but it is no longer" in (await stage.asks("results", run.id, name)).text
        assert "no longer in the store" in (await stage.asks("results", run.id)).text


async def test_a_picture_may_be_called_anything(harness: Harness) -> None:
    """A script may choose the very words of the command, or what looks like a run."""
    names = (
        "all",
        "curve",
        "matrix",
        "mistake",
        "pictures",
        "precision-recall",
        "r-abc123",
        "results",
        "reported",
        "roc",
        "told",
    )
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        one = files_of(harness.folder / "run")["residuals"]
        await stage.says(run, *(stored(harness, name, one) for name in names))
        for name in names:
            button = reported_button(run.id, name)
            shown = card_of(await stage.asks(button.action, button.subject))
            assert shown.title == f"{button.label} of {run.id}"
            typed = card_of(await stage.asks("results", run.id, "reported", name))
            assert typed.title == shown.title


async def test_a_wrong_word_is_told_what_there_is(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3, train_loss=0.5))
        await stage.says(run, Ended(outcome=outcome(harness.folder, facts(harness.folder))))
        said = (await stage.asks("results", run.id, "confuson")).text
        assert "has no picture `confuson`" in said
        measured = card_of(await stage.asks("results", run.id, "reported", "confusion"))  # it was measured
        assert measured.title == f"Confusion of {run.id}"
        assert "`confusion`, `mistakes`" in said


async def test_no_words_of_the_script_become_markup(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        evil = "[here](http://evil.example) <!channel> @everyone `"
        await stage.says(run, *(stored(harness, n, t) for n, t in files_of(harness.folder / "run", title=evil).items()))
        for words in ((), ("samples",), ("pictures",)):
            card = card_of(await stage.asks("results", run.id, *words))
            assert "evil" not in card.model_copy(update={"picture": None}).model_dump_json()


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (f"results {R} residuals", {"run": R, "picture": "residuals"}),
        (f"results {R} pictures", {"run": R, "reported": True}),
        (f"results {R}.reported.map", {"run": R, "picture": "map", "reported": True}),
        (f"results {R} reported confusion", {"run": R, "picture": "confusion", "reported": True}),
        (f"results {R}", {"run": R}),
        ("results pictures", {"reported": True}),
        ("results reported", {"reported": True}),
        ("results told", {"reported": True}),  # as buttons and commands of before 2026-11-24 say
        (f"results {R} told confusion", {"run": R, "picture": "confusion", "reported": True}),
        (f"results {R}.told.map", {"run": R, "picture": "map", "reported": True}),
        (f"results {R}.told.told", {"run": R, "picture": "told", "reported": True}),
        (f"results {R}.reported.told", {"run": R, "picture": "told", "reported": True}),
        ("results residuals", {"picture": "residuals"}),
        (f"results {R}.reported.all", {"run": R, "picture": "all", "reported": True}),
        (f"results {R}.reported.r-def456", {"run": R, "picture": "r-def456", "reported": True}),
        (f"results {R}.reported.reported", {"run": R, "picture": "reported", "reported": True}),
    ],
)
def test_words_say_which(words: str, wanted: dict[str, object]) -> None:
    head, *rest = words_of(f"/train {words}") or ()
    command = command_of(head)
    assert command is not None
    assert (command.tool, command.arguments(rest)) == ("run_results", wanted)
    if len(rest) < 3:
        assert words_of(words) == (head, *rest)  # in a thread without /train too


@pytest.mark.parametrize("words", ["results look good", "results were bad, why", "result of that run please"])
def test_talk_stays_talk(words: str) -> None:
    assert words_of(words) is None


@pytest.mark.parametrize("words", [f"{R} a b", f"{R} r-def456", "r-abc1 x", f"{R} {'x' * 50}"])
def test_two_at_once_are_refused(words: str) -> None:
    with pytest.raises(BadRequest):
        results_arguments(words.split())


def test_what_is_no_run_is_said() -> None:
    with pytest.raises(BadRequest, match="`r-zzz` is not a run id"):
        results_arguments(["r-zzz"])


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_each_is_drawn_without_overlap(tmp_path: Path, theme: Any, width: int) -> None:
    for name, one in files_of(tmp_path).items():
        spec = sheet_of(RUN, [one], theme=theme)
        spec = PictureSpec(spec.title, spec.pictures, spec.subtitle, spec.theme, width)
        assert collisions(compose(spec)) == [], name
        assert render(spec).startswith(b"\x89PNG")
        assert describe(spec)
        if isinstance(spec.pictures[0], Images):
            assert "cannot be shown" not in describe(spec)


async def test_the_terminal_says_what_to_type(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, *(stored(harness, n, t) for n, t in files_of(harness.folder / "run").items()))
        card = card_of(await stage.asks("results", run.id, "residuals"))
        lines = [str(part) for part in card_panel(card).renderable.renderables]  # type: ignore[union-attr]
        assert any(f"results {run.id} reported samples" in line for line in lines)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("show me the residuals", {"picture": "residuals"}),
        ("can you show the pictures of r-abc123?", {"reported": True}),
        ("draw the forecast please", {"reported": True, "picture": "forecast"}),
        ("show some samples", {"reported": True, "picture": "sample"}),
        ("show me the token lengths", {"reported": True, "picture": "token-length"}),
        ("plot the clusters", {"reported": True, "picture": "cluster"}),
    ],
)
def test_plain_words_ask_for_one(asked: str, wanted: dict[str, object]) -> None:
    assert intent_of(asked) == "run_results"
    assert pictures_asked(asked) == wanted


@pytest.mark.parametrize(
    ("asked", "intent"),
    [
        ("train a model on these samples", "train"),
        ("forecast the sales", "train"),
        ("draw a chart of the results", "run_chart"),
        ("show me the confusion matrix", "run_chart"),
        ("what is the status of my forecast?", "run_status"),
        ("show me the cluster", "list_hosts"),
        ("show the cluster load", "list_hosts"),
        ("show status of the cluster", "list_hosts"),
        ("show pictures of the result", "run_chart"),
        ("show me a picture of the gpu usage", "run_chart"),
        ("show me a forecast: train a model on the csv", "train"),
    ],
)
def test_other_requests_mean_what_they_meant(asked: str, intent: str) -> None:
    assert intent_of(asked) == intent


async def test_a_question_in_the_thread_shows_what_fits(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        files = files_of(harness.folder / "run")
        reported = [stored(harness, "wine-clusters", files["residuals"]), stored(harness, "samples", files["samples"])]
        await stage.says(run, *reported, stored(harness, "late-clusters", files["residuals"]))
        for asked, named in (
            ("show me the samples", "`samples`, reported by train.py"),
            ("show the clusters", "`late-clusters`, `wine-clusters`, reported by"),
        ):
            assert await stage.tells(asked) == f"Pictures that the training of `{run.id}` logged."
            assert any(content.card and named in content.card.body for content in harness.adapter.shown)
