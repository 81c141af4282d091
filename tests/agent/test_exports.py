"""Exports of metrics: every row exactly as it was logged, whatever it is called, in bounded memory, and stoppable."""

import asyncio
import csv
import gzip
import importlib.util
import io
import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete

from agent.domain.errors import BadRequest
from agent.runs.charts import exports
from agent.runs.charts.exports import columns, csv_head, csv_lines, write_parquet
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.series.slices import Slice, cut
from agent.storage.database import Database
from agent.storage.series import BARE, FOLD, NAME_CHARS
from agent.storage.tables import series_block
from agent.stores import Stores
from agent.tools.runs import exporting
from agent.tools.runs.exporting import Exports
from tests.agent.databases import on_both
from tests.agent.test_series import Host, Logged3, host, same  # noqa: F401 - a fixture
from tests.fakes import FakeCharts

_BARE = series_block.c.name == BARE
Row = tuple[int, int, float, dict[str, float]]
ODD = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 1.0]


def slice_of(rows: Sequence[Logged3]) -> Slice:
    names = dict.fromkeys(name for _, _, values in rows for name in values)
    found = {}
    for name in names:
        places = [place for place, (_, _, values) in enumerate(rows) if name in values]
        found[name] = np.array(places), np.array([rows[place][2][name] for place in places])
    return Slice(np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], float), found)


def files_in(folder: Path) -> ArtifactWriter:
    return ArtifactWriter(FakeCharts(), folder / "pictures")


def read_csv(path: Path, names: Sequence[str]) -> list[Row]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    head, *lines = csv.reader(io.StringIO(raw.decode(), newline=""))
    assert head == ["attempt", "step", "at", *columns(names)]
    return [
        (int(a), int(s), float(at), {n: float(c) for n, c in zip(names, cells, strict=True) if c})
        for a, s, at, *cells in lines
    ]


def read_parquet(path: Path, names: Sequence[str]) -> list[Row]:
    frame = pl.read_parquet(path)
    assert frame.columns == ["attempt", "step", "at", *columns(names)]
    return [
        (a, s, at, {n: c for n, c in zip(names, cells, strict=True) if c is not None})
        for a, s, at, *cells in frame.rows()
    ]


