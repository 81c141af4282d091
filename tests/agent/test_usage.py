"""What hosts measure of runs as series, and the steps a second, on both databases and against plain lists."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from alembic import command
from alembic.config import Config
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, update

from agent.domain.events import Beat, Ended, EventBody, Logged, Measured, MetricRow, Started, WorkerEvent
from agent.domain.runs import GpuUsage, Outcome, Run, RunState, Usage
from agent.run_store import START as FROM_THE_BEGINNING
from agent.runs.charts.usage import UsageLook, pace_curve, rate_names, time_axis, usage_chart
from agent.series.columns import POINT, Entries
from agent.series.pyramid import grow, spans
from agent.series.usage import row_of
from agent.series.window import Stretch, Window, hidden_pauses, points_in, usual_s
from agent.storage import sql_stores
from agent.storage.database import Database, open_engine
from agent.storage.schema import MIGRATIONS, NEWEST
from agent.storage.series import FOLD, append
from agent.storage.series_reads import MOST_SPANS
from agent.storage.tables import attempt
from agent.stores import Stores
from tests.agent.databases import on_both, sqlite
from tests.agent.engine import ENDING, SPEC, a_run
from tests.fakes import START

EVERY_S = 10.0
A_RUN = Run(id="r-abc123", session_id="s", requester="x", state=RunState.RUNNING, spec=SPEC, created_at=START)
CARDS = ("GPU-b", "GPU-a")  # as the attempt was given them, not as its host has them


def used(number: int, *gpus: str) -> Usage:
    """The beat of this number: every value of it tells which one it is."""
    cards = tuple(
        GpuUsage(uuid=uuid, busy=number % 100 / 100, memory_bytes=number + ord(uuid[-1]), total_bytes=80 * 2**30)
        for uuid in gpus
    )
    return Usage(cpus=number / 4, memory_bytes=1000 + number, disk_bytes=5 * number, gpus=cards)


@dataclass
class Host:
    """A host of one run: what it says, in which order it arrives, and what has to be found of it."""

    stores: Stores
    run: Run
    number: int = 0
    seq: int = 0
    now_s: float = 0.0
    sent: list[WorkerEvent] = field(default_factory=list)

    async def begin(self, *gpus: str) -> None:
        """The next attempt; the one before it ends."""
        if self.number:
            await self.take(self.event(Ended(outcome=Outcome(state=RunState.FAILED, reason="It broke."))))
            assert await self.stores.runs.requeue(self.run.id, expect=RunState.FAILED, note="", at=START)
        assert await self.stores.runs.dispatch(self.run.id, host="gpu-1", gpus=gpus, at=START) is not None
        self.number, self.seq = self.number + 1, 0

    def event(self, body: EventBody) -> WorkerEvent:
        self.seq += 1
        at = START + timedelta(seconds=self.now_s)
        named = {"run": self.run.id, "attempt": self.number, "seq": self.seq, "host": "gpu-1"}
        return WorkerEvent(**named, at=at, body=body)  # type: ignore[arg-type]

    def beats(self, count: int, *gpus: str, first: int = 0) -> list[WorkerEvent]:
        """Beats, each `EVERY_S` after the one before."""
        found = []
        for number in range(first, first + count):
            self.now_s += EVERY_S
            found.append(self.event(Beat(usage=used(number, *gpus))))
        return found

    async def take(self, *events: WorkerEvent) -> None:
        self.sent += events
        for start in range(0, len(events), 1000):
            await self.stores.runs.apply(events[start : start + 1000], at=START, ending=ENDING)

    async def found(self, name: str) -> list[tuple[int, float, float]]:
        """Attempt, moment (seconds after the start) and value of each point of a short series."""
        stretches = (await self.stores.runs.usage(self.run.id)).get(name, [])
        assert all(one.window.exact for one in stretches)
        return [
            (one.attempt, float(span["began"]) - START.timestamp(), float(span["mean"]))
            for one in stretches
            for span in one.window.spans
        ]


@pytest.fixture
async def host(either_database: Database) -> Host:
    stores = sql_stores(either_database)
    return Host(stores, await a_run(stores, spec=SPEC.model_copy(update={"gpus": 2})))


async def test_every_beat_is_a_point_of_each_series(host: Host) -> None:
    await host.begin(*CARDS)
    beats = host.beats(FOLD + 30, "GPU-a", "GPU-b")  # before the first step, and over a fold
    await host.take(*beats)
    moments = [EVERY_S * (n + 1) for n in range(len(beats))]
    assert await host.found("cpus") == [(1, at, n / 4) for n, at in enumerate(moments)]
    assert await host.found("memory") == [(1, at, 1000.0 + n) for n, at in enumerate(moments)]
    assert await host.found("disk") == [(1, at, 5.0 * n) for n, at in enumerate(moments)]
    assert await host.found("gpu0_busy") == [(1, at, n % 100 / 100) for n, at in enumerate(moments)]
    assert [value for _, _, value in await host.found("gpu0_memory")][:2] == [98.0, 99.0]  # of GPU-b, given first
    assert [value for _, _, value in await host.found("gpu1_memory")][:2] == [97.0, 98.0]
    assert {value for _, _, value in await host.found("step")} == {0.0}
    assert {value for _, _, value in await host.found("gpu0_total")} == {80.0 * 2**30}


@on_both
async def test_beats_that_come_again_or_late_double_nothing(host: Host) -> None:
    await host.begin(*CARDS)
    beats = host.beats(FOLD + 200, "GPU-a")
    late = beats.pop(100)
    await host.take(*beats[:300])
    await host.take(*beats[:300])
    await host.take(*beats[200:])
    assert len(await host.found("cpus")) == len(beats)
    await host.take(late, late)
    await host.take(*beats)
    cpus = await host.found("cpus")
    assert sorted(value for _, _, value in cpus) == [n / 4 for n in range(FOLD + 200)]


async def test_a_point_knows_the_step_that_its_run_had_come_to(host: Host) -> None:
    await host.begin()
    before, *_ = host.beats(1)
    rows = host.event(Measured(rows=(MetricRow(step=7, at=1.0, values={"loss": 1.0}),)))
    after, *_ = host.beats(1)
    await host.take(before, rows, after)
    more = host.event(Measured(rows=(MetricRow(step=9, at=2.0, values={"loss": 1.0}),)))
    await host.take(more, *host.beats(1))
    assert [value for _, _, value in await host.found("step")] == [0.0, 7.0, 9.0]


async def test_a_later_attempt_takes_no_ones_place(host: Host) -> None:
    await host.begin(*CARDS)
    await host.take(host.event(Measured(rows=(MetricRow(step=50, at=1.0, values={"loss": 1.0}),))))
    await host.take(*host.beats(3, "GPU-a", "GPU-b"))
    await host.begin("GPU-c")
    await host.take(host.event(Measured(rows=(MetricRow(step=5, at=2.0, values={"loss": 1.0}),))))
    await host.take(*host.beats(2, "GPU-c", first=40))
    assert [(attempt, value) for attempt, _, value in await host.found("cpus")] == [
        (1, 0.0), (1, 0.25), (1, 0.5), (2, 10.0), (2, 10.25),
    ]  # fmt: skip
    assert [attempt for attempt, _, _ in await host.found("gpu0_busy")] == [1, 1, 1, 2, 2]
    assert [attempt for attempt, _, _ in await host.found("gpu1_busy")] == [1, 1, 1]


async def test_a_beat_of_an_attempt_that_was_superseded_changes_nothing(host: Host) -> None:
    await host.begin()
    stale = host.beats(2)
    await host.begin()
    await host.stores.runs.apply(stale, at=START, ending=ENDING)
    assert await host.found("cpus") == []


@on_both
async def test_what_is_used_is_no_metric_and_a_metric_of_its_name_stays_one(host: Host) -> None:
    runs, names = host.stores.runs, ("cpus", "step", "gpu0_busy", "system/gpu0_busy")
    await host.begin(*CARDS)
    for n in range(FOLD + 10):  # the script calls its metrics as it likes
        row = MetricRow(step=n, at=1e9 + n, values=dict.fromkeys(names, -1.0 - n))
        await host.take(host.event(Measured(rows=(row,))), *host.beats(1, "GPU-b", first=n))
    assert sorted(await runs.metric_names(host.run.id)) == sorted(names)
    assert {one.name: one.last_value for one in await runs.series(host.run.id)} == dict.fromkeys(names, -10.0 - FOLD)
    assert (await runs.metric_table(host.run.id)).names == tuple(sorted(names))
    assert len((await runs.metrics_after(host.run.id, FROM_THE_BEGINNING))[0]) == FOLD + 10
    assert set((await runs.newest_metrics(host.run.id, 1))[0].values) == set(names)
    (busy,) = await runs.windows(host.run.id, ["gpu0_busy"])
    assert float(busy.spans["mean"].max()) == -1.0
    assert [value for _, _, value in await host.found("cpus")] == [n / 4 for n in range(FOLD + 10)]
    assert all(value >= 0 for _, _, value in await host.found("gpu0_busy"))
    table = await runs.metric_table(host.run.id, "usage")
    assert table.rows == FOLD + 10
    part = await runs.metric_slice(host.run.id, 1, 0, table.rows, "usage")
    assert part.filled("cpus", None) == [n / 4 for n in range(FOLD + 10)]
    assert part.steps.tolist() == list(range(FOLD + 10))
    assert [at - START.timestamp() for at in part.at.tolist()] == [EVERY_S * (n + 1) for n in range(FOLD + 10)]
    assert "step" not in table.names


async def test_a_run_without_beats_has_no_usage(host: Host) -> None:
    await host.begin()
    await host.take(host.event(Beat()), host.event(Logged(lines=("x",))))
    assert await host.stores.runs.usage(host.run.id) == {}
    assert await host.stores.runs.paces(host.run.id) == []
    assert (await host.stores.runs.metric_table(host.run.id, "usage")).rows == 0


async def test_a_week_is_read_in_few_spans_and_its_pauses_are_seen(host: Host) -> None:
    count = MOST_SPANS + MOST_SPANS // 2 + 5
    await host.begin()
    beats = host.beats(count)
    host.now_s += 3 * 3600.0  # the host sleeps within the attempt
    beats += host.beats(count, first=count)
    await host.take(*beats)
    (one,) = (await host.stores.runs.usage(host.run.id))["cpus"]
    shown = one.window.spans
    assert len(shown) < 2 * MOST_SPANS
    assert int(shown["count"].sum()) == 2 * count
    assert (float(shown["low"].min()), float(shown["high"].max())) == (0.0, (2 * count - 1) / 4)
    assert hidden_pauses(shown) == []
    gaps = shown["began"][1:] - shown["ended"][:-1]
    assert [round(float(gap)) for gap in gaps if gap > 60] == [3 * 3600 + 10]
    (part,) = (await host.stores.runs.usage(host.run.id, last_s=3600.0))["cpus"]
    assert part.window.exact
    assert len(part.window.spans) == 361
    assert float(part.window.spans["mean"][-1]) == (2 * count - 1) / 4


async def test_a_pause_is_seen_at_any_length_of_run(tmp_path: Path) -> None:
    """Of so many rows a span stands for 4,096; the row behind the pause is in the midst of one."""
    count, place = 2_200_000, 1_234_567
    database = sqlite(tmp_path / "test.db")
    await database.start()
    stores = sql_stores(database)
    host = Host(stores, await a_run(stores))
    await host.begin()
    steps = np.arange(count) // 2  # two rows a step: a span shares its ends with its neighbours
    logged = points(
        (0.05 * np.arange(count) + np.where(np.arange(count) >= place, 7200.0, 0.0)).tolist(), steps.tolist()
    )

    def fill(connection: Connection) -> None:
        append(connection, {"run_id": host.run.id, "attempt": 1, "name": "loss"}, logged)
        connection.execute(update(attempt).values(rows=count, folded=count, low_step=0))

    await database.write(fill)
    (one,) = await stores.runs.paces(host.run.id)
    assert len(one.window.spans) < 2 * MOST_SPANS
    assert points_in(one.window.spans) == count
    gaps = one.window.spans["began"][1:] - one.window.spans["ended"][:-1]
    assert [round(float(gap), 2) for gap in gaps if gap > 60] == [7200.05]
    (near,) = await stores.runs.paces(host.run.id, last_s=30.0)
    assert near.window.exact
    assert len(near.window.spans) == 601
    await database.close()


async def test_usage_goes_when_one_goes_back_to_before_it_and_metrics_stay(tmp_path: Path) -> None:
    database = sqlite(tmp_path / "test.db")
    await database.start()
    stores = sql_stores(database)
    host = Host(stores, await a_run(stores))
    await host.begin()
    await host.take(
        host.event(Measured(rows=(MetricRow(step=7, at=1.0, values={"loss": 1.0}),))), *host.beats(FOLD + 5)
    )
    await database.close()
    engine = open_engine(database.url)
    for revision, how in (("0003", command.downgrade), (NEWEST, command.upgrade)):
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            how(config, revision)
    engine.dispose()
    await database.start()
    assert await host.found("cpus") == []
    assert (await stores.runs.get(host.run.id)).usage == used(FOLD + 4)
    assert [row.step for row in await stores.runs.metrics(host.run.id)] == [7]
    await host.take(*host.beats(3, first=70))
    assert [value for _, _, value in await host.found("cpus")] == [17.5, 17.75, 18.0]
    await database.close()


def test_a_gpu_keeps_its_number_when_another_falls_silent() -> None:
    both, one = used(1, "GPU-a", "GPU-b"), used(2, "GPU-a")
    assert row_of(both, at=1.0, step=0, gpus=CARDS).values["gpu1_memory"] == 98.0
    assert row_of(one, at=1.0, step=0, gpus=CARDS).values["gpu1_memory"] == 99.0
    assert "gpu0_busy" not in row_of(one, at=1.0, step=0, gpus=CARDS).values
    assert row_of(used(3, "GPU-x"), at=1.0, step=0, gpus=CARDS).values["gpu2_memory"] == 3.0 + ord("x")


@given(st.lists(st.integers(2, 900), min_size=1, max_size=5), st.floats(61.0, 90_000.0), st.integers(0, 2**32 - 1))
def test_a_curve_keeps_its_gaps_its_extremes_and_its_newest_value(
    counts: list[int], silence_s: float, seed: int
) -> None:
    """However many beats there are: few are drawn each, many as cells of time."""
    busy = np.random.default_rng(seed).integers(0, 101, sum(counts)) / 100
    pauses = np.repeat(np.arange(len(counts)) * silence_s, counts)
    found = points((EVERY_S * np.arange(len(busy)) + pauses).tolist(), np.arange(len(busy)).tolist())
    found["value"] = busy
    used_ = {"gpu0_busy": [Stretch(1, Window("gpu0_busy", spans(found), exact=True))]}
    spec = usage_chart(A_RUN, used_, "gpu", UsageLook(), began=None)
    assert spec is not None
    (line,) = spec.panels[0].series
    assert sum(map(math.isnan, line.y)) == len(counts) - 1
    assert len(line.y) <= 2 * 240 + 2 * len(counts)
    assert line.y[-1] == pytest.approx(100 * busy[-1])
    assert list(line.x) == sorted(line.x)
    assert np.nanmin(line.low or line.y) == pytest.approx(100 * busy.min())
    assert np.nanmax(line.high or line.y) == pytest.approx(100 * busy.max())


# Steps a second.


def points(moments: Sequence[float], steps: Sequence[int]) -> Entries:
    found = np.zeros(len(moments), dtype=POINT)
    found["row"] = np.arange(len(moments))
    found["at"], found["step"] = moments, steps
    return found


def stretch(moments: Sequence[float], steps: Sequence[int], *, attempt: int = 1) -> Stretch:
    return Stretch(attempt, Window("loss", spans(points(moments, steps)), exact=True))


def rates_of(*stretches: Stretch) -> tuple[list[float], list[float]]:
    """Moments and rates."""
    curve = pace_curve(stretches, time_axis(stretches, 0.0))
    unit_s = time_axis(stretches, 0.0).unit_s
    return [x * unit_s for x in curve.x], list(curve.y)


LIFE = st.lists(st.tuples(st.floats(0.05, 40.0), st.integers(0, 50)), min_size=2, max_size=400)


@given(LIFE)
def test_a_rate_is_never_beyond_what_two_rows_say(life: list[tuple[float, int]]) -> None:
    moments = np.cumsum([seconds for seconds, _ in life])
    steps = np.cumsum([made for _, made in life])
    _, rates = rates_of(stretch(moments.tolist(), steps.tolist()))
    said = np.diff(steps) / np.diff(moments)
    assert rates
    assert min(rates) >= said.min() - 1e-9
    assert max(rates) <= said.max() + 1e-9
    assert not any(map(math.isnan, rates))  # no pause, as none took a minute


@given(st.lists(st.tuples(st.floats(0.5, 5.0), st.integers(5, 60)), min_size=1, max_size=5), st.floats(120.0, 5000.0))
def test_a_pause_is_a_gap_and_counts_for_nothing(parts: list[tuple[float, int]], pause_s: float) -> None:
    moments: list[float] = []
    steps: list[int] = []
    for pace_s, count in parts:
        start = moments[-1] + pause_s if moments else 0.0
        first = steps[-1] + 1 if steps else 0
        moments += [start + pace_s * n for n in range(count)]
        steps += range(first, first + count)
    found, rates = rates_of(stretch(moments, steps))
    assert sum(map(math.isnan, rates)) == len(parts) - 1
    paces = {round(1 / pace_s, 6) for pace_s, _ in parts}
    assert {round(rate, 6) for rate in rates if not math.isnan(rate)} <= paces
    assert found == sorted(found)


def test_no_rate_reaches_across_attempts() -> None:
    one = stretch([0.0, 1.0, 2.0, 3.0], [0, 10, 20, 30])
    two = stretch([3.5, 4.5, 5.5], [20, 22, 24], attempt=2)
    moments, rates = rates_of(one, two)
    seen = [rate for rate in rates if not math.isnan(rate)]
    assert set(seen) == {10.0, 2.0}
    assert seen == sorted(seen, reverse=True)
    assert math.isnan(rates[moments.index(3.5)])


def test_steps_or_a_clock_that_go_back_are_a_gap() -> None:
    for moments, steps in (([0.0, 1.0, 2.0, 3.0], [5, 6, 0, 1]), ([10.0, 11.0, 2.0, 3.0], [5, 6, 7, 8])):
        _, rates = rates_of(stretch(moments, steps))
        assert [rate for rate in rates if not math.isnan(rate)] == [1.0] * (len(rates) - 1)


def test_rows_of_one_step_are_not_a_stop() -> None:
    _, rates = rates_of(stretch([0.0, 0.0, 2.0, 2.0, 4.0, 4.0], [0, 0, 1, 1, 2, 2]))
    assert set(rates) == {0.5}
    assert rates_of(stretch([1.0], [1])) == ([], [])


@given(st.lists(st.integers(1, 9), min_size=40, max_size=600), st.integers(2, 30))
def test_spans_say_the_same_as_their_points(made: list[int], each: int) -> None:
    """A long run is read as spans; its rates are means over wider cells of the same line."""
    count = len(made) // 16 * 16
    steps, moments = np.cumsum(made[:count]), each * np.arange(count, dtype=float)
    whole = points(moments.tolist(), steps.tolist())
    coarse = next(block.entries for block in grow({}, whole) if block.level == 1)
    assert usual_s(coarse) == pytest.approx(each)
    _, rates = rates_of(Stretch(1, Window("loss", coarse, exact=False)))
    said = np.diff(steps) / each
    assert said.min() - 1e-9 <= min(rates)
    assert max(rates) <= said.max() + 1e-9


def beats_at(*moments: float) -> dict[str, list[Stretch]]:
    made = np.array([(n, n, at, 0.5) for n, at in enumerate(moments)], dtype=POINT)
    return {"cpus": [Stretch(1, Window("cpus", spans(made), exact=True))]}


def test_a_clock_that_is_set_back_leaves_a_gap() -> None:
    times = [*(1000.0 + 10 * n for n in range(20)), *(10.0 * n for n in range(20))]
    spec = usage_chart(A_RUN, beats_at(*times), "usage", UsageLook(), began=None)
    assert spec is not None
    (line,) = spec.panels[0].series
    assert sum(map(math.isnan, line.y)) == 1
    assert list(line.x) == sorted(line.x)


@pytest.mark.parametrize(
    ("since_s", "length_s", "unit"),
    [
        (0, 7 * 86_400, "days"),
        (6.9 * 86_400, 8640, "minutes"),  # the last hours of a week
        (6 * 86_400, 86_400, "days"),
        (604_200, 600, "minutes"),
        (3 * 86_400, 0, "minutes"),  # one beat
        (280, 120, "minutes"),
        (0, 0, "seconds"),
    ],
)
def test_the_unit_fits_what_is_shown(since_s: float, length_s: float, unit: str) -> None:
    stretches = beats_at(since_s, since_s + length_s)["cpus"]
    assert time_axis(stretches, 0.0).unit == unit


def test_of_thousands_of_rates_a_few_are_read() -> None:
    names = [f"layer{n}/tokens_per_s" for n in range(5000)]
    assert rate_names(["loss", *names]) == names[:8]


async def test_the_pace_of_a_long_run_is_that_of_its_densest_metric(host: Host) -> None:
    count = 2 * MOST_SPANS + 500
    await host.begin()
    await host.take(host.event(Started(model="m", total_steps=None)))
    moments = [START.timestamp() + n / 2 + (7200.0 if n >= count // 2 else 0.0) for n in range(count)]
    rows = [
        MetricRow(step=n, at=at, values={"loss": 1.0} if n % 50 else {"loss": 1.0, "valid_loss": 2.0})
        for n, at in enumerate(moments)
    ]
    await host.take(*[host.event(Measured(rows=tuple(rows[n : n + 500]))) for n in range(0, count, 500)])
    paces = await host.stores.runs.paces(host.run.id)
    (one,) = paces
    assert (one.attempt, one.window.name) == (1, "loss")
    assert len(one.window.spans) < 2 * MOST_SPANS
    curve = pace_curve(paces, time_axis(paces, None))
    seen = [rate for rate in curve.y if not math.isnan(rate)]
    assert len(curve.y) < 400
    assert seen == pytest.approx([2.0] * len(seen), rel=1e-6)
    gaps = [b - a for (a, _), (b, rate) in pairwise(zip(curve.x, curve.y, strict=True)) if math.isnan(rate)]
    assert gaps == [pytest.approx(7200.5 / time_axis(paces, None).unit_s)]
    (near,) = await host.stores.runs.paces(host.run.id, last_s=60.0)
    assert near.window.exact
    assert len(near.window.spans) == 121
