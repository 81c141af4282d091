"""The plain torch loop that trains a network on numbered rows, whatever they are.

It resumes from its last checkpoint to the same weights as without the interruption: network, optimizer, schedule,
random state, the best so far and the position in the data are all kept. The order of batches follows from seed and
epoch, so that a step number says where the data stands. What a row is, its loss and its score are the learner's.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from trainyard.adapters import TorchState
from worker.recipes.common.job import Diverged, Setting
from worker.recipes.common.scores import curves

CHECKPOINT_EVERY_S = 60.0
SETTINGS = {
    "epochs": Setting(8, 1, 1000),
    "max_steps": Setting(0, 0, 10_000_000, ("steps",)),  # 0: as many as the epochs take
    "batch_size": Setting(32, 1, 4096),
    "learning_rate": Setting(0.0, 0.0, 1e6, ("lr",)),  # 0: the recipe's own
    "weight_decay": Setting(0.01, 0.0, 10.0),
    "warmup_frac": Setting(0.1, 0.0, 1.0, ("warmup_ratio",)),
    "max_grad_norm": Setting(1.0, 0.0, 1e6),
    "early_stopping_patience": Setting(3, 1, 1000, ("patience",)),
    "valid_frac": Setting(0.15, 0.05, 0.5),
}


class Learner(Protocol):
    """What is trained. `key` names data and network, so that a checkpoint of others is not taken."""

    network: Any
    device: str
    key: str

    def loss(self, rows: NDArray[np.int64]) -> Any:
        """The mean loss of these rows, as a scalar tensor with its graph."""

    def measure(self) -> dict[str, float]:
        """The scores of the held-out rows."""


@dataclass(frozen=True)
class Goal:
    """The metric that decides, its direction, and what to do before anything is measured for the first time.

    `before_first` is called with the step.
    """

    metric: str
    before_first: Callable[[int], object]
    higher: bool = True


@dataclass(frozen=True)
class Trained:
    """What the loop reached. The network holds the weights of `best_step`."""

    best_score: float
    best_step: int
    steps: int
    stopped: bool


def total_steps(settings: dict[str, Any], rows: int) -> int:
    """How many optimizer steps the settings ask for."""
    return int(settings["max_steps"] or settings["epochs"] * math.ceil(rows / settings["batch_size"]))


class Loop:
    """One training of one network."""

    def __init__(self, learner: Learner, settings: dict[str, Any], runtime: TrainingRuntime, *, seed: int) -> None:
        self._learner, self._settings, self._runtime, self._seed = learner, settings, runtime, seed
        self._step, self._misses, self._saved_at, self._parts = 0, 0, time.monotonic(), 1
        self._measured = False
        self._best: tuple[float, int, dict[str, Any]] = (-math.inf, 0, {})  # the higher the better

    def run(self, rows: int, goal: Goal) -> Trained:
        """Train on `rows` until the steps are done, it pays no more, or somebody asks to stop. Raises: Diverged."""
        steps = total_steps(self._settings, rows)
        per_epoch = math.ceil(rows / self._settings["batch_size"])
        every = max(1, min(per_epoch, steps // 2))
        self._prepare(steps)
        self._state.key = json.dumps([self._settings, self._seed, rows, steps, self._learner.key])
        self._resume()
        while self._step < steps and self._misses < self._settings["early_stopping_patience"]:
            if self._runtime.should_stop:
                break
            epoch, at = divmod(self._step, per_epoch)
            order = np.random.default_rng((self._seed, epoch)).permutation(rows)
            size = self._settings["batch_size"]
            self._learn(order[at * size : (at + 1) * size])
            if self._step % every == 0 or self._step == steps:
                self._measure(goal)
            if time.monotonic() - self._saved_at > CHECKPOINT_EVERY_S:  # an epoch may take hours
                self._save()
        return self._end(goal)

    def _prepare(self, steps: int) -> None:
        import torch

        settings, network = self._settings, self._learner.network
        trained = [p for p in network.parameters() if p.requires_grad]
        plain = [p for p in trained if p.ndim < 2]  # biases and norms are not decayed
        decayed = [p for p in trained if p.ndim >= 2]
        self._optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": settings["weight_decay"]}, {"params": plain, "weight_decay": 0.0}],
            lr=settings["learning_rate"],
        )
        warm = max(1, round(settings["warmup_frac"] * steps))
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, lambda done: min((done + 1) / warm, max(0.0, (steps - done) / max(1, steps - warm)))
        )
        self._state = TorchState(network=network, optimizer=self._optimizer, schedule=self._schedule)

    def _learn(self, rows: NDArray[np.int64]) -> None:
        """One optimizer step on a batch of rows."""
        import torch

        network = self._learner.network
        network.train()
        value = self._gradients(rows)
        if self._settings["max_grad_norm"]:
            torch.nn.utils.clip_grad_norm_(network.parameters(), self._settings["max_grad_norm"])
        rate = self._optimizer.param_groups[0]["lr"]
        self._optimizer.step()
        self._schedule.step()
        self._step += 1
        self._runtime.log_metrics(step=self._step, train_loss=value, learning_rate=rate)
        if not math.isfinite(value):
            raise Diverged(
                f"Training diverged: the loss at step {self._step} is {value} with learning_rate "
                f"{self._settings['learning_rate']:g}. Try a tenth of it."
            )

    def _gradients(self, rows: NDArray[np.int64]) -> float:
        """Gradients of the mean loss of `rows`, and that loss.

        A batch that does not fit into the memory of the device is added up from halves, from then on.
        """
        import torch

        while True:
            self._optimizer.zero_grad(set_to_none=True)
            parts = np.array_split(rows, min(self._parts, len(rows)))
            try:
                total = 0.0
                for part in parts:
                    with self._precision():
                        loss = self._learner.loss(part) * (len(part) / len(rows))
                    loss.backward()
                    total += float(loss.detach())
            except torch.OutOfMemoryError:
                if self._parts >= len(rows):
                    raise
                self._parts *= 2
                torch.cuda.empty_cache()
                self._runtime.log(
                    f"Step {self._step + 1} did not fit into memory: batches of {len(rows)} are now added up from "
                    f"{self._parts} parts of {math.ceil(len(rows) / self._parts)}. The result is the same, slower."
                )
            else:
                return total

    def _precision(self) -> Any:
        """bfloat16 where the GPU has it; the weights stay in 32 bits."""
        import torch

        half = self._learner.device == "cuda" and torch.cuda.is_bf16_supported()
        return torch.autocast("cuda", torch.bfloat16) if half else nullcontext()

    def _begin_to_measure(self, goal: Goal) -> None:
        if not self._measured:
            goal.before_first(self._step)
            self._measured = True

    def _measure(self, goal: Goal) -> None:
        self._begin_to_measure(goal)
        self._learner.network.eval()
        found = self._learner.measure()
        self._runtime.log_metrics(step=self._step, **curves(found, part="valid"))
        score = found[goal.metric] if goal.higher else -found[goal.metric]
        if score > self._best[0]:
            weights = {name: part.detach().clone() for name, part in self._learner.network.state_dict().items()}
            self._best, self._misses = (score, self._step, weights), 0
        else:
            self._misses += 1

    def _end(self, goal: Goal) -> Trained:
        stopped = self._runtime.should_stop
        self._save()
        if stopped:
            self._runtime.log(f"Asked to stop: checkpoint at step {self._step}.")
        if not self._best[2]:
            self._begin_to_measure(goal)
            self._save()  # a later attempt does not begin again; what is measured now is no part of its training
            self._measure(goal)
        if self._best[2]:
            self._learner.network.load_state_dict(self._best[2])
        score = self._best[0] if goal.higher else -self._best[0]
        return Trained(score, self._best[1], self._step, stopped)

    def _save(self) -> None:
        self._state.step = self._step
        self._state.extra = {
            "misses": self._misses, "best": list(self._best), "measured": self._measured, "parts": self._parts,
        }  # fmt: skip
        self._runtime.save_checkpoint(self._state.save, step=self._step)
        self._saved_at = time.monotonic()

    def _resume(self) -> None:
        """Go on from the newest checkpoint in the run's folder, if there is one."""
        if not self._state.resume(self._runtime, map_location=self._learner.device):
            return
        extra = self._state.extra
        self._step, self._misses, self._parts = self._state.step, extra["misses"], int(extra.get("parts", 1))
        self._measured = bool(extra.get("measured", False))
        score, step, weights = extra["best"]
        self._best = (score, step, weights)
