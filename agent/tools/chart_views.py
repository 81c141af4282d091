"""A view of a run's curves or of its result, and how it travels in a button or in words. Pure.

A button's subject may hold only letters, digits, `.`, `_` and `-` (`agent.domain.content`), so metrics are written by
a short hash of their names.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.domain.content import Button
from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id
from agent.runs.card_view import MOST, STRONG, smoother
from agent.runs.results import LABELS, VIEWS, ResultView
from agent.tools.finding import Before

SUBJECT_CHARS = 90  # with the version, the action and two colons still under 100
_LETTERS = {"l": "log", "t": "time", "e": "epoch"}  # of switches, in a subject
_SWITCHES = {"logarithmic": "log", "hours": "time", "epochs": "epoch"} | {word: word for word in _LETTERS.values()}
_SMALLEST = 8  # steps that a zoom shows
RESULT_WORDS: dict[str, ResultView] = {
    **{view: view for view in VIEWS},
    "results": "overview",
    "result": "overview",
    "precision-recall": "pr",
    "mistake": "mistakes",
}
SMOOTH_WORDS = frozenset({"smooth", "smoothed", "smoothing"})
_RESULT_FILLERS = frozenset({"matrix", "curve", "feature", "features", "of", "the"})
_BEFORE: dict[str, Before] = {"previous": "previous", "yesterday": "yesterday", "yesterday's": "yesterday"}
_STEPS = re.compile(r"(-?\d+)?(?:\.\.|-|–|:)(-?\d+)?")


@dataclass(frozen=True, slots=True)
class ChartView:
    """What is looked at. `marks` are hashes of metric names, none for all; `low` and `high` are steps, both included.

    `last` is a number of steps before the newest. `others` are runs whose curves are laid over. `page` counts fours of
    panels. `smooth` is the weight of a moving average in thousandths, 0 for none. `before` says which run is laid over
    that is not named; no button carries it. With `result` it is a picture of the result, and nothing else counts.
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
    others: tuple[str, ...] = ()
    result: ResultView | None = None
    smooth: int = 0
    before: Before | None = None

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
            f"w{self.smooth}" if self.smooth else "",
            f"p{self.page}" if self.page else "",
            "m" + "".join(self.marks) if self.marks else "",
            "v" + "".join(run.removeprefix("r-") for run in self.others) if self.others else "",
            f"r{self.result}" if self.result else "",
        ]
        return ".".join(part for part in parts if part)

    def button(self, label: str) -> Button:
        """A button that leads to this view."""
        return Button(action="chart", subject=self.subject(), label=label)


def mark(name: str) -> str:
    """Four letters that stand for the name of a metric."""
    return f"{zlib.crc32(name.encode()) & 0xFFFF:04x}"


def view_of(subject: str) -> ChartView | None:
    """The view that a button carried; None where it is no such subject (a bare run id is the whole run)."""
    run, *parts = subject.split(".")
    if not is_run_id(run):
        return None
    view = ChartView(run)
    for part in parts:
        kind, value = part[:1], part[1:]
        if kind == "s" and (found := re.fullmatch(r"(-?\d{0,18})_(-?\d{0,18})", value)):
            low, high = (int(step) if step not in {"", "-"} else None for step in found.groups())
            view = replace(view, low=low, high=high)
        elif kind in "np" and value.isascii() and value.isdecimal() and len(value) < 19:
            view = replace(view, last=int(value)) if kind == "n" else replace(view, page=int(value))
        elif kind == "w" and re.fullmatch(r"[1-9]\d{0,2}", value, re.ASCII):
            view = replace(view, smooth=int(value))
        elif part in _LETTERS:
            view = _switched(view, _LETTERS[part])
        elif kind == "m" and re.fullmatch(r"(?:[0-9a-f]{4})+", value):
            view = replace(view, marks=_cut(value, 4))
        elif kind == "v" and all(is_run_id(f"r-{one}") for one in _cut(value, 6)):
            view = replace(view, others=tuple(f"r-{one}" for one in _cut(value, 6)))
        elif kind == "r" and (result := next((one for one in VIEWS if one == value), None)):
            view = replace(view, result=result)
        else:
            return None
    return view


def arguments_of(words: Sequence[str]) -> dict[str, Any]:
    """The arguments of `run_chart` from the words of a command; a button's subject may stand for all of them.

    Raises:
        BadRequest: steps that are none, or a comparison with nothing.
    """
    known = view_of(words[0].lower()) if words else None
    if known is None and words and words[0].lower().startswith("r-"):
        raise BadRequest(f"`{words[0]}` is not a run id; one looks like `r-abc123`.")
    view, names = view_in(words[1:] if known else words)
    if known and len(words) == 1:
        view = known
    if known and view.run not in {"", known.run}:
        raise BadRequest(f"`{known.run}` and `{view.run}`: the picture of a result is of one run.")
    found = {
        "run": known.run if known else view.run or None,
        "metrics": names,
        "marks": view.marks,
        "first_step": view.low,
        "last_step": view.high,
        "newest": view.last,
        "log_scale": view.log or None,
        "by_time": view.by_time or None,
        "by_epoch": view.by_epoch or None,
        "smooth": view.smooth / 1000 or None,
        "page": view.page or None,
        "others": view.others,
        "before": view.before,
        "result": view.result,
    }
    return {key: value for key, value in found.items() if value not in (None, ())}


