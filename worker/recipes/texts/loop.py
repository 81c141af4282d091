"""The plain torch loop that trains an encoder.

It resumes from its last checkpoint to the same weights as without the interruption: model, optimizer, schedule, random
state, the best so far and the position in the data are all kept. The order of batches follows from seed and epoch, so
that a step number says where the data stands.
"""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainyard import TrainingRuntime
from trainyard.adapters import TorchState
from worker.recipes.common.job import Diverged
from worker.recipes.common.scores import curves
from worker.recipes.texts.encoder import Encoder
from worker.recipes.texts.encoding import padded, tokens

_CHECKPOINT_EVERY_S = 60.0
_NAMED_MODEL = 18.0  # how much more a step of a usual pretrained encoder (6 layers of 768) takes than the small one's


@dataclass(frozen=True)
class Held:
    """The held-out rows: their texts, the metric that decides, and how to score probabilities of them.

    `before_first` is called with the step, before anything is measured for the first time in this training.
    """

    texts: Sequence[str]
    metric: str
    score: Callable[[NDArray[np.float64]], dict[str, float]]
    before_first: Callable[[int], object]


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


def work(settings: dict[str, Any], rows: int) -> float:
    """How much there is to do: texts that pass through the layers, of whatever length."""
    size = _NAMED_MODEL if settings["model"] else settings["layers"] * settings["hidden_size"] / 256
    return float(total_steps(settings, rows) * settings["batch_size"] * size)


class Loop:
    """One training of one encoder on rows of token numbers."""

    def __init__(self, encoder: Encoder, settings: dict[str, Any], runtime: TrainingRuntime, *, seed: int) -> None:
        self._encoder, self._settings, self._runtime, self._seed = encoder, settings, runtime, seed
        self._step, self._misses, self._saved_at = 0, 0, time.monotonic()
        self._measured = False
        self._best: tuple[float, int, dict[str, Any]] = (-1.0, 0, {})

    def run(self, texts: Sequence[str], codes: NDArray[np.int64], held: Held) -> Trained:
        """Train until the steps are done, it pays no more, or somebody asks to stop. Raises: Diverged."""
        rows = tokens(self._encoder.tokenizer, texts)
        steps = total_steps(self._settings, len(rows))
        per_epoch = math.ceil(len(rows) / self._settings["batch_size"])
        every = max(1, min(per_epoch, steps // 2))
        self._prepare(steps)
        self._state.key = json.dumps([self._settings, self._seed, len(rows), steps, zlib.crc32(repr(rows).encode())])
        self._resume()
        while self._step < steps and self._misses < self._settings["early_stopping_patience"]:
            if self._runtime.should_stop:
                break
            self._learn(rows, codes, per_epoch)
            if self._step % every == 0 or self._step == steps:
                self._measure(held)
            if time.monotonic() - self._saved_at > _CHECKPOINT_EVERY_S:  # an epoch may take hours
                self._save()
        return self._end(held)

    def _prepare(self, steps: int) -> None:
        import torch

        settings, network = self._settings, self._encoder.network
        plain = [p for p in network.parameters() if p.ndim < 2]  # biases and norms are not decayed
        decayed = [p for p in network.parameters() if p.ndim >= 2]
        self._optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": settings["weight_decay"]}, {"params": plain, "weight_decay": 0.0}],
            lr=settings["learning_rate"],
        )
        warm = max(1, round(settings["warmup_frac"] * steps))
        self._schedule = torch.optim.lr_scheduler.LambdaLR(
            self._optimizer, lambda done: min((done + 1) / warm, max(0.0, (steps - done) / max(1, steps - warm)))
        )
        self._state = TorchState(network=network, optimizer=self._optimizer, schedule=self._schedule)

    def _learn(self, rows: list[list[int]], codes: NDArray[np.int64], per_epoch: int) -> None:
        """One optimizer step."""
        import torch

        network, device, size = self._encoder.network, self._encoder.device, self._settings["batch_size"]
        epoch, at = divmod(self._step, per_epoch)
        order = np.random.default_rng((self._seed, epoch)).permutation(len(rows))
        picked = order[at * size : (at + 1) * size]
        ids, mask = padded([rows[row] for row in picked], network.config.pad_token_id or 0)  # (B, T)
        wanted = torch.from_numpy(codes[picked]).to(device)  # (B,)
        network.train()
        logits = network(ids.to(device), attention_mask=mask.to(device)).logits  # (B, C)
        loss = torch.nn.functional.cross_entropy(logits.float(), wanted)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        if self._settings["max_grad_norm"]:
            torch.nn.utils.clip_grad_norm_(network.parameters(), self._settings["max_grad_norm"])
        rate = self._optimizer.param_groups[0]["lr"]
        self._optimizer.step()
        self._schedule.step()
        self._step += 1
        value = float(loss.detach())
        self._runtime.log_metrics(step=self._step, train_loss=value, learning_rate=rate)
        if not math.isfinite(value):
            raise Diverged(
                f"Training diverged: the loss at step {self._step} is {value} with learning_rate "
                f"{self._settings['learning_rate']:g}. Try a tenth of it."
            )

    def _begin_to_measure(self, held: Held) -> None:
        if not self._measured:
            held.before_first(self._step)
            self._measured = True

    def _measure(self, held: Held) -> None:
        self._begin_to_measure(held)
        found = held.score(self._encoder.model().predict_proba(held.texts))
        self._runtime.log_metrics(step=self._step, **curves(found, part="valid"))
        if found[held.metric] > self._best[0]:
            weights = {name: part.detach().clone() for name, part in self._encoder.network.state_dict().items()}
            self._best, self._misses = (found[held.metric], self._step, weights), 0
        else:
            self._misses += 1

    def _end(self, held: Held) -> Trained:
        stopped = self._runtime.should_stop
        self._save()
        if stopped:
            self._runtime.log(f"Asked to stop: checkpoint at step {self._step}.")
        if not self._best[2]:
            self._begin_to_measure(held)
            self._save()  # a later attempt does not begin again; what is measured now is no part of its training
            self._measure(held)
        self._encoder.network.load_state_dict(self._best[2])
        return Trained(self._best[0], self._best[1], self._step, stopped)

    def _save(self) -> None:
        self._state.step = self._step
        self._state.extra = {"misses": self._misses, "best": list(self._best), "measured": self._measured}
        self._runtime.save_checkpoint(self._state.save, step=self._step)
        self._saved_at = time.monotonic()

    def _resume(self) -> None:
        """Go on from the newest checkpoint in the run's folder, if there is one."""
        if not self._state.resume(self._runtime, map_location=self._encoder.device):
            return
        self._step, self._misses = self._state.step, self._state.extra["misses"]
        self._measured = bool(self._state.extra.get("measured", False))
        score, step, weights = self._state.extra["best"]
        self._best = (score, step, weights)
