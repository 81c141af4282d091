"""From metric rows to the chart of a run: which panels, which baseline, which marks."""

import math
import re
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal

from agent.domain.charts import Baseline, ChartSpec, Mark, Panel, Series, Theme
from agent.domain.events import MetricRow
from agent.domain.runs import Attempt, Run
from agent.stores import START, Place

MAX_PANELS = 4
NEWEST = 50  # rows
MOST = 2048  # points of a curve: 100 live runs stay small, and a panel has about a thousand columns of pixels
BASELINE = "baseline/"
PART = re.compile(r"^(train|valid|test)[_/](?=.)")
LOWER_IS_BETTER = ("loss", "error", "rmse", "mae", "perplexity", "log_loss")
HIGHER_IS_BETTER = ("accuracy", "auc", "f1", "precision", "recall", "r2")


class Curves:
    """What is drawn of a run, kept while it lives, so that a redrawing reads only what is new."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        self.place = START
        self.columns: dict[str, tuple[array[float], array[float]]] = {}
        self.baselines: dict[str, float] = {}
        self.newest: deque[MetricRow] = deque(maxlen=NEWEST)

    def add(self, rows: Sequence[MetricRow], place: Place) -> None:
        """Take rows that end at `place`."""
        self.place = place
        self.newest.extend(rows)
        for row in rows:
            for name, value in row.values.items():
                if not name.startswith(BASELINE):
                    x, y = self.columns.setdefault(name, (array("d"), array("d")))
                    if x and row.step < x[-1]:  # a later attempt goes on from a checkpoint before this: it trains anew
                        first = bisect_left(x, row.step)
                        del x[first:], y[first:]
                    x.append(row.step)
                    y.append(value)
                    if len(x) > MOST:
                        self.columns[name] = thinned(x, y)
                elif math.isfinite(value):
                    self.baselines[name.removeprefix(BASELINE)] = value


def thinned(x: "array[float]", y: "array[float]") -> "tuple[array[float], array[float]]":
    """At most three quarters of `MOST` points, in their order, as dense in the beginning as at the end.

    The range of steps is cut into equal parts; of each the lowest and the highest point stay, and one that is not
    finite. So a spike survives any number of thinnings. The newest point stays too: people are told it.
    """
    wide = (x[-1] - x[0]) / (MOST // 4) or 1.0
    kept: list[int] = []
    start = 0
    while start < len(x):
        part = math.floor((x[start] - x[0]) / wide)
        end = start
        while end < len(x) and math.floor((x[end] - x[0]) / wide) == part:
            end += 1
        finite = [n for n in range(start, end) if math.isfinite(y[n])]
        odd = [n for n in range(start, end) if not math.isfinite(y[n])]
        ends = {min(finite, key=y.__getitem__), max(finite, key=y.__getitem__)} if finite else set()
        kept += sorted(ends | set(odd[:1]))
        start = end
    if kept[-1] != len(x) - 1:
        kept.append(len(x) - 1)
    return array("d", [x[n] for n in kept]), array("d", [y[n] for n in kept])


def chart_of(run: Run, curves: Curves, *, theme: Theme = "light", marks: tuple[Mark, ...] = ()) -> ChartSpec | None:
    """Metric panels of a run, None without data; parts of one metric (train, valid) share a panel."""
    if not curves.columns:
        return None
    groups: dict[str, list[str]] = {}
    for name in curves.columns:
        groups.setdefault(_metric(name), []).append(name)
    panels = tuple(
        Panel(
            title=metric.replace("_", " "),
            series=tuple(Series(_part(name), *curves.columns[name]) for name in sorted(names)),
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
        for name in curves.columns:
            groups.setdefault(_metric(name), {}).setdefault(name, []).append(run_id)
    panels: list[Panel] = []
    for metric, names in groups.items():
        name = max(names, key=lambda name: (len(names[name]), _part(name) != "train"))
        if len(names[name]) < 2:
            continue
        series = tuple(Series(run_id, *runs[run_id].columns[name]) for run_id in names[name])
        panels.append(Panel(title=name.replace("_", " "), series=series, better=_better(metric)))
    if not panels:
        return None
    return ChartSpec(title=" · ".join(runs), panels=tuple(panels[:MAX_PANELS]), theme=theme)


def _baselines(curves: Curves, metric: str) -> tuple[Baseline, ...]:
    """What to beat: metrics named `baseline/<name>/<metric>`, the last value of each."""
    named = ((name.partition("/"), value) for name, value in curves.baselines.items())
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
