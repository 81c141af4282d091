"""How the card of a run draws its curves: a view that people choose and the store keeps with the run. Pure.

Knows how it travels in a button and in the store; what is drawn is decided in `agent.runs.live`. Called by the live
cards, the tool `set_card` and the commands.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.domain.content import Button
from agent.run_store import ALL_STEPS, Steps

GENTLE, STRONG = 600, 900  # thousandths that buttons smooth by, one after the other
MOST = 999
_PART = 4  # one of so many parts of a run is its newest


@dataclass(frozen=True, slots=True)
class CardView:
    """`smooth` is the weight of a moving average in thousandths, 0 for none; `newest` is the last quarter of steps."""

    log: bool = False
    smooth: int = 0
    newest: bool = False

    def text(self) -> str:
        """As the store keeps it; empty for the plain view."""
        parts = ("l1" if self.log else "", f"w{self.smooth}" if self.smooth else "", "q1" if self.newest else "")
        return ".".join(part for part in parts if part)

    def steps(self, step: int) -> Steps:
        """What is shown of a run that has come to `step`."""
        return (step - step // _PART, ALL_STEPS[1]) if self.newest else ALL_STEPS

    def words(self) -> str:
        """What the curves are, after "shows"."""
        parts = ["the newest quarter of its steps" if self.newest else "the whole run"]
        parts += ["on a log scale"] if self.log else []
        parts += [f"smoothed by {self.smooth / 1000:.3g}"] if self.smooth else []
        return ", ".join(parts)


_PLAIN = CardView()


def card_view_of(text: str, now: CardView = _PLAIN) -> CardView | None:
    """The view `now` with the changes in a text; None where it is none.

    A button carries one change alone, so that two that are pressed before the card was drawn again do both.
    """
    view = now
    for part in text.split(".") if text else ():
        if part in {"l0", "l1"}:
            view = replace(view, log=part == "l1")
        elif part in {"q0", "q1"}:
            view = replace(view, newest=part == "q1")
        elif re.fullmatch(r"w(?:0|[1-9]\d{0,2})", part, re.ASCII):
            view = replace(view, smooth=int(part[1:]))
        else:
            return None
    return view


def smoother(smooth: int) -> tuple[str, int]:
    """The label of the button that leads on from a smoothing, and where it leads: off, gentle, strong, off."""
    if smooth >= STRONG:
        return "Not smoothed", 0
    return ("Smooth", GENTLE) if smooth < GENTLE else ("Smoother", STRONG)


def view_buttons(run: str, view: CardView) -> Sequence[Button]:
    """From the present view of a run's card to its neighbours."""
    label, smooth = smoother(view.smooth)
    ways = (
        ("Linear scale", "l0") if view.log else ("Log scale", "l1"),
        (label, f"w{smooth}"),
        ("Whole run", "q0") if view.newest else ("Zoom", "q1"),
    )
    return [Button(action="card", subject=f"{run}.{way}", label=label) for label, way in ways]
