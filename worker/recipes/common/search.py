"""Searches settings under a budget of trials or minutes: draws them, tries them, keeps what an earlier attempt tried.

A recipe says from which ranges settings are drawn and how one trial goes, on the training rows alone. What a person
stated is not drawn. The first trial has the recipe's own settings, so that a search never ends below them; a trial that
falls behind the median of the others is ended early. One step of the run is one trial.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from trainyard import TrainingRuntime
from worker.recipes.common.job import BadSettings, Job, Setting, write_json
from worker.recipes.common.numerals import counted
from worker.recipes.common.scores import curves, worded

BUDGET = {"trials": Setting(0, 0, 1000), "minutes": Setting(0.0, 0.0, 10_000.0)}
KEPT = "checkpoints/trials.json"
_PRUNED_WORK = 0.6  # of a training, that a trial takes in the mean
_UNPRUNED = 4  # trials that are there to compare with before one is ended early

# What a trial tells while it goes: a place in it and how good it is there, in the direction of the metric or of its
# loss. The answer is whether it should go on.
Report = Callable[[int, float], bool]
Attempt = Callable[[dict[str, Any], Report], float]


@dataclass(frozen=True)
class Range:
    """From what a setting is drawn; `log`: evenly over orders of magnitude."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Budget:
    """How many trials, or minutes in all attempts, a search may take: 0 is no limit, and both 0 no search."""

    trials: int
    minutes: float

    @property
    def most(self) -> int:
        """The most trials, 0 for no search."""
        return self.trials or (int(BUDGET["trials"].high or 0) if self.minutes else 0)

    @property
    def work(self) -> float:
        """The work of the search and the training after it, in parts of one training."""
        return 1 + _PRUNED_WORK * self.most

    def is_spent(self, tried: Sequence[Trial], more_s: float = 0.0) -> bool:
        """Whether no further trial may begin, or the one that has taken `more_s` go on."""
        taken = sum(one.seconds for one in tried) + more_s
        return len(tried) >= self.most or bool(self.minutes and taken >= 60 * self.minutes)


@dataclass(frozen=True)
class Trial:
    """One set of drawn settings and what it came to: `pruned` says that it was ended early. `reports` are by place."""

    number: int
    drawn: dict[str, Any]
    value: float
    pruned: bool
    seconds: float
    reports: dict[str, float]


@dataclass(frozen=True)
class Plan:
    """What is searched: the settings that hold, the ranges of those that are drawn, and the metric that decides."""

    settings: Mapping[str, Any]
    ranges: Mapping[str, Range]
    metric: str
    lower: bool
    budget: Budget

    def best(self, tried: Sequence[Trial]) -> Trial | None:
        """The best of the trials that went to their end."""
        whole = [one for one in tried if not one.pruned]
        return (min if self.lower else max)(whole, key=lambda one: one.value, default=None)

    def summary(self, tried: Sequence[Trial]) -> str:
        """What the trials came to, in a sentence."""
        best, early = self.best(tried), sum(one.pruned for one in tried)
        reached = f": {self.metric} {worded(best.value)} in trial {best.number}" if best else ""
        return (
            f"{counted(len(tried), 'trial', 'trials')}, {early} of them ended early{reached} against "
            f"{worded(tried[0].value)} with the recipe's own settings."
        )


def ranges_left(
    given: Mapping[str, Any], known: Mapping[str, Setting], ranges: Mapping[str, Range]
) -> dict[str, Range]:
    """The ranges of settings that nobody stated. Raises: BadSettings where none is left."""
    free = {
        name: found
        for name, found in ranges.items()
        if all(given.get(said) is None for said in (name, *known[name].also))
    }
    if not free:
        raise BadSettings(f"There is nothing to search: {', '.join(ranges)} are all given. Leave one out, or trials.")
    return free


