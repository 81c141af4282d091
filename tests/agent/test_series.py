"""Metric series: columns, the pyramid, and both against plain lists of what was logged, on both databases."""

import asyncio
import math
import struct
import zlib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alembic import command
from alembic.config import Config
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sqlalchemy import Connection, select

from agent.domain.events import Ended, EventBody, Logged, Measured, MetricRow, Started, WorkerEvent
from agent.domain.runs import Outcome, Run, RunState
from agent.run_store import START as FROM_THE_BEGINNING
from agent.series.columns import BLOCK, POINT, SPAN, Unreadable, pack, unpack
from agent.series.pyramid import FAN, Block, cover, grow, spans
from agent.series.window import Window
from agent.storage import sql_stores
from agent.storage.database import Database, open_engine
from agent.storage.schema import MIGRATIONS, NEWEST
from agent.storage.series import FOLD
from agent.storage.tables import series_block
from agent.stores import Stores
from tests.agent.databases import on_both, sqlite
from tests.agent.engine import ENDING, a_run
from tests.fakes import START

Logged3 = tuple[int, float, dict[str, float]]
VALUES = st.floats(allow_nan=True, allow_infinity=True, width=64)


def points(values: Sequence[float], steps: Sequence[int] | None = None) -> Any:
    found = np.zeros(len(values), dtype=POINT)
    found["row"] = np.arange(len(values))
    found["step"] = found["row"] if steps is None else steps
    found["at"] = 1.79e9 + 0.37 * found["row"]
    found["value"] = values
    return found


@given(arrays(np.uint64, st.tuples(st.integers(0, 40), st.just(4))))
def test_any_bits_come_back(bits: Any) -> None:
    entries = np.ascontiguousarray(bits).view(POINT).reshape(-1)
    assert unpack(pack(entries), POINT).tobytes() == entries.tobytes()


@given(arrays(np.uint64, st.tuples(st.integers(0, 40), st.just(4))), st.integers(1, 3))
def test_any_bits_come_back_from_a_block_of_the_first_version(bits: Any, times: int) -> None:
    entries = np.ascontiguousarray(np.repeat(bits, times, axis=0)).view(POINT).reshape(-1)
    assert unpack(pack_of_version_1(entries), POINT).tobytes() == entries.tobytes()


def pack_of_version_1(entries: Any) -> bytes:
    """As blocks were written at first: a zlib stream a column."""
    parts = [struct.pack("<BI", 1, len(entries))]
    for name in entries.dtype.names:
        words = np.ascontiguousarray(entries[name]).view(np.int64)
        for _ in range(2 if entries.dtype[name].kind == "i" else name in {"at", "began", "ended"}):
            words = np.diff(words, prepend=np.int64(0))
        data = zlib.compress(np.ascontiguousarray(words.view(np.uint8).reshape(-1, 8).T).tobytes(), 4)
        parts += (struct.pack("<I", len(data)), data)
    return b"".join(parts)


@on_both
async def test_a_run_whose_columns_are_of_the_first_version_goes_on(
    host: "Host", either_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Logged3] = [(n, n / 7, {"a": 1.0 * n}) for n in range(BLOCK + 3 * FOLD)]
    with monkeypatch.context() as before:
        before.setattr("agent.storage.series.pack", pack_of_version_1)
        await host.log(rows[: BLOCK + FOLD])
    query = select(series_block.c.data)

    def versions(connection: Connection) -> set[int]:
        return {data[0] for data in connection.execute(query).scalars()}

    assert await either_database.read(versions) == {1}
    await host.log(rows[BLOCK + FOLD :])
    assert await either_database.read(versions) == {1, 2}
    stored = await host.stores.runs.metrics(host.run.id)
    assert [(row.step, row.at, row.values) for row in stored] == rows
    for low, high in [(0, 10**6), (100, BLOCK + 5), (BLOCK - 1, BLOCK + 1)]:
        (found,) = await host.stores.runs.windows(host.run.id, ["a"], (low, high))
        shows(found, host.counting("a", low, high))


