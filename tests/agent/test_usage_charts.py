"""Charts of what a run uses and of how fast it goes: in words, as buttons, and over a real store."""

import csv
import io
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.commands.typed import words_of
from agent.domain.charts import ChartSpec, Panel
from agent.domain.content import Card, Content
from agent.domain.errors import BadRequest
from agent.domain.events import Beat, Measured, MetricRow
from agent.domain.runs import GpuUsage, Run, RunState, Usage
from agent.llm.slots.charts import chart_arguments
from agent.runs.charts.usage import USAGE_VIEWS
from agent.tools.charts.chart_views import ChartView, usage_buttons, view_of
from agent.tools.charts.chart_words import arguments_of
from agent.tools.charts.charting import ChartArguments
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.intents import intent_of
from tests.agent.stage import Stage, rows
from tests.fakes import START, host

GIB = 2**30
IDS = st.text(alphabet="0123456789abcdefghjkmnpqrstvwxyz", min_size=6, max_size=6).map(lambda text: f"r-{text}")
VIEWS = st.builds(
    ChartView,
    IDS,
    used=st.sampled_from(USAGE_VIEWS),
    minutes=st.none() | st.integers(1, 10**7 - 1),
    smooth=st.integers(0, 999),
)


@given(VIEWS)
def test_a_view_survives_its_button_and_leads_to_others(view: ChartView) -> None:
    assert view_of(view.subject()) == view
    found = usage_buttons(view)
    assert len({button.subject for button in found}) == len(found) <= 10
    assert view.subject() not in {button.subject for button in found}
    assert view_of(found[-1].subject) == ChartView(view.run)
    for button in found:
        words = words_of(f"chart {button.subject}")
        assert words == ("chart", button.subject)


@pytest.mark.parametrize(
    "subject", ["r-abc123.ucpu", "r-abc123.u", "r-abc123.h0", "r-abc123.h-1", "r-abc123.h12345678"]
)
def test_other_subjects_are_none(subject: str) -> None:
    assert view_of(subject) is None


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("r-abc123 gpu", {"run": "r-abc123", "used": "gpu"}),
        ("r-abc123 gpu usage", {"run": "r-abc123", "used": "gpu"}),
        ("usage last=2h", {"used": "usage", "minutes": 120}),
        ("cpu use over time", {"used": "usage"}),
        ("r-abc123 throughput last=90m smooth=0.6", {
            "run": "r-abc123", "used": "throughput", "minutes": 90, "smooth": 0.6,
        }),
        ("throughput last=1.5h", {"used": "throughput", "minutes": 90}),
        ("learning rate", {"metrics": ("learning", "rate")}),
        ("gpu_busy", {"metrics": ("gpu_busy",)}),  # a metric of the script
        ("loss gpu", {"metrics": ("loss", "gpu")}),
    ],
)  # fmt: skip
def test_words_of_a_command(words: str, wanted: dict[str, object]) -> None:
    assert arguments_of(words.split()) == wanted


def test_a_time_that_is_none_is_said() -> None:
    for said in ("gpu last=2w", "gpu last=h", "throughput last=0m", "usage last=9999999d"):
        with pytest.raises(BadRequest, match="is no time"):
            arguments_of(said.split())


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("gpu use of r-abc123", {"used": "gpu"}),
        ("how busy is the GPU?", {"used": "gpu"}),
        ("show me the GPU utilization", {"used": "gpu"}),
        ("draw the gpu memory of the last 30 minutes", {"used": "gpu", "minutes": 30}),
        ("throughput of the last hour", {"used": "throughput", "minutes": 60}),
        ("how fast is it going?", {"used": "throughput"}),
        ("plot the throughput of the past 2 days, smoothed", {"used": "throughput", "minutes": 2880, "smooth": 0.9}),
        ("steps per second of the last half an hour", {"used": "throughput", "minutes": 30}),
        ("cpu usage", {"used": "usage"}),
        ("how much memory does it use?", {"used": "usage"}),
    ],
)
def test_everyday_words(said: str, wanted: dict[str, object]) -> None:
    assert intent_of(said) == "run_chart"
    assert chart_arguments(said) == wanted


