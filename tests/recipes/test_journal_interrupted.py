"""Ctrl-C, and handlers that log or end a run, at every moment at which CPython may let one in: each row is there once.

Each moment of a short story is tried on its own: the story is played once to find the moments, then once for each of
them, with the interruption there.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tests.recipes.test_runtime import script
from trainyard import runtime
from trainyard.runtime import JOURNAL, Converter, TrainingRuntime, segments

Moment = tuple[int, int]  # in which call of the story, the how many-th
Act = Callable[[TrainingRuntime], object]
LONG = "x" * 1500  # such a name takes a third of a segment of one page
EARLIER = (900, 901, 902)


class Watch:
    """Finds the moments at which CPython lets a signal's handler run in runtime.py, and acts at one of them.

    These are the beginnings of functions and the ends of calls, of which a profiler is told, and the turns of loops;
    in between, nothing gets in, and `_Journal` relies on that. A place in a function counts once for each place that
    calls it, in each state of the journal.
    """

    def __init__(self, act_at: Moment | None = None, act: Callable[[], object] = lambda: None) -> None:
        self.moments: dict[tuple[object, ...], Moment] = {}
        self.acted = False
        self._act_at, self._act = act_at, act
        self._call = self._count = 0

    @contextlib.contextmanager
    def on(self, call: int, journal: runtime._Journal) -> Iterator[None]:
        """Watch one call of the story."""
        self._call, self._count, self._journal, before = call, 0, journal, (sys.getprofile(), sys.gettrace())
        if self._act_at is None or self._act_at[0] == call:
            sys.setprofile(self._seen)
            sys.settrace(self._begin)
        try:
            yield
        finally:
            sys.setprofile(before[0])
            sys.settrace(before[1])

    def _seen(self, frame: FrameType, event: str, _about: object) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename == runtime.__file__:
            self._reached(frame)

    def _begin(self, frame: FrameType, _event: str, _about: object) -> Callable[..., Any] | None:
        turns = turns_of(frame.f_code) if frame.f_code.co_filename == runtime.__file__ else ()
        if not turns:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        last = -1

        def step(frame: FrameType, event: str, _about: object) -> Callable[..., Any]:
            nonlocal last
            if event == "opcode":
                before, last = last, frame.f_lasti
                if before in turns and last <= before:
                    self._reached(frame)
            return step

        return step

    def _reached(self, frame: FrameType) -> None:
        self._count += 1
        if self._act_at is None:
            journal = self._journal
            writing = "_Journal" in frame.f_code.co_qualname  # what converts does not look at the writer's state
            state = (journal.at > 0, min(len(journal._late), 2)) if writing else ()
            caller = frame.f_back.f_code if frame.f_back else None
            self.moments.setdefault((state, caller, frame.f_code, frame.f_lasti), (self._call, self._count))
        elif self._act_at == (self._call, self._count):
            self.acted = True
            sys.setprofile(None)
            sys.settrace(None)
            self._act()


@functools.cache
def turns_of(code: CodeType) -> frozenset[int]:
    """Where a function's loops jump back."""
    return frozenset(one.offset for one in dis.get_instructions(code) if "BACKWARD" in one.opname)


class Story:
    """A script's calls, the first of them `TrainingRuntime.start`. It goes on after an interruption, as a loop does."""

    def __init__(self, folder: Path, watch: Watch) -> None:
        self.folder, self.watch = folder, watch
        self.returned: list[int] = []
        self.rt = TrainingRuntime("r", folder)
        self._calls = 0

    def play(self) -> None:
        self._do(lambda: self.rt.start("m", {"lr": 1}))
        for step in (1, 2, 3):
            self.log(step, loss=step)
        self.log(4, loss="4 ms", odd=4)
        for step in (5, 6, 7, 8, 9):
            self.log(step, **{LONG + str(step): step})  # fills segments, and in the end nobody has converted
        self.log(10, loss=10)
        Converter(self.folder).run()
        self.log(11, loss=11)
        for step in (12, 13, 14):
            self.log(step, **{LONG + str(step): step})
        Converter(self.folder).run()
        self.end()
        Converter(self.folder).run()
        self.log(17, loss=17)
        self.log(18, loss=18)
        self.end()

    def log(self, step: int, **values: Any) -> None:
        if self._do(lambda: self.rt.log_metrics(step, **values)):
            self.returned.append(step)

    def end(self) -> None:
        while not self._do(self.rt.finish):
            pass

    def _do(self, call: Callable[[], object]) -> bool:
        self._calls += 1
        try:
            with self.watch.on(self._calls, self.rt._journal):
                call()
        except (KeyboardInterrupt, SystemExit):
            return False
        return True

    def check(self) -> None:
        found = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        times = Counter(row["step"] for row in found)
        assert {step: times[step] for step in self.returned} == dict.fromkeys(self.returned, 1)
        assert not {step: count for step, count in times.items() if count > 1}
        for row in found:
            assert set(row["values"].values()) in ({float(row["step"])}, {-1.0})
        assert not (self.folder / JOURNAL).exists()


