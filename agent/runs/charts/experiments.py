"""The runs of a thread as experiments: the best so far, what a score costs, and which came from which. Pure.

Only runs that were measured by the same metric on the same sealed rows stand beside each other; the newest measured
one decides which. Called by the tool of experiments.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.cards import counted, duration, score_words
from agent.domain.charts import Theme
from agent.domain.content import Table
from agent.domain.pictures import MOST_NAME, PictureSpec, Points, Progress, Scatter, Tree, Trial, TrialState
from agent.domain.runs import LIVE, Run, RunState, Scorecard
from agent.domain.tasks import metric_label
from agent.runs.cards.run_cards import state_words

MOST_ROWS = 8
_CRASHED = frozenset({RunState.FAILED, RunState.LOST})
_MINUTES = 180.0  # seconds from which on minutes are the readable unit


@dataclass(frozen=True, slots=True)
class Experiments:
    """Runs that can be compared, oldest first, with what became of each; `left_out` others cannot be."""

    runs: tuple[Run, ...]
    trials: tuple[Trial, ...]
    metric: str
    higher_is_better: bool
    left_out: int

    @property
    def measured(self) -> list[tuple[Run, Trial]]:
        """Those with a score, the best first; of equals the older one."""
        found = [pair for pair in zip(self.runs, self.trials, strict=True) if math.isfinite(pair[1].value)]
        return sorted(found, key=lambda pair: -pair[1].value if self.higher_is_better else pair[1].value)


def experiments_of(runs: Sequence[Run]) -> Experiments | None:
    """From runs in any order; None where none of them was measured, or no score is a number."""
    ordered = sorted(runs, key=lambda run: (run.created_at, run.id))
    newest = next((run for run in reversed(ordered) if math.isfinite(_value(run))), None)
    score = _score(newest) if newest else None
    if newest is None or score is None:
        return None
    alike = [run for run in ordered if _rows(run) == _rows(newest) and _shown(run, score.metric)]
    best: float | None = None
    trials: list[Trial] = []
    numbers = {run.id: index for index, run in enumerate(alike, 1)}
    for index, run in enumerate(alike, 1):
        value = _value(run)
        better = math.isfinite(value) and (best is None or (value > best if score.higher_is_better else value < best))
        best = value if better else best
        parent = numbers.get(run.spec.cloned_from)
        trials.append(Trial(index, value, _state(run, better=better), run.id, parent, run.used_s or None))
    return Experiments(tuple(alike), tuple(trials), score.metric, score.higher_is_better, len(ordered) - len(alike))


def _score(run: Run) -> Scorecard | None:
    return run.outcome.scorecard if run.outcome else None


def _value(run: Run) -> float:
    score = _score(run)
    return score.model.value if score else math.nan


def _rows(run: Run) -> tuple[str, ...]:
    """What decides which rows are sealed."""
    return run.spec.sealed_rows


def _shown(run: Run, metric: str) -> bool:
    """Whether a run is shown: measured on the same rows, failed, or running; stopped and waiting runs are left out."""
    score = _score(run)
    return score.metric == metric if score else run.state in _CRASHED | LIVE


def _state(run: Run, *, better: bool) -> TrialState:
    if _score(run):
        return "kept" if better else "discarded"
    return "crashed" if run.state in _CRASHED else "running"


def picture_of(found: Experiments, *, theme: Theme = "light") -> PictureSpec:
    """Best so far as steps, and score against training time, with the front that nothing beats in both."""
    first = found.runs[0].spec
    name = metric_label(found.metric)
    progress = Progress(f"best {name} so far", found.trials, _better(found), name)
    sign = -1.0 if found.higher_is_better else 1.0
    costly = [(run, trial) for run, trial in found.measured if trial.cost]
    costly.sort(key=lambda pair: (sign * pair[1].value, pair[1].cost or 0.0))
    pictures: tuple[Progress | Scatter, ...] = (progress, _scatter(costly, name)) if len(costly) > 1 else (progress,)
    return PictureSpec(
        title=f"{first.subject} · {counted(len(found.runs), 'experiment')}",
        subtitle=f"{first.data_words} · all measured on the same sealed test rows",
        pictures=pictures,
        theme=theme,
    )


def tree_of(found: Experiments, changes: Mapping[str, str], *, theme: Theme = "light") -> PictureSpec:
    """A tree of the runs: each below the one that it was cloned from; `changes` says by id what it does otherwise."""
    name = metric_label(found.metric)
    named = tuple(replace(trial, name=_named(trial.name, changes.get(trial.name, ""))) for trial in found.trials)
    tree = Tree("each experiment below what it came from", named, _better(found), name)
    return replace(picture_of(found, theme=theme), pictures=(tree,))


def _named(run: str, change: str) -> str:
    text = f"{run}  {change}" if change else run
    return text if len(text) <= MOST_NAME else f"{text[: MOST_NAME - 1]}…"


def _better(found: Experiments) -> Literal["lower", "higher"]:
    return "higher" if found.higher_is_better else "lower"


def _scatter(costly: Sequence[tuple[Run, Trial]], name: str) -> Scatter:
    """`costly` are those with a time, the best first, of equals the quickest.

    So one is on the front if it is quicker than all before it.
    """
    unit, size = ("minutes", 60.0) if max(trial.cost or 0.0 for _, trial in costly) > _MINUTES else ("seconds", 1.0)
    front: list[tuple[float, float, str]] = []
    others: list[tuple[float, float, str]] = []
    quickest = math.inf
    for run, trial in costly:
        at = ((trial.cost or 0.0) / size, trial.value, run.id)
        (front if at[0] < quickest else others).append(at)
        quickest = min(quickest, at[0])
    groups = [_points("best for their time", sorted(front))]
    if others:
        groups.append(_points("others", sorted(others)))
    return Scatter(f"{name} against training time", tuple(groups), f"{unit} of training", name, front=groups[0].name)


def _points(name: str, at: Sequence[tuple[float, float, str]]) -> Points:
    return Points(name, [x for x, _, _ in at], [y for _, y, _ in at], [said for _, _, said in at])


def table_of(found: Experiments) -> Table:
    """The best first, then what has no score."""
    measured = found.measured
    rest = [(run, trial) for run, trial in zip(found.runs, found.trials, strict=True) if not math.isfinite(trial.value)]
    rows = [
        (
            run.id,
            score_words(trial.value) if math.isfinite(trial.value) else "–",
            duration(trial.cost) if trial.cost else "–",
            trial.state if math.isfinite(trial.value) else state_words(run),
        )
        for run, trial in [*measured, *rest][:MOST_ROWS]
    ]
    return Table(columns=("run", metric_label(found.metric), "training", "state"), rows=tuple(rows))


def words_of(found: Experiments) -> str:
    """Which is the best, of how many, and what is not shown."""
    run, trial = found.measured[0]
    name = metric_label(found.metric)
    text = f"Best {name} of {counted(len(found.runs), 'experiment')}: `{run.id}` with {score_words(trial.value)}"
    text += f" after {duration(trial.cost)} of training." if trial.cost else "."
    if found.left_out == 1:
        text += " One other run was measured otherwise, or not at all, and is left out."
    elif found.left_out:
        text += f" {found.left_out} other runs were measured otherwise, or not at all, and are left out."
    return text
