"""Trains an adapter with the memory that there is, no longer than it pays, and keeps the best of its steps.

The base before the training is step 0: an adapter that has learned nothing yet says what the base says.
"""

from __future__ import annotations

import json
import math
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainyard import TrainingRuntime
from trainyard.adapters import last_checkpoint
from trainyard.checkpoints import save_aside
from worker.recipes.common.job import write_json
from worker.recipes.common.scores import curves
from worker.recipes.llm_finetuning.held_out import HeldOut
from worker.recipes.networks.ranks import ranks

Scores = dict[str, float]


@dataclass
class Best:
    """What was measured at which step, and the adapter of the best one; both lie in `folder` for a later attempt."""

    folder: Path
    metric: str
    lower: bool
    scores: dict[int, Scores] = field(init=False)

    def __post_init__(self) -> None:
        kept = json.loads(self._file.read_text(encoding="utf-8")) if self._file.exists() else {}
        self.scores = {int(step): found for step, found in kept.items()}

    @property
    def _file(self) -> Path:
        return self.folder / "scores.json"

    @property
    def adapter(self) -> Path:
        return self.folder / "adapter"

    @property
    def step(self) -> int:
        """The best step, the first of equals; a step that gives no number is none."""
        sign = 1 if self.lower else -1
        known = {step: sign * found[self.metric] for step, found in self.scores.items()}
        return min(known, key=lambda step: (math.isnan(known[step]), known[step], step))

    @property
    def misses(self) -> int:
        """How often it was measured since."""
        return sum(step > self.step for step in self.scores)

    def copied(self, folder: Path) -> Best:
        """The same in another folder, where notes do not reach a later attempt."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Best(folder, self.metric, self.lower)

    def note(self, step: int, found: Scores, save: Callable[[Path], None]) -> None:
        """Keep scores, and the adapter that `save` writes where they are the best."""
        self.scores[step] = found
        if self.step == step:
            save_aside(self.adapter, save)
        write_json(self._file, self.scores)


@dataclass(frozen=True)
class Watch:
    """Looks at the held-out examples every so many steps; `patience` is how often in vain before it ends the training.

    `before` are the scores of the base.
    """

    runtime: TrainingRuntime
    held: HeldOut
    best: Best
    before: Scores
    every: int
    patience: int

    def callback(self) -> Any:
        """For the Trainer."""
        from transformers import TrainerCallback

        watch = self

        class Watching(TrainerCallback):  # type: ignore[misc]  # the parent ships no types
            def on_train_begin(self, args: Any, state: Any, control: Any, *, model: Any, **_: Any) -> None:
                del args, control
                if ranks().first and not state.global_step:
                    watch.best.note(0, watch.before, lambda folder: save_adapter(model, folder))

            def on_step_end(self, args: Any, state: Any, control: Any, *, model: Any, **_: Any) -> None:
                del args
                if state.global_step % watch.every == 0 or state.global_step == state.max_steps:
                    if ranks().first:
                        watch.look(model, state.global_step)
                    if ranks().agreed(watch.best.misses) >= watch.patience:
                        control.should_training_stop = True

        return Watching()

    def look(self, network: Any, step: int) -> None:
        """Measure, report, and keep the adapter where it is the best."""
        learning = network.training
        found = self.held.measured(network)
        network.train(learning)  # trl asks it what the next row of metrics is of
        self.runtime.log_metrics(step=step, **curves(found, part="valid"))
        self.best.note(step, found, lambda folder: save_adapter(network, folder))


def save_adapter(network: Any, folder: Path) -> None:
    """Write the adapter alone."""
    network.save_pretrained(folder, save_embedding_layers=False)


def fitted(make: Callable[[Mapping[str, Any]], Any], settings: dict[str, Any], runtime: TrainingRuntime) -> Any:
    """The Trainer that `make` gives, trained. Where a batch does not fit into memory, `settings` get half of it.

    The steps stay the same, as twice as many batches are added up for each. Raises: torch.OutOfMemoryError.
    """
    import torch

    while True:
        trainer = make(settings)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # what trl still says in transformers' old words
                trainer.train(resume_from_checkpoint=last_checkpoint(runtime))
        except torch.OutOfMemoryError:
            if settings["batch_size"] == 1 or ranks().count > 1:  # the others wait for gradients
                raise
            trainer.model.unload()  # the next one begins with the base again
        else:
            return trainer
        settings["batch_size"] = math.ceil(settings["batch_size"] / 2)
        settings["gradient_accumulation_steps"] *= 2
        del trainer
        torch.cuda.empty_cache()
        runtime.log(
            f"A batch did not fit into memory: going on with batches of {settings['batch_size']}, "
            f"{settings['gradient_accumulation_steps']} for a step."
        )
