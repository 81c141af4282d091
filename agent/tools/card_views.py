"""The tool that sets how the live card of a run draws its curves: for everybody, and until somebody sets it again.

Also how that is said in the words of a command. Knows the view, not how it is drawn.
"""

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import Field

from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id
from agent.domain.policy import Effect
from agent.runs.card_view import MOST, CardView, card_view_of
from agent.stores import Runs
from agent.tools.chart_words import SMOOTH_WORDS, smoothing_in
from agent.tools.finding import named_or_newest
from agent.tools.tool import Caller, Result, Tool
from agent.tools.watching import RunArguments


class CardArguments(RunArguments):
    """What its card shows; everything that is unsaid stays as it is."""

    log_scale: bool | None = Field(None, description="Logarithmic y axis.")
    smooth: float | None = Field(
        None, ge=0, le=MOST / 1000, description="Weight of a moving average, such as 0.9; 0 for none."
    )
    newest: bool | None = Field(None, description="Only the newest quarter of its steps.")


class CardViews:
    """The tool of this family."""

    def __init__(self, runs: Runs, changed: Callable[[str], None]) -> None:
        """`changed` has the card of a run drawn again."""
        self._runs = runs
        self._changed = changed

    def tools(self) -> Sequence[Tool]:
        """Its declaration."""
        said = "How a run's own live card draws its curves, for all: log scale, smoothed, only the newest quarter."
        return (Tool("set_card", said, CardArguments, Effect.WRITE, run=self.show),)

    async def show(self, caller: Caller, asked: CardArguments) -> Result:
        """Keep the view and have the card drawn again."""
        run = await named_or_newest(self._runs, caller, asked.run)
        now = card_view_of(await self._runs.card_view(run.id)) or CardView()
        view = CardView(
            now.log if asked.log_scale is None else asked.log_scale,
            now.smooth if asked.smooth is None else round(asked.smooth * 1000),
            now.newest if asked.newest is None else asked.newest,
        )
        await self._runs.set_card_view(run.id, view.text())
        self._changed(run.id)
        return Result(f"The card of `{run.id}` now shows {view.words()}.", {"run": run.id})


_WORDS = {
    **dict.fromkeys(("log", "logarithmic"), "l1"), "linear": "l0", "raw": "w0",
    **dict.fromkeys(("zoom", "newest"), "q1"), "whole": "q0",
}  # fmt: skip


def card_arguments(words: Sequence[str]) -> dict[str, Any]:
    """The arguments of `set_card` from the words of a command; a button's subject may stand for all of them.

    Raises:
        BadRequest: a word that is none of them, or none at all.
    """
    said = [word.strip(",").lower() for word in words]
    run, _, text = said[0].partition(".") if said else ("", "", "")
    parts = text.split(".") if is_run_id(run) and text else []
    for word in said[1:] if is_run_id(run) else said:
        smooth = word.partition("=")[0] in SMOOTH_WORDS
        parts.append(f"w{smoothing_in(word)}" if smooth else _WORDS.get(word, word))
    view = card_view_of(".".join(parts))
    if view is None or not parts:
        raise BadRequest(
            f"`{' '.join(['card', *words])}` says nothing about a card. Write `card r-abc123 log smooth=0.9 zoom`, or "
            "fewer of these; `linear`, `raw` and `whole` take them back."
        )
    kinds = {part[0] for part in parts}
    found = {"l": ("log_scale", view.log), "w": ("smooth", view.smooth / 1000), "q": ("newest", view.newest)}
    return ({"run": run} if is_run_id(run) else {}) | dict(said for kind, said in found.items() if kind in kinds)