@pytest.mark.parametrize(
    ("said", "intent"),
    [
        ("which gpus are free?", "list_hosts"),
        ("why did it run out of gpu memory?", "run_status"),
        ("plot the loss", "run_chart"),
        ("train it again with learning rate 0.1", "again"),
        ("what is the gpu cluster load", "list_hosts"),
        ("predict the memory usage of the attached hosts", "predict"),
    ],
)
def test_words_about_other_things(said: str, intent: str) -> None:
    found = intent_of(said)
    assert found == intent or (found == "train" and intent == "again")
    assert found != "run_chart" or "used" not in chart_arguments(said)


def test_a_time_beyond_all_bounds_still_fits_a_button() -> None:
    minutes = chart_arguments("gpu usage of the last 99999 days")["minutes"]
    view = ChartView("r-abc123", used="gpu", minutes=minutes)
    assert view_of(view.subject()) == view
    with pytest.raises(ValidationError):
        ChartArguments(used="gpu", minutes=10**30)


def card_of(content: Content) -> Card:
    assert content.card is not None
    return content.card


def beat(busy: float = 0.5, *, gpus: int = 1, cpus: float = 1.5) -> Beat:
    cards = tuple(
        GpuUsage(uuid=f"GPU-gpu-1-{n}", busy=busy, memory_bytes=(60 + n) * GIB, total_bytes=80 * GIB)
        for n in range(gpus)
    )
    return Beat(usage=Usage(cpus=cpus, memory_bytes=12 * GIB, disk_bytes=GIB, gpus=cards))


async def beats(stage: Stage, run: Run, count: int, *, gpus: int = 1, every_s: float = 10.0) -> Run:
    for n in range(count):
        stage.harness.clock.forward(every_s)
        run = await stage.says(run, beat((n % 10) / 10, gpus=gpus))
    return run


def by_title(spec: ChartSpec) -> dict[str, Panel]:
    return {panel.title: panel for panel in spec.panels}


def drawn(harness: Harness, word: str) -> ChartSpec:
    """The newest chart whose title has the word."""
    return [spec for spec in harness.charts.drawn if isinstance(spec, ChartSpec) and word in spec.title][-1]