def interrupt(_story: Story) -> None:
    raise KeyboardInterrupt


def log(story: Story) -> None:
    story.rt.log_metrics(-1, within=-1)
    story.returned.append(-1)


def end(story: Story) -> None:
    began = time.monotonic()
    story.rt.finish("stopped")
    assert time.monotonic() - began < runtime._FINISH_S / 2  # it waited for nobody who could not come
    raise SystemExit(0)


def convert(story: Story) -> None:
    Converter(story.folder).run(ended=True)


def played(
    folder: Path,
    earlier: Path | None,
    at: Moment | None,
    act: Callable[[Story], None],
    last: Callable[[Story], None] = convert,
) -> Watch:
    """One run of the story in a new folder, and what a supervisor does at the end."""
    if earlier is None:
        folder.mkdir()
    else:
        shutil.copytree(earlier, folder)
    watch = Watch(at, lambda: act(story))
    story = Story(folder, watch)
    if earlier is not None:
        story.returned += EARLIER
    story.play()
    last(story)
    story.check()
    return watch


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: two thousand stories write some twenty files each."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None) as folder:
        yield Path(folder)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """What a killed attempt left: a row in metrics.jsonl of which the journal does not know yet, and two more in it."""
    folder = tmp_path / "earlier"
    folder.mkdir()
    body = f"for n in {EARLIER}:\n rt.log_metrics(n, loss=n)\nimport os\nos.kill(os.getpid(), 9)\n"
    script(folder, body, TRAINYARD_SUPERVISED="1").communicate()
    file = os.open(folder / JOURNAL / segments(folder / JOURNAL)[0], os.O_RDWR)
    text, rows, at = runtime._Segment(file).read(64, 4096)
    assert rows == len(EARLIER)
    os.pwrite(file, runtime._DONE.pack(64, at, 0), runtime._DONE_AT)
    os.close(file)
    (folder / "metrics.jsonl").write_bytes(text.splitlines(keepends=True)[0] + b'{"step":90')
    return folder


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Else the end of an earlier story, which its runtime hears of when it is collected, is taken for this one's."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    ("alone", "act"), [(False, interrupt), (False, log), (False, end), (True, interrupt), (True, end)]
)
def test_at_every_moment_no_row_is_lost_or_doubled(
    alone: bool, act: Callable[[Story], None], earlier: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone: the training itself converts, also what a killed attempt left."""
    monkeypatch.setenv("TRAINYARD_SUPERVISED", "" if alone else "1")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    monkeypatch.setattr(runtime, "_SEGMENT_BYTES", 4096)
    monkeypatch.setattr(runtime, "_MOST_SEGMENTS", 2)
    monkeypatch.setattr(runtime, "_MOST_PLANS", 3)
    monkeypatch.setattr(runtime, "_RETRY_S", 0.0)
    before = earlier if alone else None
    moments = played(memory / "whole", before, None, act).moments
    assert len(moments) > 150
    for number, moment in enumerate(moments.values()):
        folder = memory / f"run-{number}"
        assert played(folder, before, moment, act).acted, moment
        shutil.rmtree(folder)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("act", [interrupt, end])
def test_at_every_moment_of_having_a_child_convert(
    act: Callable[[Story], None], memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At those of starting it and of waiting for its end; `finish` comes back when all lines are there."""
    monkeypatch.setenv("TRAINYARD_SUPERVISED", "")
    found = played(memory / "whole", None, None, act).moments.items()
    wanted = ("_Follower.", "_Journal.close")
    moments = [moment for (_, _, code, _), moment in found if code.co_qualname.startswith(wanted)]
    acted = 0
    for number, moment in enumerate(moments):
        watch = played(memory / f"run-{number}", None, moment, act, last=Story.check)
        acted += watch.acted  # a child that took another time to end has another number of moments
    assert acted > 10
