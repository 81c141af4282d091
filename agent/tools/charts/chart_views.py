"""A view of a run's curves, of its result or of what it used, and how it travels in a button. Pure.

A button's subject may hold only letters, digits, `.`, `_` and `-` (`agent.domain.content`), so metrics are written by
a short hash of their names.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.domain.content import Button, Menu
from agent.domain.ids import is_run_id
from agent.domain.results import ResultView
from agent.runs.cards.card_view import choices_of, marks_in, smoother
from agent.runs.charts.run_charts import MAX_PANELS
from agent.runs.charts.usage import USAGE_LABELS, USAGE_VIEWS, UsageView
from agent.runs.pictures.results import LABELS, VIEWS
from agent.tools.finding import Before

SUBJECT_CHARS = 90  # with the version, the action and two colons still under 100
MOST_MINUTES = 10**7 - 1
LETTERS = {"l": "log", "t": "time", "e": "epoch", "a": "all"}  # of switches, in a subject
_NUMBERS = {  # in a subject
    "n": ("last", r"\d{1,18}"),
    "p": ("page", r"\d{1,18}"),
    "w": ("smooth", r"[1-9]\d{0,2}"),
    "h": ("minutes", r"[1-9]\d{0,6}"),
}
_SMALLEST = 8  # steps that a zoom shows


@dataclass(frozen=True, slots=True)
class ChartView:
    """What is looked at. `marks` are hashes of metric names, none for all; `low` and `high` are steps, both included.

    `last` is a number of steps before the newest. `others` are runs whose curves are laid over. `page` counts fours of
    panels, or with `every` sheets of many small ones. `smooth` is the weight of a moving average in thousandths, 0 for
    none. `before` says which run is laid over that is not named; no button carries it. With `result` it is a picture of
    the result, and nothing else counts. With `used` it is what the run used or how fast it went, of the newest
    `minutes` or of all; of the rest, `smooth` counts. Of curves, `minutes`, `epochs` (both ends included) and
    `last_epochs` say steps that are not known yet; no button carries them.
    """

    run: str = ""
    marks: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    last: int | None = None
    log: bool = False
    by_time: bool = False
    by_epoch: bool = False
    page: int = 0
    every: bool = False
    others: tuple[str, ...] = ()
    result: ResultView | None = None
    smooth: int = 0
    before: Before | None = None
    used: UsageView | None = None
    minutes: int | None = None
    epochs: tuple[float | None, float | None] = (None, None)
    last_epochs: float | None = None

    def subject(self) -> str:
        """The view as a button carries it."""
        low, high = ("" if step is None else str(step) for step in (self.low, self.high))
        parts = [
            self.run,
            f"s{low}_{high}" if low or high else "",
            f"n{self.last}" if self.last else "",
            "l" if self.log else "",
            "t" if self.by_time else "",
            "e" if self.by_epoch else "",
            "a" if self.every else "",
            f"w{self.smooth}" if self.smooth else "",
            f"p{self.page}" if self.page else "",
            "m" + "".join(self.marks) if self.marks else "",
            "v" + "".join(run.removeprefix("r-") for run in self.others) if self.others else "",
            f"r{self.result}" if self.result else "",
            f"u{self.used}" if self.used else "",
            f"h{self.minutes}" if self.minutes else "",
        ]
        return ".".join(part for part in parts if part)

    def button(self, label: str) -> Button:
        """A button that leads to this view."""
        return Button(action="chart", subject=self.subject(), label=label)


def view_of(subject: str) -> ChartView | None:
    """The view that a button carried; None where it is no such subject (a bare run id is the whole run)."""
    run, *parts = subject.split(".")
    if not is_run_id(run):
        return None
    view: ChartView | None = ChartView(run)
    for part in parts:
        view = _changed(view, part) if view else None
    return view


def _changed(view: ChartView, part: str) -> ChartView | None:
    """The view with one part of a subject; None where that is none."""
    kind, value = part[:1], part[1:]
    if part in LETTERS:
        return switched(view, LETTERS[part])
    if kind == "s" and (found := re.fullmatch(r"(-?\d{0,18})_(-?\d{0,18})", value)):
        low, high = (int(step) if step not in {"", "-"} else None for step in found.groups())
        return replace(view, low=low, high=high)
    if kind in _NUMBERS:
        name, form = _NUMBERS[kind]
        changed: dict[str, Any] = {name: int(value)}
        return replace(view, **changed) if re.fullmatch(form, value, re.ASCII) else None
    if kind == "m" and (marks := marks_in(value)) is not None:
        return replace(view, marks=marks)
    runs = tuple(f"r-{value[at : at + 6]}" for at in range(0, len(value), 6))
    if kind == "v" and all(map(is_run_id, runs)):
        return replace(view, others=runs)
    if kind == "r" and (result := next((one for one in VIEWS if one == value), None)):
        return replace(view, result=result)
    used = next((one for one in USAGE_VIEWS if one == value), None) if kind == "u" else None
    return replace(view, used=used) if used else None


def switched(view: ChartView, what: str) -> ChartView:
    """With a logarithmic scale, all metrics, or another axis; where both are wanted, epochs."""
    if what in {"log", "all"}:
        return replace(view, log=True) if what == "log" else replace(view, every=True)
    return replace(view, by_time=True) if what == "time" else replace(view, by_epoch=True)


def buttons(
    view: ChartView, *, first: int, last: int, more: bool, measured: bool = False, used: UsageView | None = None
) -> tuple[Button, ...]:
    """The buttons below a view of curves; `first` and `last` are the steps that it shows.

    `more` says that panels follow, `measured` that there are pictures of the result; `used` is a chart by time.
    """
    half = (last - first) // 2
    whole = view.low is None and view.high is None and view.last is None
    still = replace(view, last=None)
    wanted: list[tuple[str, ChartView]] = []
    if half >= _SMALLEST:
        wanted.append(("Zoom in", replace(still, low=last - half, high=None if view.high is None else last)))
    if not whole:
        wider = max(half, _SMALLEST)
        wanted.append(("Zoom out", replace(still, low=first - wider, high=None if view.high is None else last + wider)))
        wanted.append(("Earlier", replace(still, low=first - half, high=max(first - half, last - half))))
        if view.high is not None:
            wanted.append(("Later", replace(still, low=min(first + half, last), high=last + half)))
        wanted.append(("Whole run", replace(still, low=None, high=None)))
    wanted.append(("Linear scale" if view.log else "Log scale", replace(view, log=not view.log)))
    label, smooth = smoother(view.smooth)
    wanted.append((label, replace(view, smooth=smooth)))
    if view.page or more:
        wanted.append(("More metrics" if more else "First metrics", replace(view, page=view.page + 1 if more else 0)))
    if more and not view.every and not view.page:
        wanted.append(("All metrics", replace(view, every=True)))
    if used:
        wanted.append((USAGE_LABELS[used], ChartView(view.run, used=used)))
    shown = [at.button(label) for label, at in wanted]
    if measured:
        shown.append(Button(action="results", subject=view.run, label=LABELS["overview"]))
    return tuple(button for button in shown if len(button.subject) <= SUBJECT_CHARS)


def selector(view: ChartView, names: Sequence[str]) -> tuple[Menu, ...]:
    """A menu of the run's metrics, for a view of the same steps; empty where there is nothing to choose."""
    bare = replace(view, marks=(), page=0, every=False)
    subject = f"{bare.subject()}.m"
    if len(names) < 2 or len(subject) + 4 * MAX_PANELS > SUBJECT_CHARS:
        return ()
    choices = choices_of(names, view.marks)
    return (Menu(action="chart", subject=subject, label="Metrics", choices=choices, most=MAX_PANELS),)


def usage_buttons(view: ChartView, *, gpus: bool = True) -> tuple[Button, ...]:
    """The buttons from a chart of usage or throughput to the others and the curves; `gpus` says if it has GPUs."""
    label, smooth = smoother(view.smooth)
    times = [("Last hour", 60), ("Last 10 minutes", 10), ("Whole run", None)]
    wanted = [(said, replace(view, minutes=minutes)) for said, minutes in times if minutes != view.minutes]
    wanted += [
        (said, replace(view, used=used))
        for used, said in USAGE_LABELS.items()
        if used != view.used and (gpus or used != "gpu")
    ]
    wanted += [(label, replace(view, smooth=smooth)), ("Curves", ChartView(view.run))]
    return tuple(at.button(said) for said, at in wanted)
