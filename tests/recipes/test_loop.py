"""The loop that trains networks, whatever their rows are: memory, direction, early stopping."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.recipes.folders import LIMIT_S, REPO, TORCHRUN, Make, texts_csv
from trainyard import TrainingRuntime
from worker.recipes.common.job import read_settings
from worker.recipes.networks.loop import SETTINGS, Goal, Loop, Trained

if TYPE_CHECKING:
    import torch

ROWS = 24


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Loaded with the first test of this file; each worker of the suite reads the file."""
    global torch
    import torch


class Line:
    """Learns y = 2x on 24 rows, and runs out of memory where a batch is larger than `fits`."""

    def __init__(self, fits: int = ROWS) -> None:
        torch.manual_seed(1)
        self.network, self.device, self.key, self.count = torch.nn.Linear(1, 1), "cpu", "line", ROWS
        self._fits, self.x = fits, torch.linspace(-1, 1, ROWS)[:, None]
        self.largest = 0

    def loss(self, rows: NDArray[np.int64]) -> Any:
        if len(rows) > self._fits:
            raise torch.OutOfMemoryError("no memory")
        self.largest = max(self.largest, len(rows))
        return torch.nn.functional.mse_loss(self.network(self.x[rows]), 2 * self.x[rows])

    def measure(self) -> dict[str, float]:
        with torch.inference_mode():
            return {"mse": float(torch.nn.functional.mse_loss(self.network(self.x), 2 * self.x))}


def trained(folder: Path, learner: Line, *, listens: bool = False, **given: Any) -> Trained:
    settings = read_settings({"epochs": 12, "batch_size": 8, "learning_rate": 0.1, **given}, SETTINGS)
    runtime = TrainingRuntime(folder)
    if listens:
        runtime.register_graceful_shutdown()
    runtime.start("line", settings, total_steps=36)
    loop = Loop(learner, settings, runtime, seed=3)
    result = loop.run(Goal("mse", before_first=lambda _step: None, higher=False))
    runtime.finish("completed")
    return result


def test_a_batch_that_does_not_fit_is_added_up_from_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, small = Line(), Line(fits=3)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = trained(tmp_path / "a", whole)
    capsys.readouterr()
    second = trained(tmp_path / "b", small)
    said = capsys.readouterr().out
    assert small.largest <= 3 < whole.largest
    assert second.best_score == pytest.approx(first.best_score, rel=1e-4)
    assert "did not fit into memory: batches of 8 are now added up from 4 parts of 2" in said
    assert second.notes == ("A batch did not fit into memory: each step added up 4 parts of 2 rows.",)


def test_several_batches_are_one_step_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    whole, parts = Line(), Line()
    first = trained(tmp_path / "a", whole)
    second = trained(tmp_path / "b", parts, batch_size=2, gradient_accumulation_steps=4)
    assert (parts.largest, second.steps, second.notes) == (2, first.steps, ())
    assert second.best_score == pytest.approx(first.best_score, rel=1e-4)


def test_a_row_that_does_not_fit_alone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        trained(tmp_path, Line(fits=0))


def test_lower_may_be_better(tmp_path: Path) -> None:
    learner = Line()
    result = trained(tmp_path, learner)
    assert result.best_score == pytest.approx(learner.measure()["mse"])
    assert 0 < result.best_score < 0.2
    assert math.isfinite(result.best_score)


RANKS = """
import json, os, signal, sys
from pathlib import Path
import torch
from tests.recipes import test_loop
from worker.recipes.networks.ranks import join

test_loop.torch = torch

class Stopped(test_loop.Line):
    stop_at, calls = 0, 0
    def loss(self, rows):
        self.calls += 1
        if os.environ["RANK"] == "1" and self.calls == self.stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().loss(rows)

join()
for call in (9, 0):
    learner = Stopped(fits=3)
    learner.stop_at = call
    result = test_loop.trained(Path.cwd(), learner, listens=True)
    print(json.dumps([learner.network.weight.item(), learner.network.bias.item(), result.steps, result.stopped]))
"""


def torchrun(folder: Path, script: Path) -> list[str]:
    """What two processes print that torchrun starts in a folder."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO), "TRAINYARD_RUN_DIR": str(folder)}
    done = subprocess.run(
        [sys.executable, *TORCHRUN, str(script)], env=env, cwd=folder, capture_output=True, text=True,
        timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.faults  # the quick suite has two processes that stop at one step (`test_resume`)
def test_two_processes_take_the_steps_that_one_would_take(tmp_path: Path) -> None:
    """Also where their shares do not fit into memory, and where one is told to stop half-way and both go on later."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    alone = Line()
    result = trained(tmp_path / "one", alone)
    (tmp_path / "ranks.py").write_text(RANKS)
    said = torchrun(tmp_path / "two", tmp_path / "ranks.py")
    halfway, whole = (json.loads(line) for line in said if line.startswith("["))
    assert halfway[3]
    assert 0 < halfway[2] < result.steps
    assert f"Going on from the checkpoint at step {halfway[2]}." in said
    assert whole == [
        pytest.approx(alone.network.weight.item(), rel=1e-4),
        pytest.approx(alone.network.bias.item(), abs=1e-4),
        result.steps,
        False,
    ]
    rows = [json.loads(line) for line in (tmp_path / "two/metrics.jsonl").read_text().splitlines()]
    steps = [row["step"] for row in rows if "train_loss" in row["values"]]
    assert steps == list(range(1, result.steps + 1))  # written once


@pytest.mark.faults
@pytest.mark.parametrize("recipe", ["text_classification", "llm_finetuning"])
def test_a_recipe_is_trained_by_two_processes_and_written_by_one(recipe: str, make: Make) -> None:
    tiny = {"max_steps": 6, "hidden_size": 16, "layers": 1, "heads": 2, "vocabulary": 300, "max_tokens": 32}
    run = make(texts_csv(60), "library", recipe=recipe, text_column="text", settings=tiny)
    assert run.prepare_here() == 0
    said = run.run(*TORCHRUN, "train.py")
    assert run.evaluate_here() == 0
    steps = [row["step"] for row in run.metrics() if "learning_rate" in row["values"]]
    assert steps == list(range(1, 7))
    assert said.count(" is kept: ") == 1
    assert run.json("meta.json")["status"] == "completed"
