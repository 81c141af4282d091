"""A row whose space is taken while its numbers are still being asked for: what else may happen meanwhile.

`float()` of a value may run code of others, as a signal's handler or another thread may run there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recipes.test_journal import read
from tests.recipes.test_runtime import LIMIT_S, REPO
from trainyard import runtime
from trainyard.runtime import JOURNAL, Converter, TrainingRuntime, journal_steps, segments


class Acting:
    """A number that does something when it is read, once."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act

    def __float__(self) -> float:
        act, self._act = self._act, None
        if act is not None:
            act()
        return 2.0


@pytest.fixture
def rt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingRuntime:
    """A supervised one that knows the names a and b."""
    monkeypatch.setenv("TRAINYARD_SUPERVISED", "1")
    made = TrainingRuntime("r", tmp_path)
    made.log_metrics(1, a=1, b=1)
    return made


def test_a_live_reader_waits_for_it_and_keeps_the_order(rt: TrainingRuntime, tmp_path: Path) -> None:
    seen = []

    def act() -> None:
        rt.log_metrics(3, a=3, b=3)
        Converter(tmp_path).run()
        seen.extend(read(tmp_path))

    rt.log_metrics(2, a=1, b=Acting(act))
    assert [step for step, _ in seen] == [1]
    Converter(tmp_path).run()
    assert read(tmp_path) == [(1, {"a": 1, "b": 1}), (2, {"a": 1, "b": 2}), (3, {"a": 3, "b": 3})]


def test_when_it_is_broken_off_a_live_reader_steps_over_it(rt: TrainingRuntime, tmp_path: Path) -> None:
    def act() -> None:
        rt.log_metrics(3, a=3, b=3)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rt.log_metrics(2, a=1, b=Acting(act))
    rt.log_metrics(4, a=4, b=4)
    Converter(tmp_path).run()
    assert [step for step, _ in read(tmp_path)] == [1, 3, 4]


class Told(Exception):
    """What a script's own handler of a signal raises, say."""


def test_what_a_handler_raises_meanwhile_reaches_the_script(rt: TrainingRuntime, tmp_path: Path) -> None:
    def act() -> None:
        raise Told

    with pytest.raises(Told):
        rt.log_metrics(2, a=1, b=Acting(act))
    rt.log_metrics(3, a=3, b=3)
    Converter(tmp_path).run()
    assert [step for step, _ in read(tmp_path)] == [1, 3]


