"""Where a supervisor goes on in metrics.jsonl: each row once over all attempts, whatever else stands in the file."""

import json
import tempfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.domain.events import Logged, Measured, MetricRow
from worker.reporting.spool import Spool
from worker.supervisor import follow
from worker.supervisor.follow import ROWS, MetricsTail, rows_in

NAMES = ["loss", "a b", "values", "step", "ä", 'q"', ""]
NUMBERS = st.one_of(
    st.floats(),
    st.integers(-(10**20), 10**20),
    st.sampled_from(
        ["01", "1.", ".5", "-0", "1e5", "1E5", "1e-400", "1e400", "+1", "null", '"1"', "NaN", "-NaN", "true"]
    ),
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """Rows, what is nearly a row, and rows that are broken."""

    def number() -> str:
        found = draw(NUMBERS)
        return found if isinstance(found, str) else json.dumps(found)

    pairs = draw(st.lists(st.tuples(st.sampled_from(NAMES), st.just("")), max_size=3))
    values = ",".join(f"{json.dumps(name, ensure_ascii=draw(st.booleans()))}:{number()}" for name, _ in pairs)
    step, at = draw(st.sampled_from(["3", "-3", "0", number()])), draw(st.sampled_from(["1.5", number()]))
    line = f'{{"step":{step},"at":{at},"values":{{{values}}}}}'
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        place = draw(st.integers(0, len(line)))
        line = line[:place] + draw(st.sampled_from([*'{}[]:,"x\r\\ ', ""])) + line[place + draw(st.booleans()) :]
    return line.encode() + draw(st.sampled_from([b"\n", b"\n", b"\r\n", b"\n\n"]))


def taken(tail: MetricsTail) -> list[str]:
    found = []
    while (measured := tail.take()) is not None or tail.behind:
        found += [row.model_dump_json() for row in measured.rows] if measured is not None else []
    return found


@given(
    st.lists(lines(), max_size=12), st.sampled_from([b"", b'{"step":1,"at":1.0,"val']), st.sampled_from([150, 2**18])
)
def test_reading_goes_on_behind_as_many_rows_as_were_handed_out(found: list[bytes], half: bytes, window: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "_READ_BYTES", window)
        path = Path(folder) / "metrics.jsonl"
        path.write_bytes(b"".join(found) + half)
        rows = taken(MetricsTail(path, handed_out=0))
        for number in range(len(rows) + 2):
            assert taken(MetricsTail(path, handed_out=number)) == rows[number:]


def test_rows_are_found_that_the_runtime_wrote_and_others(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    good = '{"step":%d,"at":1790000000.05,"values":{"train_loss":0.25,"lr":1e-05,"bad":NaN,"worse":-Infinity}}\n'
    text = [good % step for step in range(20_000)]
    text[7_000:7_000] = ["no row\n", "\n", '{"step": 1, "at": 2, "values": {"spaced": 1}}\n', '{"step":1,"at":2}\n']
    path.write_text("".join(text))
    assert len(taken(MetricsTail(path, handed_out=0))) == 20_001
    for number in (1, 6_999, 7_000, 7_001, 7_002, 19_999):
        first = taken(MetricsTail(path, handed_out=number))
        assert len(first) == 20_001 - number


ROW = b'{"step":%d,"at":1.0,"values":{"a":1.0}}\n'


@pytest.mark.parametrize("long", [b" " * 150, b"x" * 160, b" " * 300, b"x" * 299, (ROW % 9).replace(b"\n", b"\r") * 9])
def test_what_follows_on_a_line_that_is_too_long_is_read_the_same_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, long: bytes
) -> None:
    """Reading steps over pieces of it, so its rest may be a row, or several."""
    monkeypatch.setattr(follow, "_READ_BYTES", 150)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(ROW % 1 + long + ROW % 2 + ROW % 3 + b" " * 70 + long + ROW % 4 + ROW % 5 + long)
    rows = taken(MetricsTail(path, handed_out=0))
    assert len(rows) > 2
    for number in range(len(rows) + 2):
        assert taken(MetricsTail(path, handed_out=number)) == rows[number:]


def test_a_file_without_lines_is_stepped_over_with_little_memory(tmp_path: Path) -> None:
    """A hole of 256 MiB in the file takes no disk, and must take no memory either."""
    path = tmp_path / "metrics.jsonl"
    with path.open("wb") as file:
        file.write(ROW % 1)
        file.truncate(2**28)
        file.seek(0, 2)
        file.write(b"\n" + ROW % 2)
    tracemalloc.start()
    try:
        rest = taken(MetricsTail(path, handed_out=1))
        assert len(rest) == 1
        assert MetricsTail(path, handed_out=2).take() is None
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_looking_for_a_row_ends_though_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop that reads also watches the run: what writes without end must not hold it up."""
    monkeypatch.setattr(follow, "_TAKE_S", 0.0)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"no row\n" * 200_000 + ROW % 1)
    tail = MetricsTail(path, handed_out=0)
    assert tail.take() is None
    assert tail.behind
    assert len(taken(tail)) == 1
    assert not tail.behind


def test_rows_behind_much_that_is_none_come_at_once(tmp_path: Path) -> None:
    """The training may have ended: nobody asks again later."""
    path = tmp_path / "metrics.jsonl"
    row = '{"step":1,"at":1.0,"values":{"a":1.0}}\n'
    path.write_text("no row\n" * 100_000 + row + "x" * 600_000 + "\n" + row)
    tail = MetricsTail(path, handed_out=0)
    assert len(taken(tail)) == 2
    assert tail.malformed > 100_000


def test_rows_of_a_spool_are_counted_with_any_names_and_texts(tmp_path: Path) -> None:
    names = ['"values":{', "values", "step", '{"step":', "é", "\\"]
    rows = tuple(MetricRow(step=n, at=1.0, values=dict.fromkeys(names, float("nan"))) for n in range(ROWS))
    texts = ('"body":{"kind":"measured","rows":[{"step":1,"at":1.0,"values":{}}]', '"values":{')
    paths = [tmp_path / "spool-1.jsonl", tmp_path / "spool.jsonl"]
    for attempt, path in enumerate(paths, 1):
        spool = Spool(path, run="r-1", attempt=attempt, host="h1")
        for body in (Logged(lines=texts), Measured(rows=rows), Measured(rows=()), Measured(rows=rows[:3])):
            spool.append(body)
        spool.close()
    assert rows_in([*paths, tmp_path / "none.jsonl"]) == 2 * (ROWS + 3)
    whole = paths[1].read_bytes()
    paths[1].write_bytes(whole[:-2])  # half-written, so never sent
    assert rows_in(paths) == 2 * ROWS + 3
