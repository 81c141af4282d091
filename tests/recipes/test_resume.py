"""Interrupted and resumed equals uninterrupted: plain torch, the Trainer, LightGBM; and torchrun stops as one."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest

from tests.recipes.folders import Make, sklearn_csv, texts_csv
from tests.recipes.test_runtime import REPO, rows
from trainyard import TrainingRuntime
from trainyard.adapters import (
    LightGBMCallback,
    TorchState,
    last_checkpoint,
    resume_booster,
    sampled_anew,
    trainer_callback,
)

if TYPE_CHECKING:
    import torch

LIMIT_S = 120.0
DICE = random.Random(5)


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Loaded with the first test of this file; each worker of the suite reads the file."""
    global torch
    import torch


class Noisy:
    """Augmentation draws from all three random states."""

    def __len__(self) -> int:
        return 37

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        noise = random.random() + float(np.random.rand()) + float(torch.rand(()))
        x = torch.full((8,), number / 37.0) + noise * 0.1
        return x, torch.tensor([number / 37.0])


class Stopped(Exception):
    pass


def torch_training(folder: Path, *, stop_at: int, shuffled_by: torch.Generator | None) -> dict[str, Any]:
    """3 epochs with dropout, momentum, a schedule and a shuffled loader; the final weights and moments."""
    random.seed(1)
    np.random.seed(2)
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    loader = torch.utils.data.DataLoader(Noisy(), batch_size=4, shuffle=True, generator=shuffled_by)
    rt = TrainingRuntime("r", folder)
    state = TorchState(model=model, optimizer=optimizer, scheduler=scheduler, scaler=scaler, key="k")
    state.resume(rt)
    rt.start("m", {}, total_steps=30)
    for _ in state.epochs(3):
        for x, y in state.batches(loader):
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            rt.log_metrics(state.step, loss=loss)
            if state.step == stop_at:
                rt.save_checkpoint(state.save, step=state.step)
                rt.finish("stopped")
                raise Stopped
        torch.rand(3)  # what happens between epochs draws too
    rt.finish()
    return {"model": model.state_dict(), "moments": optimizer.state_dict()["state"], "lr": scheduler.get_last_lr()}


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    return bool(one == other)


@pytest.mark.parametrize(
    ("stop_at", "own_generator"),
    [(10, False), (DICE.randrange(2, 10), True)]
    + [pytest.param(at, own, marks=pytest.mark.faults) for at in (1, 20, 30, 17, 23) for own in (False, True)],
)
def test_a_torch_training_goes_on_bit_for_bit(stop_at: int, own_generator: bool, tmp_path: Path) -> None:
    """At a random step, in the first, and at the ends of epochs (10 steps each)."""

    def generator() -> torch.Generator | None:
        return torch.Generator().manual_seed(11) if own_generator else None

    whole = torch_training(tmp_path / "whole", stop_at=0, shuffled_by=generator())
    with pytest.raises(Stopped):
        torch_training(tmp_path / "cut", stop_at=stop_at, shuffled_by=generator())
    torch.rand(7)
    random.random()
    resumed = torch_training(tmp_path / "cut", stop_at=0, shuffled_by=generator())
    assert equal(whole, resumed)

    def logged(name: str) -> list[tuple[object, object]]:
        return [(row["step"], row["values"]) for row in rows(tmp_path / name)]

    assert logged("whole") == logged("cut")


def test_a_numpy_generator_and_an_own_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rt = TrainingRuntime("r", tmp_path)
    dice = np.random.default_rng(4)
    model = torch.nn.Linear(1, 1)
    first = TorchState(model=model, generators={"dice": dice}, key="a", extra={"best": [0.5, {"w": torch.ones(2)}]})
    first.step = 5
    rt.save_checkpoint(first.save, step=5)
    expected = dice.random(3).tolist()
    second = TorchState(model=torch.nn.Linear(1, 1), generators={"dice": dice}, key="a")
    assert second.resume(rt)
    assert (second.step, dice.random(3).tolist()) == (5, expected)
    assert torch.equal(second.extra["best"][1]["w"], torch.ones(2))
    assert not TorchState(model=model, key="b").resume(rt)
    assert not TorchState(model=model, other=model, key="a").resume(rt)
    said = capsys.readouterr().out
    assert "belongs to other settings or data. Starting from the beginning." in said
    assert "holds model; this training has model, other." in said


