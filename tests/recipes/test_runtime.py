"""TrainingRuntime: what it writes, and that nothing it cannot write breaks a training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import torch

from agent.domain.events import MetricRow
from worker.runtime import TrainingRuntime, trainer_callback

REPO = Path(__file__).resolve().parents[2]


def rows(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def script(folder: Path, body: str) -> subprocess.Popen[str]:
    env = {"PYTHONPATH": str(REPO), "PATH": os.environ["PATH"], "TRAINYARD_RUN_DIR": str(folder)}
    head = "import time\nfrom pathlib import Path\nfrom worker.runtime import TrainingRuntime\nrt = TrainingRuntime()\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + body], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def test_each_kind_of_number_becomes_one_that_the_bot_reads(tmp_path: Path) -> None:
    rt = TrainingRuntime("r", tmp_path)
    rt.start("m", {}, total_steps=3)
    rt.log_metrics(
        step=1, plain=0.5, whole=3, yes=True, np32=np.float32(0.25), npint=np.int64(7), zero_d=np.array(2.0),
        tensor=torch.tensor(1.5, requires_grad=True), exact=Decimal("0.125"), diverged=float("nan"), up=np.inf,
        down=-float("inf"), **{"loss (train)": 1.0},
    )  # fmt: skip
    values = rows(tmp_path)[0]["values"]
    assert values == {
        "plain": 0.5, "whole": 3, "yes": 1, "np32": 0.25, "npint": 7, "zero_d": 2.0, "tensor": 1.5, "exact": 0.125,
        "diverged": "NaN", "up": "Infinity", "down": "-Infinity", "loss_train_": 1.0,
    }  # fmt: skip
    read = MetricRow.model_validate_json(json.dumps(rows(tmp_path)[0]))
    assert np.isnan(read.values["diverged"])
    assert read.values["down"] == -np.inf


def test_what_is_not_one_number_is_left_out_and_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rt = TrainingRuntime("r", tmp_path)
    for step in (1, 2):
        rt.log_metrics(step=step, loss=0.1, rate="3 it/s", grid=np.zeros(3), nothing=None)
    assert [row["values"] for row in rows(tmp_path)] == [{"loss": 0.1}] * 2
    said = capsys.readouterr().err
    assert said.count("'rate'") == said.count("'grid'") == said.count("'nothing'") == 1


def test_start_keeps_what_an_earlier_attempt_reached(tmp_path: Path) -> None:
    first = TrainingRuntime("r", tmp_path)
    assert first.get_resume_info() is None
    first.start("m", {"lr": 1}, total_steps=10)
    first.log_metrics(step=4, loss=1.0)
    first.save_checkpoint(lambda folder: (folder / "w").write_text("four") and None, step=4)
    first.log_metrics(step=6, loss=1.0)
    began = json.loads((tmp_path / "meta.json").read_text())["started_at"]

    second = TrainingRuntime("r", tmp_path)
    second.start("m", {"lr": 2}, total_steps=10)
    info = second.get_resume_info()
    assert info is not None
    assert (info.step, info.checkpoint_step) == (6, 4)
    assert info.checkpoint is not None
    assert (info.checkpoint / "w").read_text() == "four"
    second.log_metrics(step=7, loss=0.5)
    assert [row["step"] for row in rows(tmp_path)] == [4, 6, 7]
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert set(meta) == {"run_id", "status", "model", "total_steps", "step", "started_at", "pid"}
    assert meta["started_at"] == began
    second.finish()
    assert json.loads((tmp_path / "meta.json").read_text())["status"] == "completed"


def test_only_the_newest_checkpoints_stay_and_a_failed_one_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rt = TrainingRuntime("r", tmp_path)
    for step in (1, 2, 30):
        rt.save_checkpoint(lambda folder: (folder / "w").write_text("x") and None, step=step)

    def full(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise OSError(28, "No space left on device")

    assert rt.save_checkpoint(full, step=40) is None
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step_00000002", "step_00000030"]
    assert "not saved" in capsys.readouterr().err


def test_a_full_disk_is_said_once_and_training_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    rt = TrainingRuntime("r", tmp_path)
    rt.start("m", {})
    for step in range(5):
        rt.log_metrics(step=step, loss=1.0)
    rt.finish()
    assert capsys.readouterr().err.count("No space left") == 1


def test_a_torn_line_is_closed_off_and_skipped(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step":3,"at":1,"values":{}}\n{"step":4,"at"')
    rt = TrainingRuntime("r", tmp_path)
    info = rt.get_resume_info()
    assert info is not None
    assert info.step == 3
    rt.log_metrics(step=5, loss=1.0)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 5
    assert len(lines) == 3


def test_a_kill_loses_nothing_that_was_logged(tmp_path: Path) -> None:
    child = script(
        tmp_path, "rt.start('m', {})\nfor n in range(1, 10**9):\n rt.log_metrics(step=n, loss=1.0)\n print(n)\n"
    )
    assert child.stdout is not None
    seen = 0
    while seen < 500:
        seen = int(child.stdout.readline())
    child.kill()
    last = [int(line) for line in child.stdout.read().split("\n")[:-1]]
    child.wait()
    steps = [row["step"] for row in rows(tmp_path)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) >= max([seen, *last])


def test_a_script_that_never_asks_is_saved_and_ended_between_two_steps(tmp_path: Path) -> None:
    body = (
        "rt.start('m', {})\nrt.register_graceful_shutdown(save=lambda f: (f / 'w').write_text('kept'))\n"
        "for n in range(1, 10**9):\n rt.log_metrics(step=n, loss=1.0)\n print(n, flush=True)\n time.sleep(0.001)\n"
    )
    child = script(tmp_path, body)
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert child.returncode == 0
    assert json.loads((tmp_path / "meta.json").read_text())["status"] == "stopped"
    assert [path.read_text() for path in tmp_path.glob("checkpoints/*/w")] == ["kept"]


def test_torch_state_is_saved_without_a_callback(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    rt = TrainingRuntime("r", tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    try:
        rt.register_graceful_shutdown(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    finally:
        signal.signal(signal.SIGTERM, before)
    saved = rt.save_checkpoint(step=1)
    assert saved is not None
    state = torch.load(saved / "state.pt", weights_only=True)
    assert set(state) == {"model", "optimizer"}
    assert torch.equal(state["model"]["weight"], model.weight)


def test_the_trainer_of_transformers_reports_through_it(tmp_path: Path) -> None:
    from transformers import Trainer, TrainingArguments

    class Toy(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": ((self.weight - x) ** 2).mean()}

    rt = TrainingRuntime("r", tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "hf"), max_steps=4, logging_steps=2, report_to=[], save_strategy="no", use_cpu=True,
        remove_unused_columns=False, disable_tqdm=True, dataloader_pin_memory=False,
    )  # fmt: skip
    data = [{"x": torch.ones(1)}] * 8
    try:
        Trainer(Toy(), arguments, train_dataset=data, callbacks=[trainer_callback(rt, model_id="toy")]).train()
    finally:
        signal.signal(signal.SIGTERM, before)
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert (meta["status"], meta["total_steps"], meta["step"]) == ("completed", 4, 4)
    assert {"loss", "learning_rate"} <= set(rows(tmp_path)[0]["values"])  # type: ignore[call-overload]