@given(st.binary(max_size=300), st.integers(1, 50))
def test_damage_is_never_read_as_a_block(noise: bytes, place: int) -> None:
    whole = pack(points([0.1 * n for n in range(50)]))
    for data in (whole[:place] + noise, noise, b"\x02\x05\x00\x00\x00" + noise):
        try:
            found = unpack(data, POINT)
        except Unreadable:
            continue
        assert found.dtype == POINT  # noise that happens to be a block is one


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x09\x00\x00\x00\x00", pack(points([1.0, 2.0]))[:-3]])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(Unreadable, match="block of metrics"):
        unpack(data, POINT)


@given(st.lists(VALUES, max_size=700), st.integers(1, 90))
def test_growing_bit_by_bit_equals_growing_at_once(values: list[float], slice_size: int) -> None:
    whole = points(values)
    newest: dict[int, Block] = {}
    blocks: dict[tuple[int, int], Block] = {}
    for start in range(0, len(whole), slice_size):
        for block in grow(newest, whole[start : start + slice_size]):
            newest[block.level] = blocks[block.level, block.number] = block
    once = {(block.level, block.number): block for block in grow({}, whole)}
    assert blocks.keys() == once.keys()
    assert all(blocks[key].entries.tobytes() == once[key].entries.tobytes() for key in once)


@given(st.integers(0, 5000), st.integers(0, 5000), st.integers(1, 5000), st.integers(1, 300))
def test_pieces_cover_each_point_once(start: int, length: int, beyond: int, most: int) -> None:
    stop = start + length
    pieces = cover(start, stop, size=stop + beyond, most=most)
    covered = [n for piece in pieces for n in range(piece.start * FAN**piece.level, piece.stop * FAN**piece.level)]
    assert covered == list(range(start, stop))
    finest = 2 * FAN * max(1, math.ceil(math.log(max(length, 2), FAN)))  # both ends, each level
    assert sum(piece.stop - piece.start for piece in pieces) <= most + 1 + finest


@given(st.lists(VALUES, min_size=FAN, max_size=FAN))
def test_a_span_says_what_its_points_say(values: list[float]) -> None:
    ((_, one),) = [(block.level, block.entries[0]) for block in grow({}, points(values)) if block.level == 1]
    finite = [(value, step) for step, value in enumerate(values) if math.isfinite(value)]
    assert (one["first"], one["last"], one["count"]) == (0, FAN - 1, len(finite))
    counted = (sum(map(math.isnan, values)), values.count(math.inf), values.count(-math.inf))
    assert (one["nans"], one["ups"], one["downs"]) == counted
    if finite:
        assert (one["low"], one["high"]) == (min(finite)[0], max(finite)[0])
        assert values[one["low_step"]] == one["low"]
        assert values[one["high_step"]] == one["high"]
        mean = math.fsum(value / len(finite) for value, _ in finite)
        largest = max(abs(value) for value, _ in finite)  # what is left where large values cancel out is rounding
        assert one["mean"] == pytest.approx(mean, rel=1e-9, abs=max(1e-300, 1e-12 * largest))
    else:
        assert all(math.isnan(one[name]) for name in ("low", "high", "mean"))


class Host:
    """Sends rows of a run as its supervisor would, and remembers them."""

    def __init__(self, stores: Stores, run: Run) -> None:
        self.stores, self.run, self.number, self.seq = stores, run, 0, 0
        self.rows: list[list[Logged3]] = []

    async def begin(self) -> None:
        """The next attempt; the one before it ends."""
        if self.number:
            await self.send(Ended(outcome=Outcome(state=RunState.FAILED, reason="It broke.")))
            assert await self.stores.runs.requeue(self.run.id, expect=RunState.FAILED, note="", at=START)
        assert await self.stores.runs.dispatch(self.run.id, host="gpu-1", at=START) is not None
        self.number, self.seq = self.number + 1, 0
        self.rows.append([])
        await self.send(Started(model="m", total_steps=None))

    async def send(self, *bodies: EventBody) -> None:
        events = []
        for body in bodies:
            self.seq += 1
            at = START + timedelta(seconds=self.seq)
            named = {"run": self.run.id, "attempt": self.number, "seq": self.seq, "host": "gpu-1"}
            events.append(WorkerEvent(**named, at=at, body=body))  # type: ignore[arg-type]
        await self.stores.runs.apply(events, at=START, ending=ENDING)

    async def log(self, rows: Sequence[Logged3], *, each: int = 100) -> None:
        """Rows in events of `each`."""
        self.rows[-1] += rows
        made = [MetricRow(step=step, at=at, values=values) for step, at, values in rows]
        await self.send(*[Measured(rows=tuple(made[n : n + each])) for n in range(0, len(made), each)])

    def counting(self, name: str, low: int, high: int) -> list[tuple[int, float]]:
        """What a window has to show, by step."""
        found: list[tuple[int, float]] = []
        until = math.inf
        for rows in reversed(self.rows):
            part = [(step, values[name]) for step, _, values in rows if name in values and step < until]
            found = part + found
            until = min([until, *[step for step, _, _ in rows]])
        return sorted([point for point in found if low <= point[0] <= high], key=lambda point: point[0])


