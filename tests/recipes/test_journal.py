"""The journal of metrics: nothing that returned is lost, nothing is doubled, whoever dies and whenever."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.recipes.test_runtime import LIMIT_S, rows, script, until
from trainyard import runtime
from trainyard.runtime import JOURNAL, Converter, TrainingRuntime, journal_steps, segments
from worker.supervisor.follow import MetricsTail, rows_in

NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**53), 2**53) | st.booleans()
ROWS = st.lists(
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.dictionaries(st.sampled_from("abcdefgh"), NUMBERS, max_size=8)),
    max_size=60,
)
SLOW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def supervised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_SUPERVISED", "1")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of a page, so that a few rows fill several."""
    monkeypatch.setattr(runtime, "_SEGMENT_BYTES", 4096)


def said(value: Any) -> Any:
    value = float(value)
    if math.isnan(value):
        return "NaN"
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else value


def read(folder: Path) -> list[tuple[int, dict[str, Any]]]:
    return [(row["step"], row["values"]) for row in rows(folder)] if (folder / "metrics.jsonl").exists() else []  # type: ignore[misc]


@given(logged=ROWS, chunk=st.integers(64, 3000))
@SLOW
def test_every_row_is_converted_exactly_and_in_order(
    logged: list[tuple[int, dict[str, Any]]], chunk: int, supervised: None, small: None,
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("run")
    monkeypatch.setattr(runtime, "_CHUNK_BYTES", chunk)
    rt = TrainingRuntime("r", folder)
    for step, values in logged:
        rt.log_metrics(step, **values)
    rt.finish()
    Converter(folder).run(ended=True)
    assert read(folder) == [(step, {name: said(value) for name, value in values.items()}) for step, values in logged]
    assert not (folder / JOURNAL).exists()


class Dies(BaseException):
    """A converter that is killed."""


@given(data=st.data(), logged=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=150))
@SLOW
def test_a_converter_killed_at_any_write_neither_loses_nor_doubles_a_row(
    data: st.DataObject, logged: list[float], supervised: None, small: None,
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Each write and each note of progress may be the last one, a write also half done; scripts write lines between."""
    folder = tmp_path_factory.mktemp("run")
    rt = TrainingRuntime("r", folder)
    pwrite, write, unlink = os.pwrite, os.write, os.unlink
    left = [0]

    def dying(act: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                if act is write:
                    write(arguments[0], arguments[1][: data.draw(st.integers(0, len(arguments[1])))])
                raise Dies
            return act(*arguments, **named)

        return call

    own = 0
    monkeypatch.setattr(runtime, "_CHUNK_BYTES", data.draw(st.sampled_from([128, 1000, 4096])))
    for step, loss in enumerate(logged):
        rt.log_metrics(step, loss=loss)
        if data.draw(st.integers(0, 9)) == 0:
            left[0] = data.draw(st.integers(1, 12))
            with monkeypatch.context() as patch:
                for name, act in (("pwrite", pwrite), ("write", write), ("unlink", unlink)):
                    patch.setattr(os, name, dying(act))
                with contextlib.suppress(Dies):
                    Converter(folder).run()
            if data.draw(st.booleans()):
                path = folder / "metrics.jsonl"
                torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size
                if not torn:
                    with path.open("a") as file:
                        file.write('{"step":-1,"at":0,"values":{}}\n')
                    own += 1
    rt.finish()
    Converter(folder).run(ended=True)
    found = read(folder)
    assert [row for row in found if row[0] >= 0] == [(step, {"loss": loss}) for step, loss in enumerate(logged)]
    assert len(found) == len(logged) + own


@pytest.mark.parametrize("last", range(1, 7))
def test_numbers_of_many_sizes_are_known_again_after_a_death(
    last: int, supervised: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a converter wrote before it died looks the same to the next one, however much either has read at once."""
    logged = [0.0, 1e14]
    rt = TrainingRuntime("r", tmp_path)
    for step, loss in enumerate(logged):
        rt.log_metrics(step, loss=loss)
    left = [last]

    def dying(act: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Dies
            return act(*arguments, **named)

        return call

    with monkeypatch.context() as patch:
        for name in ("pwrite", "write", "unlink"):
            patch.setattr(os, name, dying(getattr(os, name)))
        with contextlib.suppress(Dies):
            Converter(tmp_path).run()
    rt.finish()
    Converter(tmp_path).run(ended=True)
    assert read(tmp_path) == [(step, {"loss": loss}) for step, loss in enumerate(logged)]


@given(noise=st.binary(max_size=400), at=st.integers(0, 600))
@SLOW
def test_a_journal_that_holds_anything_does_no_harm(
    noise: bytes, at: int, supervised: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The training may write what it likes there; the supervisor reads it."""
    folder = tmp_path_factory.mktemp("run")
    rt = TrainingRuntime("r", folder)
    for step in range(5):
        rt.log_metrics(step, loss=0.5)
    name = segments(folder / JOURNAL)[0]
    with (folder / JOURNAL / name).open("r+b") as file:
        file.seek(at)
        file.write(noise)
    tail = MetricsTail(folder / "metrics.jsonl")
    while tail.take() is not None:
        assert tail.rows_seen <= 1000
    rt.finish()
    tail.end()
    journal_steps(folder)
    assert not (folder / JOURNAL).exists()


def test_a_record_that_is_not_whole_is_no_row(supervised: None, tmp_path: Path) -> None:
    """What a kill between the numbers and the mark leaves: everything but the mark."""
    rt = TrainingRuntime("r", tmp_path)
    for step in range(3):
        rt.log_metrics(step, loss=float(step))
    name = segments(tmp_path / JOURNAL)[0]
    path = tmp_path / JOURNAL / name
    data = bytearray(path.read_bytes())
    end = data.index(b"\x00" * 64, 128)
    row = end - end % 8 - 40 if data[end - end % 8 - 40 : end - end % 8 - 32].strip(b"\x00") else end - end % 8 - 32
    with path.open("r+b") as file:
        file.seek(row)
        file.write(bytes(8))
    Converter(tmp_path).run()
    assert [step for step, _ in read(tmp_path)] == [0, 1]


KILLED = """
import os, struct, sys
from trainyard import TrainingRuntime
counter = os.open(sys.argv[1], os.O_RDWR)
import mmap
seen = memoryview(mmap.mmap(counter, 8)).cast("Q")
rt = TrainingRuntime("r", sys.argv[2])
go = sys.stdin.buffer
while go.read(1):
    pid = os.fork()
    if not pid:
        step = seen[0]
        while True:
            step += 1
            rt.log_metrics(step, loss=step * 0.1, accuracy=1 / step, text="%d ms" % step if step % 50 == 0 else step)
            seen[0] = step
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("dead", flush=True)
"""


def test_two_hundred_kills_lose_no_call_that_returned(tmp_path: Path) -> None:
    """Real SIGKILLs at random moments of a tight loop; each victim goes on from the last step that returned."""
    counter, folder = tmp_path / "counter", tmp_path / "run"
    counter.write_bytes(bytes(8))
    folder.mkdir()
    env = {"PYTHONPATH": str(Path(__file__).resolve().parents[2]), "PATH": os.environ["PATH"]}
    parent = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(counter), str(folder)],
        env={**env, "TRAINYARD_SUPERVISED": "1"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert parent.stdin is not None
    assert parent.stdout is not None
    tail, seen = MetricsTail(folder / "metrics.jsonl"), []
    dice = random.Random(7)
    returned = []
    for _ in range(200):
        parent.stdin.write(b"x")
        parent.stdin.flush()
        pid = int(parent.stdout.readline())
        time.sleep(dice.uniform(0.0, 0.006))
        os.kill(pid, signal.SIGKILL)
        assert parent.stdout.readline() == b"dead\n"
        returned.append(int.from_bytes(counter.read_bytes(), sys.byteorder))
        if dice.random() < 0.5:
            while (found := tail.take()) is not None:
                seen += list(found.rows)
    parent.stdin.close()
    assert parent.wait(LIMIT_S) == 0
    tail.end()
    while (found := tail.take()) is not None:
        seen += list(found.rows)
    steps = [row.step for row in seen]
    assert set(range(1, returned[-1] + 1)) <= set(steps)
    again = {step for step, times in Counter(steps).items() if times > 1}
    assert again <= {last + 1 for last in returned}, "only a call that had not returned may be there twice"
    for row in seen:
        assert row.values == {"loss": row.step * 0.1, "accuracy": 1 / row.step, "text": float(row.step)}
    assert tail.malformed == 0
    assert returned[-1] > 200
    print(f"{returned[-1]} calls returned in 200 lives, {len(again)} more were written before they returned")


def test_alone_the_lines_of_a_killed_training_are_complete_soon(tmp_path: Path) -> None:
    body = "rt.start('m', {})\nfor n in range(1, 10**9):\n rt.log_metrics(step=n, loss=1.0)\n print(n)\n"
    child = script(tmp_path, body)
    assert child.stdout is not None
    seen = 0
    while seen < 20_000:
        seen = int(child.stdout.readline())
    child.kill()
    whole = child.stdout.read().split("\n")[:-1]
    child.wait()
    last = int(whole[-1]) if whole else seen
    until(lambda: not (tmp_path / JOURNAL).exists(), what="the child that converts ends")
    steps = [row["step"] for row in rows(tmp_path)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= last


def test_without_a_child_to_convert_the_end_of_the_script_does(tmp_path: Path) -> None:
    body = (
        "import sys\nsys.executable = '/no/such/python'\nrt.start('m', {})\n"
        "for n in range(40_000):\n rt.log_metrics(n, loss=n)\nraise SystemExit(3)\n"
    )
    child = script(tmp_path, body)
    _, err = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 3
    assert "no process could be started" in err
    assert [row["step"] for row in rows(tmp_path)] == list(range(40_000))
    assert not (tmp_path / JOURNAL).exists()


def test_drained_segments_go_and_the_journal_stays_small(supervised: None, small: None, tmp_path: Path) -> None:
    rt = TrainingRuntime("r", tmp_path)
    converter = Converter(tmp_path)
    for step in range(5000):
        rt.log_metrics(step, loss=step)
        if step % 100 == 0:
            converter.run()
            assert len(segments(tmp_path / JOURNAL)) == 1
    rt.finish()
    converter.run()
    assert [step for step, _ in read(tmp_path)] == list(range(5000))
    assert segments(tmp_path / JOURNAL) == []


def test_a_journal_that_nobody_reads_ends_and_goes_on_once_somebody_does(
    supervised: None, small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runtime, "_MOST_SEGMENTS", 3)
    monkeypatch.setattr(runtime, "_RETRY_S", 0.0)
    rt = TrainingRuntime("r", tmp_path)
    for step in range(500):
        rt.log_metrics(step, loss=step)
    assert len(segments(tmp_path / JOURNAL)) == 3
    assert capfd.readouterr().err.count("nobody converts them") == 1
    Converter(tmp_path).run()
    rt.log_metrics(500, loss=500)
    Converter(tmp_path).run()
    rt.finish()
    Converter(tmp_path).run(ended=True)
    assert [step for step, _ in read(tmp_path)] == list(range(501))


def test_rows_longer_than_a_segment_and_many_sets_of_names(
    supervised: None, small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_MOST_PLANS", 4)
    monkeypatch.setattr(runtime, "_CHUNK_BYTES", 4096)
    rt = TrainingRuntime("r", tmp_path)
    wide = {f"layer_{number}": float(number) for number in range(3000)}
    for step in range(3):
        rt.log_metrics(step, **wide)
        for number in range(20):
            rt.log_metrics(step, **{f"n{number}": number})
    rt.finish()
    Converter(tmp_path).run(ended=True)
    found = read(tmp_path)
    assert len(found) == 63
    assert found[0][1] == found[21][1] == wide


def test_a_supervisor_goes_on_where_the_last_one_died(supervised: None, tmp_path: Path) -> None:
    """Rows that stand in its spools were handed out; all others are, wherever they are: in the file or the journal."""
    rt = TrainingRuntime("r", tmp_path)
    path = tmp_path / "metrics.jsonl"
    first = MetricsTail(path)
    for step in range(10):
        rt.log_metrics(step, loss=step)
    given_out = first.take()
    assert given_out is not None
    assert len(given_out.rows) == 10
    for step in range(10, 15):
        rt.log_metrics(step, loss=step)
    Converter(tmp_path).run()  # in the file, and then the supervisor died
    for step in range(15, 20):
        rt.log_metrics(step, loss=step)
    spool = tmp_path / "spool-1.jsonl"
    event = {"seq": 2, "body": given_out.model_dump(mode="json")}
    spool.write_text('{"seq":1,"body":{"kind":"accepted"}}\n' + json.dumps(event) + '\n{"seq":3,"bo')
    assert rows_in([spool, tmp_path / "spool.jsonl"]) == 10
    second = MetricsTail(path, handed_out=rows_in([spool, tmp_path / "spool.jsonl"]))
    steps = []
    while (found := second.take()) is not None:
        steps += [row.step for row in found.rows]
    assert steps == list(range(10, 20))
    rt.finish()


def test_two_converters_do_not_work_at_once(supervised: None, tmp_path: Path) -> None:
    rt = TrainingRuntime("r", tmp_path)
    rt.log_metrics(1, loss=1)
    folder = os.open(tmp_path / JOURNAL, os.O_RDONLY)
    import fcntl

    fcntl.flock(folder, fcntl.LOCK_EX)
    assert Converter(tmp_path).run() == 0
    os.close(folder)
    assert Converter(tmp_path).run() == 1
    rt.finish()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    at = tmp_path / "disk"
    at.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(at).encode(), b"tmpfs", 0, b"size=3m") != 0:
        pytest.skip(f"a small tmpfs cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    yield at
    libc.umount2(str(at).encode(), 2)


def test_a_full_disk_is_said_once_and_what_was_logged_comes_when_there_is_room(tiny_disk: Path) -> None:
    """First no room for the journal, later none for the lines; never a SIGBUS, and not one row less in the end."""
    body = """
import os, sys
import trainyard.runtime as module
module._RETRY_S = 0.02
ballast = rt.run_dir / "ballast"
def fill():
    with ballast.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
fill()
rt.start('m', {})
n = 0
for n in range(1, 2001):
    rt.log_metrics(n, loss=n)
ballast.unlink()
time.sleep(0.05)
for n in range(2001, 4001):
    rt.log_metrics(n, loss=n)
fill()
for n in range(4001, 9001):
    rt.log_metrics(n, loss=n)
time.sleep(0.5)
ballast.unlink()
time.sleep(0.05)
rt.log_metrics(9001, loss=9001)
rt.finish()
print('trained')
"""
    child = script(tiny_disk, body)
    out, err = child.communicate(timeout=LIMIT_S)
    assert (out, child.returncode) == ("trained\n", 0), err
    assert err.count("No space left") == 1
    assert [row["step"] for row in rows(tiny_disk)] == list(range(1, 9002))