def search(job: Job, runtime: TrainingRuntime, plan: Plan, attempt: Attempt) -> tuple[list[Trial], bool]:
    """All trials, and whether somebody asked to stop. Each is kept in `KEPT` when it ends."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    file = job.run_dir / KEPT
    tried = [Trial(**one) for one in json.loads(file.read_text(encoding="utf-8"))] if file.exists() else []
    study = optuna.create_study(
        direction="minimize" if plan.lower else "maximize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=_UNPRUNED),
    )
    shapes = {name: _distribution(plan.settings[name], found) for name, found in plan.ranges.items()}
    for one in tried:
        study.add_trial(_known(one, shapes))
    if not tried:
        study.enqueue_trial({name: plan.settings[name] for name in shapes})
    while not plan.budget.is_spent(tried):
        study.sampler = optuna.samplers.TPESampler(seed=job.seed + len(tried))  # a pause changes nothing that is drawn
        drawing = study.ask(shapes)
        one, stopped = _tried(runtime, plan, drawing, attempt, tried)
        if stopped:
            runtime.log(f"Asked to stop: trial {one.number} is left out, {len(tried)} are finished.")
            return tried, True
        study.tell(drawing, None if one.pruned else one.value, state=_state(one))
        tried.append(one)
        write_json(file, [asdict(each) for each in tried])
        _show(runtime, plan, tried)
    return tried, False


def _tried(
    runtime: TrainingRuntime, plan: Plan, drawing: Any, attempt: Attempt, before: Sequence[Trial]
) -> tuple[Trial, bool]:
    """One trial, and whether it was left because somebody asked to stop."""
    began, ended = time.monotonic(), ""
    reports: dict[str, float] = {}

    def report(place: int, value: float) -> bool:
        nonlocal ended
        drawing.report(value, place)
        reports[str(place)] = value
        if runtime.should_stop:
            ended = "stopped"
        elif before and (drawing.should_prune() or plan.budget.is_spent(before, time.monotonic() - began)):
            ended = "pruned"
        return not ended

    value = attempt({**plan.settings, **drawing.params}, report)
    seconds = round(time.monotonic() - began, 3)
    one = Trial(drawing.number + 1, dict(drawing.params), value, ended == "pruned", seconds, reports)
    return one, ended == "stopped" or runtime.should_stop  # it may have ended early before it could report


def _distribution(default: Any, found: Range) -> Any:
    from optuna.distributions import FloatDistribution, IntDistribution

    if isinstance(default, int):
        return IntDistribution(int(found.low), int(found.high), log=found.log)
    return FloatDistribution(found.low, found.high, log=found.log)


def _state(one: Trial) -> Any:
    from optuna.trial import TrialState

    return TrialState.PRUNED if one.pruned else TrialState.COMPLETE


def _known(one: Trial, shapes: Mapping[str, Any]) -> Any:
    """A trial of an earlier attempt, as optuna has it."""
    from optuna.trial import create_trial

    return create_trial(
        state=_state(one),
        value=None if one.pruned else one.value,
        params=one.drawn,
        distributions=dict(shapes),
        intermediate_values={int(place): value for place, value in one.reports.items()},
    )


def _show(runtime: TrainingRuntime, plan: Plan, tried: Sequence[Trial]) -> None:
    """The newest trial as metrics and in the log, all of them as a picture."""
    last, best = tried[-1], plan.best(tried)
    if best is None:  # the first one is never ended early
        return
    metric = next(iter(curves({plan.metric: 0.0}, part="valid")))
    values = {f"best/{metric}": best.value} | ({} if last.pruned else {f"trial/{metric}": last.value})
    runtime.log_metrics(step=last.number, **values)
    drawn = ", ".join(f"{name} {value:.3g}" for name, value in last.drawn.items())
    ended = ", ended early" if last.pruned else ""
    runtime.log(f"Trial {last.number}: {plan.metric} {worded(last.value)}{ended} ({drawn}); best {worded(best.value)}.")
    kept: list[Trial] = []
    trials = []
    for one in tried:
        is_kept = plan.best([*kept, one]) is one
        kept += [one] if is_kept else []
        state = "pruned" if one.pruned else "kept" if is_kept else "discarded"
        trials.append({"number": one.number, "value": one.value, "state": state, "cost": one.seconds})
    better = "lower" if plan.lower else "higher"
    picture = {"kind": "progress", "title": "search of settings", "trials": trials, "better": better}
    runtime.log_picture("search", {**picture, "metric": f"valid {plan.metric}"}, step=last.number)
