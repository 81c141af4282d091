"""Trains a network, after a search of its settings where one is asked for.

One trial is one training from the beginning, which reports nothing itself and is ended early where it falls behind. The
network that is kept is trained once more with the best settings, in the same way: paused meanwhile, it begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from trainyard import TrainingRuntime
from worker.recipes.common.job import BadSettings, Job, Setting
from worker.recipes.common.search import BUDGET, KEPT, Budget, Plan, Range, Report, ranges_left, search
from worker.recipes.networks.loop import SETTINGS, Goal, Learner, Loop, Trained, total_steps
from worker.recipes.networks.ranks import ranks

SEARCHED: dict[str, Setting] = {**SETTINGS, **BUDGET}
_TIMES = 5.0  # the learning rate is drawn up to so many times below and above the recipe's own
L = TypeVar("L", bound=Learner)


@dataclass(frozen=True)
class Fitted(Generic[L]):
    """A trained learner, with which settings, and which of them a search `found`."""

    learner: L
    trained: Trained
    settings: dict[str, Any]
    found: dict[str, float] = field(default_factory=dict)


def budget_of(settings: dict[str, Any]) -> Budget:
    """How much a search may take."""
    return Budget(settings["trials"], settings["minutes"])


def planned_steps(settings: dict[str, Any], rows: int) -> int | None:
    """How many steps the run has: trials of a search, else those of the optimizer; None where minutes decide."""
    budget = budget_of(settings)
    return (budget.trials or None) if budget.most else total_steps(settings, rows)


def fitted(
    job: Job, runtime: TrainingRuntime, learner: L, settings: dict[str, Any], make: Callable[[dict[str, Any]], L],
    goal: Goal,
) -> Fitted[L]:  # fmt: skip
    """Train a learner that `make` gave for `settings`, or others where these are searched.

    Raises: BadSettings, Diverged.
    """
    if not budget_of(settings).most:
        return Fitted(learner, Loop(learner, settings, runtime, seed=job.seed).run(goal), settings)
    if ranks().count > 1:
        raise BadSettings("A search runs in one process: leave out `gpus`, or `trials` and `minutes`.")
    return _searched(job, runtime, settings, make, goal)


def _searched(
    job: Job, runtime: TrainingRuntime, settings: dict[str, Any], make: Callable[[dict[str, Any]], L], goal: Goal
) -> Fitted[L]:
    if not (job.run_dir / KEPT).exists():  # else an earlier attempt has done it
        goal.before_first(0)
    plan = Plan(settings, _ranges(job, settings), goal.metric, not goal.higher, budget_of(settings))

    def train(settings: dict[str, Any], report: Report | None = None) -> tuple[L, Trained]:
        learner = make(settings)
        own = replace(goal, before_first=lambda _: None, go_on=report or goal.go_on)
        return learner, Loop(learner, settings, _Unseen(runtime), seed=job.seed).run(own)

    tried, stopped = search(job, runtime, plan, lambda drawn, report: train(drawn, report)[1].best_score)
    drawn: dict[str, Any] = {}
    if best := plan.best(tried):  # else it was stopped in its first trial
        drawn = best.drawn
        runtime.log(plan.summary(tried))
    chosen = {**settings, **drawn}
    learner, trained = train(chosen)
    found = {name: value for name, value in drawn.items() if value != settings[name]}
    return Fitted(learner, replace(trained, stopped=stopped or trained.stopped), chosen, found)


def _ranges(job: Job, settings: dict[str, Any]) -> dict[str, Range]:
    rate = settings["learning_rate"]
    ranges = {
        "learning_rate": Range(rate / _TIMES, rate * _TIMES, log=True),
        "weight_decay": Range(1e-4, 0.3, log=True),
        "warmup_frac": Range(0.0, 0.3),
    }
    return ranges_left(job.settings, SETTINGS, ranges)


class _Unseen(TrainingRuntime):
    """The runtime of one trial: it is stopped as the run is, and neither reports nor keeps anything."""

    def __init__(self, runtime: TrainingRuntime) -> None:
        self._of = runtime

    @property
    def should_stop(self) -> bool:
        return self._of.should_stop

    def log(self, text: str | Mapping[str, Any], step: int | None = None) -> None:
        del text, step

    def log_metrics(self, /, step: int | None = None, **values: Any) -> None:
        del step, values

    def save_checkpoint(self, save: Any = None, *, step: int | None = None, keep: int = 2) -> Path | None:
        del save, step, keep
        return None

    def checkpoints(self) -> list[Path]:
        return []
