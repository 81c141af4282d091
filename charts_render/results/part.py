"""One picture on its way to a sheet: a scene that grows downwards from its heading.

Owns what all kinds share: heading, notes, legend, colours and marker shapes by number. Painters of the kinds write to
it and leave in `depth` how far down they came. Its origin is the upper left corner, so every y is negative.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from charts_render.layout import ENTRY_GAP, HEADING, HEADING_ROW, LEGEND_ROW, NAME_WIDTH, NOTE, NOTE_ROW, SWATCH
from charts_render.lettering import Letters, plain, shorten, tell_apart, width, wrap
from charts_render.scene import Align, Dot, Ink, Pen, Scene
from charts_render.theme import LINE_PX, MARKER_PX, NOTE_PX, SHAPES, Palette

RISE = 0.36  # of the letters' size: half the height of a digit, to centre a text on a level
_NOTES = 3
_TITLE, _TITLE_ROW = 300, 40.0  # characters of a heading at most, and units of one of its lines
WIDE = 900.0  # units from which a picture has room for a column beside its plot


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend: the number that gives colour and shape, the name, what is said with it."""

    item: int
    name: str
    note: str = ""
    line: bool = True
    dot: Dot | None = None  # in place of the number's own

    @property
    def text(self) -> str:
        """Name and note in one line."""
        return plain("  ".join(part for part in (self.name or "unnamed", self.note) if part))


class Part(Scene):
    """A scene `room` units wide; `index` is the picture's number on the sheet."""

    def __init__(self, palette: Palette, index: int, max_width: float) -> None:
        """Nothing yet."""
        super().__init__(palette)
        self.index = index
        self.max_width = max_width
        self.depth = 0.0

    @property
    def wide(self) -> bool:
        """Whether it has a row of the sheet to itself."""
        return self.max_width >= WIDE

    def gid(self, what: str, item: int | str = "") -> str:
        """The name of a shape or text of this picture."""
        return f"{what}:{self.index}" + (f":{item}" if item != "" else "")

    def colour(self, item: int) -> str:
        """The colour of the group or line of that number."""
        return self.palette.lines[item % len(self.palette.lines)]

    def dot(self, item: int, *, size: float = MARKER_PX, layer: float = 3.2) -> Dot:
        """Its marker."""
        return Dot(SHAPES[item % len(SHAPES)], self.colour(item), self.palette.ground, size, layer=layer)

    def say(
        self,
        x: float,
        base: float,
        text: str,
        what: str,
        *,
        letters: Letters = NOTE,
        colour: str = "",
        align: Align = "left",
    ) -> None:
        """A text, muted unless it has a colour; `what` is its name, with its number behind a colon if it has one."""
        kind, _, item = what.partition(":")
        ink = Ink(letters, colour or self.palette.muted, align)
        self.text(x, base, plain(text), ink, self.gid(kind, item))

    def head(self, title: str, notes: Sequence[str], unit: str = "") -> None:
        """The heading with its unit, the notes beside it where they fit, else below it."""
        lines = wrap(title[:_TITLE].split(), HEADING, self.max_width, lines=2)
        for i, line in enumerate(lines):
            self.text(0, -32 - i * _TITLE_ROW, line, Ink(HEADING, self.palette.ink), self.gid("heading", i or ""))
        base, used = 32 + max(len(lines) - 1, 0) * _TITLE_ROW, width(lines[-1], HEADING) + 12 if lines else 0.0
        said = plain(f"({unit})") if unit else ""
        if used + width(said, NOTE) > self.max_width:  # a long one is a note
            notes, said = [said, *notes], ""
        self.say(used, -base, said, "unit")
        used += width(said, NOTE) + 20 if said else 20.0
        note = plain(" · ".join(notes))
        beside = bool(note) and used + width(note, NOTE) <= self.max_width
        self.depth = base + HEADING_ROW - 32 if lines or said or beside else 0.0
        if beside:
            self.say(self.max_width, -base, note, "note", align="right")
            return
        for i, text in enumerate(wrap(_pieces(notes, self.max_width), NOTE, self.max_width, lines=_NOTES, joint=" · ")):
            self.say(0, -self.depth - 26, text, f"note:{i}")
            self.depth += NOTE_ROW

    def legend(self, keys: Sequence[Key]) -> None:
        """Rows of markers and names, side by side where they fit."""
        max_width = (
            self.max_width - SWATCH
            if len(keys) <= _NOTES
            else min(NAME_WIDTH * 1.4, (self.max_width - ENTRY_GAP) / 2 - SWATCH)
        )
        x = 0.0
        for key, name in zip(keys, tell_apart([key.text for key in keys], NOTE, max_width), strict=True):
            wide = SWATCH + width(name, NOTE)
            if x > 0 and x + wide > self.max_width:
                x, self.depth = 0.0, self.depth + LEGEND_ROW
            self.key(key, x, -self.depth - 28, name)
            x += wide + ENTRY_GAP
        self.depth += LEGEND_ROW if keys else 0.0

    def key(self, key: Key, x: float, base: float, name: str) -> None:
        """One entry of a legend."""
        middle, tip = base + NOTE_PX * RISE, SWATCH - 12
        if key.line and key.dot is None:
            pen = Pen(self.colour(key.item), LINE_PX)
            self.line([x, x + tip], [middle, middle], pen, self.gid("swatch", key.item))
        dot = key.dot or self.dot(key.item, size=MARKER_PX if key.line else MARKER_PX + 5)
        self.dots([x + tip / 2], [middle], dot, self.gid("swatch-dot", key.item))
        self.say(x + SWATCH, base, name, f"legend:{key.item}", colour=self.palette.ink)

    def empty(self, text: str = "no values yet", height: float = 90.0) -> None:
        """Said where there is nothing to draw."""
        self.say(self.max_width / 2, -self.depth - height / 2 - 8, text, "empty", align="center")
        self.depth += height


def _pieces(notes: Sequence[str], max_width: float) -> list[str]:
    return [shorten(note, NOTE, max_width) for note in notes if note]
