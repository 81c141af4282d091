"""The loop that trains networks, whatever their rows are: memory, direction, early stopping."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from worker.recipes.common.job import read_settings
from worker.recipes.networks.loop import SETTINGS, Goal, Loop, Trained

ROWS = 24


class Line:
    """Learns y = 2x on 24 rows, and runs out of memory where a batch is larger than `fits`."""

    def __init__(self, fits: int = ROWS) -> None:
        torch.manual_seed(1)
        self.network, self.device, self.key = torch.nn.Linear(1, 1), "cpu", "line"
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


def trained(folder: Path, learner: Line, **given: Any) -> Trained:
    settings = read_settings({"epochs": 12, "batch_size": 8, "learning_rate": 0.1, **given}, SETTINGS)
    runtime = TrainingRuntime(folder)
    runtime.start("line", settings, total_steps=36)
    loop = Loop(learner, settings, runtime, seed=3)
    result = loop.run(ROWS, Goal("mse", before_first=lambda _step: None, higher=False))
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


def test_a_row_that_does_not_fit_alone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        trained(tmp_path, Line(fits=0))


def test_lower_may_be_better(tmp_path: Path) -> None:
    learner = Line()
    result = trained(tmp_path, learner)
    assert result.best_score == pytest.approx(learner.measure()["mse"])
    assert 0 < result.best_score < 0.2
    assert math.isfinite(result.best_score)
