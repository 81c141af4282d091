"""`PictureSpec -> Sheet`: paints every picture and puts them side by side, or below each other where there is no room.

Owns the grid; each kind's look is in its own file. Called by `charts_render.render`.
"""

from collections.abc import Sequence

from agent.domain.pictures import (
    Bars,
    Histogram,
    Images,
    Lines,
    Matrix,
    PictureSpec,
    Progress,
    ResultPicture,
    Scatter,
    Table,
    Texts,
    Tree,
)
from charts_render.canvas import Sheet
from charts_render.layout import GUTTER, MARGIN, SUBTITLE, TITLE, headline
from charts_render.results import bars, histogram, images, lines, matrix, progress, scatter, table, texts, tree
from charts_render.results.part import Part
from charts_render.scene import Ink
from charts_render.theme import DESIGN_WIDTH_PX, MAX_PICTURES, PALETTES, Palette

_NARROW_PX = 700  # a narrower sheet is one column
_ROW_GAP = 34.0
_BOTTOM = 22.0


def compose(spec: PictureSpec, width_px: int) -> Sheet:
    """The sheet before it becomes pixels, for whoever wants to measure it."""
    look = PALETTES[spec.theme]
    shown = spec.pictures[:MAX_PICTURES]
    left_out = len(spec.pictures) - len(shown)
    more = f"+{left_out:,} more pictures" if left_out else ""
    title, subtitle, depth = headline(spec.title, " · ".join(text for text in (spec.subtitle, more) if text))
    placed: list[tuple[Part, float, float]] = []
    for row in rows(shown, narrow=width_px < _NARROW_PX):
        max_width = (DESIGN_WIDTH_PX - 2 * MARGIN - GUTTER * (len(row) - 1)) / len(row)
        parts = [paint(shown[i], i, max_width, look) for i in row]
        placed += [(part, MARGIN + column * (max_width + GUTTER), depth) for column, part in enumerate(parts)]
        depth += max(part.depth for part in parts) + _ROW_GAP
    height = depth - (_ROW_GAP if placed else 0.0) + _BOTTOM
    sheet = Sheet(width_px, height, look)
    for line in title:
        sheet.text(line.x, height - line.base, line.text, Ink(TITLE, look.ink), "title")
    sheet.text(subtitle.x, height - subtitle.base, subtitle.text, Ink(SUBTITLE, look.muted), "subtitle")
    for part, x, top in placed:
        sheet.place(part, x, height - top)
    return sheet


def rows(pictures: Sequence[ResultPicture], *, narrow: bool) -> list[list[int]]:
    """Numbers of the pictures of each row: two side by side where both can be half as wide, else one."""
    found: list[list[int]] = []
    for i, picture in enumerate(pictures):
        width_left = bool(found) and len(found[-1]) == 1 and _halves(pictures[found[-1][0]])
        if not narrow and width_left and _halves(picture):
            found[-1].append(i)
        else:
            found.append([i])
    return found


def paint(picture: ResultPicture, index: int, max_width: float, look: Palette) -> Part:  # noqa: C901 - a case a kind
    """One picture, `room` units wide."""
    part = Part(look, index, max_width)
    match picture:
        case Matrix():
            matrix.paint(part, picture)
        case Bars():
            bars.paint(part, picture)
        case Lines():
            lines.paint(part, picture)
        case Histogram():
            histogram.paint(part, picture)
        case Scatter():
            scatter.paint(part, picture)
        case Table():
            table.paint(part, picture)
        case Progress():
            progress.paint(part, picture)
        case Tree():
            tree.paint(part, picture)
        case Images():
            images.paint(part, picture)
        case Texts():
            texts.paint(part, picture)
    return part


def _halves(picture: ResultPicture) -> bool:
    """Whether a picture can do with half a row."""
    match picture:
        case Matrix():
            return len(picture.columns) <= matrix.HALF_MOST
        case Bars() | Lines() | Histogram() | Scatter():
            return True
        case _:
            return False