async def test_the_gpus_of_a_run_by_time(harness: Harness) -> None:
    harness.fleet.infos = (host("gpu-1", gpus=2),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running(SPEC.model_copy(update={"gpus": 2}))
        await beats(stage, run, 12, gpus=2)
        card = card_of(await stage.asks("chart", run.id, "gpu"))
        spec = drawn(harness, "what it used")
        panels = by_title(spec)
        assert list(panels) == ["GPU busy", "GPU memory"]
        busy, memory = panels.values()
        assert (busy.unit, busy.floor, busy.ceiling) == ("%", 0.0, 100.0)
        assert len(busy.series) == 2
        assert list(busy.series[0].y) == [10.0 * (n % 10) for n in range(12)]
        assert spec.x_label == "seconds"
        assert list(busy.series[0].x) == [10.0 * (n + 1) for n in range(12)]
        assert (memory.unit, memory.floor) == ("GiB", 0.0)
        assert sorted(line.y[-1] for line in memory.series) == [60.0, 61.0]
        assert [(guide.name, guide.value) for guide in memory.baselines] == [("the card has", 80.0)]
        assert "busy 38% of the time, 10% at last" in card.body
        assert "60.0 GiB at most, of 80.0 GiB" in card.body
        assert card.picture is not None
        assert {button.label for button in card.buttons} == {
            "Last hour", "Last 10 minutes", "Usage", "Throughput", "Smooth", "Curves",
        }  # fmt: skip
        await stage.says(run, rows(1, 2, 3))
        for button in card.buttons:
            assert card_of(await stage.asks("chart", button.subject)).picture


async def test_without_a_gpu_it_is_processors_and_memory(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        assert "every few seconds" in (await stage.asks("chart", run.id, "gpu")).text
        await beats(stage, run, 3, gpus=0)
        for view in ("gpu", "usage"):
            card = card_of(await stage.asks("chart", run.id, view))
            panels = by_title(drawn(harness, "what it used"))
            assert list(panels) == ["processors", "memory"]
            assert [panel.floor for panel in panels.values()] == [0.0, 0.0]
            assert [panel.unit for panel in panels.values()] == ["cores", "GiB"]
            assert "has no GPU" in card.body
            assert "1.5 processors on average" in card.body
            assert "GPU use" not in {button.label for button in card.buttons}  # which would show the same


async def test_of_a_run_that_waits_nothing_is_known(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.create(SPEC.model_copy(update={"gpus": 9}))
        for words in ("gpu", "usage", "throughput"):
            assert "is queued and has not run yet" in (await stage.asks("chart", run.id, words)).text


async def test_the_card_of_a_run_leads_to_what_it_uses(harness: Harness) -> None:
    harness.fleet.infos = (host("gpu-1", gpus=1),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        for spec, label in ((SPEC, "Usage"), (SPEC.model_copy(update={"gpus": 1}), "GPU use")):
            run = await beats(stage, await stage.running(spec), 2, gpus=spec.gpus)

            def buttons(run: Run = run) -> dict[str, str]:
                shown = [one.card for one in harness.adapter.shown if one.card and one.card.title.startswith(run.id)]
                return {button.label: button.subject for button in shown[-1].buttons} if shown else {}

            await harness.until(lambda label=label, buttons=buttons: label in buttons())  # type: ignore[misc]
            assert "processors on average" in card_of(await stage.asks("chart", f"{run.id}.uusage")).body
            assert buttons()[label] == f"{run.id}.u{'gpu' if run.spec.gpus else 'usage'}"


async def test_all_four_and_only_the_newest_minutes(harness: Harness) -> None:
    harness.fleet.infos = (host("gpu-1", gpus=1),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running(SPEC.model_copy(update={"gpus": 1}))
        await beats(stage, run, 40)
        assert "the newest minute." in card_of(await stage.asks("chart", run.id, "usage", "last=1m")).body
        await stage.asks("chart", run.id, "usage", "last=2m")
        spec = drawn(harness, "what it used")
        assert list(by_title(spec)) == ["GPU busy", "GPU memory", "processors", "memory"]
        assert len(spec.panels[0].series[0].y) == 13
        assert spec.x_label == "minutes"
        assert spec.panels[0].series[0].x[-1] == pytest.approx(400 / 60)


async def test_throughput_with_a_pause_an_attempt_and_what_the_run_logs_itself(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running(SPEC.model_copy(update={"task": "text_classification"}))
        assert "too little" in (await stage.asks("chart", run.id, "throughput")).text
        at = START.timestamp()
        made = [MetricRow(step=4 * n, at=at + n, values={"tokens_per_s": 900.0 + n, "loss": 1.0}) for n in range(40)]
        made += [
            MetricRow(step=4 * n, at=at + 600 + n, values={"tokens_per_s": 990.0, "loss": 1.0}) for n in range(40, 60)
        ]
        await stage.says(run, Measured(rows=tuple(made)))
        card = card_of(await stage.asks("chart", run.id, "throughput"))
        panels = by_title(drawn(harness, "how fast it went"))
        assert list(panels) == ["throughput", "tokens per s"]
        pace = panels["throughput"]
        assert (pace.unit, pace.floor, pace.marks) == ("steps/s", 0.0, ())
        assert {rate for rate in pace.series[0].y if not math.isnan(rate)} == {4.0}
        assert sum(map(math.isnan, pace.series[0].y)) == 1
        assert panels["tokens per s"].series[0].y[-1] == 990.0
        assert "4 steps/s at last" in card.body
        await stage.says(run, rows(*range(240, 300), start=2000.0, pace_s=30.0))
        await stage.asks("chart", run.id, "throughput", "last=20m")
        pace = by_title(drawn(harness, "how fast it went"))["throughput"]
        assert pace.series[0].y[-1] == pytest.approx(1 / 30 * 60)
        assert pace.unit == "steps/min"


async def test_a_second_attempt_is_marked_and_not_joined(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(*range(10), pace_s=1.0))
        await beats(stage, run, 3, gpus=0)
        await stage.ended(run, RunState.FAILED)
        await stage.asks("retry", run.id)
        await harness.until(lambda: len(harness.fleet.launched) == 2)
        await stage.says(run, rows(*range(5, 15), start=60.0, pace_s=2.0))
        await beats(stage, run, 2, gpus=0)
        for words, word in (("usage", "what it used"), ("throughput", "how fast it went")):
            await stage.asks("chart", run.id, words)
            panel = drawn(harness, word).panels[0]
            assert [mark.name for mark in panel.marks] == ["attempt 2"]
            y = panel.series[0].y
            assert sum(map(math.isnan, y)) == 1
            if words == "throughput":
                assert {round(rate, 9) for rate in y if not math.isnan(rate)} == {1.0, 0.5}
                assert panel.unit == "rounds/s"


async def test_learning_rates_share_a_panel(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3, **{"lr/body": 0.1, "lr/head": 0.2, "error_rate": 0.5, "train_loss": 1.0}))
        for words in (("learning", "rate"), ("lr",), ("learning_rate",)):
            await stage.asks("chart", run.id, *words)
            (panel,) = next(spec for spec in reversed(harness.charts.drawn) if len(spec.panels) == 1).panels
            harness.charts.drawn.clear()
            assert panel.title == "learning rate"
            assert [line.name for line in panel.series] == ["lr/body", "lr/head"]


async def test_what_it_used_is_handed_over_as_a_file(harness: Harness) -> None:
    harness.fleet.infos = (host("gpu-1", gpus=1),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running(SPEC.model_copy(update={"gpus": 1}))
        assert "Nothing was measured" in (await stage.asks("metrics", run.id, "usage")).text
        await beats(stage, run, 3)
        (file,) = (await stage.asks("metrics", run.id, "usage")).files
        assert file.name == f"{run.id}-usage.csv"
        head, *lines = csv.reader(io.StringIO(Path(file.path).read_text()))
        assert head[:3] == ["attempt", "step", "at"]
        assert {"cpus", "memory", "disk"} < set(head)
        assert [float(line[head.index("cpus")]) for line in lines] == [1.5] * 3
        assert [line[:2] for line in lines] == [["1", "0"]] * 3
        assert "no metrics yet" in (await stage.asks("metrics", run.id)).text


async def test_the_curves_lead_to_usage(harness: Harness) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3))
        card = card_of(await stage.asks("chart", run.id))
        assert "Usage" in {button.label for button in card.buttons}


@pytest.mark.parametrize("words", ["gpu log", "throughput vs r-def456", "gpu last=500", "usage steps=1-9"])
async def test_what_does_not_go_with_usage_is_said(harness: Harness, words: str) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await stage.says(run, rows(1, 2, 3))
        other = await stage.running()
        said = (await stage.asks("chart", run.id, *words.replace("r-def456", other.id).split())).text
        assert "is drawn by time, and alone" in said
        assert f"chart {run.id} {words.split()[0]} last=2h" in said


async def test_a_conversation_about_the_gpu(harness: Harness) -> None:
    harness.fleet.infos = (host("gpu-1", gpus=1),)
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running(SPEC.model_copy(update={"gpus": 1}))
        await beats(stage, run, 5)
        await stage.tells(f"how busy is the GPU of {run.id}?")
        assert by_title(drawn(harness, "what it used")).keys() == {"GPU busy", "GPU memory"}
