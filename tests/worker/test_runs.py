"""A run from the order to its outcome, on a real host."""

import math
from pathlib import Path

from agent.domain.events import Accepted, Logged, Measured, Started
from agent.domain.orders import StopOrder
from agent.domain.runs import ExitClass, RunState
from tests.worker.conftest import ENDLESS, GOOD, Yard
from tests.worker.test_sup_example import RUNTIME


async def test_a_run_goes_from_order_to_outcome(yard: Yard) -> None:
    await yard.launch(yard.order("r-good00", GOOD))
    outcome = yard.outcome("r-good00")
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert outcome.scorecard is not None
    assert outcome.scorecard.beats_baseline
    assert outcome.chosen == "the tiny one"
    events = yard.events("r-good00")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    bodies = [event.body for event in events]
    assert isinstance(bodies[0], Accepted)
    assert [body.model for body in bodies if isinstance(body, Started)] == ["tiny"]
    rows = [row for body in bodies if isinstance(body, Measured) for row in body.rows]
    assert [row.step for row in rows] == [1, 2, 3]
    lines = [line for body in bodies if isinstance(body, Logged) for line in body.lines]
    assert "trained" in lines
    assert outcome.artifact is not None
    assert outcome.artifact.files == ("config.json", "model.txt")
    assert yard.blobs.get_file(outcome.artifact.sha256).stat().st_size == outcome.artifact.size_bytes
    yard.gone("r-good00")


async def test_a_crash_is_reported_with_its_traceback(yard: Yard) -> None:
    await yard.launch(yard.order("r-crash0", "start()\nmetric(1, loss=0.5)\nraise ValueError('no such column: age')\n"))
    outcome = yard.outcome("r-crash0")
    assert (outcome.state, outcome.exit_class, outcome.exit_code) == (RunState.FAILED, ExitClass.USER_ERROR, 1)
    assert "no such column: age" in outcome.reason
    assert outcome.traceback[0].startswith("Traceback")
    assert outcome.traceback[-1] == "ValueError: no such column: age"


async def test_the_script_of_the_docs_succeeds_as_it_is_written(yard: Yard) -> None:
    """Nothing is missed that a program did not leave; what its pictures need is here."""
    text = (Path(__file__).parents[2] / "docs" / "scripts.md").read_text()
    script = "\n".join(part.partition("```")[0] for part in text.split("```python\n")[1:])
    await yard.launch(yard.order("r-docs00", script, files=RUNTIME))
    outcome, events = yard.outcome("r-docs00"), yard.events("r-docs00")
    assert (outcome.state, outcome.exit_code, outcome.reason) == (RunState.SUCCEEDED, 0, "")
    assert (outcome.scorecard, outcome.artifact) == (None, None)
    rows = [row for event in events if isinstance(event.body, Measured) for row in event.body.rows]
    assert len(rows) == 100


async def test_bad_data_says_what_the_step_said(yard: Yard) -> None:
    prepare = b"""
import pathlib, sys
pathlib.Path("error.json").write_text('{"kind": "bad_data", "text": "Row 7 has no label."}')
sys.exit(65)
"""
    await yard.launch(yard.order("r-bad000", GOOD, files={"worker/recipes/prepare.py": prepare}))
    outcome = yard.outcome("r-bad000")
    assert (outcome.exit_class, outcome.reason) == (ExitClass.BAD_DATA, "Row 7 has no label.")


async def test_a_stopped_run_saves_first_and_is_stopped(yard: Yard) -> None:
    saving = """
def save(*_):
    pathlib.Path("checkpoints").mkdir()
    time.sleep(0.3)
    pathlib.Path("checkpoints/saved").write_text("x")
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
"""
    await yard.launch(yard.order("r-stop00", saving + ENDLESS))
    yard.running("r-stop00")
    await yard.stop(StopOrder(run="r-stop00", attempt=1))
    outcome = yard.outcome("r-stop00")
    assert (outcome.state, outcome.reason) == (RunState.STOPPED, "Stopped on request.")
    assert (yard.folder("r-stop00").path / "checkpoints" / "saved").exists()
    yard.gone("r-stop00")


async def test_a_run_that_ignores_sigterm_is_killed_with_everything_it_started(yard: Yard) -> None:
    stubborn = """
import subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
subprocess.Popen([sys.executable, "-c", "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(600)"])
"""
    await yard.launch(yard.order("r-deaf00", stubborn + ENDLESS))
    yard.running("r-deaf00")
    await yard.stop(StopOrder(run="r-deaf00", attempt=1))
    assert yard.outcome("r-deaf00").state is RunState.STOPPED
    yard.gone("r-deaf00")


