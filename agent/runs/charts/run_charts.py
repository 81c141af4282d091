"""From windows of metrics to the chart of a run: which panels, which baseline, which marks."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from agent.domain.charts import Baseline, ChartSpec, Mark, Panel, Series, Theme
from agent.domain.metrics import Direction, better
from agent.domain.runs import Attempt, Run
from agent.runs.charts.curves import Axis, Clock, series_of
from agent.series.window import Window

MAX_PANELS = 4
MOST_PANELS = 12  # of a sheet of all metrics
NEWEST = 50  # rows that say how fast a run is
BASELINE = "baseline/"
EPOCHS = ("epoch", "epochs")
LEARNING_RATE = "learning_rate"
_RATE = re.compile(r"(?:^|[/_. -])(?:lr|learning[_ -]?rate)(?:$|[/_. -])", re.IGNORECASE)
PART = re.compile(r"^(train|valid|val|eval|test)[_/](?=.)")


Curves = Mapping[str, Window]
"""What is drawn of a run: windows of its metrics by name, in the order in which they began; baselines among them."""


def panel_names(names: Sequence[str]) -> list[str]:
    """The metrics that have a panel each, in the order in which they began; parts of one (train, valid) share it."""
    return list(_groups(names))


def drawn(names: Sequence[str], panels: Sequence[str]) -> list[str]:
    """Which of a run's metrics these panels show, and what there is to beat."""
    return [name for name in names if name.startswith(BASELINE) or _metric(name) in panels]


def held_out(names: Sequence[str], also: Collection[str] = ()) -> list[str]:
    """One part of each metric (train or valid), so that the curves of several runs in a panel can be told apart.

    A part that is among `also`, the names of another run, goes first, then the held-out part.
    """
    groups = _groups(names).values()
    return [max(parts, key=lambda name: (name in also, _part(name) != "train")) for parts in groups]


def panel_of(name: str) -> str:
    """The panel that has this metric, as `panel_names` calls it: that of `train_loss` is `loss`."""
    return _metric(name)


@dataclass(frozen=True, slots=True)
class Look:
    """How curves are shown: `page` counts sheets of `panels`; by time, x are hours since each run began.

    `began`, by run id, says so (seconds since the epoch) of runs whose script did not.
    With `clocks`, by run id, x are epochs. `smooth` is the weight of a moving average, 0 for none; it does not reach
    over the steps at which later attempts of a run began, `anew` by run id.
    """

    log_scale: bool = False
    by_time: bool = False
    page: int = 0
    panels: int = MAX_PANELS
    marks: tuple[Mark, ...] = ()  # where x says
    theme: Theme = "light"
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    smooth: float = 0.0
    anew: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    began: Mapping[str, float] = field(default_factory=dict)

    @property
    def axis(self) -> Axis:
        """What x are."""
        return "epoch" if self.clocks else "time" if self.by_time else "step"


def chart_of(run: Run, curves: Curves, look: Look) -> ChartSpec | None:
    """The first metric panels of a run, None without data."""
    shown = {name: found for name, found in curves.items() if len(found.spans)}
    if not _groups(shown):
        return None
    return curves_chart((run,), {run.id: shown}, look)[0]


def curves_chart(runs: Sequence[Run], curves: Mapping[str, Curves], look: Look) -> tuple[ChartSpec, bool]:
    """Metric panels of a run, where parts of one metric (train, valid) share one; or a panel a metric for several runs.

    Also whether there are panels behind those of the page.
    """
    began = {run.id: run.started_at.timestamp() if run.started_at else look.began.get(run.id, 0.0) for run in runs}

    def line(run: Run, name: str, said: str) -> Series:
        clock = look.clocks.get(run.id)
        anew = look.anew.get(run.id, ())
        return series_of(curves[run.id][name], said, axis=look.axis, since=began[run.id], clock=clock, anew=anew)

    first = runs[0]
    panels: list[Panel] = []
    if len(runs) == 1:
        panels = _panels_of(curves[first.id], look, first.id, since=began[first.id], runs=runs)
    else:
        every = dict.fromkeys(name for run in runs for name in curves[run.id] if not name.startswith(BASELINE))
        for name in every:
            lines = tuple(line(run, name, run.id) for run in runs if name in curves[run.id])
            panels.append(_panel(name, _metric(name), lines, curves[first.id], look, runs))
    sheet, more = _sheet(panels, look)
    unit = first.spec.unit
    spec = ChartSpec(
        title=f"{first.spec.subject} · {', '.join(run.id for run in runs)}",
        subtitle=first.spec.data_words,
        panels=sheet,
        x_label={"time": "hours", "epoch": "epoch", "step": unit}[look.axis],
        theme=look.theme,
    )
    return spec, more


