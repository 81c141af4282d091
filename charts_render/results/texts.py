"""Texts with marked spans: entities that a model found, beside those that are there.

A span that was found is shaded, right ones in blue and wrong ones in orange; one that was missed is underlined in
dashes. Names stand above what was found and below what was missed, so a line is as high as the names that it needs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agent.domain.pictures import Passage, Span, Texts
from charts_render.layout import NOTE
from charts_render.lettering import Letters, plain, shorten, width
from charts_render.placement import Box
from charts_render.results.part import Key, Part
from charts_render.scene import Dot, Ink, Pen
from charts_render.theme import MARKER_PX, blend

MOST: Final = 8
_MOST_LINES = 8  # of a text
_RIGHT, _WRONG, _MISSED = 0, 1, 2  # of the palette's lines
_LEGEND = {_RIGHT: "found", _WRONG: "found, not there", _MISSED: "there, not found"}
_NAME = Letters(24.0, bold=True)
_NAME_WIDTH = 300.0
_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"  # characters between which a line may end
_WORD = re.compile(rf"[{_WIDE}]|[^\s{_WIDE}]{{1,24}}")  # a longer one may be broken
_BLANK, _TIGHT, _APART = 11.0, 2.5, 14.0
_TOP, _BOTTOM = 30.0, 15.0  # of a line above and below its base without names
_ABOVE, _BELOW = 28.0, 34.0  # what names add to it
_ABOVE_BASE, _BELOW_BASE = 35.0, -42.0  # where names stand
_MARK, _PAD, _CAPTION = 44.0, 14.0, 36.0
_SHADE = 0.24
_SIGNS = {True: "✓", False: "✗"}


@dataclass(frozen=True, slots=True)
class _Piece:
    """Characters `start` to `end` of a text that stand together, `wide` units from `x`."""

    start: int
    end: int
    text: str
    x: float
    wide: float


@dataclass(frozen=True, slots=True)
class _Mark:
    """A span and what became of it, as a number of the palette's lines."""

    span: Span
    item: int


@dataclass(frozen=True, slots=True)
class _Names:
    """What stands above or below a text, by the place in it where it begins, with its number of the palette's lines."""

    said: Mapping[int, tuple[str, int]]

    def wide(self, start: int) -> float:
        """Units that the name at that place needs, 0 without one."""
        return width(self.said[start][0], _NAME) + _APART if start in self.said else 0.0

    def on(self, line: Sequence[_Piece]) -> list[tuple[float, str, int]]:
        """Place, name and number of those that begin on a line."""
        return [(piece.x, *self.said[piece.start]) for piece in line if piece.start in self.said]


def paint(part: Part, texts: Texts) -> None:
    """Draw everything."""
    shown = texts.passages[:MOST]
    more = len(texts.passages) - len(shown)
    part.head(texts.heading, [f"+{more:,} more texts"] if more else [])
    if not shown:
        part.empty("no texts yet")
        return
    marks = [_marks(passage) for passage in shown]
    if any(span.truth for passage in shown for span in passage.spans):
        items = sorted({mark.item for of in marks for mark in of})
        part.legend([Key(i, _LEGEND[i], dot=_dot(part, i)) for i in items])
    left = _MARK if any(passage.right is not None for passage in shown) else 0.0
    for number, (passage, of) in enumerate(zip(shown, marks, strict=True)):
        if number:
            pen = Pen(part.palette.grid, 1.6, layer=1.0)
            part.line([0, part.max_width], [-part.depth, -part.depth], pen, part.gid("text-line", number))
        _passage(part, number, passage, of, left)


def _dot(part: Part, item: int) -> Dot:
    return Dot("s", part.colour(item), part.palette.ground, MARKER_PX + 5)


def _marks(passage: Passage) -> list[_Mark]:
    """The spans that lie in the text, each once; where nothing says what is there, all that was found is right."""
    inside = [span for span in passage.spans if span.start < len(passage.text)]
    found = {(span.start, span.end, span.name) for span in inside if not span.truth}
    there = {(span.start, span.end, span.name) for span in inside if span.truth}
    right = found & there if there else found
    marks = [_Mark(Span(*key), _RIGHT if key in right else _WRONG) for key in found]
    marks += [_Mark(Span(*key), _MISSED) for key in there - found]
    return sorted(marks, key=lambda mark: (mark.span.start, -mark.span.end, mark.span.name, mark.item))


