"""Files of metrics: every row once and exactly, whoever wrote it, however it grows; with polars and without."""

import gzip
import json
import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.series import jsonl, tail
from agent.series.growing import Growing
from agent.series.jsonl import Lines, read
from agent.series.tail import Tail
from tests.agent.test_series import same, shows

Row = tuple[int, float, dict[str, float]]


def rows_of(*found: Lines) -> list[Row]:
    rows: list[Row] = []
    for lines in found:
        of = lines.rows
        named: list[dict[str, float]] = [{} for _ in range(len(of))]
        for name, (places, values) in of.columns.items():
            for place, value in zip(places.tolist(), values.tolist(), strict=True):
                named[place][name] = value
        rows += list(zip(of.steps.tolist(), of.at.tolist(), named, strict=True))
    return rows


def equal(found: list[Row], wanted: list[Row]) -> None:
    assert len(found) == len(wanted)
    for (step, at, values), (other_step, other_at, other) in zip(found, wanted, strict=True):
        assert step == other_step
        assert same(at, other_at)
        assert values.keys() == other.keys()
        assert all(same(values[name], other[name]) for name in other)
        assert all(
            math.copysign(1, values[name]) == math.copysign(1, other[name]) for name in other if other[name] == 0
        )


def line(row: Row, **how: Any) -> str:
    return json.dumps({"step": row[0], "at": row[1], "values": row[2]}, **how)


