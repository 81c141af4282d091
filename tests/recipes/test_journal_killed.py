"""SIGKILL at every line of the runtime, and at every instruction of what packs a row: no call that returned is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.recipes.test_runtime import LIMIT_S, REPO

# Forks a child for each place: it plays the story and kills itself there. A second attempt then goes on in the folder.
# A process of its own, as it is small, and a fork of it is cheap.
PLACES = """
import json, mmap, os, shutil, signal, sys
from collections import Counter
from pathlib import Path
from trainyard import runtime
runtime._SEGMENT_BYTES, runtime._MOST_PLANS = 4096, 3
sys.executable = "/no/such/python"  # no child: the training converts itself
base, returned = Path(sys.argv[1]), mmap.mmap(-1, 64)
converting = ("Converter", "_Segment", "_Lines", "_missing", "_Journal.close", "_Journal._convert")
packing = {"TrainingRuntime.log_metrics", "_Journal._put"}

def story(folder, call):
    rt = runtime.TrainingRuntime("r", folder)
    call(rt.start, "m", {"lr": 1})
    steps = iter(range(1, 64))
    def log(**values):
        step = next(steps)
        call(rt.log_metrics, step, **dict.fromkeys(values, step))
        returned[step] = 1
    for values in ({"loss": 0}, {"loss": 0}, {"loss": 0}, {"a": 0}):
        log(**values)
    for number in range(5):
        log(**{"x" * 1500 + str(number): 0})
    log(loss=0)
    call(rt.finish)
    log(loss=0)
    call(rt.finish)

def watched(reached):
    def step(frame, event, about):
        if event == ("opcode" if frame.f_trace_opcodes else "line"):
            reached((frame.f_code, frame.f_lasti, frame.f_back.f_code))
        return step
    def begin(frame, event, about):
        if frame.f_code.co_filename != runtime.__file__:
            return None
        if frame.f_code.co_qualname in packing:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step
    def call(what, *arguments, **values):
        sys.settrace(begin)
        what(*arguments, **values)
        sys.settrace(None)
    return call

def kill_at(place):
    def reached(found):
        if found == place:
            os.kill(os.getpid(), signal.SIGKILL)
    return reached

places = {}
os.environ["TRAINYARD_SUPERVISED"] = sys.argv[2]
story(base / "whole", watched(places.setdefault))
if not sys.argv[2]:  # the rest is the same whoever converts
    places = [place for place in places if place[0].co_qualname.startswith(converting)]
os.environ["TRAINYARD_SUPERVISED"] = ""
bad = []
for number, place in enumerate(places):
    folder = base / str(number)
    returned[:] = bytes(64)
    pid = os.fork()
    if not pid:
        os.environ["TRAINYARD_SUPERVISED"] = sys.argv[2]
        story(folder, watched(kill_at(place)))
        os._exit(1)
    if os.waitpid(pid, 0)[1] != signal.SIGKILL:
        bad.append(f"{place}: not reached")
        continue
    again = runtime.TrainingRuntime("r", folder)
    again.start("m", {})
    again.log_metrics(60, loss=60)
    again.finish()
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    times = Counter(row["step"] for row in found)
    wanted = {step for step in range(64) if returned[step]} | {60}
    late = set(times) - wanted  # written, but killed before it returned
    whole = all(set(row["values"].values()) == {row["step"]} for row in found)
    journal = runtime.segments(folder / runtime.JOURNAL)
    if not wanted <= set(times) or max(times.values()) > 1 or len(late) > 1 or not whole or journal:
        bad.append(f"{place}: {sorted(times.items())} of {sorted(wanted)}, {journal}")
    shutil.rmtree(folder)
print(json.dumps({"places": len(places), "bad": bad}))
"""


@pytest.mark.parametrize("supervised", ["", "1"])
def test_a_kill_at_any_place_loses_no_call_that_returned(supervised: str) -> None:
    """The second attempt is not supervised, so that it makes the lines of what the first one left."""
    env = {"PYTHONPATH": str(REPO), "PATH": os.environ["PATH"]}
    shm = Path("/dev/shm")  # in memory where that can be: some hundred stories write some twenty files each
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None) as folder:
        argv = [sys.executable, "-c", PLACES, folder, supervised]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["bad"] == []
    assert found["places"] > (300 if supervised else 80)