def test_what_a_value_raises_whenever_it_is_read_harms_nobody(
    rt: TrainingRuntime, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def __float__(self) -> float:
            raise Told

    rt.log_metrics(2, a=2, b=Broken())
    Converter(tmp_path).run()
    assert read(tmp_path) == [(1, {"a": 1, "b": 1}), (2, {"a": 2})]
    assert "metric 'b' left out" in capfd.readouterr().err


def test_a_value_that_warns_once_where_warnings_are_errors_is_kept(rt: TrainingRuntime, tmp_path: Path) -> None:
    """As torch does for a tensor that requires its gradient."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rt.log_metrics(2, a=1, b=Acting(lambda: warnings.warn("better detach it", UserWarning, stacklevel=1)))
    Converter(tmp_path).run()
    assert read(tmp_path) == [(1, {"a": 1, "b": 1}), (2, {"a": 1, "b": 2})]


def test_a_handlers_exception_at_any_turn_of_a_busy_loop_reaches_the_script(
    rt: TrainingRuntime, tmp_path: Path
) -> None:
    told = 0

    def handle(*_: object) -> None:
        nonlocal told
        told += 1
        raise Told

    before = signal.signal(signal.SIGALRM, handle)
    heard, step = 0, 2
    try:
        while heard < 50:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001)
                while True:
                    step += 1
                    rt.log_metrics(step, a=1, b=1)
            except Told:
                heard += 1
    finally:
        signal.signal(signal.SIGALRM, before)
    assert told == heard
    rt.finish()
    Converter(tmp_path).run(ended=True)
    steps = [step for step, _ in read(tmp_path)]
    assert len(steps) == len(set(steps))
    assert len(steps) >= step - 2 - heard


def test_a_converter_that_died_while_it_stepped_over_a_row_doubles_none(
    rt: TrainingRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told that the writer is gone; the next one finds it alive, and goes on where the last one meant to."""
    pwrite = os.pwrite
    noted = []

    def dying(file: int, data: bytes, at: int) -> int:
        noted.append(data)
        if len(noted) == 2:
            raise KeyboardInterrupt
        return pwrite(file, data, at)

    def act() -> None:
        rt.log_metrics(3, a=3, b=3)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", dying)
            with pytest.raises(KeyboardInterrupt):
                Converter(tmp_path).run(ended=True)
        Converter(tmp_path).run()

    rt.log_metrics(2, a=1, b=Acting(act))
    Converter(tmp_path).run()
    steps = [step for step, _ in read(tmp_path)]
    assert steps == [1, 3]


@pytest.mark.parametrize("again", [True, False])
def test_a_run_that_is_ended_meanwhile_gets_it_once(rt: TrainingRuntime, tmp_path: Path, again: bool) -> None:
    def act() -> None:
        rt.finish()
        if again:
            rt.log_metrics(3, a=3, b=3)
        Converter(tmp_path).run()

    rt.log_metrics(2, a=1, b=Acting(act))
    rt.finish()
    Converter(tmp_path).run(ended=True)
    assert sorted(read(tmp_path)) == [(1, {"a": 1, "b": 1}), (2, {"a": 1, "b": 2}), (3, {"a": 3, "b": 3})][: 2 + again]


def test_the_next_segment_may_begin_meanwhile(
    rt: TrainingRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_SEGMENT_BYTES", 4096)

    def act() -> None:
        for step in range(1000, 41_000):
            rt.log_metrics(step, a=1, b=1)
        assert len(segments(tmp_path / JOURNAL)) > 1

    rt.log_metrics(2, a=1, b=Acting(act))
    rt.finish()
    Converter(tmp_path).run(ended=True)
    assert sorted(step for step, _ in read(tmp_path)) == [1, 2, *range(1000, 41_000)]


def test_names_may_be_forgotten_meanwhile(rt: TrainingRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a script uses more sets of names than are known at a time. The segment stays, and so does its reader."""
    monkeypatch.setattr(runtime, "_MOST_PLANS", 1)
    rt.log_metrics(2, a=1, b=Acting(lambda: rt.log_metrics(3, c=3)))
    Converter(tmp_path).run()
    assert sorted(read(tmp_path)) == [(1, {"a": 1, "b": 1}), (2, {"a": 1, "b": 2}), (3, {"c": 3})]


def test_one_that_is_no_number_after_all_is_told_and_the_rest_is_kept(
    rt: TrainingRuntime, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rt.log_metrics(2, a=2, b="a text")
    rt.log_metrics(3, a=1 << 4000, b=3)
    rt.log_metrics(4, a=4, b="85%")
    rt.log_metrics(1 << 80, a=5, b=5)
    Converter(tmp_path).run()
    assert read(tmp_path) == [(1, {"a": 1, "b": 1}), (2, {"a": 2}), (3, {"b": 3}), (4, {"a": 4, "b": 85})]
    said = capfd.readouterr().err
    assert "metric 'b' left out: 'a text' is not one number" in said
    assert "its step" in said


KILLED = """
import os, sys
from trainyard import TrainingRuntime
rt = TrainingRuntime("r", sys.argv[1])
class Killing:
    def __float__(self):
        rt.log_metrics(3, a=3, b=3)
        os.kill(os.getpid(), 9)
rt.log_metrics(1, a=1, b=1)
rt.log_metrics(2, a=2, b=Killing())
"""


def test_a_kill_meanwhile_takes_none_of_the_rows_that_others_were_told_are_kept(tmp_path: Path) -> None:
    """The call within has returned; the one around it has not."""
    env = {"PYTHONPATH": str(REPO), "PATH": os.environ["PATH"], "TRAINYARD_SUPERVISED": "1"}
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], env=env, timeout=LIMIT_S, check=False)
    assert done.returncode == -signal.SIGKILL
    assert journal_steps(tmp_path) == [3]
    Converter(tmp_path).run()
    assert [step for step, _ in read(tmp_path)] == [1, 3]
    assert not segments(tmp_path / JOURNAL)


def test_a_forked_child_in_the_middle_of_it_leaves_it_to_the_parent(rt: TrainingRuntime, tmp_path: Path) -> None:
    """Both go on with the call: the child's row goes into a segment of its own, and breaks nothing of the parent's."""
    child = []

    def act() -> None:
        child.append(os.fork())
        if child[0]:
            os.waitpid(child[0], 0)

    try:
        rt.log_metrics(2, a=1, b=Acting(act))
    finally:
        if child == [0]:
            os._exit(0)
    rt.log_metrics(3, a=3, b=3)
    rt.finish()
    Converter(tmp_path).run(ended=True)
    steps = [step for step, _ in read(tmp_path)]
    assert sorted(steps) == [1, 2, 2, 3]
    assert json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[0])["step"] == 1
