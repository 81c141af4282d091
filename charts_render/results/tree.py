"""Experiments below the one they came from, one a row, the way to the best as a straight line at the left."""

from typing import Final

import numpy as np

from agent.domain.pictures import UNFINISHED, Tree
from charts_render.layout import NOTE
from charts_render.lettering import Letters, shorten, width
from charts_render.numerals import aligned_texts, step_text
from charts_render.results.part import RISE, Part
from charts_render.results.trials import legend, look
from charts_render.results.values import Branch, best_of, branches, most_telling
from charts_render.scene import Dot, Ink, Pen

MOST: Final = 32
_PITCH, _LANE = 42.0, 36.0
_LANES = 9  # deeper ones share the last lane
_NUMBER = 12.0
_VALUE = Letters(NOTE.size_px, bold=True)


def paint(part: Part, tree: Tree) -> None:
    """Draw everything."""
    shown = most_telling(tree.trials, tree.better, most=MOST)
    rows = branches(tree.trials, shown, tree.better)
    best = best_of(tree.trials, tree.better)
    part.head(tree.heading, _notes(tree, len(rows)), tree.metric)
    legend(part, tree.trials)
    if not rows:
        part.empty("no experiments yet")
        return
    part.depth += 8
    top = part.depth + _PITCH / 2
    numbers = [np.nan if row.trial.state in UNFINISHED else row.trial.value for row in rows]
    values = aligned_texts(numbers, none="", digits=4)
    for i, row in enumerate(rows):
        _link(part, i, row, rows, top)
    for i, row in enumerate(rows):
        _row(part, i, row, (-(top + i * _PITCH), values[i]), is_best=row.trial is best)
    part.depth += len(rows) * _PITCH


def _notes(tree: Tree, shown: int) -> list[str]:
    notes = [f"○ best, {tree.better} is better"] if best_of(tree.trials, tree.better) is not None else []
    if len(tree.trials) > shown:
        notes.append(f"+{len(tree.trials) - shown:,} more, dotted where they lie between")
    return notes


def _x(lane: int) -> float:
    return 16.0 + min(lane, _LANES) * _LANE


def _link(part: Part, i: int, row: Branch, rows: list[Branch], top: float) -> None:
    """From the parent's row straight down, then across."""
    if row.parent < 0:
        return
    above, x = _x(rows[row.parent].lane), _x(row.lane)
    y, start = -(top + i * _PITCH), -(top + row.parent * _PITCH)
    pen = Pen(part.palette.muted, 2.4, () if row.direct else (3.0, 5.0), 1.0)
    if x == above:
        part.line([x, x], [start, y], pen, part.gid("link", i))
    else:
        bend = np.linspace(0, np.pi / 2, 6)
        part.line(
            np.concatenate([[above], above + 14 * (1 - np.cos(bend)), [x]]),
            np.concatenate([[start], y + 14 * (1 - np.sin(bend)), [y]]),
            pen,
            part.gid("link", i),
        )


def _row(part: Part, i: int, row: Branch, place: tuple[float, str], *, is_best: bool) -> None:
    trial, palette, (y, number_text) = row.trial, part.palette, place
    x, base = _x(row.lane), y - NOTE.size_px * RISE
    part.dots([x], [y], look(part, trial.state, grow=4), part.gid("trial", i))
    if is_best:
        part.dots([x], [y], Dot("o", "none", palette.ink, 28.0, 2.6, 4.8), part.gid("best"))
    value = number_text or trial.state
    strong = is_best or trial.state == "kept"
    ink = palette.ink if strong else palette.muted
    letters = _VALUE if strong else NOTE
    part.text(part.max_width, base, value, Ink(letters, ink, "right"), part.gid("value", i))
    number = step_text(trial.number)
    part.say(x + 26, base, number, f"number:{i}")
    left = x + 26 + width(number, NOTE) + _NUMBER
    name = shorten(trial.name, letters, part.max_width - width(value, letters) - 30 - left)
    part.text(left, base, name, Ink(letters, ink), part.gid("name", i))