def trainer_for(folder: Path, rt: TrainingRuntime, *, stop_at: int = 0) -> Any:
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

    class Term(TrainerCallback):  # type: ignore[misc]
        """Somebody asks to stop in the middle of a step."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if stop_at and state.global_step + 1 == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=16, hidden_dropout_prob=0.2,
    )  # fmt: skip
    dice = np.random.default_rng(0)
    data = [{"input_ids": dice.integers(1, 50, 8).tolist(), "labels": int(n % 2)} for n in range(41)]
    arguments = TrainingArguments(
        output_dir=str(folder / "hf"), num_train_epochs=3, per_device_train_batch_size=4, logging_steps=1,
        report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, seed=5, learning_rate=0.01,
        gradient_accumulation_steps=2, dataloader_pin_memory=False,
    )  # fmt: skip
    return Trainer(
        BertForSequenceClassification(config), arguments, train_dataset=data,
        callbacks=[trainer_callback(rt, model_id="tiny"), Term()],
    )  # fmt: skip


@pytest.mark.parametrize(
    "stop_at",
    [DICE.randrange(7, 17), pytest.param(1, marks=pytest.mark.faults), pytest.param(6, marks=pytest.mark.faults)],
)
def test_a_trainer_goes_on_bit_for_bit(stop_at: int, tmp_path: Path) -> None:
    """At a random step, in the first, and at the end of an epoch."""
    before = signal.getsignal(signal.SIGTERM)

    def train(name: str, *, stop: int = 0) -> tuple[Any, str]:
        folder = tmp_path / name
        rt = TrainingRuntime("r", folder)
        try:
            trainer = trainer_for(folder, rt, stop_at=stop)
            trainer.train(resume_from_checkpoint=last_checkpoint(rt))
            rt.finish()  # as scripts end: who was asked to stop stays stopped
        finally:
            signal.signal(signal.SIGTERM, before)
        return trainer, json.loads((folder / "meta.json").read_text())["status"]

    whole, status = train("whole")
    assert status == "completed"
    cut, status = train("cut", stop=stop_at)
    assert (cut.state.global_step, status) == (stop_at, "stopped")
    resumed, status = train("cut")
    assert (resumed.state.global_step, status) == (whole.state.global_step, "completed")
    assert equal(whole.model.state_dict(), resumed.model.state_dict())
    assert equal(whole.optimizer.state_dict()["state"], resumed.optimizer.state_dict()["state"])

    def losses(name: str) -> list[object]:
        return [row["values"]["loss"] for row in rows(tmp_path / name) if "loss" in row["values"]]  # type: ignore[index,operator]

    assert losses("whole") == losses("cut")
    assert {"loss", "learning_rate"} <= set(rows(tmp_path / "whole")[0]["values"])  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("classes", "columns", "sampled_rows"),
    [(2, 1.0, 1.0), (3, 0.6, 0.7)]
    + [
        pytest.param(*one, marks=pytest.mark.faults)
        for one in [(2, 0.6, 1.0), (2, 0.6, 0.7), (2, 0.9, 0.3), (3, 1.0, 1.0), (3, 0.6, 1.0), (3, 0.9, 0.3)]
    ],
)
def test_lightgbm_goes_on_bit_for_bit(classes: int, columns: float, sampled_rows: float, tmp_path: Path) -> None:
    """The trees and the reports of a resumed booster are those of an uninterrupted one, sampled or not."""
    import lightgbm

    dice = np.random.default_rng(1)
    x = dice.normal(size=(400, 6))
    x[dice.random(x.shape) < 0.05] = np.nan
    x[:, 5] = dice.integers(0, 5, 400)
    y = np.digitize(np.nan_to_num(x[:, 0]) + 0.3 * dice.normal(size=400), [-0.5, 0.5][: classes - 1])
    many = {"objective": "multiclass", "metric": ["multi_logloss"], "num_class": classes}
    params = {"verbosity": -1, "deterministic": True, "num_threads": 1, "seed": 3, "feature_fraction": columns,
              "bagging_fraction": sampled_rows, "bagging_freq": 1,
              **({"objective": "binary", "metric": ["binary_logloss"]} if classes == 2 else many)}  # fmt: skip

    def train(name: str, *, die_at: int = 0) -> Any:
        rt = TrainingRuntime("r", tmp_path / name)
        saved = resume_booster(rt, key="k")
        watch = LightGBMCallback(rt, saved=saved, key="k", every=10)

        def die(env: Any) -> None:
            if env.iteration + 1 == die_at:
                raise Stopped

        full = lightgbm.Dataset(x[100:], label=y[100:], free_raw_data=False, categorical_feature=[5])
        held = lightgbm.Dataset(x[:100], label=y[:100], reference=full, categorical_feature=[5])
        return lightgbm.train(
            params, full, num_boost_round=60 - saved.rounds, init_model=saved.file, valid_sets=[held],
            valid_names=["valid"], callbacks=[sampled_anew(3, bagging_fraction=sampled_rows), watch, die],
        )  # fmt: skip

    def trees(booster: Any) -> str:
        return str(booster.model_to_string()).partition("\nTree=0\n")[2].partition("\nend of trees")[0]

    whole = train("whole")
    with pytest.raises(Stopped):
        train("cut", die_at=37)
    resumed = train("cut")
    assert resumed.current_iteration() == 60
    assert trees(whole) == trees(resumed) != ""
    assert np.array_equal(whole.predict(x), resumed.predict(x))

    def losses(name: str) -> dict[object, object]:
        return {row["step"]: row["values"] for row in rows(tmp_path / name)}

    assert losses("whole") == losses("cut")
    rt = TrainingRuntime("r", tmp_path / "cut")
    assert resume_booster(rt, key="k").rounds == 60
    assert resume_booster(rt, key="other").file is None
    rt.finish()


def test_a_paused_boosting_stops_within_seconds_and_goes_on(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    slow = {"rounds": 4000, "learning_rate": 0.001, "early_stopping_patience": 100_000}
    run = make(sklearn_csv("breast_cancer"), "kind", settings=slow)
    assert run.prepare_here() == 0
    source = (run.dir / "data/train.csv").read_bytes()
    code, said = run.stop_after(60)
    assert code == 0, said
    assert run.json("meta.json")["status"] == "stopped"
    reached = max(row["step"] for row in run.metrics())
    assert reached < 4000
    assert run.prepare_here() == 0
    assert "The data is split already." in capsys.readouterr().out
    assert (run.dir / "data/train.csv").read_bytes() == source
    linear = run.dir / "checkpoints/baselines/linear.skops"
    stamp = linear.stat().st_mtime_ns
    assert run.stop_here_after(len(run.metrics()) + 20) == 0
    assert f"Going on from the checkpoint at round {reached}." in capsys.readouterr().out
    assert linear.stat().st_mtime_ns == stamp
    after = [row["step"] for row in run.metrics() if row["step"] > reached]
    assert after[0] == reached + 1


def test_a_split_of_another_source_is_made_anew(make: Make) -> None:
    run = make(texts_csv(60), "library", recipe="text_classification")
    source = run.dir / "data/source.csv"
    kept = source.read_bytes()
    assert run.prepare_here() == 0
    before = (run.dir / "data/train.csv").read_bytes()
    source.write_bytes(kept)
    assert run.prepare_here() == 0
    assert (run.dir / "data/train.csv").read_bytes() == before
    assert not source.exists()
    source.write_bytes(kept[: kept.rindex(b"\n", 0, -1) + 1])
    assert run.prepare_here() == 0
    assert (run.dir / "data/train.csv").read_bytes() != before


RANKS = """
import os, sys, time
import torch
import torch.distributed as dist
from trainyard import TrainingRuntime
dist.init_process_group("gloo")
rank = dist.get_rank()
rt = TrainingRuntime()
rt.start("two", {}, total_steps=10**6)
rt.register_graceful_shutdown(save=lambda folder: (folder / "rank").write_text(str(rank)))
os.write(1, f"pid {rank} {os.getpid()}\\n".encode())  # at once: the two share a pipe
step = 0
while True:
    step += 1
    total = torch.tensor([float(rank + 1)])
    dist.all_reduce(total)
    rt.log_metrics(step, total=total, rank=rank)
    if rt.should_stop:
        break
    time.sleep(0.002 * (1 + rank))
