"""From metric rows to the chart of a run: which panels, which baseline, which marks."""

import math
import re
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Literal

from agent.domain.charts import Baseline, ChartSpec, Panel, Series, Theme
from agent.domain.events import MetricRow
from agent.domain.runs import Run
from agent.stores import START, Place

MAX_PANELS = 4
NEWEST = 50  # rows
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
                    x.append(row.step)
                    y.append(value)
                elif math.isfinite(value):
                    self.baselines[name.removeprefix(BASELINE)] = value


def chart_of(run: Run, curves: Curves, *, theme: Theme = "light") -> ChartSpec | None:
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