@pytest.fixture(params=["polars", "alone"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways, for any size."""
    if request.param == "alone":
        monkeypatch.setattr(jsonl.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(jsonl, "_WORTH_BYTES", 0)
    monkeypatch.setattr(jsonl, "_FEW", 0)


NUMBERS = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, -0.0, 1e-5, 1.0, 5e-324]))
NAMES = st.sampled_from(["loss", "at", "step", "values", "a,b", 'q"', "é", "x:y", "", "b\\s", "}", "valid/acc"])


@pytest.mark.usefixtures("either")
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.floats(0, 2e9),
            st.one_of(
                st.fixed_dictionaries({"loss": NUMBERS, "lr": NUMBERS}), st.dictionaries(NAMES, NUMBERS, max_size=4)
            ),
        ),
        max_size=30,
    ),
    st.sampled_from([None, (",", ":"), (" , ", " : ")]),
    st.booleans(),
    st.booleans(),
)
def test_every_row_comes_back(rows: list[Row], separators: Any, escaped: bool, crlf: bool) -> None:
    end = "\r\n" if crlf else "\n"
    data = "".join(line(row, separators=separators, ensure_ascii=escaped) + end for row in rows).encode()
    found = read(data)
    equal(rows_of(found), rows)
    assert found.malformed == 0


@pytest.mark.usefixtures("either")
def test_other_programs_rows_are_taken_as_they_are() -> None:
    written = [
        '{"step": 1, "loss": 0.5, "epoch": 1}',
        '{"step": 2, "loss": 0.25, "epoch": 1}',
        '{"_step": 3, "loss": 1, "_timestamp": 12.5, "note": "text", "ok": true, "none": null, "deep": {"x": 1}}',
        '{"global_step": 4.0, "loss": NaN, "grad": -Infinity}',
        '{"loss": 7}',
        '{"iteration": 6, "time": "noon", "loss": 10000000000000000000000}',
    ]
    wanted: list[Row] = [
        (1, math.nan, {"loss": 0.5, "epoch": 1.0}),
        (2, math.nan, {"loss": 0.25, "epoch": 1.0}),
        (3, 12.5, {"loss": 1.0}),
        (4, math.nan, {"loss": math.nan, "grad": -math.inf}),
        (4, math.nan, {"loss": 7.0}),  # the fifth line, counted from 0
        (6, math.nan, {"loss": 1e22}),
    ]
    equal(rows_of(read("\n".join(written).encode() + b"\n")), wanted)


BROKEN = [
    b"{", b"[1]", b"3", b"nonsense", b'{"step": 1, "at": 2.0, "val{"step": 2}', b'{"step":1,"at":1.0,"values":{"a":0.5',
    b'{"step":1,"at":1.0,"values":{"a":0.5}', b'{"step":1,"at":1.0,"values":{"a":0.5}}}',
    b'{"step":1,1.0,"values":{"a":0.5}}',
    b'{"step":true,"loss":1}', b'{"step":"1","loss":1}',
    b'{"step":9223372036854775808,"loss":1}',
    b'{"step":1,"at":1.0,"values":{"a":0x10}}', b"\xff\xfe", b"\x00",
    b'{"step":1,"at":1.0,"values":{"a":0.5},"values":{}', b'"step":1,"at":1.0,"values":{"a":0.5}}',
    b'{"step":1,"at":1.0,"values":{"a":0.5}},', b'{"step":1,"at":1.0,"values":{"a":0.5}},,',
    b'{"step":1,"at":1.0,"values":{"a":}}', b'{"step":1,"at":1.0,"values":{"a"}}', b"\xef\xbb\xbf{}",
]  # fmt: skip


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_no_row_is_counted_and_costs_no_other(broken: bytes) -> None:
    good: list[Row] = [(n, 1.0, {"a": n / 3}) for n in range(40)]
    lines = [line(row, separators=(",", ":")).encode() for row in good]
    found = read(b"\n".join([*lines[:20], broken, b"", b"  ", *lines[20:]]) + b"\n")
    equal(rows_of(found), good)
    assert found.malformed == 1


GOOD = [
    b'{"step":3,"at":1.0,"values":{"a":0.5,"b":2}}', b'{"step":4,"at":2.0,"values":{"a":1.5,"b":-0.0}}',
    b'{"step":5,"at":3.0,"values":{"a":NaN,"b":1e300}}', '{"step":6,"at":4.0,"values":{"ä, ö":0.25}}'.encode(),
    b'{"loss": 0.5, "step": 7}', b"{}", b"",
]  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.sampled_from([GOOD[0], *GOOD]),
            st.lists(st.tuples(st.integers(0, 60), st.sampled_from([*'{}[]:," \t\r\n\\xyz', "", "null"])), max_size=2),
        ),
        min_size=1,
        max_size=25,
    ),
    st.booleans(),
)
def test_many_at_once_are_what_each_is_by_itself(spoiled: list[tuple[bytes, list[tuple[int, str]]]], end: bool) -> None:
    """Whatever is put into lines, or cut from them (a digit never: more numbers are taken than JSON has)."""
    data = b"\n".join(_spoil(*one) for one in spoiled) + (b"\n" if end else b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonl, "_WORTH_BYTES", 0)
        patch.setattr(jsonl, "_FEW", 0)
        many = read(data, 100)
        patch.setattr(jsonl.importlib.util, "find_spec", lambda _: None)
        alone = read(data, 100)
    equal(rows_of(many), rows_of(alone))
    assert many.malformed == alone.malformed


def _spoil(line: bytes, changes: list[tuple[int, str]]) -> bytes:
    for at, put in changes:
        cut = not put and line[at : at + 1] not in b"0123456789.+-"
        line = line[:at] + put.encode() + line[at + cut :]
    return line


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
def test_a_compressed_file_is_no_file_of_rows(pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "_WORTH_BYTES", 0)
    lines = (GOOD[0] + b"\n") * 50
    found = read(pack(lines * 1000).replace(b"\n", b" ") + b"\n" + lines)
    assert (len(found.rows), found.malformed) == (50, 1)


def test_layouts_that_alternate_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = []
    for n in range(12_000):
        values = {"loss": n / 7, "lr": 1e-3} if n % 3 else {"valid_loss": n / 5}
        rows.append((n, 1e9 + n, values | ({"rare": 1.0} if n % 1000 == 0 else {})))
    data = "".join(line(row) + "\n" for row in rows).encode()
    fast = read(data)
    equal(rows_of(fast), rows)
    single = []
    real = jsonl._row
    monkeypatch.setattr(jsonl, "_row", lambda one: single.append(one) or real(one))  # type: ignore[func-returns-value]
    read(data)
    assert len(single) < 2000  # the others were taken many at once


def write(path: Path, *lines: str, mode: str = "a") -> None:
    with path.open(mode) as file:
        file.write("".join(lines))


ONE, TWO, THREE = (f'{{"step": {n}, "values": {{"a": {n}.5}}}}\n' for n in (1, 2, 3))


def steps(news: tail.News) -> list[int]:
    return [row[0] for row in rows_of(*news.lines)]


def test_a_line_is_taken_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    followed = Tail(path)
    assert followed.take() == tail.News((), again=False)
    whole = (ONE + TWO).replace("\n", "\r\n") + THREE
    seen: list[int] = []
    for byte in whole:
        write(path, byte)
        seen += steps(followed.take())
    assert seen == [1, 2, 3]
    write(path, THREE.rstrip())
    assert steps(followed.take()) == []
    assert steps(followed.take(last=True)) == [3]  # nobody ends this line any more


@pytest.mark.parametrize("pieces", [True, False])
def test_a_file_that_became_another_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: bool) -> None:
    if pieces:
        monkeypatch.setattr(tail, "PIECE_BYTES", 7)  # threads, and lines that no piece has room for
    path = tmp_path / "metrics.jsonl"
    followed = Tail(path)
    write(path, ONE, TWO)
    assert steps(followed.take()) == [1, 2]
    write(path, ONE, mode="w")  # cut off and written anew
    assert (steps(news := followed.take()), news.again) == ([1], True)
    write(path, TWO, mode="w")  # as long as before
    assert (steps(news := followed.take()), news.again) == ([2], True)
    write(tmp_path / "new", TWO, THREE)
    (tmp_path / "new").replace(path)  # the same beginning, but another file
    assert (steps(news := followed.take()), news.again) == ([2, 3], True)
    path.unlink()
    assert followed.take() == tail.News((), again=True)
    write(path, THREE)
    assert (steps(news := followed.take()), news.again) == ([3], False)
    assert steps(followed.take()) == []


def test_a_long_file_is_read_in_order_and_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "PIECE_BYTES", 100_000)
    path = tmp_path / "metrics.jsonl"
    rows = [f'{{"loss": {n / 3!r}}}\n' for n in range(60_000)]
    write(path, *rows)
    followed = Tail(path)
    found = followed.take()
    assert len(found.lines) > 5
    assert steps(found) == list(range(60_000))  # without a step, its line is one
    write(path, '{"loss": 1}\n')
    real, read_bytes = tail.read, 0

    def counting(data: jsonl.Text, first: int, scale: int) -> Lines:
        nonlocal read_bytes
        read_bytes += len(data)
        return real(data, first, scale)

    monkeypatch.setattr(tail, "read", counting)
    assert steps(followed.take()) == [60_000]
    assert read_bytes == len('{"loss": 1}\n')


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "PIECE_BYTES", 100)
    monkeypatch.setattr(tail, "MOST_LINE_BYTES", 1000)
    path = tmp_path / "metrics.jsonl"
    write(path, ONE, "x" * 5000, "\n", TWO)
    found = Tail(path).take()
    assert steps(found) == [1, 2]
    assert found.malformed >= 1


def test_windows_of_a_growing_file_equal_its_rows() -> None:
    random = np.random.default_rng(5)
    values = random.normal(size=70_000)
    values[[3, 500]] = [math.nan, math.inf]
    grown, at = Growing(), 0
    for size in (1, 16, 2047, 2048, 5000, 60_888):
        data = "".join(line((n, 1.0, {"x": float(values[n])})) + "\n" for n in range(at, at + size))
        grown.add(read(data.encode()).rows)
        at += size
    assert (grown.names, grown.rows, grown.last_step) == (["x"], 70_000, 69_999)
    for low, high in [(-(2**40), 2**40), (0, 0), (2047, 2049), (10, 65_000), (69_999, 10**6), (10**6, 10**7)]:
        wanted = [(n, float(values[n])) for n in range(max(0, low), min(len(values) - 1, high) + 1)]
        shows(grown.window("x", low, high), wanted)