def view_in(words: Sequence[str]) -> tuple[ChartView, tuple[str, ...]]:
    """The view in the words of a command, after its run id, and the words that name metrics.

    Raises:
        BadRequest: steps that are none.
    """
    said = [word.strip(",").lower() for word in words]
    if not RESULT_WORDS.keys().isdisjoint(said):
        return _result_in(said), ()
    view, names, against = ChartView(), [], False
    for word in said:
        if is_run_id(word):
            view = replace(view, others=(*view.others, word))
        elif (changed := _changed(view, word, against=against)) is not None:
            view = changed
        elif word in {"vs", "versus", "against", "and", "with"}:
            against = True
        elif word not in {"all", "scale", "by", "over", ""}:
            names.append(word)
    if against and not view.others and not view.before and not names:
        raise BadRequest("Say which run to lay over, such as `chart r-abc123 loss vs r-def456`.")
    return view, tuple(names)


def _changed(view: ChartView, word: str, *, against: bool) -> ChartView | None:
    """The view with what one word says of it; None where it says nothing. Raises: BadRequest."""
    key, equals, value = word.partition("=")
    if word in _SWITCHES:
        return _switched(view, _SWITCHES[word])
    if against and word in _BEFORE:
        return replace(view, before=_BEFORE[word])
    if key in SMOOTH_WORDS:
        return replace(view, smooth=smoothing_in(word))
    return _steps(view, key, value) if key in {"last", "steps"} and equals else None


def _result_in(said: Sequence[str]) -> ChartView:
    """The picture of a result in words, with the run if one is named. Raises: BadRequest for two, or more than that."""
    runs = [word for word in said if is_run_id(word)]
    asked = {RESULT_WORDS[word] for word in said if word in RESULT_WORDS}
    views = asked - {"overview"} or asked
    more = [word for word in said if word not in RESULT_WORDS and word not in _RESULT_FILLERS and not is_run_id(word)]
    if len(runs) > 1 or len(views) > 1 or more:
        raise BadRequest(f"`{' '.join(said)}` is more than one picture of one result, such as `chart r-abc123 roc`.")
    return ChartView(runs[0] if runs else "", result=views.pop())


def _switched(view: ChartView, what: str) -> ChartView:
    """With a logarithmic scale, or another axis; where both are wanted, epochs."""
    if what == "log":
        return replace(view, log=True)
    return replace(view, by_time=True) if what == "time" else replace(view, by_epoch=True)


def _steps(view: ChartView, key: str, value: str) -> ChartView:
    found = _STEPS.fullmatch(value)
    if key == "last" and value.isascii() and value.isdecimal() and 0 < int(value) < 10**15:
        return replace(view, last=int(value))
    if key == "steps" and found is not None and any(found.groups()):
        low, high = (int(step) if step else None for step in found.groups())
        if low is None or high is None or low <= high:
            return replace(view, low=low, high=high)
    raise BadRequest(f"`{key}={value}` are no steps. Write `steps=500-1000`, `steps=500-`, or `last=500`.")


def smoothing_in(word: str) -> int:
    """The weight in thousandths of `smooth=0.6`, the stronger one of `smooth`; 0 for none. Raises: BadRequest."""
    _, equals, value = word.partition("=")
    if not equals:
        return STRONG
    if re.fullmatch(r"\d?(?:[.]\d{0,9})?", value, re.ASCII) and value.strip("."):
        asked = round(float(value) * 1000)
        if asked <= MOST:
            return asked
    raise BadRequest(f"`{word}` is no smoothing. Write `smooth=0.9`: 0 is none, {MOST / 1000} the strongest.")


def _cut(text: str, size: int) -> tuple[str, ...]:
    return tuple(text[at : at + size] for at in range(0, len(text), size))


def buttons(view: ChartView, *, first: int, last: int, more: bool, measured: bool = False) -> tuple[Button, ...]:
    """Where one can go from a view of curves; `first` and `last` are the steps that it shows.

    `more` says that panels follow, `measured` that there are pictures of the result.
    """
    half = (last - first) // 2
    whole = view.low is None and view.high is None and view.last is None
    still = replace(view, last=None)
    wanted: list[tuple[str, ChartView]] = []
    if half >= _SMALLEST:
        wanted.append(("Zoom in", replace(still, low=last - half, high=None if view.high is None else last)))
    if not whole:
        wanted.append(("Earlier", replace(still, low=first - half, high=max(first - half, last - half))))
        wanted.append(("Whole run", replace(still, low=None, high=None)))
    wanted.append(("Linear scale" if view.log else "Log scale", replace(view, log=not view.log)))
    label, smooth = smoother(view.smooth)
    wanted.append((label, replace(view, smooth=smooth)))
    if view.page or more:
        wanted.append(("More metrics" if more else "First metrics", replace(view, page=view.page + 1 if more else 0)))
    if measured:
        wanted.append((LABELS["overview"], ChartView(view.run, result="overview")))
    shown = [at.button(label) for label, at in wanted]
    return tuple(button for button in shown if len(button.subject) <= SUBJECT_CHARS)
