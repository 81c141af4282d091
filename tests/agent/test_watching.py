"""Log, metrics, checkpoints, attempts, comparison and cluster: what people see of a run that lives."""

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from agent.domain.charts import ChartSpec
from agent.domain.content import Card, Content
from agent.domain.datasets import DatasetRef
from agent.domain.errors import BadRequest
from agent.domain.events import Accepted, Beat, Ended, Logged, Measured, MetricRow, Noted
from agent.domain.orders import GpuInfo, HostInfo, LabelPrediction, Predictions, PredictOrder
from agent.domain.runs import (
    Artifact,
    ExitClass,
    GpuUsage,
    JobKind,
    Outcome,
    RunSpec,
    RunState,
    Score,
    Scorecard,
    Script,
    Serving,
    Usage,
)
from agent.ports import ToolCall
from agent.runs.cards.pace import seconds_left, steps_a_second
from agent.runs.cards.run_cards import pace_words, run_card, state_text
from agent.runs.charts.run_charts import Look, chart_of, comparison_of, restarts
from agent.series.columns import POINT
from agent.series.window import window
from agent.tools.dispatch import Dispatcher
from agent.tools.runs.log_views import LogView, shortened, view_of
from agent.tools.runs.whole_log import LINES_READ
from agent.tools.tool import Caller
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.stage import Stage, lines, rows, saved
from tests.agent.test_rules import run_at
from tests.agent.test_turns import attached
from tests.fakes import ALICE, BOB, START, THREAD, clicked, host, said
from worker.client.blobs import FolderBlobs

_S = RunState


def card_of(content: Content) -> Card:
    assert content.card is not None, content
    return content.card


def button(card: Card, label: str) -> str:
    (found,) = [one.subject for one in card.buttons if one.label == label]
    return found


