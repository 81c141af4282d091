"""From windows of metrics to the chart of a run: which panels, which baseline, which marks."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from agent.domain.charts import Baseline, ChartSpec, Mark, Panel, Theme
from agent.domain.runs import Attempt, Run
from agent.runs.curves import series_of
from agent.series.window import Window

MAX_PANELS = 4
NEWEST = 50  # rows that say how fast a run is
BASELINE = "baseline/"
PART = re.compile(r"^(train|valid|test)[_/](?=.)")
LOWER_IS_BETTER = ("loss", "error", "rmse", "mae", "perplexity", "log_loss")
HIGHER_IS_BETTER = ("accuracy", "auc", "f1", "precision", "recall", "r2")


Curves = Mapping[str, Window]
"""What is drawn of a run: windows of its metrics by name, in the order in which they began; baselines among them."""


def drawn(names: Sequence[str]) -> list[str]:
    """Which of a run's metrics its chart shows: those of the first panels, and what there is to beat."""
    panels = list(_groups(names))[:MAX_PANELS]
    return [name for name in names if name.startswith(BASELINE) or _metric(name) in panels]


def chart_of(run: Run, curves: Curves, *, theme: Theme = "light", marks: tuple[Mark, ...] = ()) -> ChartSpec | None:
    """Metric panels of a run, None without data; parts of one metric (train, valid) share a panel."""
    groups = _groups(curves)
    if not groups:
        return None
    panels = tuple(
        Panel(
            title=metric.replace("_", " "),
            series=tuple(series_of(curves[name], _part(name)) for name in sorted(names)),
            baselines=_baselines(curves, metric),
            better=_better(metric),
            marks=marks,
        )
        for metric, names in list(groups.items())[:MAX_PANELS]
    )
    return ChartSpec(
        title=f"{run.spec.target} · {run.id}",
        subtitle=run.spec.dataset.name,
        panels=panels,
        x_label="boosting round" if run.spec.recipe == "tabular_classification" else "step",
        theme=theme,
    )


def restarts(attempts: Sequence[Attempt]) -> tuple[Mark, ...]:
    """Where each attempt after the first began."""
    return tuple(Mark(attempt.first_step, f"attempt {attempt.number}") for attempt in attempts[1:])


def comparison_of(runs: Mapping[str, Curves], *, theme: Theme = "light") -> ChartSpec | None:
    """One panel a metric with a line for each run, by its id; None without a metric that two of them share.

    Of a metric's parts only one is drawn, the held-out one where there is one, so that lines stay apart.
    """
    groups: dict[str, dict[str, list[str]]] = {}
    for run_id, curves in runs.items():
        for name in (name for name in curves if not name.startswith(BASELINE)):
            groups.setdefault(_metric(name), {}).setdefault(name, []).append(run_id)
    panels: list[Panel] = []
    for metric, names in groups.items():
        name = max(names, key=lambda name: (len(names[name]), _part(name) != "train"))
        if len(names[name]) < 2:
            continue
        series = tuple(series_of(runs[run_id][name], run_id) for run_id in names[name])
        panels.append(Panel(title=name.replace("_", " "), series=series, better=_better(metric)))
    if not panels:
        return None
    return ChartSpec(title=" · ".join(runs), panels=tuple(panels[:MAX_PANELS]), theme=theme)


def last_value(found: Window) -> float:
    """The newest value of a window, NaN where it has none."""
    y = series_of(found, "").y
    return float(y[-1]) if len(y) else math.nan


def _groups(names: Iterable[str]) -> dict[str, list[str]]:
    """The names of each metric, without baselines."""
    groups: dict[str, list[str]] = {}
    for name in names:
        if not name.startswith(BASELINE):
            groups.setdefault(_metric(name), []).append(name)
    return groups


def _baselines(curves: Curves, metric: str) -> tuple[Baseline, ...]:
    """What to beat: metrics named `baseline/<name>/<metric>`, the last value of each."""
    found = {name.removeprefix(BASELINE): last_value(curves[name]) for name in curves if name.startswith(BASELINE)}
    named = ((name.partition("/"), value) for name, value in found.items() if math.isfinite(value))
    return tuple(Baseline(head, value) for (head, _, tail), value in named if _metric(tail) == metric)


def _metric(name: str) -> str:
    """A metric without the part of the data that it was measured on."""
    return PART.sub("", name)


def _part(name: str) -> str:
    part = PART.match(name)
    return part.group(1) if part else name


def _better(metric: str) -> Literal["", "lower", "higher"]:
    lowered = metric.lower()
    if any(word in lowered for word in LOWER_IS_BETTER):
        return "lower"
    return "higher" if any(word in lowered for word in HIGHER_IS_BETTER) else ""