@pytest.fixture
async def host(either_database: Database) -> Host:
    stores = sql_stores(either_database)
    made = Host(stores, await a_run(stores))
    await made.begin()
    return made


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def shows(found: Window, wanted: list[tuple[int, float]]) -> None:
    """The spans stand for exactly these points."""
    spans_ = found.spans
    finite = [(step, value) for step, value in wanted if math.isfinite(value)]
    assert int((spans_["count"] + spans_["nans"] + spans_["ups"] + spans_["downs"]).sum()) == len(wanted)
    assert int(spans_["count"].sum()) == len(finite)
    assert np.all(np.diff(spans_["first"]) >= 0)
    if finite:
        assert np.nanmin(spans_["low"]) == min(value for _, value in finite)
        assert np.nanmax(spans_["high"]) == max(value for _, value in finite)
    if found.exact:
        assert [*spans_["first"]] == [step for step, _ in wanted]


@on_both
async def test_windows_equal_what_was_logged(host: Host) -> None:
    random = np.random.default_rng(7)
    steps = 3 * BLOCK + 77
    noise = random.normal(size=steps)
    noise[[5, 900, 901, 4000]] = [math.nan, math.inf, -math.inf, math.nan]
    rows: list[Logged3] = [
        (n, 1e9 + n, {"loss": float(noise[n])} | ({"valid_loss": float(n)} if n % 50 == 0 else {}))
        for n in range(steps)
    ]
    for start in range(0, steps, 301):
        await host.log(rows[start : start + 301])
    for low, high in [
        (-(2**40), 2**40),
        (0, 0),
        (17, 17),
        (900, 5000),
        (BLOCK - 1, BLOCK),
        (steps - 1, steps + 9),
        (9**9, 9**9),
    ]:
        loss, valid = await host.stores.runs.windows(host.run.id, ["loss", "valid_loss"], (low, high))
        shows(loss, host.counting("loss", low, high))
        shows(valid, host.counting("valid_loss", low, high))
    summaries = {found.name: found for found in await host.stores.runs.series(host.run.id)}
    assert list(summaries) == ["loss", "valid_loss"]
    assert summaries["loss"].count == steps
    assert summaries["loss"].last_value == noise[-1]
    finite = np.where(np.isfinite(noise), noise, np.nan)
    assert (summaries["loss"].low_step, summaries["loss"].high_step) == (np.nanargmin(finite), np.nanargmax(finite))
    assert (summaries["valid_loss"].last_step, summaries["valid_loss"].last_value) == (6200, 6200.0)


@on_both
async def test_rows_come_back_whole_and_in_order_from_anywhere(host: Host) -> None:
    rows: list[Logged3] = [(n, n / 7, {"a": 1.0 * n} | ({"b": -0.0} if n % 3 else {})) for n in range(2 * FOLD + 100)]
    runs, place, seen = host.stores.runs, FROM_THE_BEGINNING, 0
    for start in range(0, len(rows), 90):
        await host.log(rows[start : start + 90], each=7)
        found, place = await runs.metrics_after(host.run.id, place)
        assert [(row.step, row.at, row.values) for row in found] == rows[seen : start + 90]
        seen = min(len(rows), start + 90)
    stored = [(row.step, row.at, row.values) for row in await runs.metrics(host.run.id)]
    assert stored == rows
    assert str(stored[1][2]["b"]) == "-0.0"
    assert await runs.metrics_after(host.run.id, place) == ([], place)
    assert len((await runs.metrics_after(host.run.id, (1, 13)))[0]) == len(rows) - 13