async def test_a_kill_does_not_wait(yard: Yard) -> None:
    await yard.launch(yard.order("r-kill00", "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ENDLESS))
    yard.running("r-kill00")
    await yard.stop(StopOrder(run="r-kill00", attempt=1, how="kill"))
    outcome = yard.outcome("r-kill00")
    assert (outcome.state, outcome.exit_code) == (RunState.STOPPED, -9)
    yard.gone("r-kill00")


async def test_what_others_do_to_a_run_has_its_own_class(yard: Yard) -> None:
    await yard.launch(
        yard.order("r-sigk00", "os.kill(os.getpid(), signal.SIGKILL)\n"),
        yard.order("r-sigt00", "os.kill(os.getpid(), signal.SIGTERM)\n"),
        yard.order("r-cuda00", "raise RuntimeError('CUDA out of memory. Tried to allocate 2 GiB')\n"),
        yard.order("r-nan000", "start()\nfor step in range(9):\n    metric(step, loss=float('nan'))\ntime.sleep(60)\n"),
        yard.order("r-time00", ENDLESS, max_hours=1 / 3600),
    )
    classes = {
        run: yard.outcome(run).exit_class for run in ("r-sigk00", "r-sigt00", "r-cuda00", "r-nan000", "r-time00")
    }
    assert classes == {
        "r-sigk00": ExitClass.KILLED,
        "r-sigt00": ExitClass.PREEMPTED,
        "r-cuda00": ExitClass.CUDA_OOM,
        "r-nan000": ExitClass.DIVERGED,
        "r-time00": ExitClass.KILLED,
    }


async def test_a_link_to_the_sealed_labels_is_no_prediction(yard: Yard) -> None:
    cheat = GOOD + "os.unlink('predictions/model.csv')\nos.symlink('/etc/passwd', 'predictions/model.csv')\n"
    await yard.launch(yard.order("r-cheat0", cheat))
    assert "link" in yard.outcome("r-cheat0").reason


async def test_a_link_in_the_place_of_the_artifact_is_not_written_through(yard: Yard) -> None:
    """The supervisor is outside of the walls: through a link it would overwrite any file of the host."""
    other = yard.home / "somebody-elses"
    other.write_text("precious")
    await yard.launch(yard.order("r-cheat1", GOOD + f"os.symlink({str(other)!r}, '.artifact.tar')\n"))
    assert yard.outcome("r-cheat1").state is RunState.SUCCEEDED
    assert other.read_text() == "precious"


async def test_metrics_keep_nan_and_a_half_written_line(yard: Yard) -> None:
    halves = """
start()
with open("metrics.jsonl", "a") as file:
    file.write('{"step": 1, "at": 1.0, "values": {"loss": "NaN"}}\\n{"step": 2, "at"')
    file.flush()
    wait_for("go-on")
    file.write(': 2.0, "values": {"loss": 0.5}}\\n')
finish()
"""
    await yard.launch(yard.order("r-half00", halves))
    yard.running("r-half00")
    (yard.folder("r-half00").path / "go-on").touch()
    assert yard.outcome("r-half00").state is RunState.SUCCEEDED
    bodies = [event.body for event in yard.events("r-half00")]
    rows = [row for body in bodies if isinstance(body, Measured) for row in body.rows]
    assert [row.step for row in rows] == [1, 2]
    assert math.isnan(rows[0].values["loss"])


async def test_a_flood_of_output_is_capped(yard: Yard) -> None:
    flood = """
sys.stdout.buffer.write(b"\\xff\\x00" * 500_000 + b"\\n")
for number in range(60_000):
    print(number, "x" * 80)
"""
    await yard.launch(yard.order("r-flood0", flood + GOOD))
    assert yard.outcome("r-flood0").state is RunState.SUCCEEDED
    logged = [event.body for event in yard.events("r-flood0") if isinstance(event.body, Logged)]
    lines = [line for body in logged for line in body.lines]
    assert sum(len(line) for line in lines) < 2 * 1024**2
    assert max(len(line) for line in lines) <= 4096
    assert len(lines) + sum(body.dropped for body in logged) >= 60_000


async def test_the_training_sees_nothing_of_the_hosts_environment(yard: Yard) -> None:
    await yard.launch(yard.order("r-env000", "print(sorted(os.environ))\n" + GOOD))
    assert yard.outcome("r-env000").state is RunState.SUCCEEDED
    text = yard.folder("r-env000").log.read_text()
    assert "TRAINYARD_RUN_DIR" in text
    assert "TRAINYARD_REDIS_URL" not in text


async def test_a_second_attempt_resumes_in_the_same_folder(yard: Yard) -> None:
    train = "pathlib.Path('checkpoints').mkdir(exist_ok=True)\nprint(os.listdir('checkpoints'))\n"
    train += "pathlib.Path('checkpoints/step_1').touch()\n"
    await yard.launch(yard.order("r-again0", train + "1 / 0\n"))
    assert yard.outcome("r-again0").state is RunState.FAILED
    await yard.launch(yard.order("r-again0", train + GOOD, attempt=2))
    assert yard.outcome("r-again0", attempt=2).state is RunState.SUCCEEDED
    events = yard.events("r-again0", attempt=2)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert "step_1" in str([event.body for event in events if isinstance(event.body, Logged)])
