"""A sheet to draw on: lines, shapes and letters at given places. The only module that makes matplotlib artists.

Places and sizes are units of a picture 1200 wide, y upwards; the sheet scales them to the width that was asked for.
Every artist carries a `gid` that says what it shows.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Affine2D, Bbox
from numpy.typing import NDArray
from PIL import Image

from charts_render.curve import Floats
from charts_render.lettering import Letters, font
from charts_render.placement import Box
from charts_render.theme import DESIGN_WIDTH_PX, Palette

Align = Literal["left", "center", "right"]
Places = Floats | list[float]
_DPI = 72.0  # one point is one unit
_BACKING_ALPHA = 0.82


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
    """How a text looks and which point of it is given: its side, on the base line."""

    letters: Letters
    colour: str
    align: Align = "left"
    backed: bool = False


class Sheet:
    """A figure of `DESIGN_WIDTH_PX` by `height` units, drawn `width_px` pixels wide.

    A smaller picture is drawn at design width and reduced: letters hinted for a few pixels would be wider than planned.
    """

    def __init__(self, width_px: int, height: float, palette: Palette) -> None:
        """Nothing but ground."""
        self.palette = palette
        self.scale = max(1.0, width_px / DESIGN_WIDTH_PX)
        self._size = (width_px, round(height * width_px / DESIGN_WIDTH_PX))
        drawn = (max(width_px, DESIGN_WIDTH_PX), round(height * self.scale))
        dpi = _DPI * self.scale
        self.figure = Figure(
            figsize=((drawn[0] + 0.001) / dpi, (drawn[1] + 0.001) / dpi), dpi=dpi, facecolor=palette.ground
        )
        self._transform = Affine2D().scale(self.scale)

    def line(self, xs: Places, ys: Places, pen: Pen, gid: str, clip: Box | None = None) -> None:
        """A line through the points; NaN breaks it."""
        artist = Line2D(
            xs,
            ys,
            color=pen.colour,
            linewidth=pen.width,
            linestyle=(0, [length / pen.width for length in pen.dash]) if pen.dash else "-",
            solid_capstyle="butt",
            solid_joinstyle="round",
            dash_capstyle="butt",
            zorder=pen.layer,
        )
        self._add(artist, gid, clip)

    def dots(self, xs: Places, ys: Places, dot: Dot, gid: str, clip: Box | None = None) -> None:
        """A marker at each point."""
        artist = Line2D(
            xs,
            ys,
            linestyle="none",
            marker=dot.shape,
            markersize=dot.size,
            markerfacecolor=dot.fill,
            markeredgecolor=dot.edge,
            markeredgewidth=dot.edge_width,
            zorder=dot.layer,
        )
        self._add(artist, gid, clip)

    def text(self, x: float, base: float, text: str, ink: Ink, gid: str) -> None:
        """One line of letters standing on `base`; nothing for an empty text."""
        if not text:
            return
        artist = Text(
            x,
            base,
            text,
            color=ink.colour,
            fontproperties=font(ink.letters),
            horizontalalignment=ink.align,
            verticalalignment="baseline",
            parse_math=False,
            transform=self._transform,
            zorder=6.0,
        )
        if ink.backed:
            backing = {"facecolor": self.palette.ground, "alpha": _BACKING_ALPHA, "edgecolor": "none", "pad": 1.5}
            artist.set_bbox(backing)
            artist.set_zorder(5.0)
        artist.set_gid(gid)
        self.figure.add_artist(artist)

    def pixels(self) -> NDArray[np.uint8]:
        """Draw; opaque RGBA, shape (height, width, 4), top row first."""
        canvas = FigureCanvasAgg(self.figure)
        canvas.draw()  # type: ignore[no-untyped-call]
        pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
        if self.scale > 1 or self._size[0] == DESIGN_WIDTH_PX:
            return pixels
        return np.asarray(Image.fromarray(pixels).resize(self._size, Image.Resampling.HAMMING))

    def _add(self, artist: Line2D, gid: str, clip: Box | None) -> None:
        artist.set_transform(self._transform)
        artist.set_gid(gid)
        if clip is not None:
            corners = np.array([clip.x0, clip.y0, clip.x1, clip.y1]) * self.scale
            artist.set_clip_box(Bbox.from_extents(*corners))
        self.figure.add_artist(artist)