@on_both
async def test_a_later_attempt_replaces_the_steps_that_it_trains_anew(host: Host) -> None:
    await host.log([(n, float(n), {"loss": 100.0 + n}) for n in range(1500)])
    await host.begin()
    await host.log([(n, 5e3 + n, {"loss": 1.0 * n}) for n in range(1200, 1900)])
    await host.begin()
    await host.log([(n, 9e3 + n, {"loss": -1.0}) for n in range(1100, 1110)])
    for low, high in [(0, 5000), (1090, 1150), (1205, 1899)]:
        (found,) = await host.stores.runs.windows(host.run.id, ["loss"], (low, high))
        shows(found, host.counting("loss", low, high))
    (told,) = await host.stores.runs.series(host.run.id)
    assert (told.count, told.last_step, told.last_value, told.high) == (1110, 1109, -1.0, 1199.0)
    every = await host.stores.runs.metrics(host.run.id)
    assert len(every) == 1500 + 700 + 10  # kept all the same


@on_both
async def test_steps_in_any_order_and_repeated(host: Host) -> None:
    random = np.random.default_rng(3)
    steps = random.integers(0, 3000, 5000)
    await host.log([(int(step), float(n), {"x": float(n)}) for n, step in enumerate(steps)])
    for low, high in [(0, 3000), (100, 140), (2999, 2999), (1500, 1502)]:
        (found,) = await host.stores.runs.windows(host.run.id, ["x"], (low, high))
        wanted = host.counting("x", low, high)
        if found.exact:
            shows(found, wanted)
        else:
            assert found.spans["count"].sum() >= len(wanted)  # spans of mixed steps reach beyond the window


@on_both
async def test_events_that_come_again_after_a_fold_change_nothing(host: Host) -> None:
    rows: list[Logged3] = [(n, float(n), {"a": float(n)}) for n in range(FOLD - 1)]
    await host.log(rows)
    await asyncio.gather(*(host.send(Logged(lines=("x",))) for _ in range(5)))
    await host.log([(FOLD, 1.0, {"a": 1.0})])
    again = [
        WorkerEvent(
            run=host.run.id, attempt=1, seq=n, host="gpu-1", at=START,
            body=Measured(rows=(MetricRow(step=1, at=1.0, values={"a": 5.0}),)),
        )
        for n in range(1, host.seq + 1)
    ]  # fmt: skip
    await host.stores.runs.apply(again, at=START, ending=ENDING)
    assert len(await host.stores.runs.metrics(host.run.id)) == FOLD


def test_a_point_is_a_span_of_its_own() -> None:
    one, two = spans(points([2.0, math.nan]))
    assert one.dtype == SPAN
    assert (one["low"], one["high"], one["mean"], one["count"], one["nans"]) == (2.0, 2.0, 2.0, 1, 0)
    assert (two["count"], two["nans"]) == (0, 1)
    assert same(float(two["low"]), math.nan)


async def test_metrics_survive_going_down_and_up_again(tmp_path: Path) -> None:
    database = sqlite(tmp_path / "test.db")
    await database.start()
    stores = sql_stores(database)
    host = Host(stores, await a_run(stores))
    await host.begin()
    rows: list[Logged3] = [(n, n / 7, {"a": 1.0 * n}) for n in range(2 * FOLD + 50)]
    await host.log(rows)
    await database.close()

    engine = open_engine(database.url)
    for revision, how in (("0001", command.downgrade), (NEWEST, command.upgrade)):
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            how(config, revision)
    engine.dispose()

    await database.start()
    stored = await stores.runs.metrics(host.run.id)
    assert [(row.step, row.at, row.values) for row in stored] == rows
    (found,) = await stores.runs.windows(host.run.id, ["a"])
    shows(found, host.counting("a", 0, len(rows)))
    await database.close()
