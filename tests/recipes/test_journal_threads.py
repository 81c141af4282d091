"""Rows are written without a lock: threads, signal handlers and ends of the journal at once lose and mix up nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.recipes.test_journal import read
from tests.recipes.test_runtime import LIMIT_S, REPO
from trainyard import runtime
from trainyard.runtime import Converter, TrainingRuntime

MANY = """
import json, signal, sys, threading
from trainyard import runtime
runtime._SEGMENT_BYTES, runtime._MOST_PLANS = 4096, 6
sys.setswitchinterval(1e-6)
rt = runtime.TrainingRuntime("r", sys.argv[1])
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
    for _ in range(6000):
        log(who)
threads = [threading.Thread(target=work, args=(who,)) for who in range(3)]
for thread in threads:
    thread.start()
for n in range(6000):
    log(3)
    if n % 1500 == 0:
        rt.finish()
for thread in threads:
    thread.join()
signal.signal(signal.SIGALRM, signal.SIG_IGN)
rt.finish()
print(json.dumps(said))
"""


def test_four_threads_and_a_handler_log_each_row_once_and_under_its_names(tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(REPO), "PATH": os.environ["PATH"]}
    child = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path)],
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    said: list[int] = json.loads(child.stdout)
    assert child.stderr == ""
    assert said[:4] == [6000] * 4
    assert said[4] > 0
    found = Counter((values["who"], step) for step, values in read(tmp_path))
    assert found == Counter((who, n) for who, count in enumerate(said) for n in range(1, count + 1))
    for step, values in read(tmp_path):
        own = {f"a{step % 9}": step} if step % 7 == 0 else {}
        assert values == {"who": values["who"], "twice": 2 * step, **own}


def test_an_interpreter_that_promises_nothing_writes_every_row_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "_ATOMIC", False)
    monkeypatch.setattr(runtime, "_SEGMENT_BYTES", 4096)
    monkeypatch.setenv("TRAINYARD_SUPERVISED", "1")
    rt = TrainingRuntime("r", tmp_path)
    for step in range(500):
        rt.log_metrics(step, loss=step)
        assert rt._journal.end == 0
    rt.finish()
    Converter(tmp_path).run(ended=True)
    assert [step for step, _ in read(tmp_path)] == list(range(500))


def test_a_handler_that_logs_while_a_segment_is_begun_takes_no_row_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may begin the next segment itself, within the beginning of one."""
    monkeypatch.setattr(runtime, "_SEGMENT_BYTES", 4096)
    monkeypatch.setenv("TRAINYARD_SUPERVISED", "1")
    rt = TrainingRuntime("r", tmp_path)
    seen = 1_000_000

    def handle(*_: object) -> None:
        nonlocal seen
        seen += 1
        rt.log_metrics(seen, other=seen, **{f"n{seen % 5}": 1.0})

    before = signal.signal(signal.SIGUSR2, handle)
    reserve = os.posix_fallocate

    def interrupted(*arguments: int) -> None:
        reserve(*arguments)
        if seen < 1_000_030:
            signal.raise_signal(signal.SIGUSR2)

    try:
        monkeypatch.setattr(os, "posix_fallocate", interrupted)
        for step in range(2000):
            rt.log_metrics(step, loss=step)
    finally:
        signal.signal(signal.SIGUSR2, before)
    rt.finish()
    Converter(tmp_path).run(ended=True)
    found = read(tmp_path)
    assert [step for step, _ in found if step < 1_000_000] == list(range(2000))
    assert sorted(step for step, _ in found if step >= 1_000_000) == list(range(1_000_001, seen + 1))
    assert seen > 1_000_020
    for step, values in found:
        assert values == ({"loss": step} if step < 1_000_000 else {"other": step, f"n{step % 5}": 1.0})
