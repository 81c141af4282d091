"""How experiments look by what became of them, in the progress chart and in the tree alike."""

from collections.abc import Sequence
from typing import Final

from agent.domain.pictures import Trial, TrialState
from charts_render.results.part import Key, Part
from charts_render.scene import Dot
from charts_render.theme import MARKER_PX

STATES: Final[tuple[TrialState, ...]] = ("kept", "discarded", "pruned", "crashed", "running")


def look(part: Part, state: TrialState, *, grow: float = 0.0, layer: float = 3.4) -> Dot:
    """Kept ones full, discarded ones hollow, pruned ones a triangle, crashed ones a cross, running ones a diamond."""
    palette, size = part.palette, MARKER_PX + grow
    if state == "kept":
        return Dot("o", palette.lines[0], palette.ground, size + 2, layer=layer)
    if state == "discarded":
        return Dot("o", palette.ground, palette.muted, size - 2, 2.4, layer)
    if state == "pruned":
        return Dot("v", palette.ground, palette.muted, size - 2, 2.4, layer)
    if state == "crashed":
        return Dot("X", palette.lines[1], palette.ground, size + 2, 1.4, layer)
    return Dot("D", palette.ground, palette.lines[2], size - 2, 2.6, layer)


def legend(part: Part, trials: Sequence[Trial]) -> None:
    """How many there are of each state."""
    keys = []
    for i, state in enumerate(STATES):
        count = sum(1 for trial in trials if trial.state == state)
        if count:
            keys.append(Key(i, f"{count:,} {state}", dot=look(part, state, grow=3)))
    part.legend(keys)
