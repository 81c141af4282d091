"""Rows of text: samples that a model wrote, mistakes that it made. Cells are wrapped, rows told apart by thin lines.

Where several columns hold long texts, such as a text and what models made of it, the cells of a row stand below each
other, each behind its column's name.
"""

from collections.abc import Sequence
from typing import Final

from agent.domain.pictures import Table
from charts_render.layout import NOTE
from charts_render.lettering import Letters, flow, plain, shorten, width
from charts_render.results.part import Part
from charts_render.scene import Ink, Pen

MOST_ROWS: Final = 12
MOST_COLUMNS: Final = 6
_HEAD = Letters(NOTE.size_px, bold=True)
_GAP, _LEAST, _MARK = 28.0, 84.0, 44.0
_PITCH, _PAD = 34.0, 15.0
_LINES_FEW, _LINES_MANY, _FEW = 5, 3, 5
_MOST_STACKED, _LINES_STACKED = 5, 4
_NAMES_SHARE = 0.22  # of the width that names take before stacked cells
_SIGNS = {"good": "✓", "bad": "✗"}


def paint(part: Part, table: Table) -> None:
    """Draw everything."""
    columns = table.columns[:MOST_COLUMNS]
    count = len(columns)
    rows = [row[:count] for row in table.rows[:MOST_ROWS]]
    marks = table.marks[:MOST_ROWS] or ("",) * len(rows)
    left = _MARK if any(marks) else 0.0
    most = _LINES_FEW if len(rows) <= _FEW else _LINES_MANY
    wide = _widths(columns, rows, part.max_width - left) if rows else []
    stacked = sum(_is_cut([row[i] for row in rows], room, most) for i, room in enumerate(wide)) > 1
    rows = rows[:_MOST_STACKED] if stacked else rows
    part.head(table.heading, _notes(table, len(rows), count))
    if not rows:
        part.empty("no rows yet")
        return
    if stacked:
        _stack(part, columns, rows, marks, left)
        return
    right = [_numbers([row[i] for row in rows]) for i in range(count)]
    starts = [left + sum(wide[:i]) + i * _GAP for i in range(count)]
    for i, name in enumerate(columns):
        x, align = (starts[i] + wide[i], "right") if right[i] else (starts[i], "left")
        ink = Ink(_HEAD, part.palette.muted, "right" if align == "right" else "left")
        part.text(x, -part.depth - 28, shorten(name, _HEAD, wide[i]), ink, part.gid("column", i))
    if any(plain(name) for name in columns):
        part.depth += 42
        pen = Pen(part.palette.muted, 2.0, layer=1.0)
        part.line([0, part.max_width], [-part.depth, -part.depth], pen, part.gid("head-line"))
    for number, row in enumerate(rows):
        _separate(part, number, marks[number])
        _row(part, number, row, list(zip(starts, wide, right, strict=True)), most)


def _separate(part: Part, number: int, mark: str) -> None:
    """A line above every row but the first, and the row's mark."""
    if number:
        pen = Pen(part.palette.grid, 1.6, layer=1.0)
        part.line([0, part.max_width], [-part.depth, -part.depth], pen, part.gid("row-line", number))
    if mark in _SIGNS:
        colour = part.colour(0 if mark == "good" else 1)
        part.text(0, -part.depth - _PAD - 24, _SIGNS[mark], Ink(_HEAD, colour), part.gid("mark", number))


def _row(part: Part, number: int, row: tuple[str, ...], places: list[tuple[float, float, bool]], most: int) -> None:
    look = part.palette
    deepest = 1
    for i, (text, (x, wide, right)) in enumerate(zip(row, places, strict=True)):
        lines = flow(text, NOTE, wide, lines=most)
        for k, line in enumerate(lines):
            base = -part.depth - _PAD - 24 - k * _PITCH
            ink = Ink(NOTE, look.ink, "right" if right else "left")
            part.text(x + wide if right else x, base, line, ink, part.gid("cell", f"{number}-{i}-{k}"))
        deepest = max(deepest, len(lines))
    part.depth += deepest * _PITCH + 2 * _PAD - 4


def _is_cut(cells: Sequence[str], wide: float, most: int) -> bool:
    """Whether the end of a cell does not fit on so many lines."""
    return any(len(flow(cell, NOTE, wide, lines=most + 1)) > most for cell in cells)


def _stack(
    part: Part, columns: Sequence[str], rows: Sequence[tuple[str, ...]], marks: Sequence[str], left: float
) -> None:
    """The cells of each row below each other."""
    most = part.max_width * _NAMES_SHARE
    names = [shorten(name, _HEAD, most) for name in columns]
    x = left + max(width(name, _HEAD) for name in names) + _GAP
    for number, row in enumerate(rows):
        _separate(part, number, marks[number])
        part.depth += _PAD
        for i, (name, cell) in enumerate(zip(names, row, strict=True)):
            ink = Ink(_HEAD, part.palette.muted)
            part.text(left, -part.depth - 24, name, ink, part.gid("column", f"{number}-{i}"))
            lines = flow(cell, NOTE, part.max_width - x, lines=_LINES_STACKED) or ["–"]
            for k, line in enumerate(lines):
                base = -part.depth - 24 - k * _PITCH
                part.text(x, base, line, Ink(NOTE, part.palette.ink), part.gid("cell", f"{number}-{i}-{k}"))
            part.depth += len(lines) * _PITCH + 6
        part.depth += _PAD - 6


def _widths(columns: Sequence[str], rows: Sequence[tuple[str, ...]], max_width: float) -> list[float]:
    """Narrow columns as wide as they need, the others share what is left by the length of their texts."""
    count = len(rows[0])
    max_width -= _GAP * (count - 1)
    natural = []
    for i in range(count):
        head = width(shorten(columns[i], _HEAD, max_width), _HEAD)
        natural.append(max(head, *[width(plain(row[i]), NOTE) for row in rows], _LEAST))
    wide, open_ones, left = [0.0] * count, list(range(count)), max_width
    while open_ones:
        share = left / len(open_ones)
        fitting = [i for i in open_ones if natural[i] <= share]
        if not fitting:
            weights = [natural[i] ** 0.5 for i in open_ones]
            for i, weight in zip(open_ones, weights, strict=True):
                wide[i] = left * weight / sum(weights)
            break
        for i in fitting:
            wide[i] = natural[i]
            left -= natural[i]
            open_ones.remove(i)
    return wide


def _numbers(cells: Sequence[str]) -> bool:
    """Whether a column holds numbers, which are compared by their right ends."""
    filled = [cell.strip().rstrip("%").strip() for cell in cells if cell.strip()]
    return bool(filled) and all(cell.lstrip("+-−").replace(",", "").replace(".", "", 1).isdecimal() for cell in filled)


def _notes(table: Table, rows: int, columns: int) -> list[str]:
    counts = ((len(table.rows) - rows, "rows"), (len(table.columns) - columns, "columns"))
    return [f"+{count:,} more {noun}" for count, noun in counts if count > 0]