def _sheet(panels: Sequence[Panel], look: Look) -> tuple[tuple[Panel, ...], bool]:
    """The panels of the page, of the last where there is no such page; and whether more follow."""
    start = min(look.page, max(0, pages(len(panels), look) - 1)) * look.panels
    return tuple(panels[start : start + look.panels]), start + look.panels < len(panels)


def pages(panels: int, look: Look) -> int:
    """How many sheets so many panels fill."""
    return -(-panels // look.panels)


def clock_name(names: Iterable[str]) -> str | None:
    """The metric that counts epochs; None without one."""
    return next((name for name in names if _metric(name).lower() in EPOCHS), None)


def file_chart(
    title: str, runs: Mapping[str, Curves], look: Look, *, since: float, scale: int = 1
) -> tuple[ChartSpec, bool]:
    """As `curves_chart`, of a file of metrics: of one run, or of several by name; hours count from `since` (seconds).

    Clocks and the like of `look` are by those names. Steps of the curves are counted in parts, `scale` in a step.
    """
    x_label = {"time": "hours", "epoch": "epoch", "step": "step"}[look.axis]
    if scale > 1 and look.axis == "step":
        look = replace(look, clocks=dict.fromkeys(runs, Clock(np.array([0.0, scale]), np.array([0.0, 1.0]))))
    panels: list[Panel] = []
    if len(runs) == 1:
        ((name, curves),) = runs.items()
        panels = _panels_of(curves, look, name, since=since)
    else:
        for metric in dict.fromkeys(metric for curves in runs.values() for metric in curves):
            lines = tuple(
                series_of(
                    curves[metric],
                    run,
                    axis=look.axis,
                    since=since,
                    clock=look.clocks.get(run),
                    anew=look.anew.get(run, ()),
                )
                for run, curves in runs.items()
                if metric in curves
            )
            panels.append(_panel(metric, _metric(metric), lines, {}, look))
    shown, more = _sheet(panels, look)
    return ChartSpec(title=title, panels=shown, x_label=x_label, theme=look.theme), more


def _panels_of(curves: Curves, look: Look, run: str, *, since: float, runs: Sequence[Run] = ()) -> list[Panel]:
    """One a metric; its parts (train, valid) share it."""
    clock, anew = look.clocks.get(run), look.anew.get(run, ())
    panels: list[Panel] = []
    for metric, names in _groups(curves).items():
        lines = tuple(
            series_of(curves[name], _part(name), axis=look.axis, since=since, clock=clock, anew=anew)
            for name in sorted(names)
        )
        title = names[0] if metric == LEARNING_RATE and len(names) == 1 else metric
        panels.append(_panel(title, metric, lines, curves, look, runs))
    return panels


def _panel(
    title: str, metric: str, lines: tuple[Series, ...], curves: Curves, look: Look, runs: Sequence[Run] = ()
) -> Panel:
    return Panel(
        title=title.replace("_", " "),
        series=lines,
        baselines=_baselines(curves, metric),
        better=_better(metric, runs),
        marks=() if look.axis == "time" else look.marks,
        log_scale=look.log_scale,
        smooth=look.smooth,
    )


def restarts(attempts: Sequence[Attempt]) -> tuple[Mark, ...]:
    """A mark where each attempt after the first began, but for attempts that no host accepted."""
    began = (attempt for attempt in attempts[1:] if attempt.accepted_at is not None)
    return tuple(Mark(attempt.first_step, f"attempt {attempt.number}") for attempt in began)


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


def is_learning_rate(name: str) -> bool:
    """Whether a metric is a learning rate, of all parameters or of a group: `lr`, `lr/group1`, `learning_rate`."""
    return bool(_RATE.search(name)) and not name.startswith(BASELINE)


def _metric(name: str) -> str:
    """A metric without the part of the data that it was measured on; learning rates are one."""
    return LEARNING_RATE if is_learning_rate(name) else PART.sub("", name)


def _part(name: str) -> str:
    part = PART.match(name)
    return part.group(1) if part else name


def _better(metric: str, runs: Sequence[Run] = ()) -> Direction:
    """As the evaluator of one of the runs said of its decisive metric, else as the name says."""
    scores = (run.outcome.scorecard for run in runs if run.outcome is not None)
    said = next((score for score in scores if score is not None and score.metric == metric), None)
    return better(metric) if said is None else "higher" if said.higher_is_better else "lower"
