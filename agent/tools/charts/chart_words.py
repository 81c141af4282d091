"""A view of a run's curves, of its result or of what it used, in the words of a command. Text in, values out.

Called by `agent.commands`; what the views are and how buttons carry them is in `agent.tools.charts.chart_views`.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id
from agent.domain.results import ResultView
from agent.runs.cards.card_view import MOST, STRONG
from agent.runs.charts.usage import UsageView
from agent.runs.pictures.results import VIEWS
from agent.tools.charts.chart_views import LETTERS, ChartView, switched, view_of
from agent.tools.finding import Before

_SWITCHES = {"logarithmic": "log", "hours": "time", "epochs": "epoch"} | {word: word for word in LETTERS.values()}
RESULT_WORDS: dict[str, ResultView] = {
    **{view: view for view in VIEWS},
    "results": "overview",
    "result": "overview",
    "precision-recall": "pr",
    "mistake": "mistakes",
}
USAGE_WORDS: dict[str, UsageView] = {
    **dict.fromkeys(("usage", "resources", "cpu", "cpus", "processors"), "usage"),
    **dict.fromkeys(("gpu", "gpus"), "gpu"),
    "throughput": "throughput",
}
_USAGE_FILLERS = frozenset({"use", "used", "busy", "memory", "time", "over", "by", "of", "the"})
SMOOTH_WORDS = frozenset({"smooth", "smoothed", "smoothing"})
_RESULT_FILLERS = frozenset({"matrix", "curve", "feature", "features", "of", "the"})
_BEFORE: dict[str, Before] = {"previous": "previous", "yesterday": "yesterday", "yesterday's": "yesterday"}
_TIME = re.compile(r"last=(\d{1,6}(?:\.\d{1,3})?)(m|min|h|d)", re.ASCII)
_MINUTES = {"m": 1, "min": 1, "h": 60, "d": 1440}
_LAST_EPOCHS = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(?:ep|epochs?)", re.ASCII)
_EPOCHS = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)?(?:\.\.|-|–|:)(\d{1,6}(?:\.\d{1,3})?)?", re.ASCII)
_STEPS = re.compile(r"(-?\d+)?(?:\.\.|-|–|:)(-?\d+)?")


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
        "every": view.every or None,
        "others": view.others,
        "before": view.before,
        "result": view.result,
        "used": view.used,
        "minutes": view.minutes,
        "first_epoch": view.epochs[0],
        "last_epoch": view.epochs[1],
        "newest_epochs": view.last_epochs,
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
    if (used := _usage_in(said)) is not None:
        return used, ()
    view, names, against = ChartView(), [], False
    for word in said:
        if is_run_id(word):
            view = replace(view, others=(*view.others, word))
        elif (changed := _changed(view, word, against=against)) is not None:
            view = changed
        elif word in {"vs", "versus", "against", "and", "with"}:
            against = True
        elif word not in {"scale", "by", "over", ""} and not (view.every and word == "metrics"):
            names.append(word)
    if against and not view.others and not view.before and not names:
        raise BadRequest("Say which run to lay over, such as `chart r-abc123 loss vs r-def456`.")
    return view, tuple(names)


def _changed(view: ChartView, word: str, *, against: bool) -> ChartView | None:
    """The view with what one word says of it; None where it says nothing. Raises: BadRequest."""
    key, equals, value = word.partition("=")
    if word in _SWITCHES:
        return switched(view, _SWITCHES[word])
    if against and word in _BEFORE:
        return replace(view, before=_BEFORE[word])
    if key in SMOOTH_WORDS:
        return replace(view, smooth=smoothing_in(word))
    return _part(view, key, value) if key in {"last", "steps", "epochs", "epoch"} and equals else None


def _result_in(said: Sequence[str]) -> ChartView:
    """The picture of a result in words, with the run if one is named. Raises: BadRequest for two, or more than that."""
    runs = [word for word in said if is_run_id(word)]
    asked = {RESULT_WORDS[word] for word in said if word in RESULT_WORDS}
    views = asked - {"overview"} or asked
    more = [word for word in said if word not in RESULT_WORDS and word not in _RESULT_FILLERS and not is_run_id(word)]
    if len(runs) > 1 or len(views) > 1 or more:
        raise BadRequest(f"`{' '.join(said)}` is more than one picture of one result, such as `chart r-abc123 roc`.")
    return ChartView(runs[0] if runs else "", result=views.pop())


def _usage_in(said: Sequence[str]) -> ChartView | None:
    """A chart of what the run used or of how fast it went, in words; None where they name metrics.

    Raises:
        BadRequest: a time that is none.
    """
    view = ChartView()
    asked: list[UsageView] = []
    if USAGE_WORDS.keys().isdisjoint(said):
        return None
    for word in said:
        key, equals, value = word.partition("=")
        if word in USAGE_WORDS:
            asked.append(USAGE_WORDS[word])
        elif key == "last" and equals and not value.isdecimal():
            view = replace(view, minutes=minutes_in(word))
        elif key in SMOOTH_WORDS:
            view = replace(view, smooth=smoothing_in(word))
        elif word not in _USAGE_FILLERS:
            return None  # such as a metric that is called gpu_busy, or a run to lay over
    kinds = set(asked)
    return replace(view, used="throughput" if kinds == {"throughput"} else "gpu" if kinds <= {"gpu"} else asked[0])


def minutes_in(word: str) -> int:
    """The minutes of `last=90m`, `last=2h`, `last=1d`, rounded up. Raises: BadRequest."""
    found = _TIME.fullmatch(word)
    minutes = math.ceil(float(found.group(1)) * _MINUTES[found.group(2)]) if found else 0
    if 0 < minutes < 10**6:
        return minutes
    raise BadRequest(f"`{word}` is no time. Write `last=30m`, `last=2h` or `last=1d`; a bare number counts steps.")


def _part(view: ChartView, key: str, value: str) -> ChartView:
    """A part of a run by steps, epochs or time. Raises: BadRequest."""
    if key == "last" and (epochs := _LAST_EPOCHS.fullmatch(value)) and float(epochs.group(1)) > 0:
        return replace(view, last_epochs=float(epochs.group(1)))
    if key == "last" and value and not value.isdecimal() and value[:1].isdecimal():
        return replace(view, minutes=minutes_in(f"last={value}"))
    if key in {"epochs", "epoch"}:
        return replace(view, epochs=_epochs(key, value))
    found = _STEPS.fullmatch(value)
    if key == "last" and value.isascii() and value.isdecimal() and 0 < int(value) < 10**15:
        return replace(view, last=int(value))
    if key == "steps" and found is not None and any(found.groups()):
        low, high = (int(step) if step else None for step in found.groups())
        if low is None or high is None or low <= high:
            return replace(view, low=low, high=high)
    raise BadRequest(f"`{key}={value}` are no steps. Write `steps=500-1000`, `steps=500-`, `last=500` or `last=2h`.")


def _epochs(key: str, value: str) -> tuple[float | None, float | None]:
    found = _EPOCHS.fullmatch(value)
    low, high = (float(end) if end else None for end in found.group(1, 2)) if found else (None, None)
    if (low, high) == (None, None) or (low is not None and high is not None and low > high):
        raise BadRequest(f"`{key}={value}` are no epochs. Write `epochs=2-4`, `epochs=2-`, or `last=2epochs`.")
    return low, high


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
