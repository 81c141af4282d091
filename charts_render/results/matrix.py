"""A confusion matrix: counts in cells, coloured by their share of the row; right in blue, mistakes in orange.

Recall stands behind each row and precision below each column, where rows and columns are the same classes.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from agent.domain.pictures import Matrix
from charts_render.layout import NOTE, TICK
from charts_render.lettering import Letters, shorten, tell_apart, width
from charts_render.numerals import count_text, share_text
from charts_render.placement import Box
from charts_render.results.part import RISE, WIDE, Part
from charts_render.results.values import MOST_CLASSES, Folded, fold
from charts_render.scene import Ink
from charts_render.theme import blend, readable

HALF_MOST: Final = 4  # classes that half a row has room for
_ZEROS_MOST = 6  # classes up to which a 0 is written; in a larger matrix a blank says it quieter
_RIGHT, _WRONG = 0, 1  # of the palette's lines
_STEPS = 9  # shades of the picture's palette
_GAP = 3.0
_AIR = 6.0  # units of a cell that a count leaves free
_LOST_MOST = 0.2  # of all counts may be too long to write where the others are written
_SIZES = (32.0, 28.0, 25.0, 22.0, 20.0, 18.0)
_BOLD_FROM = 22.0
_SHARE = Letters(24.0)
Written = tuple[Letters, bool]  # how counts are written, and whether briefly
_SIDE = 92.0  # units of the column of recalls
_TALLEST, _TALLEST_HALF, _WIDEST = 116.0, 150.0, 230.0
_NAMES_SHARE = 0.27
_TURNED_SPACE = 190.0


@dataclass(frozen=True, slots=True)
class _Grid:
    """Where cells lie: from `x`, `top` downwards, each `wide` by `high`."""

    x: float
    top: float
    wide: float
    high: float

    def cell(self, row: int, column: int) -> Box:
        x, y = self.x + column * self.wide, self.top - row * self.high
        return Box(x + _GAP / 2, y - self.high + _GAP / 2, x + self.wide - _GAP / 2, y - _GAP / 2)


def paint(part: Part, matrix: Matrix) -> None:
    """Draw everything."""
    folded = fold(matrix)
    written = _letters(folded, part.max_width)
    part.head(matrix.heading, _notes(folded, matrix, written, part.max_width))
    wide, high = _cell(folded, part.max_width)
    names = min(max(width(shorten(n, TICK, 900), TICK) for n in folded.rows), part.max_width * _NAMES_SHARE)
    names = max(names, width("precision", NOTE) if folded.recall.size else 0.0)
    x = names + 14
    part.depth += 4
    part.say(x, -part.depth - 26, shorten(f"{matrix.column_label} →", NOTE, part.max_width - x), "axis-name:columns")
    part.say(0, -part.depth - 26, shorten(f"{matrix.row_label} ↓", NOTE, names), "axis-name:rows")
    part.depth += 40
    _columns(part, folded, x, wide)
    grid = _Grid(x, -part.depth, wide, high)
    for row in range(len(folded.rows)):
        for column in range(len(folded.columns)):
            _draw_cell(part, folded, grid, (row, column), written)
    _sides(part, folded, grid, names)


def _draw_cell(part: Part, folded: Folded, grid: _Grid, at: tuple[int, int], written: Written | None) -> None:
    box, count, share = grid.cell(*at), folded.counts[at], folded.shares[at]
    look, item = part.palette, f"{at[0]}-{at[1]}"
    colour = look.muted if folded.folded[at] else look.lines[_RIGHT if folded.agrees[at] else _WRONG]
    strength = (
        max(1.0, np.round(np.sqrt(share) * _STEPS)) / _STEPS if share > 0 else 0.0
    )  # the root tells rare ones apart
    ground = blend(colour, look.ground, float(strength)) if strength else look.grid
    if count == 0 or np.isnan(count):
        ground = blend(look.grid, look.ground, 0.5)
    part.rect(box, ground, 1.0, part.gid("cell", item))
    if written is None or (count == 0 and len(folded.rows) > _ZEROS_MOST):
        return
    letters, brief = written
    if count > 0 and _wide(float(count), letters, brief=brief) > grid.wide - _AIR:
        return
    text = "?" if np.isnan(count) else count_text(float(count), brief=brief)
    ink = look.muted if count == 0 or np.isnan(count) else readable(ground, look)
    middle, base = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2 - letters.size_px * RISE
    said = share_text(float(share))
    if count > 0 and box.height >= 84 and box.width >= width(said, _SHARE) + 12:
        base += 15
        part.text(middle, base - 34, said, Ink(_SHARE, ink, "center"), part.gid("share", item))
    part.text(middle, base, text, Ink(letters, ink, "center"), part.gid("count", item))


def _cell(folded: Folded, max_width: float) -> tuple[float, float]:
    """Width and height of a cell."""
    names = max((width(shorten(n, TICK, 900), TICK) for n in folded.rows), default=0.0)
    left = max(min(names, max_width * _NAMES_SHARE), width("precision", NOTE) if folded.recall.size else 0.0) + 14
    wide = (max_width - left - (_SIDE if folded.recall.size else 0)) / len(folded.columns)
    wide = min(wide, _WIDEST)
    return wide, min(_TALLEST if max_width >= WIDE else _TALLEST_HALF, max(wide * 0.85, 40.0))


def _letters(folded: Folded, max_width: float) -> Written | None:
    """The largest letters in which every count fits its cell, brief ones last; None where none do."""
    wide, high = _cell(folded, max_width)
    counts = [float(count) for count in np.unique(folded.counts[folded.counts > 0])]
    for brief in (False, True):
        texts = {count_text(count, brief=brief) for count in counts} | {"0"}
        for size in _SIZES:
            letters = Letters(size, bold=size >= _BOLD_FROM)
            if size <= high - 8 and max(width(text, letters) for text in texts) <= wide - _AIR:
                return letters, brief
    lost = _too_long(folded, (Letters(_SIZES[-1]), True), max_width)
    if lost > _LOST_MOST * folded.counts.size:
        return None
    sizes = (Letters(size, bold=size >= _BOLD_FROM) for size in _SIZES if size <= high - 8)
    return next(((letters, True) for letters in sizes if _too_long(folded, (letters, True), max_width) <= lost), None)


def _too_long(folded: Folded, written: Written, max_width: float) -> int:
    """How many counts do not fit their cells."""
    letters, brief = written
    counts, often = np.unique(folded.counts[folded.counts > 0], return_counts=True)
    space = _cell(folded, max_width)[0] - _AIR
    return sum(
        int(n) for count, n in zip(counts, often, strict=True) if _wide(float(count), letters, brief=brief) > space
    )


def _wide(count: float, letters: Letters, *, brief: bool) -> float:
    return width(count_text(count, brief=brief), letters)


def _notes(folded: Folded, matrix: Matrix, written: Written | None, max_width: float) -> list[str]:
    notes = []
    if not np.isnan(folded.right):
        bound = "at least " if folded.at_least else ""
        notes.append(f"{bound}{share_text(folded.right)} of {count_text(folded.total)} right")
    elif folded.total:
        notes.append(f"{count_text(folded.total)} in all")
    if folded.hidden:
        of = "" if matrix.others else f" of {max(len(matrix.rows), len(matrix.columns)):,}"
        notes.append(f"{MOST_CLASSES} most frequent{of} classes")
    if folded.missing:
        notes.append(f"? {folded.missing:,} without a count")
    lost = _too_long(folded, written, max_width) if written is not None else 0
    if written is None:
        notes.append("counts too long to write")
    elif lost:
        notes.append(f"{lost:,} too long to write")
    if written is not None and len(folded.rows) > _ZEROS_MOST and (folded.counts == 0).any():
        notes.append("blank: 0")
    return notes


def _columns(part: Part, folded: Folded, x: float, wide: float) -> None:
    """Names above the columns, upright where they fit, else turned."""
    look = part.palette
    longest = max(width(shorten(name, TICK, _TURNED_SPACE), TICK) for name in folded.columns)
    flat = longest <= wide - 10
    texts = tell_apart(folded.columns, TICK, wide - 10 if flat else _TURNED_SPACE)
    for i, text in enumerate(texts):
        middle = x + (i + 0.5) * wide
        if flat:
            part.text(middle, -part.depth - 26, text, Ink(TICK, look.ink, "center"), part.gid("column", i))
        else:
            base, ink = -part.depth - longest - 8, Ink(TICK, look.ink, turned=True)
            part.text(middle + TICK.size_px * RISE, base, text, ink, part.gid("column", i))
    part.depth += 40 if flat else longest + 18


def _sides(part: Part, folded: Folded, grid: _Grid, names: float) -> None:
    """Names of the rows, recall behind them, precision below."""
    look = part.palette
    for i, name in enumerate(tell_apart(folded.rows, TICK, names)):
        level = grid.top - (i + 0.5) * grid.high - TICK.size_px * RISE
        part.text(names, level, name, Ink(TICK, look.ink, "right"), part.gid("row", i))
    part.depth = -grid.top + len(folded.rows) * grid.high
    if not folded.recall.size:
        return
    end = grid.x + len(folded.columns) * grid.wide
    part.say(end + _SIDE, grid.top + 14, "recall", "side-name:recall", align="right")
    for i, share in enumerate(folded.recall):
        if not np.isnan(share):
            level = grid.top - (i + 0.5) * grid.high - NOTE.size_px * RISE
            part.say(end + _SIDE, level, share_text(float(share)), f"recall:{i}", align="right")
    base = -part.depth - 32
    part.say(names, base, "precision", "side-name:precision", align="right")
    said = [share_text(float(share)) for share in folded.precision]
    turned = max(width(text, NOTE) for text in said) > grid.wide - 6
    for i, (text, share) in enumerate(zip(said, folded.precision, strict=True)):
        middle = grid.x + (i + 0.5) * grid.wide
        if np.isnan(share):
            continue
        if turned:
            ink = Ink(NOTE, look.muted, "right", turned=True)
            part.text(middle + NOTE.size_px * RISE, -part.depth - 10, text, ink, part.gid("precision", i))
        else:
            part.say(middle, base, text, f"precision:{i}", align="center")
    part.depth += max(width(text, NOTE) for text in said) + 16 if turned else 46
