"""The tool that sets how the live card of a run draws its curves: for everybody, and until somebody sets it again.

Also how that is said in the words of a command. Knows the view, not how it is drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field

from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id
from agent.domain.policy import Effect
from agent.domain.runs import Run
from agent.ports import Clock
from agent.runs.cards.card_view import MARK, MOST, MOST_CHOSEN, CardView, card_view_of, chooser, mark
from agent.runs.charts.run_charts import BASELINE, drawn, panel_names, panel_of
from agent.stores import Runs
from agent.tools.charts.chart_words import SMOOTH_WORDS, smoothing_in
from agent.tools.finding import Before, named, named_or_newest, one_before
from agent.tools.runs.watching import RunArguments
from agent.tools.tool import BUTTONS_ONLY, Caller, Result, Tool


class CardArguments(RunArguments):
    """What its card shows; everything that is unsaid stays as it is, and with nothing said people are asked."""

    log_scale: bool | None = Field(None, description="Logarithmic y axis.")
    smooth: float | None = Field(
        None, ge=0, le=MOST / 1000, description="Weight of a moving average, such as 0.9; 0 for none."
    )
    newest: bool | None = Field(None, description="Only the newest quarter of its steps.")
    metrics: tuple[str, ...] | None = Field(
        None, max_length=16, description="Only these: names or parts of names, which fit up to four metrics."
    )
    change: Literal["add", "remove"] | None = Field(
        None, description="Add the metrics to those shown or take them away, instead of showing only them."
    )
    marks: tuple[Annotated[str, Field(pattern=MARK)], ...] | None = Field(
        None,  # hashes of metric names; none for the first metrics
        max_length=MOST_CHOSEN,
        json_schema_extra={BUTTONS_ONLY: True},
    )
    every: bool | None = Field(None, description="All metrics as small multiples; false for the first ones.")
    beside: str | None = Field(None, description="A run whose curves are laid over; empty for none.")
    before: Before | None = Field(None, description="Lay over it: the thread's newest other run, or yesterday's.")


class CardViews:
    """The tool of this family."""

    def __init__(self, runs: Runs, clock: Clock, changed: Callable[[str], None]) -> None:
        """`clock` knows what was yesterday; `changed` has the card of a run drawn again."""
        self._runs = runs
        self._clock = clock
        self._changed = changed

    def tools(self) -> Sequence[Tool]:
        """Its declaration."""
        said = (
            "How a run's own live card draws its curves, for all: which metrics, log scale, smoothed, only the newest "
            "quarter, beside another run. With the run alone, people are shown a menu of its metrics."
        )
        return (Tool("set_card", said, CardArguments, Effect.WRITE, run=self.show, harmless=True),)

    async def show(self, caller: Caller, asked: CardArguments) -> Result:
        """Keep the view and have the card drawn again; where nothing is said, ask which metrics."""
        run = await named_or_newest(self._runs, caller, asked.run)
        now = card_view_of(await self._runs.card_view(run.id)) or CardView()
        names = await self._runs.metric_names(run.id)
        panels = panel_names(names)
        if not asked.model_dump(exclude={"run"}, exclude_none=True):
            if not panels:
                return Result(f"Run `{run.id}` has logged no metrics yet, so its card has no curves.", {"run": run.id})
            there = ", ".join(f"`{name}`" for name in panels)
            return Result(f"Run `{run.id}` has {there}.", {"run": run.id}, chooser(run.id, now, panels))
        view = CardView(
            now.log if asked.log_scale is None else asked.log_scale,
            now.smooth if asked.smooth is None else round(asked.smooth * 1000),
            now.newest if asked.newest is None else asked.newest,
            now.marks,
            now.every,
            await self._beside(caller, run, asked, now),
        )
        if asked.every is not None:
            view = replace(view, every=asked.every, marks=())
        unknown: Sequence[str] = ()
        if asked.marks is not None:
            view = replace(view, every=False, marks=asked.marks)
        elif asked.metrics:
            named, unknown = _chosen(run, panels, asked.metrics)
            shown = _changed(run, now.shown(panels), named, asked.change) if asked.change else named
            view = replace(view, every=False, marks=tuple(dict.fromkeys(map(mark, shown))))
        await self._runs.set_card_view(run.id, view.text())
        self._changed(run.id)
        said = [f"The card of `{run.id}` now shows {view.words(panels)}."]
        said += [f"No metric of it is called {', '.join(f'`{word}`' for word in unknown)}."] if unknown else []
        if view.other and panels and not await self._shared(view, names):
            said += [f"`{view.other}` has logged none of these, so there is nothing of it to lay over yet."]
        return Result(" ".join(said), {"run": run.id})

    async def _shared(self, view: CardView, names: Sequence[str]) -> bool:
        """Whether the run that is laid over has one of the metrics that the card draws of `names`."""
        wanted = {name for name in drawn(names, view.shown(panel_names(names))) if not name.startswith(BASELINE)}
        return not wanted.isdisjoint(await self._runs.metric_names(view.other))

    async def _beside(self, caller: Caller, run: Run, asked: CardArguments, now: CardView) -> str:
        """The run to lay over. Raises: BadRequest, NotFound."""
        if asked.before is not None:
            return (await one_before(self._runs, caller, run, asked.before, now=self._clock.now())).id
        if asked.beside is None:
            return now.other
        if asked.beside == run.id:
            raise BadRequest(f"`{run.id}` cannot be held against itself; name another run.")
        return (await named(self._runs, caller, asked.beside)).id if asked.beside else ""


def _changed(run: Run, shown: Sequence[str], named: Sequence[str], change: Literal["add", "remove"]) -> Sequence[str]:
    """What a card shows with these metrics beside those it has, or without them. Raises: BadRequest."""
    there = ", ".join(f"`{name}`" for name in shown)
    if change == "add":
        wanted = [*shown, *(name for name in named if name not in shown)]
    else:
        wanted = [name for name in shown if name not in named]
    if wanted == list(shown):
        does = "shows that already" if change == "add" else "does not show that"
        raise BadRequest(f"The card of `{run.id}` {does}. It shows {there}.")
    if not wanted:
        raise BadRequest(f"The card of `{run.id}` shows nothing else. Say what it is to draw: `card {run.id} loss`.")
    if len(wanted) > MOST_CHOSEN:
        raise BadRequest(
            f"The card of `{run.id}` draws {MOST_CHOSEN} chosen metrics at most, and shows {there}. Say all that it is "
            f"to draw, such as `card {run.id} {' '.join(dict.fromkeys([shown[0], *named]))}`."
        )
    return wanted


def _chosen(run: Run, panels: Sequence[str], asked: Sequence[str]) -> tuple[list[str], list[str]]:
    """The metrics that are meant, and the words that mean none. Raises: BadRequest."""
    called: dict[str, list[str]] = {}
    for name in panels:
        called.setdefault(_plain(name), []).append(name)
    words, unknown, meant = [_plain(word) for word in asked], [], set[str]()
    at = 0
    while at < len(words):  # a name may be of several words, such as `my metric`
        spans = {end: "_".join(words[at:end]) for end in range(len(words), at, -1)}
        exact = {  # `valid loss` is in the panel of `loss`, but `lr norm` is not in that of `lr`
            end: called.get(text)
            or (called.get(_plain(panel_of(text))) if panel_of(text) == panel_of(words[end - 1]) else None)
            for end, text in spans.items()
        }
        end = next((end for end, names in exact.items() if names), at + 1)
        found = exact[end] or [name for name in panels if words[at] in _plain(name)]
        meant.update(found)
        unknown += [] if found else [asked[at]]
        at = end
    found = [name for name in panels if name in meant]
    shown = ", ".join(f"`{name}`" for name in panels[:12]) or "none yet"
    if not found:
        raise BadRequest(f"No metric of `{run.id}` is called {', '.join(asked)}. It has {shown}.")
    if len(found) > MOST_CHOSEN:
        raise BadRequest(f"{len(found)} metrics of `{run.id}` fit; its card draws {MOST_CHOSEN}. It has {shown}.")
    return found, unknown


def _plain(name: str) -> str:
    return name.lower().replace(" ", "_")


_WORDS = {
    **dict.fromkeys(("log", "logarithmic"), "l1"), "linear": "l0", "raw": "w0",
    **dict.fromkeys(("zoom", "newest"), "q1"), "whole": "q0",
    "all": "a1", **dict.fromkeys(("first", "default"), "a0"), "alone": "c",
}  # fmt: skip
_AGAINST = frozenset({"vs", "versus", "against", "beside", "compare", "compared", "with", "to"})
_BEFORE: dict[str, Before] = {"previous": "previous", "yesterday": "yesterday"}
_CHANGES = {"add": "add", "also": "add", "plus": "add", "remove": "remove", "hide": "remove", "without": "remove"}
_FILLERS = frozenset({"", "and", "metrics", "scale", "only", "please", "the"})
CARD_WORDS = frozenset(_WORDS) | _AGAINST | _BEFORE.keys() | SMOOTH_WORDS | _FILLERS | _CHANGES.keys()


def card_arguments(words: Sequence[str]) -> dict[str, Any]:
    """The arguments of `set_card` from the words of a command; a button's subject may stand for all of them.

    Raises:
        BadRequest: a subject that is none, or nothing at all.
    """
    said = [word.strip(",").lower() for word in words]
    run, dot, text = said[0].partition(".") if said else ("", "", "")
    if run.startswith("r-") and not is_run_id(run):
        raise BadRequest(_refusal(words, f"`{run}` is not a run id."))
    run = run if is_run_id(run) else ""
    found: dict[str, Any] = {"run": run} if run else {}
    if run and dot:
        view = card_view_of(text) if len(said) == 1 and text else None
        return found | _of_view(view, text.split("."), words)
    rest = said[1:] if run else said
    parts = [f"w{smoothing_in(word)}" for word in rest if word.partition("=")[0] in SMOOTH_WORDS]
    parts += [_WORDS[word] for word in rest if word in _WORDS]
    found |= _of_view(card_view_of(".".join(parts)), parts, words) if parts else {}
    against = not _AGAINST.isdisjoint(rest)
    before = _BEFORE if against else {}
    said_of = [("beside", word) for word in rest if is_run_id(word)]
    said_of += [("before", before[word]) for word in rest if word in before]
    found |= dict([*said_of, *(("change", _CHANGES[word]) for word in rest if word in _CHANGES)])
    names = [word for word in rest if not (is_run_id(word) or word in before or _is_no_name(word))]
    if against and not found.keys() & {"beside", "before"}:
        found["before"] = "previous"
    if bad := [word for word in names if "=" in word]:
        raise BadRequest(_refusal(words, f"`{bad[0]}` says nothing about a card."))
    if "change" in found and not names:
        raise BadRequest(_refusal(words, f"`{' '.join(['card', *words])}` names no metric."))
    return found | ({"metrics": tuple(names)} if names else {})


def _is_no_name(word: str) -> bool:
    return word in CARD_WORDS - _BEFORE.keys() or word.partition("=")[0] in SMOOTH_WORDS


def _of_view(view: CardView | None, parts: Sequence[str], words: Sequence[str]) -> dict[str, Any]:
    """The arguments that these parts say of a view. Raises: BadRequest."""
    if view is None:
        raise BadRequest(_refusal(words, f"`{' '.join(['card', *words])}` says nothing about a card."))
    found: dict[str, tuple[str, Any]] = {
        "l": ("log_scale", view.log),
        "w": ("smooth", view.smooth / 1000),
        "q": ("newest", view.newest),
        "m": ("marks", view.marks),
        "a": ("every", view.every),
        "c": ("beside", view.other),
    }
    return dict(found[part[0]] for part in parts)


def _refusal(words: Sequence[str], why: str) -> str:
    run = next((word for word in words if is_run_id(word)), "r-abc123")
    return (
        f"{why} Write `card {run} loss accuracy log smooth=0.9 zoom vs r-def456`, or fewer of these; `all`, `linear`, "
        "`raw`, `whole`, `first` and `alone` take them back, `add f1` and `hide f1` change what it "
        "shows, and `card` with the run alone asks you."
    )