async def test_a_log_is_paged_there_and_back(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        for begin in range(0, 100, 7):
            await stage.says(run, lines(*(f"line {n}" for n in range(begin, min(100, begin + 7)))))
        newest = card_of(await stage.asks("logs", run.id))
        assert newest.log == tuple(f"line {n}" for n in range(70, 100))
        pages = [newest]
        while any(one.label == "Older" for one in pages[-1].buttons):
            (older,) = [one for one in pages[-1].buttons if one.label == "Older"]
            before = len(harness.adapter.whispers)
            await brain.router.accept(clicked(older))
            await harness.until(lambda before=before: len(harness.adapter.whispers) > before)  # type: ignore[misc]
            pages.append(card_of(harness.adapter.whispers[-1][1]))
        assert [line for page in reversed(pages) for line in page.log] == [f"line {n}" for n in range(100)]
        assert "no older" in pages[-1].footer
        back = card_of(await stage.asks("logs", button(pages[-1], "Newer")))
        assert back.log == pages[-2].log
        assert card_of(await stage.asks("logs", button(pages[1], "Newer"))).log == newest.log
        assert card_of(await stage.asks("logs", run.id, "older")).log == pages[1].log


async def test_no_line_is_skipped_where_fewer_than_a_page_have_room(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        said = tuple(f"line {n:03d} {'x' * (n * 7 % 140)}" for n in range(90))
        await stage.says(run, lines(*said))
        pages = [card_of(await stage.asks("logs", run.id))]
        while any(one.label == "Older" for one in pages[-1].buttons):
            pages.append(card_of(await stage.asks("logs", button(pages[-1], "Older"))))
        assert len(pages) > 3
        assert tuple(line for page in reversed(pages) for line in page.log) == said
        assert all(f"{len(page.log)} lines" in page.footer for page in pages)
        assert card_of(await stage.asks("logs", run.id, "older")).log == pages[1].log
        seen: tuple[str, ...] = ()
        page = pages[-1]
        while True:  # the way back has all of them too; pages may overlap
            seen += tuple(line for line in page.log if line not in seen)
            if not any(one.label == "Newer" for one in page.buttons):
                break
            page = card_of(await stage.asks("logs", button(page, "Newer")))
        assert seen == said


async def test_before_the_oldest_line_there_are_no_older_ones(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, lines("one"))
        assert "no older lines" in (await stage.asks("logs", f"{run.id}.a.0")).text


async def test_a_long_line_is_shown_around_what_was_searched_for(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        long = "RuntimeError: " + "size mismatch " * 30 + "Needle expected 768 got 1024" + " and so on" * 30
        await stage.says(run, lines(long))
        found = card_of(await stage.asks("logs", run.id, "needle", "expected"))
        assert "Needle expected 768 got 1024" in found.log[0]
        assert len(found.log[0]) <= 150
        assert found.log[0].startswith("…")
        assert card_of(await stage.asks("logs", run.id)).log[0].startswith("RuntimeError: ")
        assert f"`logs {run.id} file`" in found.footer


@pytest.mark.parametrize("at", range(0, 400, 29))
def test_the_words_that_were_found_are_never_cut_off(at: int) -> None:
    line = "a" * at + "NEEDLE" + "b" * (400 - at)
    assert "NEEDLE" in shortened(line, "needle")
    assert len(shortened(line, "needle")) <= 150


async def test_a_log_is_handed_over_whole(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        assert "no log yet" in (await stage.asks("logs", run.id, "file")).text
        said = ["x" * 1000, *(f"line {n}" for n in range(LINES_READ))]
        for begin in range(0, len(said), 500):
            await stage.says(run, lines(*said[begin : begin + 500]))
        answer = await stage.asks("logs", run.id, "file")
        (file,) = answer.files
        assert file.name == f"{run.id}.log"
        assert f"{LINES_READ + 1:,} lines" in answer.text
        assert Path(file.path).read_text().splitlines() == said


async def test_what_a_log_has_dropped_is_taken_from_its_host(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, Logged(lines=("first",), dropped=300))
        printed = [f"line {n}" for n in range(300)]
        harness.fleet.printed = "".join(f"{line}\n" for line in ("first", *printed))
        (file,) = (await stage.asks("logs", run.id, "file")).files
        assert Path(file.path).read_text().splitlines() == ["first", *printed]
        harness.fleet.printed = ""  # its host has cleared it away
        (file,) = (await stage.asks("logs", run.id, "file")).files
        assert Path(file.path).read_text().splitlines() == ["first", "… 300 lines dropped"]


async def test_a_status_shows_nothing_that_a_later_attempt_trained_anew(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        at = START.timestamp()
        values = tuple(MetricRow(step=n, at=at + n, values={"loss": 10.0 - n, "only": float(n)}) for n in range(1, 10))
        await stage.says(run, Measured(rows=values), saved(4))
        await stage.ended(run, RunState.LOST, ExitClass.LOST, "host gone")
        while (await brain.stores.runs.get(run.id)).attempt == 1:
            harness.clock.forward(60)
            await brain.service.tick()
        await stage.says(
            run, Accepted(boot_id="b"), Measured(rows=(MetricRow(step=5, at=at + 500, values={"loss": 7}),))
        )
        facts = {fact.name: fact.value for fact in card_of(await stage.asks("status", run.id)).facts}
        table = card_of(await stage.asks("metrics", run.id)).table
        assert table is not None
        last = {row[0]: row[2] for row in table.rows}
        assert (facts["only"], facts["loss"]) == (last["only"], last["loss"]) == ("4", "7")


async def test_a_page_of_a_search_leads_to_more_of_it(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, lines(*(f"Loss: {n}" for n in range(40)), *("other",) * 40))
        for search in ("loss", "Loss:", "oss"):
            page = card_of(await stage.asks("logs", run.id, search))
            (older,) = [one for one in page.buttons if one.label == "Older"]
            before = len(harness.adapter.whispers)
            await brain.router.accept(clicked(older))
            await harness.until(lambda before=before: len(harness.adapter.whispers) > before)  # type: ignore[misc]
            assert card_of(harness.adapter.whispers[-1][1]).log == tuple(f"Loss: {n}" for n in range(10))


async def test_numbers_that_no_database_takes_are_refused_in_a_sentence(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, lines("one"), rows(1, 2))
        dispatcher: Dispatcher = brain.dispatcher
        caller = Caller(ALICE, "", THREAD)
        for tool, name in (("run_logs", "before"), ("run_chart", "newest"), ("run_chart", "last_step")):
            call = ToolCall("c1", tool, json.dumps({"run": run.id, name: 10**30}))
            with pytest.raises(BadRequest, match=name):
                await dispatcher.call(caller, call)
            assert await dispatcher.call(caller, ToolCall("c2", tool, json.dumps({"run": run.id, name: 2**62})))


async def test_a_log_is_searched_and_filtered(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        assert "no log yet" in (await stage.asks("logs")).text
        await stage.says(run, lines("Loss is 3", "WARNING: loss grows", "ERROR: out of luck", "loss is 2", "bye"))
        assert card_of(await stage.asks("logs", "level=error")).log == ("ERROR: out of luck",)
        assert len(card_of(await stage.asks("logs", run.id, "level=warning")).log) == 2
        found = card_of(await stage.asks("logs", run.id, "loss", "is"))
        assert found.log == ("Loss is 3", "loss is 2")
        assert "“loss is”" in found.title
        assert "no line with “nothing”" in (await stage.asks("logs", run.id, "nothing")).text
        assert "not a level" in (await stage.asks("logs", run.id, "level=loud")).text
        told = await stage.tells("show errors in the log")
        assert "1 errors" in told or "1 error" in told


@pytest.mark.parametrize("search", ["", "loss", "Ärger & 50 %", "a:b/c.d_e-f", "x" * 40])
@pytest.mark.parametrize("before", [None, 0, 2**62])
def test_a_view_of_a_log_survives_a_button(search: str, before: int | None) -> None:
    view = LogView("r-abc123", "warning", search, before)
    subject = view.subject()
    assert view_of(subject) == view
    assert all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in subject)
    assert len(f"v1:logs:{subject}:") <= 100


@pytest.mark.parametrize(
    "subject", ["r-abc123.x", "r-abc123.a.1x", "r-abc123.a.-.????", "nope", "r-abc123.a.1.a.b", ""]
)
def test_what_is_no_view_is_none(subject: str) -> None:
    assert view_of(subject) is None


async def test_words_too_long_for_a_button_leave_the_page_without_buttons(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        long = "x" * 120
        await stage.says(run, lines(*([long] * 40)))
        assert card_of(await stage.asks("logs", run.id, long)).buttons == ()


async def test_metrics_are_handed_over_exactly(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        at = START.timestamp()
        first = (
            MetricRow(step=1, at=at, values={"loss": 0.1 + 0.2, "lr": 1e-5}),
            MetricRow(step=2, at=at + 1, values={"loss": math.nan}),
        )
        await stage.says(run, Measured(rows=first[:1]), Measured(rows=first[1:]), saved(2))
        await stage.asks("pause", run.id)
        await stage.ended(run, _S.PAUSED)
        await stage.asks("resume", run.id)
        await stage.says(run, Measured(rows=(MetricRow(step=3, at=at + 9, values={"loss": math.inf, "acc": 1}),)))
        content = await stage.asks("metrics", run.id, "csv")
        (file,) = content.files
        assert file.name == f"{run.id}-metrics.csv"
        data = Path(file.path).read_bytes()
        assert len(data) == file.size_bytes
        table = list(csv.reader(io.StringIO(data.decode())))
        assert table[0] == ["attempt", "step", "at", "loss", "lr", "acc"]
        assert [row[:2] for row in table[1:]] == [["1", "1"], ["1", "2"], ["2", "3"]]
        assert [row[3] for row in table[1:]] == ["0.30000000000000004", "nan", "inf"]
        assert float(table[1][4]) == 1e-5
        assert table[2][4:] == ["", ""]
        (file,) = (await stage.asks("metrics", run.id, "parquet")).files
        assert file.name == f"{run.id}-metrics.parquet"
        assert Path(file.path).read_bytes()[:4] == b"PAR1"
        assert "file" in await stage.tells(f"export the metrics of {run.id} as parquet")
        shown = card_of(await stage.asks("metrics", run.id)).table
        assert shown is not None
        assert ("lr", "1e-05", "1e-05", "1e-05", "1e-05") in shown.rows
        assert "file" in await stage.tells(f"metrics of {run.id} as csv")
        assert any(content.files for content in harness.adapter.shown)


async def test_checkpoints_attempts_and_notes_are_listed(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        assert "no checkpoint yet" in (await stage.asks("checkpoints")).text
        await stage.says(run, rows(10, 20), saved(10), saved(20), Noted(text="The disk fills up."))
        await stage.ended(run, _S.FAILED, ExitClass.HOST_OOM, "It used more memory than the host has.")
        await stage.asks("retry", run.id)
        table = card_of(await stage.asks("checkpoints", run.id)).table
        assert table is not None
        assert [row[0] for row in table.rows] == ["20", "10"]
        card = card_of(await stage.asks("attempts", run.id))
        assert "The disk fills up." in card.body
        assert card.table is not None
        assert "host_oom" in card.table.rows[0][4]
        assert "more memory" in card.table.rows[0][4]
        assert card.table.rows[1][:3] == ("2", "gpu-1", "20")
        assert "2 attempts" in await stage.tells("how many attempts did it take?")


async def test_a_live_run_shows_pace_time_left_and_what_it_uses(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running(steps=1000)
        used = Usage(cpus=1.5, memory_bytes=2_000_000_000, gpus=(GpuUsage(uuid="G", busy=0.93, memory_bytes=10**10),))
        await stage.says(run, rows(*range(100, 200)), Beat(usage=used))
        facts = {fact.name: fact.value for fact in card_of(await stage.asks("status", run.id)).facts}
        assert facts["Speed"] == "0.5 steps/s"
        assert facts["Left"] == "about 26 min 42 s"
        assert facts["CPU"] == "1.5 cores, 2.0 GB"
        assert facts["GPU"] == "93% busy, 10.0 GB"
        assert "26 min 42 s are left" in await stage.tells("how long will it take?")


def test_a_served_model_takes_no_steps() -> None:
    serving = Serving(run="r-abc123", nonce="n", token_sha256="a" * 64)
    spec = RunSpec(
        job=JobKind.SERVING,
        serving=serving,
        script=Script(name="serve"),
        host="gpu-1",
        bundle_sha256="b" * 64,
    )
    served = run_at(5).model_copy(update={"spec": spec})
    beats = [MetricRow(step=step, at=10.0 * step, values={"requests": 3.0}) for step in range(1, 6)]
    names = {fact.name for fact in run_card(served, beats, (), None, now=START).facts}
    assert {"State", "requests"} <= names
    assert names.isdisjoint({"Step", "Speed"})


def test_the_pace_leaves_out_breaks() -> None:
    def at(*pairs: tuple[int, float]) -> list[MetricRow]:
        return [MetricRow(step=step, at=when, values={}) for step, when in pairs]

    assert steps_a_second(at((1, 0), (2, 2), (3, 4))) == 0.5
    assert steps_a_second(at((90, 0), (100, 1), (50, 9000), (51, 9001), (52, 9002))) == 1.0  # resumed at 50
    assert steps_a_second(at((1, 0), (2, 1), (3, 5000), (4, 5001), (5, 5002))) == 1.0  # paused after 2
    assert steps_a_second(at((1, 0), (2, 1), (3, 2), (4, 43_200))) is None  # its first row after a pause
    assert steps_a_second(at((1, 0), (2, 1), (3, 2), (4, 43_200), (5, 43_201))) == 1.0
    assert steps_a_second(at((1, 0), (2, 1), (3, 101), (4, 201))) == 3 / 201  # slower now, and no pause
    assert steps_a_second(at((1, 0))) is None
    assert steps_a_second(at((1, 5), (1, 6))) is None
    assert steps_a_second([]) is None
    for far in (at((1, 0), (2, 1e308)), at((1, -1.7e308), (2, 1.7e308)), at((1, 0), (2, 5e-324))):
        run = run_at(2, total=10**6)
        assert seconds_left(run, far) is None
        assert run_card(run, far, (), None, now=START).kind == "run"
    assert pace_words(steps_a_second(at((1, 0), (2, 1e300))) or 0.0) == "1e+300 s/step"


async def test_runs_are_compared_with_one_chart(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        one = await stage.running()
        two = await stage.running(SPEC.model_copy(update={"settings": {"learning_rate": 0.5}, "seed": 9}))
        for run, accuracy in ((one, 0.7), (two, 0.9)):
            await stage.says(run, rows(1, 2, 3))
            score = Scorecard(
                metric="accuracy",
                higher_is_better=True,
                model=Score(name="model", value=accuracy),
                baselines=(Score(name="majority", value=0.6),),
                all_metrics={"accuracy": accuracy},
                test_rows=100,
            )
            outcome = Outcome(state=_S.SUCCEEDED, scorecard=score, seconds=9)
            await stage.says(run, Ended(outcome=outcome))
        card = card_of(await stage.asks("compare", one.id, two.id))
        assert card.picture is not None
        assert Path(card.picture.path).exists()
        assert card.table is not None
        found = {row[0]: row[1:] for row in card.table.rows}
        assert found["learning_rate"] == ("default", "0.5")
        assert found["seed"] == ("7", "9")
        assert found["result (sealed test)"] == ("accuracy 0.7000", "accuracy 0.9000")
        assert f"`{two.id}` with 0.9" in card.body
        assert "not measured on the same test rows" in card.body  # another seed, another split
        assert card.body not in [c.card.body for c in harness.adapter.shown if c.card]
        assert await stage.tells("compare the last two runs") == "2 runs side by side."
        await harness.until(lambda: card.body in [c.card.body for c in harness.adapter.shown if c.card])
        assert "two to five" in (await stage.asks("compare", one.id)).text


async def test_a_metric_that_runs_share_is_compared_however_many_others_they_have(harness: Harness) -> None:
    def logged(step: int, **values: float) -> Measured:
        return Measured(rows=(MetricRow(step=step, at=float(step), values=values),))

    harness.fleet.infos = (host("gpu-1", slots=4),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        many, one, other = [await stage.running() for _ in range(3)]
        await stage.says(many, logged(1, **{f"a{n}": 1.0 for n in range(30)}), logged(2, loss=1.5))
        await stage.says(one, logged(1, **{f"b{n}": 1.0 for n in range(30)}), logged(2, loss=2.5, acc=0.5))
        await stage.says(other, logged(1, **{f"c{n}": 1.0 for n in range(30)}), logged(2, acc=0.25))
        card = card_of(await stage.asks("compare", many.id, one.id, other.id))
        assert card.picture is not None
        drawn = [spec for spec in harness.charts.drawn if isinstance(spec, ChartSpec)]
        (spec,) = [spec for spec in drawn if spec.title == f"{many.id} · {one.id} · {other.id}"]
        assert [panel.title for panel in spec.panels] == ["loss", "acc"]
        assert card.table is not None
        found = [row for row in card.table.rows if row[0].startswith("last ")]
        assert found[:2] == [("last loss", "1.5", "2.5", "–"), ("last acc", "–", "0.5", "0.25")]
        assert len(found) == 8


async def test_runs_of_another_task_or_with_other_secrets_are_compared_by_that_too(harness: Harness) -> None:
    text = {"task": "text_classification", "recipe": "text_classification", "text_column": "review", "secrets": ("HF",)}
    harness.fleet.infos = (host("gpu-1", secrets=("HF",), slots=4),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        one, two = await stage.running(), await stage.running(SPEC.model_copy(update=text))
        table = card_of(await stage.asks("compare", one.id, two.id)).table
        assert table is not None
        found = {row[0]: row[1:] for row in table.rows}
        assert found["task"] == ("tabular_classification", "text_classification")
        assert found["text column"] == ("–", "review")
        assert found["secrets"] == ("–", "HF")


async def test_a_difference_that_may_be_chance_is_called_so(harness: Harness) -> None:
    def ended(chosen: str, value: float, interval: tuple[float, float]) -> Ended:
        card = Scorecard(
            metric="macro_f1", higher_is_better=True, model=Score(name="model", value=value), interval=interval,
            baselines=(Score(name="majority", value=0.3), Score(name="linear", value=value)),
            all_metrics={"accuracy": value}, test_rows=117,
        )  # fmt: skip
        return Ended(outcome=Outcome(state=_S.SUCCEEDED, scorecard=card, chosen=chosen, seconds=9))

    harness.fleet.infos = (host("gpu-1", slots=4),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        runs = [await stage.running() for _ in range(3)]
        given = [("linear", 1.0, (1.0, 1.0)), ("lightgbm", 0.99, (0.97, 1.0)), ("linear", 0.8, (0.7, 0.9))]
        for run, (chosen, value, interval) in zip(runs, given, strict=True):
            await stage.says(run, ended(chosen, value, interval))
        card = card_of(await stage.asks("compare", *(run.id for run in runs)))
        near = f"The 95 % interval of `{runs[1].id}` overlaps with its own: on other rows the order may differ."
        assert card.body == f"Best macro F1: `{runs[0].id}` with 1.0000. {near}"
        assert card.table is not None
        found = {row[0]: row[1:] for row in card.table.rows}
        assert found["95 % interval"] == ("1.0000 to 1.0000", "0.9700 to 1.0000", "0.7000 to 0.9000")
        assert found["kept"] == ("linear", "LightGBM", "linear")
        assert found["best baseline"] == ("majority 0.3000", "linear 0.9900", "majority 0.3000")


@pytest.mark.parametrize("first", [0, 1])
async def test_a_score_that_is_no_number_is_never_the_best(harness: Harness, first: int) -> None:
    def ended(value: float, *baselines: float) -> Ended:
        named = tuple(Score(name=f"b{n}", value=each) for n, each in enumerate(baselines))
        model = Score(name="model", value=value)
        card = Scorecard(
            metric="accuracy", higher_is_better=True, model=model, baselines=named, all_metrics={}, test_rows=9
        )
        return Ended(outcome=Outcome(state=_S.SUCCEEDED, scorecard=card, seconds=9))

    harness.fleet.infos = (host("gpu-1", slots=4),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        runs = [await stage.running() for _ in range(3)]
        for run, value in zip(runs, (math.nan, 0.8, 0.9), strict=True):
            await stage.says(run, ended(value, math.nan, 0.85, 0.7))
        ids = [run.id for run in runs]
        ids = ids if first == 0 else ids[::-1]
        assert card_of(await stage.asks("compare", *ids)).body == f"Best accuracy: `{runs[2].id}` with 0.9000."
        good = card_of(await stage.asks("status", runs[2].id))
        assert (good.tone, "Better than the best baseline (**b1**, 0.8500)" in good.body) == ("good", True)
        bad = card_of(await stage.asks("status", runs[0].id))
        assert (bad.tone, "Not better than the baseline b1" in bad.body) == ("warn", True)


async def test_a_card_names_the_host_that_a_run_is_on_and_its_place_in_the_queue(harness: Harness) -> None:
    harness.fleet.infos = (host("gpu-1", slots=1), host("gpu-2", slots=1))

    def shown(run: str) -> Card:
        cards = [c.card for c in harness.adapter.shown if c.card and c.card.kind == "run" and run in c.card.title]
        return cards[0] if cards else Card(kind="run", title="not shown yet")

    async with harness.open() as brain:
        stage = Stage(harness, brain)
        first, second = await stage.running(), await stage.running()  # both were approved for gpu-1
        third = await stage.create(person=BOB)
        harness.clock.forward(1.0)
        fourth = await stage.create(person=BOB)
        for run, where in ((first, "gpu-1"), (second, "gpu-2")):
            footer = f"tabular classification on {where}, CPU"
            await harness.until(lambda r=run, f=footer: shown(r.id).footer == f)  # type: ignore[misc]
            assert card_of(await stage.asks("status", run.id)).footer == shown(run.id).footer
        for run, number in ((third, 1), (fourth, 2)):
            await harness.until(lambda r=run, n=number: f"number {n} in line" in shown(r.id).body)  # type: ignore[misc]
            assert f"It is number {number} in line. All 2 slots" in state_text(await brain.stores.runs.get(run.id))
        await stage.ended(second, _S.STOPPED)
        await brain.service.tick()
        await harness.until(lambda: "number 1 in line" in shown(fourth.id).body)
        await harness.until(lambda: "on gpu-2" in shown(third.id).footer and "in line" not in shown(third.id).body)


def test_lines_of_runs_share_a_panel_by_metric() -> None:
    points = np.zeros(2, dtype=POINT)
    points["step"] = points["value"] = (1, 2)
    names = {"r-a": ("train_loss", "valid_loss"), "r-b": ("train_loss", "valid_loss"), "r-c": ("other",)}
    curves = {run: {name: window(name, [points]) for name in of} for run, of in names.items()}
    spec = comparison_of(curves)
    assert spec is not None
    (panel,) = spec.panels
    assert panel.title == "valid loss"
    assert [series.name for series in panel.series] == ["r-a", "r-b"]
    assert comparison_of({"r-c": curves["r-c"], "r-a": curves["r-a"]}) is None


async def test_a_restart_is_marked_and_what_is_trained_anew_replaces_what_was(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3, 4), saved(2))
        await stage.asks("pause", run.id)
        await stage.ended(run, _S.PAUSED)
        await stage.asks("resume", run.id)
        assert restarts(await brain.stores.runs.attempts(run.id)) == ()  # no host has taken it in
        now = await stage.says(run, Accepted(boot_id="b"), rows(3, 4, 5, train_loss=0.0))
        curves = {found.name: found for found in await brain.stores.runs.windows(run.id, ["train_loss"])}
        spec = chart_of(now, curves, Look(marks=restarts(await brain.stores.runs.attempts(run.id))))
        assert spec is not None
        (series,) = spec.panels[0].series
        assert list(series.x) == [1, 2, 3, 4, 5]
        assert list(series.y)[2:] == [0.0, 0.0, 0.0]
        assert [mark.name for mark in spec.panels[0].marks] == ["attempt 2"]


async def test_a_host_that_was_lost_is_named_with_when_it_was_heard(harness: Harness) -> None:
    harness.fleet.lost = (host("gpu-9"),)
    async with harness.open() as brain:
        harness.clock.forward(3 * 3600)
        stage = Stage(harness, brain)
        assert (
            "**gpu-9** does not answer · last seen 3 h 00 min ago" in card_of(await stage.asks("cluster", "info")).body
        )
        harness.fleet.infos = ()
        card = card_of(await stage.asks("cluster", "info"))
        assert (card.title, card.tone) == ("Cluster: 0 hosts, 0 GPUs", "warn")
        assert card.body.startswith("No GPU host is connected.\n\n**gpu-9** does not answer")


async def test_the_cluster_is_told_in_lines_for_a_phone(harness: Harness) -> None:
    def gpu(n: int, **more: object) -> GpuInfo:
        fields = {"uuid": f"GPU-{n}", "index": n, "name": "NVIDIA A10", "memory_bytes": 24_000_000_000} | more
        return GpuInfo.model_validate(fields)

    gpus = (
        gpu(0, used_bytes=10**9, busy=0.5),
        gpu(1, used_bytes=10**9, foreign_bytes=10**9),
        gpu(2, sick="ECC"),
        gpu(3),
    )
    harness.fleet.infos = (
        HostInfo(
            host="gpu-1",
            cpus=8,
            memory_bytes=64_000_000_000,
            disk_free_bytes=5 * 10**12,
            gpus=gpus,
            sandbox="bwrap",
            warm=("torch",),
            slots=1,
            at=START,
        ),
    )
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running(SPEC.model_copy(update={"gpus": 1, "sandbox": "bwrap"}))
        await brain.stores.runs.cordon("gpu-1", "GPU-3", "3 faults in an hour", at=START, sticky=False)
        waiting = await stage.create(SPEC.model_copy(update={"gpus": 3}))
        card = card_of(await stage.asks("cluster", "info"))
        text = card.body.splitlines()
        assert "gpu-1" in text[0]
        assert "4 × A10 (24.0 GB)" in text[0]
        assert f"- GPU 0: {run.id}, 50% busy, 1.0 GB in use" in text
        assert "- GPU 1: used by others, 0% busy, 1.0 GB in use" in text
        assert "- GPU 2: **cordoned**: ECC" in text
        assert "- GPU 3: **cordoned**: 3 faults in an hour" in text
        assert "- disk: 5.0 TB free" in text
        assert any(waiting.id in line for line in text)
        assert card.tone == "warn"
        assert "1 host is connected" in await stage.tells("how is the cluster?")


async def test_predictions_of_a_file_are_handed_back_as_a_file(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        artifact = Artifact(sha256="a" * 64, size_bytes=3, files=("model",))
        await stage.says(run, Ended(outcome=Outcome(state=_S.SUCCEEDED, artifact=artifact)))
        stored = FolderBlobs(harness.folder / "blobs").put_bytes(b"age,prediction\n1,yes\n", name="predictions.csv")

        async def predict(order: PredictOrder) -> Predictions:
            assert order.dataset is not None
            answer = LabelPrediction(label="yes", probabilities=(("yes", 0.9),))
            return Predictions(rows=(answer,), total=2000, counts=(("yes", 2000),), file=stored)

        harness.fleet.predict = predict  # type: ignore[method-assign]
        await brain.router.accept(said(f"predict on this with {run.id}", files=attached(csv)))
        await harness.until(lambda: any(content.files for content in harness.adapter.shown))
        (content,) = [content for content in harness.adapter.shown if content.files]
        (file,) = content.files
        assert Path(file.path).read_bytes() == b"age,prediction\n1,yes\n"
        assert isinstance(stored, DatasetRef)
        assert (file.sha256, file.name) == (stored.sha256, f"predictions-{run.id}.csv")
        assert "all in the file" in card_of(content).footer


async def test_status_and_comparison_of_long_runs_read_no_rows_but_the_newest(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        runs = [await stage.running(), await stage.running()]
        for run in runs:
            told = [rows(3 * n + 1, 3 * n + 2, 3 * n + 3, train_loss=float(n)) for n in range(700)]
            await stage.says(run, *told)

        async def everything(run_id: str, *_: object, **__: object) -> Sequence[MetricRow]:
            raise AssertionError(f"all metrics of {run_id} were read at once")

        monkeypatch.setattr(brain.stores.runs, "metrics", everything)
        monkeypatch.setattr(brain.stores.runs, "metrics_after", everything)
        looking = card_of(await stage.asks("status", runs[0].id))
        assert {fact.name: fact.value for fact in looking.facts}["train loss"] == "699"
        compared = card_of(await stage.asks("compare", runs[0].id, runs[1].id))
        assert compared.table is not None
        assert ("last train_loss", "699", "699") in compared.table.rows


async def test_the_newest_rows_go_over_attempts(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        assert await brain.stores.runs.newest_metrics(run.id, 5) == []
        await stage.says(run, rows(1, 2), rows(3, 4), saved(4))
        await stage.asks("pause", run.id)
        await stage.ended(run, _S.PAUSED)
        await stage.asks("resume", run.id)
        await stage.says(run, rows(5))
        for count, steps in {1: [5], 2: [4, 5], 4: [2, 3, 4, 5], 9: [1, 2, 3, 4, 5]}.items():
            assert [row.step for row in await brain.stores.runs.newest_metrics(run.id, count)] == steps
