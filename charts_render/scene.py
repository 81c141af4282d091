"""What can be drawn: lines, areas, markers, photos and letters, kept until a sheet draws them.

Owns the shapes and their places (units of a picture 1200 wide, y upwards); draws nothing. Every shape carries a `gid`
that says what it shows, so that a scene can be measured without pixels. Painters write to a scene of their own, whose
origin is its upper left corner; `canvas.Sheet` is the scene that becomes pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from charts_render.curve import Floats
from charts_render.lettering import Letters, width
from charts_render.placement import Box
from charts_render.strips import strip
from charts_render.theme import Palette

Align = Literal["left", "center", "right"]
Places = Floats | Sequence[float]
_SHARE_LEFT = {"left": 0.0, "center": 0.5, "right": 1.0}


@dataclass(frozen=True, slots=True)
class Pen:
    """A stroke; `dash` as lengths of stroke and gap in units."""

    colour: str
    width: float
    dash: tuple[float, ...] = ()
    layer: float = 2.0


@dataclass(frozen=True, slots=True)
class Dot:
    """A marker: shape as matplotlib names it, filled with its colour or hollow, with an edge."""

    shape: str
    fill: str
    edge: str
    size: float
    edge_width: float = 2.0
    layer: float = 4.0


@dataclass(frozen=True, slots=True)
class Ink:
    """How a text looks and which point of it is given: its side, on the base line. `turned`: read upwards."""

    letters: Letters
    colour: str
    align: Align = "left"
    backed: bool = False
    turned: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line through points; NaN breaks it."""

    gid: str
    xs: Floats
    ys: Floats
    pen: Pen
    clip: Box | None

    @property
    def layer(self) -> float:
        """Higher ones lie on lower ones."""
        return self.pen.layer

    def moved(self, dx: float, dy: float) -> "Line":
        """The same elsewhere."""
        return replace(self, xs=self.xs + dx, ys=self.ys + dy, clip=_moved(self.clip, dx, dy))


@dataclass(frozen=True, slots=True, eq=False)
class Area:
    """A filled band in steps: from `low` to `high` (n,) between neighbours of `edges` (n + 1,); NaN leaves it out."""

    gid: str
    edges: Floats
    low: Floats
    high: Floats
    colour: str
    layer: float
    clip: Box | None

    def moved(self, dx: float, dy: float) -> "Area":
        """The same elsewhere."""
        clip = _moved(self.clip, dx, dy)
        return replace(self, edges=self.edges + dx, low=self.low + dy, high=self.high + dy, clip=clip)


@dataclass(frozen=True, slots=True, eq=False)
class Fill:
    """A filled outline; its corners are finite."""

    gid: str
    xs: Floats
    ys: Floats
    colour: str
    layer: float
    clip: Box | None

    def moved(self, dx: float, dy: float) -> "Fill":
        """The same elsewhere."""
        return replace(self, xs=self.xs + dx, ys=self.ys + dy, clip=_moved(self.clip, dx, dy))


@dataclass(frozen=True, slots=True, eq=False)
class Dots:
    """A marker at each point."""

    gid: str
    xs: Floats
    ys: Floats
    dot: Dot
    clip: Box | None

    @property
    def layer(self) -> float:
        """Higher ones lie on lower ones."""
        return self.dot.layer

    def moved(self, dx: float, dy: float) -> "Dots":
        """The same elsewhere."""
        return replace(self, xs=self.xs + dx, ys=self.ys + dy, clip=_moved(self.clip, dx, dy))


@dataclass(frozen=True, slots=True, eq=False)
class Photo:
    """An image stretched over `box`; `rgb` has the shape (rows, columns, 3), top row first."""

    gid: str
    box: Box
    rgb: NDArray[np.uint8]
    layer: float = 1.0

    def moved(self, dx: float, dy: float) -> "Photo":
        """The same elsewhere."""
        b = self.box
        return replace(self, box=Box(b.x0 + dx, b.y0 + dy, b.x1 + dx, b.y1 + dy))


Shape = Line | Area | Fill | Dots | Photo


@dataclass(frozen=True, slots=True)
class Words:
    """One line of letters; it lies on everything that is no text."""

    gid: str
    x: float
    base: float
    text: str
    ink: Ink

    def box(self, scale: float) -> Box:
        """The pixels of its strokes, y upwards from the bottom of the picture."""
        drawn = strip(self.text, self.ink.letters, scale)
        left, base = self.corner(scale)
        if self.ink.turned:
            return Box(left - drawn.above, base + drawn.left, left + drawn.below, base + drawn.right)
        return Box(left + drawn.left, base - drawn.below, left + drawn.right, base + drawn.above)

    def corner(self, scale: float) -> tuple[int, int]:
        """The pixel where its base line begins."""
        before = _SHARE_LEFT[self.ink.align] * width(self.text, self.ink.letters)
        x, base = (self.x, self.base - before) if self.ink.turned else (self.x - before, self.base)
        return round(x * scale), round(base * scale)

    def moved(self, dx: float, dy: float) -> "Words":
        """The same elsewhere."""
        return replace(self, x=self.x + dx, base=self.base + dy)


class Scene:
    """Shapes and texts in the order they were added."""

    def __init__(self, palette: Palette) -> None:
        """Nothing yet."""
        self.palette = palette
        self.shapes: list[Shape] = []
        self.words: list[Words] = []

    def line(self, xs: Places, ys: Places, pen: Pen, gid: str, clip: Box | None = None) -> None:
        """A line through the points; NaN breaks it."""
        self.shapes.append(Line(gid, np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64), pen, clip))

    def area(
        self, edges: Floats, low: Floats, high: Floats, colour: str, layer: float, gid: str, clip: Box | None = None
    ) -> None:
        """A filled band in steps."""
        self.shapes.append(Area(gid, edges, low, high, colour, layer, clip))

    def rect(self, box: Box, colour: str, layer: float, gid: str) -> None:
        """A filled rectangle."""
        edges, low, high = np.array([box.x0, box.x1]), np.array([box.y0]), np.array([box.y1])
        self.shapes.append(Area(gid, edges, low, high, colour, layer, None))

    def fill(self, xs: Places, ys: Places, colour: str, layer: float, gid: str, clip: Box | None = None) -> None:
        """A filled outline."""
        places = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
        self.shapes.append(Fill(gid, *places, colour, layer, clip))

    def dots(self, xs: Places, ys: Places, dot: Dot, gid: str, clip: Box | None = None) -> None:
        """A marker at each point."""
        self.shapes.append(Dots(gid, np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64), dot, clip))

    def photo(self, box: Box, rgb: NDArray[np.uint8], gid: str) -> None:
        """An image stretched over the box."""
        self.shapes.append(Photo(gid, box, rgb))

    def text(self, x: float, base: float, text: str, ink: Ink, gid: str) -> None:
        """One line of letters standing on `base`; nothing for an empty text."""
        if text:
            self.words.append(Words(gid, x, base, text, ink))

    def place(self, other: "Scene", dx: float, dy: float) -> None:
        """Everything of another scene, moved."""
        self.shapes += [shape.moved(dx, dy) for shape in other.shapes]
        self.words += [words.moved(dx, dy) for words in other.words]


def _moved(box: Box | None, dx: float, dy: float) -> Box | None:
    return None if box is None else Box(box.x0 + dx, box.y0 + dy, box.x1 + dx, box.y1 + dy)
