"""The plain torch loop that trains a network on numbered rows, whatever they are.

It resumes from its last checkpoint to the same weights as without the interruption: network, optimizer, schedule,
random state, the best so far and the position in the data are all kept. The order of batches follows from seed and
epoch, so that a step number says where the data stands. What a row is, its loss and its score are the learner's. Under
torchrun each process learns from its share of a batch (`networks.ranks`), and rank 0 alone comes back from the loop.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from trainyard.adapters import TorchState
from worker.recipes.common.job import Diverged, Setting
from worker.recipes.common.numerals import counted
from worker.recipes.common.scores import curves
from worker.recipes.networks.ranks import ranks

CHECKPOINT_EVERY_S = 60.0
SETTINGS = {
    "epochs": Setting(8, 1, 1000),
    "max_steps": Setting(0, 0, 10_000_000, ("steps",)),  # 0: as many as the epochs take
    "batch_size": Setting(32, 1, 4096),
    "gradient_accumulation_steps": Setting(1, 1, 1024, ("accumulation",)),  # batches of one optimizer step
    "learning_rate": Setting(0.0, 0.0, 1e6, ("lr",)),  # 0: the recipe's own
    "weight_decay": Setting(0.01, 0.0, 10.0),
    "warmup_frac": Setting(0.1, 0.0, 1.0, ("warmup_ratio",)),
    "max_grad_norm": Setting(1.0, 0.0, 1e6),
    "early_stopping_patience": Setting(3, 1, 1000, ("patience",)),
    "valid_frac": Setting(0.15, 0.05, 0.5),
}


class Learner(Protocol):
    """What is trained, on `count` rows. `key` names data and network, so that a checkpoint of others is not taken."""

    network: Any
    device: str
    key: str
    count: int

    def loss(self, rows: NDArray[np.int64]) -> Any:
        """The mean loss of these rows, as a scalar tensor with its graph."""

    def measure(self) -> dict[str, float]:
        """The scores of the held-out rows."""


@dataclass(frozen=True)
class Goal:
    """The metric that decides, its direction, and what to do before anything is measured for the first time.

    `before_first` is called with the step. `go_on` is told step and metric of each measurement, and may end it all.
    """

    metric: str
    before_first: Callable[[int], object]
    higher: bool = True
    go_on: Callable[[int, float], bool] = lambda _step, _value: True


@dataclass(frozen=True)
class Trained:
    """What the loop reached. The network holds the weights of `best_step`.

    `notes` are sentences on what had to be done otherwise than asked.
    """

    best_score: float
    best_step: int
    steps: int
    stopped: bool
    notes: tuple[str, ...] = ()


def rows_per_step(settings: Mapping[str, Any]) -> int:
    """How many rows one optimizer step learns from."""
    return int(settings["batch_size"] * settings["gradient_accumulation_steps"])


def total_steps(settings: Mapping[str, Any], rows: int) -> int:
    """How many optimizer steps the settings ask for."""
    return int(settings["max_steps"] or settings["epochs"] * math.ceil(rows / rows_per_step(settings)))


def half_precision(device: str) -> Any:
    """The torch type of 16 bits that the device computes quickly in, None where it has none.

    bfloat16, or float16 on a GPU from before Ampere, for which torch would only emulate the other.
    """
    import torch

    if device != "cuda":
        return None
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16


class Loop:
    """One training of one network."""

    def __init__(self, learner: Learner, settings: dict[str, Any], runtime: TrainingRuntime, *, seed: int) -> None:
        self._learner, self._settings, self._runtime, self._seed = learner, settings, runtime, seed
        self._step, self._misses, self._saved_at = 0, 0, time.monotonic()
        self._parts = settings["gradient_accumulation_steps"]
        self._half = half_precision(learner.device)
        self._measured, self._going, self._ranks = False, True, ranks()
        self._best: tuple[float, int, dict[str, Any]] = (-math.inf, 0, {})  # the higher the better

    def run(self, goal: Goal) -> Trained:
        """Train until the steps are done, it pays no more, or somebody asks to stop. Raises: Diverged."""
        rows, size = self._learner.count, rows_per_step(self._settings)
        steps = total_steps(self._settings, rows)
        per_epoch = math.ceil(rows / size)
        every = max(1, min(per_epoch, steps // 2))
        self._prepare(steps)
        self._state.key = json.dumps([self._settings, self._seed, rows, steps, self._learner.key])
        self._resume()
        self._begin_alike()
        while self._going and self._step < steps and self._misses < self._settings["early_stopping_patience"]:
            if self._runtime.should_stop:
                break
            epoch, at = divmod(self._step, per_epoch)
            order = np.random.default_rng((self._seed, epoch)).permutation(rows)
            self._learn(order[at * size : (at + 1) * size])
            if self._step % every == 0 or self._step == steps:
                self._measure(goal)
            if time.monotonic() - self._saved_at > CHECKPOINT_EVERY_S:  # an epoch may take hours
                self._save()
        stopped = self._runtime.should_stop  # all processes ask, at the same step
        self._ranks.end()
        return self._end(goal, stopped=stopped)

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
        # Gradients in float16 are scaled, as small ones would vanish; in other types they are left as they are.
        self._scaler = torch.amp.GradScaler("cuda", enabled=self._half is torch.float16)
        self._state = TorchState(
            network=network, optimizer=self._optimizer, schedule=self._schedule,
            scaler=self._scaler if self._scaler.is_enabled() else None,
        )  # fmt: skip

    def _begin_alike(self) -> None:
        """The same weights in all processes, and in each its own dropout."""
        import torch

        if self._ranks.count > 1:
            self._ranks.take_over(self._learner.network.state_dict().values())
            if not self._ranks.first:
                torch.manual_seed(
                    int(np.random.default_rng((self._seed, self._step, self._ranks.rank)).integers(2**62))
                )

    def _learn(self, rows: NDArray[np.int64]) -> None:
        """One optimizer step on a batch of rows."""
        import torch

        network = self._learner.network
        network.train()
        value = self._added_up(self._gradients(self._ranks.share(rows), of=len(rows)))
        self._scaler.unscale_(self._optimizer)
        if self._settings["max_grad_norm"]:
            torch.nn.utils.clip_grad_norm_(network.parameters(), self._settings["max_grad_norm"])
        rate = self._optimizer.param_groups[0]["lr"]
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._schedule.step()
        self._step += 1
        self._runtime.log_metrics(step=self._step, train_loss=value, learning_rate=rate)
        if not math.isfinite(value):
            raise Diverged(
                f"Training diverged: the loss at step {self._step} is {value} with learning_rate "
                f"{self._settings['learning_rate']:g}. Try a tenth of it."
            )

    def _added_up(self, value: float) -> float:
        """The gradients of all processes, and the sum of their losses."""
        import torch

        if self._ranks.count < 2:
            return value
        trained = [p for p in self._learner.network.parameters() if p.requires_grad]
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        whole = torch.tensor(value, device=self._learner.device)
        self._ranks.add_up([whole, *(parameter.grad for parameter in trained)])
        return float(whole)

    def _gradients(self, rows: NDArray[np.int64], *, of: int) -> float:
        """Gradients of the loss of `rows` as a part of the mean over `of` rows, and that part.

        A batch that does not fit into the memory of the device is added up from halves, from then on.
        """
        import torch

        while True:
            self._optimizer.zero_grad(set_to_none=True)
            parts = np.array_split(rows, min(self._parts, len(rows))) if len(rows) else []
            try:
                total = 0.0
                for part in parts:
                    with self._precision():
                        loss = self._learner.loss(part) * (len(part) / of)
                    self._scaler.scale(loss).backward()
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
        """16 bits where the device has them; the weights stay in 32 bits."""
        import torch

        return torch.autocast("cuda", self._half) if self._half else nullcontext()

    def _begin_to_measure(self, goal: Goal) -> None:
        if not self._measured:
            goal.before_first(self._step)
            self._measured = True

    def _measure(self, goal: Goal) -> None:
        """Rank 0 measures; all learn whether it pays to go on."""
        if self._ranks.first:
            self._look(goal)
        self._misses = self._ranks.agreed(self._misses)

    def _look(self, goal: Goal) -> None:
        self._begin_to_measure(goal)
        self._learner.network.eval()
        found = self._learner.measure()
        self._runtime.log_metrics(step=self._step, **curves(found, part="valid"))
        self._going = goal.go_on(self._step, found[goal.metric])
        score = found[goal.metric] if goal.higher else -found[goal.metric]
        if score > self._best[0]:
            weights = {name: part.detach().clone() for name, part in self._learner.network.state_dict().items()}
            self._best, self._misses = (score, self._step, weights), 0
        else:
            self._misses += 1

    def _end(self, goal: Goal, *, stopped: bool) -> Trained:
        self._save()
        if stopped:
            self._runtime.log(f"Asked to stop: checkpoint at step {self._step}.")
        if not self._best[2]:
            self._begin_to_measure(goal)
            self._save()  # a later attempt does not begin again; what is measured now is no part of its training
            self._look(goal)
        if self._best[2]:
            self._learner.network.load_state_dict(self._best[2])
        score = self._best[0] if goal.higher else -self._best[0]
        return Trained(score, self._best[1], self._step, stopped, self._notes())

    def _notes(self) -> tuple[str, ...]:
        asked = self._settings["gradient_accumulation_steps"]
        if self._parts == asked:
            return ()
        part = math.ceil(rows_per_step(self._settings) / self._ranks.count / self._parts)
        rows = counted(part, "row", "rows")
        return (f"A batch did not fit into memory: each step added up {self._parts} parts of {rows}.",)

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