def _passage(part: Part, number: int, passage: Passage, marks: Sequence[_Mark], left: float) -> None:
    """One text with its sign and its caption."""
    part.depth += _PAD
    max_width = part.max_width - left
    names = _names(marks, missed=False), _names(marks, missed=True)
    lines = _lines(passage.text, marks, names, max_width)
    bases = [_line(part, f"{number}-{k}", line, marks, names, left) for k, line in enumerate(lines[:_MOST_LINES])]
    if len(lines) > _MOST_LINES:
        part.say(left, -part.depth - 20, "…", f"text-cut:{number}")
        part.depth += 24
    if passage.right is not None:
        colour = part.colour(_RIGHT if passage.right else _WRONG)
        part.text(0, bases[0], _SIGNS[passage.right], Ink(_NAME, colour), part.gid("sign", number))
    if passage.caption:
        text = shorten(passage.caption, NOTE, max_width)
        part.say(left, -part.depth - 24, text, f"text-caption:{number}")
        part.depth += _CAPTION
    part.depth += _PAD


def _names(marks: Sequence[_Mark], *, missed: bool) -> _Names:
    """The names of what was missed, or of what was found; those that begin at one place as one."""
    found: dict[int, tuple[list[str], int]] = {}
    for mark in marks:
        if (mark.item == _MISSED) is missed and plain(mark.span.name):
            found.setdefault(mark.span.start, ([], mark.item))[0].append(mark.span.name)
    return _Names({at: (shorten(" · ".join(of), _NAME, _NAME_WIDTH), item) for at, (of, item) in found.items()})


def _lines(text: str, marks: Sequence[_Mark], names: tuple[_Names, _Names], max_width: float) -> list[list[_Piece]]:
    """The words of a text on lines; a word with a name moves on as far as the name before it reaches."""
    edges = sorted({edge for mark in marks for edge in (mark.span.start, mark.span.end)})
    lines: list[list[_Piece]] = [[]]
    x, reach = 0.0, [0.0, 0.0]
    for word in _WORD.finditer(text):
        pieces = list(_pieces(text, word.span(), edges))
        needed = [of.wide(word.start()) for of in names]
        if lines[-1]:
            x += _BLANK if text[word.start() - 1].isspace() else _TIGHT
            x = max([x, *(end for end, wide in zip(reach, needed, strict=True) if wide)])
        if lines[-1] and x + max(sum(piece.wide + _TIGHT for piece in pieces), *needed) > max_width:
            lines.append([])
            x, reach = 0.0, [0.0, 0.0]
        for piece in pieces:
            lines[-1].append(replace(piece, x=x))
            reach = [max(end, x + of.wide(piece.start)) for end, of in zip(reach, names, strict=True)]
            x += piece.wide + _TIGHT
        x -= _TIGHT
    return lines


def _pieces(text: str, place: tuple[int, int], edges: Sequence[int]) -> Iterator[_Piece]:
    """A word, cut where spans begin and end."""
    start, last = place
    for end in (*(edge for edge in edges if start < edge < last), last):
        said = plain(text[start:end])
        yield _Piece(start, end, said, 0.0, width(said, NOTE))
        start = end


def _line(
    part: Part, item: str, line: Sequence[_Piece], marks: Sequence[_Mark], names: tuple[_Names, _Names], left: float
) -> float:
    """One line of a text with what is marked on it; its base."""
    above, below = (of.on(line) for of in names)
    base = -part.depth - _TOP - (_ABOVE if above else 0.0)
    for k, mark in enumerate(marks):
        inside = [piece for piece in line if mark.span.start <= piece.start and piece.end <= mark.span.end]
        if inside:
            _mark(part, f"{item}-{k}", mark, (left + inside[0].x, left + inside[-1].x + inside[-1].wide, base))
    for k, piece in enumerate(line):
        part.text(left + piece.x, base, piece.text, Ink(NOTE, part.palette.ink), part.gid("word", f"{item}-{k}"))
    for side, of, level in (("above", above, base + _ABOVE_BASE), ("below", below, base + _BELOW_BASE)):
        end = 0.0
        for k, (x, name, colour) in enumerate(of):
            x = max(left + x, end)
            said = shorten(name, _NAME, part.max_width - x)
            ink = Ink(_NAME, part.colour(colour))
            part.text(x, level, said, ink, part.gid(f"name-{side}", f"{item}-{k}"))
            end = x + width(said, _NAME) + _APART
    part.depth = -base + _BOTTOM + (_BELOW if below else 0.0)
    return base


def _mark(part: Part, item: str, mark: _Mark, place: tuple[float, float, float]) -> None:
    """The shade of what was found, or the dashes under what was missed."""
    x0, x1, base = place
    colour, level = part.colour(mark.item), base - 11.0
    if mark.item == _MISSED:
        part.line([x0, x1], [level - 6, level - 6], Pen(colour, 4.0, (9.0, 6.0), 2.4), part.gid("missed", item))
        return
    shade = blend(colour, part.palette.ground, _SHADE)
    part.rect(Box(x0 - 4, level, x1 + 4, base + 27), shade, 1.5, part.gid("found", item))
    part.line([x0 - 4, x1 + 4], [level, level], Pen(colour, 3.0, (), 2.2), part.gid("found-line", item))
