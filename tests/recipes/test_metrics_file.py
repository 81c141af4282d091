"""Rows in metrics.jsonl: nothing that returned is lost, nothing is doubled, whoever dies and whenever."""

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
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.recipes.test_runtime import LIMIT_S, REPO, rows, script
from trainyard import TrainingRuntime, metrics
from worker.supervisor.follow import MetricsTail, rows_in

NUMBERS = st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**53), 2**53) | st.booleans()
ROWS = st.lists(
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.dictionaries(st.sampled_from("abcdefgh"), NUMBERS, max_size=8)),
    max_size=30,
)
SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def said(value: Any) -> Any:
    value = float(value)
    if math.isnan(value):
        return "NaN"
    return ("Infinity" if value > 0 else "-Infinity") if math.isinf(value) else value


def read(folder: Path) -> list[tuple[int, dict[str, Any]]]:
    return [(row["step"], row["values"]) for row in rows(folder)] if (folder / "metrics.jsonl").exists() else []  # type: ignore[misc]


@pytest.fixture
def rt(tmp_path: Path) -> TrainingRuntime:
    return TrainingRuntime("r", tmp_path)


@given(logged=ROWS)
@SLOW
def test_every_row_is_there_exactly_and_in_order_when_the_call_returns(
    logged: list[tuple[int, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("run")
    rt = TrainingRuntime("r", folder)
    for step, values in logged:
        rt.log_metrics(step, **values)
    assert read(folder) == [(step, {name: said(value) for name, value in values.items()}) for step, values in logged]
    rt.finish()


KILLED = """
import mmap, os, sys
from trainyard import TrainingRuntime
seen = memoryview(mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 8)).cast("Q")
rt = TrainingRuntime("r", sys.argv[2])
while sys.stdin.buffer.read(1):
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


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.faults)])
def test_kills_lose_no_call_that_returned(kills: int, tmp_path: Path) -> None:
    """Real SIGKILLs at random moments of a tight loop; each victim goes on from the last step that returned."""
    counter, folder = tmp_path / "counter", tmp_path / "run"
    counter.write_bytes(bytes(8))
    folder.mkdir()
    env = {"PYTHONPATH": str(REPO), "PATH": os.environ["PATH"]}
    argv = [sys.executable, "-c", KILLED, str(counter), str(folder)]
    parent = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdin is not None
    assert parent.stdout is not None
    tail, seen = MetricsTail(folder / "metrics.jsonl"), []
    dice = random.Random(7)
    returned = []
    for kill in range(kills):
        begun = counter.read_bytes()
        parent.stdin.write(b"x")
        parent.stdin.flush()
        pid = int(parent.stdout.readline())
        end = time.monotonic() + LIMIT_S * (kill % 2)  # every second one is killed in its loop, however slow the start
        while counter.read_bytes() == begun and time.monotonic() < end:
            time.sleep(0.0005)
        time.sleep(dice.uniform(0.0, 0.006))
        os.kill(pid, signal.SIGKILL)
        assert parent.stdout.readline() == b"dead\n"
        returned.append(int.from_bytes(counter.read_bytes(), sys.byteorder))
        if dice.random() < 0.5:
            while (found := tail.take()) is not None:
                seen += list(found.rows)
    parent.stdin.close()
    assert parent.wait(LIMIT_S) == 0
    while (found := tail.take()) is not None:
        seen += list(found.rows)
    steps = [row.step for row in seen]
    assert set(range(1, returned[-1] + 1)) <= set(steps)
    again = {step for step, times in Counter(steps).items() if times > 1}
    assert again <= {last + 1 for last in returned}, "only a call that had not returned may be there twice"
    for row in seen:
        assert row.values == {"loss": row.step * 0.1, "accuracy": 1 / row.step, "text": float(row.step)}
    assert returned[-1] > kills
    print(f"{returned[-1]} calls returned in {kills} lives, {len(again)} more were written before they returned")


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_row_that_the_disk_took_a_part_of_is_there_once(
    cut: int, rt: TrainingRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However short the write was, also with nothing but the line's end missing."""
    write = os.write
    monkeypatch.setattr(metrics.time, "time", lambda: 1.0)
    rt.log_metrics(1, loss=0.5)
    length = (tmp_path / "metrics.jsonl").stat().st_size
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: write(file, data[: min(cut, length - 1)]))
        rt.log_metrics(2, loss=0.5)
    rt.log_metrics(3, loss=0.5)
    rt.finish()
    tail = MetricsTail(tmp_path / "metrics.jsonl", handed_out=0)
    found = tail.take()
    assert found is not None
    assert [row.step for row in found.rows] == [1, 2, 3]


def test_a_supervisor_goes_on_where_the_last_one_died(rt: TrainingRuntime, tmp_path: Path) -> None:
    """Rows that stand in its spools were handed out; all others are."""
    path = tmp_path / "metrics.jsonl"
    first = MetricsTail(path)
    for step in range(10):
        rt.log_metrics(step, loss=step)
    given_out = first.take()
    assert given_out is not None
    assert len(given_out.rows) == 10
    for step in range(10, 20):
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


def test_rows_of_many_metrics_and_many_sets_of_names(
    rt: TrainingRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metrics, "_MOST_TEMPLATES", 4)
    wide = {f"layer_{number}": float(number) for number in range(3000)}
    for step in range(3):
        rt.log_metrics(step, **wide)
        for number in range(20):
            rt.log_metrics(step, **{f"n{number}": number})
    rt.log_metrics(3, **{f"layer_{number}": float(number) for number in range(30_000)})
    found = read(tmp_path)
    assert len(found) == 63
    assert found[0][1] == found[21][1] == wide
    assert "a row of 30000 metrics is left out: it is too long" in capfd.readouterr().err


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
    body = """
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
for n in range(1, 2001):
    rt.log_metrics(n, loss=n)
ballast.unlink()
for n in range(2001, 4001):
    rt.log_metrics(n, loss=n)
fill()
for n in range(4001, 9001):
    rt.log_metrics(n, loss=n)
ballast.unlink()
rt.finish()
print('trained')
"""
    child = script(tiny_disk, body)
    out, err = child.communicate(timeout=LIMIT_S)
    assert (out, child.returncode) == ("trained\n", 0), err
    assert err.count("No space left") + err.count("only a part of a row") == 1
    tail, steps = MetricsTail(tiny_disk / "metrics.jsonl", handed_out=0), []
    while (found := tail.take()) is not None:
        steps += [row.step for row in found.rows]
    assert steps == list(range(1, 9001))
    assert tail.malformed <= 2


def test_a_file_that_the_script_closes_is_opened_again(rt: TrainingRuntime, tmp_path: Path) -> None:
    """As programs do that become daemons."""
    rt.log_metrics(1, loss=1)
    os.close(rt._metrics._file)
    rt.log_metrics(2, loss=2)
    rt.finish()
    rt.log_metrics(3, loss=3)
    os.close(rt._metrics._file)
    rt.finish()
    assert [step for step, _ in read(tmp_path)] == [1, 2, 3]


MANY = """
import json, signal, sys, threading
from trainyard import TrainingRuntime
sys.setswitchinterval(1e-6)
rt = TrainingRuntime("r", sys.argv[1])
rt.start("m", {})
said, turns = [0] * 5, [0]
def log(who):
    said[who] += 1
    n = said[who]
    names = {f"a{n % 9}": n} if n % 7 == 0 else {}
    rt.log_metrics(n, who=who if n % 11 else str(who), twice=2 * n, **names)
inside = []
def handle(*_):
    if not inside:  # handlers do not pile up on a busy machine
        inside.append(1)
        log(4)
        inside.clear()
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
def work(who):
    for _ in range(2000):
        log(who)
threads = [threading.Thread(target=work, args=(who,)) for who in range(3)]
for thread in threads:
    thread.start()
for n in range(2000):
    log(3)
    if n % 500 == 0:
        rt.finish()
for thread in threads:
    thread.join()
signal.signal(signal.SIGALRM, signal.SIG_IGN)
rt.finish()
print(json.dumps(said))
"""


def test_four_threads_and_a_handler_log_each_row_once_and_under_its_names(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(REPO), "PATH": os.environ["PATH"]}
    argv = [sys.executable, "-c", MANY, str(tmp_path)]
    child = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    said: list[int] = json.loads(child.stdout)
    assert child.stderr == ""
    assert said[:4] == [2000] * 4
    assert said[4] > 0
    found = Counter((values["who"], step) for step, values in read(tmp_path))
    assert found == Counter((who, n) for who, count in enumerate(said) for n in range(1, count + 1))
    for step, values in read(tmp_path):
        own = {f"a{step % 9}": step} if step % 7 == 0 else {}
        assert values == {"who": values["who"], "twice": 2 * step, **own}


class Acting:
    """A number that does something when it is read, once."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act

    def __float__(self) -> float:
        act, self._act = self._act, None
        if act is not None:
            act()
        return 2.0


def test_what_a_value_does_while_it_is_read_harms_no_row(rt: TrainingRuntime, tmp_path: Path) -> None:
    """It may log, end the run, or be interrupted."""

    def log_and_end() -> None:
        rt.log_metrics(3, a=3, b=3)
        rt.finish()

    def interrupted() -> None:
        raise KeyboardInterrupt

    rt.log_metrics(1, a=1, b=1)
    rt.log_metrics(2, a=1, b=Acting(log_and_end))
    with pytest.raises(KeyboardInterrupt):
        rt.log_metrics(4, a=1, b=Acting(interrupted))
    rt.log_metrics(5, a=5, b=5)
    assert read(tmp_path) == [
        (1, {"a": 1, "b": 1}), (3, {"a": 3, "b": 3}), (2, {"a": 1, "b": 2}), (5, {"a": 5, "b": 5}),
    ]  # fmt: skip


def test_a_value_that_warns_once_where_warnings_are_errors_is_kept(rt: TrainingRuntime, tmp_path: Path) -> None:
    """As torch does for a tensor that requires its gradient."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rt.log_metrics(2, a=torch.tensor(1.5, requires_grad=True))
    assert read(tmp_path) == [(2, {"a": 1.5})]


@pytest.mark.parametrize("raised", [RuntimeError, TimeoutError])
def test_what_a_handler_raises_in_a_busy_loop_reaches_the_script(
    raised: type[Exception], rt: TrainingRuntime, tmp_path: Path
) -> None:
    told = 0

    def handle(*_: object) -> None:
        nonlocal told
        told += 1
        raise raised("told")

    before = signal.signal(signal.SIGALRM, handle)
    heard, step, returned = 0, 0, []
    try:
        while heard < 50:
            with contextlib.suppress(raised):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.001)
                    while len(returned) < 1_000_000:
                        step += 1
                        rt.log_metrics(step, a=1.5, b=1.5)
                        returned.append(step)
                finally:
                    heard += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert told == heard
    steps = [step for step, _ in read(tmp_path)]
    assert len(steps) == len(set(steps))
    assert set(returned) <= set(steps)


def test_rows_that_wait_go_out_when_a_script_ends_without_a_word(tmp_path: Path) -> None:
    body = (
        "import os, pathlib, sys\nfrom trainyard import TrainingRuntime\n"
        "rt = TrainingRuntime('r', sys.argv[1])\nrt.start('m')\n"
        "file = pathlib.Path(sys.argv[1]) / 'metrics.jsonl'\nfile.mkdir()\n"
        "rt.log_metrics(1, loss=0.5)\nrt.log_metrics(2, loss=0.25)\nfile.rmdir()\n"
        "if os.fork() == 0:\n    sys.exit(0)\nos.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", body, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2]