def equal(found: Sequence[Row], wanted: Sequence[Row]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one[:3] == other[:3]
        assert one[3].keys() == other[3].keys()
        for name, value in other[3].items():
            assert same(one[3][name], value)
            assert math.copysign(1, one[3][name]) == math.copysign(1, value) or math.isnan(value)


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.floats(0, 1e10),
            st.dictionaries(st.sampled_from(['a"b', "c,d", "step", "a\nb", "x"]), st.sampled_from(ODD), max_size=4),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_what_is_written_is_what_was_logged(tmp_path_factory: pytest.TempPathFactory, rows: list[Logged3]) -> None:
    folder = tmp_path_factory.mktemp("export")
    names = list(dict.fromkeys(name for _, _, values in rows for name in values))
    wanted = [(3, *row) for row in rows]
    write_parquet(folder / "a.parquet", iter([(3, slice_of(rows))]), names)
    equal(read_parquet(folder / "a.parquet", names), wanted)
    (folder / "a.csv").write_bytes(csv_head(names) + csv_lines(3, slice_of(rows), names))
    equal(read_csv(folder / "a.csv", names), wanted)


def test_columns_have_names_of_their_own() -> None:
    assert columns(["step", "step_2", "loss", "at"]) == ["step_2", "step_2_2", "loss", "at_2"]


def test_slices_cover_all_parts() -> None:
    assert cut([(1, 5), (3, 4)], 4) == [(1, 0, 4), (1, 4, 5), (3, 0, 4)]


@pytest.mark.parametrize("form", ["csv", "parquet"])
async def test_a_run_of_several_attempts_comes_out_whole(
    host: Host,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: Any,
) -> None:
    monkeypatch.setattr(exporting, "ROWS", 300)  # slices end anywhere in columns and in what is not folded yet
    odd = iter(ODD * 400)
    await host.log([(n, n / 7, {"z": float(n)} if n % 3 else {}) for n in range(FOLD + 100)], each=50)
    await host.begin()
    await host.log([(n, 5e3, {"z": next(odd), "a": next(odd)}) for n in range(400, 400 + FOLD)], each=50)
    await host.log([(9, 6e3, {}), (10, 6e3, {"late": 1.0})])
    table = await host.stores.runs.metric_table(host.run.id)
    assert table.names == ("z", "a", "late")
    assert table.parts == ((1, FOLD + 100), (2, FOLD + 2))
    file = await Exports(host.stores.runs, files_in(tmp_path)).write(host.run.id, table, form)
    assert file.name == f"{host.run.id}-metrics.{form}"
    found = {"csv": read_csv, "parquet": read_parquet}[form](Path(file.path), table.names)
    equal(found, [(number, *row) for number, rows in enumerate(host.rows, 1) for row in rows])


async def test_a_row_without_values_is_kept_when_it_is_folded(host: Host) -> None:  # noqa: F811
    rows: list[Logged3] = [(n, float(n), {"a": 1.0} if n % 5 == 0 else {}) for n in range(2 * FOLD + 9)]
    await host.log(rows)
    stored = await host.stores.runs.metrics(host.run.id)
    assert [(row.step, row.at, row.values) for row in stored] == rows
    assert await host.stores.runs.metric_names(host.run.id) == ["a"]
    assert [found.name for found in await host.stores.runs.series(host.run.id)] == ["a"]


@on_both
async def test_rows_that_an_earlier_version_lost_are_not_made_up(
    host: Host,  # noqa: F811
    either_database: Database,
) -> None:
    await host.log([(n + 7, 5.0, {"a": 1.0 * n} if n % 2 else {}) for n in range(FOLD)])
    await either_database.write(lambda connection: connection.execute(delete(series_block).where(_BARE)))
    found = await host.stores.runs.metric_slice(host.run.id, 1, 100, 200)
    assert found.steps.tolist() == [n + 7 for n in range(100, 200) if n % 2]
    assert found.at.tolist() == [5.0] * 50
    assert found.filled("a", None) == [1.0 * n for n in range(100, 200) if n % 2]


@on_both
async def test_names_that_no_key_can_hold_do_not_stop_a_run(host: Host) -> None:  # noqa: F811
    longest = "n" * 20_000
    rows: list[Logged3] = [(n, 1.0, {"": 1.0, "a\x00b": 2.0, longest: 3.0, longest + "x": 4.0}) for n in range(FOLD)]
    await host.log(rows)
    names = await host.stores.runs.metric_names(host.run.id)
    assert sorted(names)[:1] + sorted(names)[-1:] == ["ab", "unnamed"]
    assert len(names) == 4
    assert all(len(name) <= NAME_CHARS for name in names)
    values = {found.name: found.last_value for found in await host.stores.runs.series(host.run.id)}
    assert sorted(values.values()) == [1.0, 2.0, 3.0, 4.0]


async def test_a_long_csv_is_gzipped_and_the_same_every_time(
    host: Host,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporting, "PLAIN_BYTES", 1000)
    rows: list[Logged3] = [(n, 1.0, {"a": n / 3}) for n in range(900)]
    await host.log(rows)
    table = await host.stores.runs.metric_table(host.run.id)
    exported = Exports(host.stores.runs, files_in(tmp_path))
    one, two = [await exported.write(host.run.id, table, "csv") for _ in range(2)]
    assert one == two
    assert one.name.endswith("-metrics.csv.gz")
    assert one.path.endswith(".csv.gz")
    equal(read_csv(Path(one.path), ["a"]), [(1, *row) for row in rows])
    assert "pandas" in exporting.words("r-abc123", table, one)
    assert [*(tmp_path / "files" / "part").iterdir()] == []


async def test_an_export_that_nobody_waits_for_ends_and_leaves_nothing(
    host: Host,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exporting, "ROWS", 10)
    await host.log([(n, 1.0, {"a": 1.0}) for n in range(200)])
    table = await host.stores.runs.metric_table(host.run.id)
    began, asked = asyncio.Event(), 0
    real = host.stores.runs.metric_slice

    async def slow(*at: Any) -> Slice:
        nonlocal asked
        asked += 1
        if asked == 3:
            began.set()
            await asyncio.sleep(3600)
        return await real(*at)

    monkeypatch.setattr(host.stores.runs, "metric_slice", slow)
    exported = Exports(host.stores.runs, files_in(tmp_path))
    waiting = asyncio.create_task(exported.write(host.run.id, table, "csv"))
    await asyncio.wait_for(began.wait(), 30)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    asked = 1000
    again = await asyncio.wait_for(exported.write(host.run.id, table, "csv"), 60)  # the writer is free
    assert len(read_csv(Path(again.path), ["a"])) == 200
    assert [*(tmp_path / "files" / "part").iterdir()] == []


async def test_many_exports_at_once_do_not_wait_for_each_other_forever(
    host: Host,  # noqa: F811
    tmp_path: Path,
) -> None:
    await host.log([(n, 1.0, {"a": 1.0}) for n in range(50)])
    table = await host.stores.runs.metric_table(host.run.id)
    exported = Exports(host.stores.runs, files_in(tmp_path))
    work = asyncio.gather(*(exported.write(host.run.id, table, "csv") for _ in range(40)))
    found = await asyncio.wait_for(work, 120)
    assert len({file.sha256 for file in found}) == 1
    assert sum(thread.name.startswith("export") for thread in threading.enumerate()) >= 1


async def test_without_polars_there_is_a_sentence(
    host: Host,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exports.importlib.util, "find_spec", lambda _: None)
    stores: Stores = host.stores
    table = await stores.runs.metric_table(host.run.id)
    with pytest.raises(BadRequest, match=r"trainyard\[parquet\]"):
        await Exports(stores.runs, files_in(tmp_path)).write(host.run.id, table, "parquet")
    assert importlib.util.find_spec is exports.importlib.util.find_spec