rt.save_checkpoint(step=step)
rt.finish("stopped")
os.write(1, f"ended {rank} {step}\\n".encode())
dist.destroy_process_group()
"""


DURING = """
import os, signal, sys
import torch.distributed as dist
from trainyard import TrainingRuntime
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}/meeting", rank=0, world_size=1)
rt = TrainingRuntime()
rt.start("one", {})
rt.register_graceful_shutdown(save=lambda folder: None)
reduce = dist.all_reduce
def slow(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGTERM)  # while the processes agree on what they knew before
    dist.all_reduce = reduce
    return reduce(*args, **kwargs)
dist.all_reduce = slow
print(rt.should_stop, rt.should_stop, rt.should_stop)
rt.finish("stopped")
"""


def test_a_sigterm_during_the_agreement_counts_at_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(DURING)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPO), "TRAINYARD_RUN_DIR": str(tmp_path), "WORLD_SIZE": "2"}
    argv = [sys.executable, str(tmp_path / "one.py"), str(tmp_path)]
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.stdout.split() == ["False", "True", "True"], done.stderr


def _told(child: subprocess.Popen[str], folder: Path, told: str) -> str:
    """What two ranks say after one of them, or their parent, was asked to end."""
    assert child.stdout is not None
    pids: dict[str, int] = {}
    said = []
    end = time.monotonic() + LIMIT_S
    while len(pids) < 2 and time.monotonic() < end and (line := child.stdout.readline()):
        said.append(line)
        if line.startswith("pid "):
            _, rank, pid = line.split()
            pids[rank] = int(pid)
    assert len(pids) == 2, "".join(said)
    while not (folder / "metrics.jsonl").exists() and time.monotonic() < end:
        time.sleep(0.05)
    os.kill(pids["1"] if told == "rank 1" else child.pid, signal.SIGTERM)
    return "".join(said) + child.communicate(timeout=LIMIT_S)[0]


@pytest.mark.parametrize("told", ["rank 1", pytest.param("torchrun", marks=pytest.mark.faults)])
def test_two_ranks_write_once_and_stop_at_the_same_step(told: str, tmp_path: Path) -> None:
    """SIGTERM may reach one of them only; torchrun hands it to both."""
    (tmp_path / "two.py").write_text(RANKS)
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(REPO),
        "TRAINYARD_RUN_DIR": str(tmp_path),
        "OMP_NUM_THREADS": "1",
    }
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=0"]
    child = subprocess.Popen(
        [*launch, str(tmp_path / "two.py")], env=env, cwd=tmp_path, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        out = _told(child, tmp_path, told)
    finally:
        if child.poll() is None:
            for process in [*psutil.Process(child.pid).children(recursive=True), child]:
                process.kill()
    ended = sorted(line.split() for line in out.splitlines() if line.startswith("ended "))
    assert [words[:2] for words in ended] == [["ended", "0"], ["ended", "1"]], out
    steps = {words[2] for words in ended}
    assert len(steps) == 1
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert (meta["status"], meta["step"]) == ("stopped", int(steps.pop()))
    found = rows(tmp_path)
    assert [row["step"] for row in found] == list(range(1, meta["step"] + 1))
    assert all(row["values"] == {"total": 3, "rank": 0} for row in found)
    assert [path.read_text() for path in tmp_path.glob("checkpoints/*/rank")] == ["0"]
    if told == "rank 1":
        assert child.returncode == 0
