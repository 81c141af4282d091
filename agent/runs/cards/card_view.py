"""How the card of a run draws its curves: a view that people choose and the store keeps with the run. Pure.

Knows how it travels in a button and in the store; what is drawn is decided in `agent.runs.cards.live`. A button
carries one change, so clicks on an old card add up. The menu of metrics is a message of its own, because an edit of the
live card would close it while somebody chooses. Called by the live cards, the tool `set_card` and the commands.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.domain.content import Button, Card, Choice, Menu
from agent.domain.ids import is_run_id
from agent.run_store import ALL_STEPS, Steps
from agent.runs.charts.run_charts import MAX_PANELS, MOST_PANELS

GENTLE, STRONG = 600, 900  # thousandths that buttons smooth by, one after the other
MOST = 999
MARK = r"^[0-9a-f]{4}$"
MOST_CHOSEN = 4  # panels of a card
_LISTED = 25  # choices of a menu that every platform has room for
_PART = 4  # one of so many parts of a run is its newest


@dataclass(frozen=True, slots=True)
class CardView:
    """`smooth` is the weight of a moving average in thousandths, 0 for none; `newest` is the last quarter of steps.

    `marks` stand for the metrics that were chosen, none for the first four; `every` is all of them in small panels.
    `other` is the run whose curves are laid over, empty for none.
    """

    log: bool = False
    smooth: int = 0
    newest: bool = False
    marks: tuple[str, ...] = ()
    every: bool = False
    other: str = ""

    def text(self) -> str:
        """As the store keeps it; empty for the plain view."""
        parts = (
            "l1" if self.log else "",
            f"w{self.smooth}" if self.smooth else "",
            "q1" if self.newest else "",
            "m" + "".join(self.marks) if self.marks else "",
            "a1" if self.every else "",
            f"c{self.other.removeprefix('r-')}" if self.other else "",
        )
        return ".".join(part for part in parts if part)

    def steps(self, step: int) -> Steps:
        """What is shown of a run that has come to `step`."""
        return (step - step // _PART, ALL_STEPS[1]) if self.newest else ALL_STEPS

    def chosen(self, panels: Sequence[str]) -> list[str]:
        """Those of a run's metrics that `marks` stand for; two may share a mark, but no more are drawn than fit."""
        return [name for name in panels if mark(name) in self.marks][:MOST_CHOSEN]

    def shown(self, panels: Sequence[str]) -> Sequence[str]:
        """Those of a run's metrics that its card draws."""
        return self.chosen(panels) or panels[: MOST_PANELS if self.every else MAX_PANELS]

    def words(self, panels: Sequence[str] = ()) -> str:
        """What the curves are, after "shows"; `panels` are the metrics that one can choose from."""
        parts = ["the newest quarter of its steps" if self.newest else "the whole run"]
        chosen = self.chosen(panels)
        parts += [f"of {', '.join(f'`{name}`' for name in chosen)}"] if chosen else []
        every = f"the first {MOST_PANELS} of its {len(panels)}" if len(panels) > MOST_PANELS else "all"
        parts += [f"of {every} metrics"] if self.every else []
        parts += ["on a log scale"] if self.log else []
        parts += [f"smoothed by {self.smooth / 1000:.3g}"] if self.smooth else []
        parts += [f"beside `{self.other}`"] if self.other else []
        return ", ".join(parts)


_PLAIN = CardView()


def mark(name: str) -> str:
    """Four letters that stand for a metric: its name may have characters that a button cannot carry."""
    return f"{zlib.crc32(name.encode()) & 0xFFFF:04x}"


def marks_in(text: str) -> tuple[str, ...] | None:
    """The marks in a text that is a row of marks; None for any other text."""
    if not re.fullmatch(r"(?:[0-9a-f]{4})*", text):
        return None
    return tuple(text[at : at + 4] for at in range(0, len(text), 4))


def card_view_of(text: str, now: CardView = _PLAIN) -> CardView | None:
    """The view `now` with the changes in a text; None where it is none.

    A button carries one change, so two buttons pressed before the card is redrawn both take effect.
    """
    view: CardView | None = now
    for part in text.split(".") if text else ():
        view = _changed(view, part) if view else None
    return view


def _changed(view: CardView, part: str) -> CardView | None:
    kind, value = part[:1], part[1:]
    if part in {"l0", "l1"}:
        return replace(view, log=part == "l1")
    if part in {"q0", "q1"}:
        return replace(view, newest=part == "q1")
    if part in {"a0", "a1"}:
        return replace(view, every=part == "a1", marks=())
    if re.fullmatch(r"w(?:0|[1-9]\d{0,2})", part, re.ASCII):
        return replace(view, smooth=int(value))
    if kind == "m" and (marks := marks_in(value)) is not None and len(marks) <= MOST_CHOSEN:
        return replace(view, marks=marks, every=False)
    if part == "c":
        return replace(view, other="")
    return replace(view, other=f"r-{value}") if kind == "c" and is_run_id(f"r-{value}") else None


def smoother(smooth: int) -> tuple[str, int]:
    """The label of the button that leads on from a smoothing, and where it leads: off, gentle, strong, off."""
    if smooth >= STRONG:
        return "Not smoothed", 0
    return ("Smooth", GENTLE) if smooth < GENTLE else ("Smoother", STRONG)


def view_buttons(run: str, view: CardView, *, panels: Sequence[str] = (), beside: str = "") -> Sequence[Button]:
    """The buttons from the present view of a run's card to others.

    `panels` are the metrics that one can choose from, `beside` is the run that can be laid over, empty for none.
    """
    label, smooth = smoother(view.smooth)
    ways = [
        ("Linear scale", ".l0") if view.log else ("Log scale", ".l1"),
        (label, f".w{smooth}"),
        ("Whole run", ".q0") if view.newest else ("Zoom", ".q1"),
    ]
    ways += [("Select", "")] if len(panels) > 1 else []
    if view.other:
        ways.append(("Alone", ".c"))
    elif beside:
        ways.append(("Compare", f".c{beside.removeprefix('r-')}"))
    return [Button(action="card", subject=f"{run}{way}", label=label) for label, way in ways]


def choices_of(names: Sequence[str], marks: Sequence[str]) -> tuple[Choice, ...]:
    """The lines of a menu of metrics; the few that share their mark come together."""
    named: dict[str, list[str]] = {}
    for name in names:
        named.setdefault(mark(name), []).append(name)
    return tuple(Choice(value=one, label=", ".join(of), chosen=one in marks) for one, of in named.items())


def chooser(run: str, view: CardView, panels: Sequence[str]) -> Card:
    """Where people choose what a run's card draws."""
    choices = choices_of(panels, view.marks)
    ways = [] if view.every or len(panels) <= MOST_CHOSEN else [("All metrics", "a1")]
    ways += [("First metrics", "a0")] if view.every or view.marks else []
    more = f" Type the name of one that the menu does not list: `card {run} NAME`."
    return Card(
        kind="notice",
        title=f"What the card of {run} draws",
        body=f"Choose up to {MOST_CHOSEN} of its {len(panels)} metrics. The card changes for everybody."
        + (more if len(choices) > _LISTED else ""),
        menus=(Menu(action="card", subject=f"{run}.m", label="Metrics", choices=choices, most=MOST_CHOSEN),),
        buttons=tuple(Button(action="card", subject=f"{run}.{way}", label=label) for label, way in ways),
    )
