"""The scene that becomes pixels. Only this module and `strips` draw with matplotlib.

Places and sizes are units of a picture 1200 wide, y upwards; the sheet scales them to the width that was asked for.
What can be drawn is in `scene`. Shapes go to matplotlib's renderer at once: its figures and artists take longer to make
than the lines take to draw.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import to_rgb
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from matplotlib.transforms import Affine2D, Bbox
from numpy.typing import NDArray
from PIL import Image

from charts_render.curve import finite_runs
from charts_render.placement import Box
from charts_render.scene import Area, Dots, Fill, Line, Photo, Scene, Words
from charts_render.strips import strip
from charts_render.theme import DESIGN_WIDTH_PX, Palette

_DPI = 72.0  # one point is one unit
_BACKING_ALPHA = 0.82
_BACKING_PAD = 1.5


class Sheet(Scene):
    """A picture of `DESIGN_WIDTH_PX` by `height` units, drawn `width_px` pixels wide.

    A smaller picture is drawn at design width and reduced: letters hinted for a few pixels would be wider than planned.
    """

    def __init__(self, width_px: int, height: float, palette: Palette) -> None:
        """Nothing but ground."""
        super().__init__(palette)
        self.scale = max(1.0, width_px / DESIGN_WIDTH_PX)
        self.size = (max(width_px, DESIGN_WIDTH_PX), round(height * self.scale))  # drawn pixels: width, height
        self._size = (width_px, round(height * width_px / DESIGN_WIDTH_PX))

    @property
    def photos(self) -> list[Box]:
        """Where images lie, in pixels of the finished picture, y upwards."""
        share = self._size[0] / DESIGN_WIDTH_PX
        boxes = [shape.box for shape in self.shapes if isinstance(shape, Photo)]
        return [Box(b.x0 * share, b.y0 * share, b.x1 * share, b.y1 * share) for b in boxes]

    def pixels(self) -> NDArray[np.uint8]:
        """Draw; opaque RGBA, shape (height, width, 4), top row first."""
        renderer = RendererAgg(*self.size, _DPI * self.scale)  # type: ignore[no-untyped-call]
        buffer: NDArray[np.uint8] = np.asarray(renderer.buffer_rgba())  # type: ignore[no-untyped-call]
        buffer.view(np.uint32)[:] = np.array([*_bytes(self.palette.ground), 255], dtype=np.uint8).view(np.uint32)
        for shape in sorted(self.shapes, key=lambda shape: shape.layer):
            match shape:
                case Line():
                    self._stroke(renderer, shape)
                case Area():
                    self._fill(renderer, shape)
                case Fill():
                    self._polygon(renderer, shape)
                case Dots():
                    self._mark(renderer, shape)
                case Photo():
                    self._show(buffer, shape)
        for words in sorted(self.words, key=lambda words: not words.ink.backed):
            self._write(buffer, words)
        if self.scale > 1 or self._size[0] == DESIGN_WIDTH_PX:
            return buffer
        return np.asarray(Image.fromarray(buffer).resize(self._size, Image.Resampling.HAMMING))

    def _context(self, renderer: RendererAgg, colour: str, width: float, clip: Box | None) -> Any:
        context = renderer.new_gc()
        context.set_foreground(to_rgb(colour))
        context.set_linewidth(width)
        context.set_capstyle("butt")
        context.set_joinstyle("round")
        if clip is not None:
            corners = np.array([clip.x0, clip.y0, clip.x1, clip.y1]) * self.scale
            context.set_clip_rectangle(Bbox.from_extents(*corners))
        return context

    def _stroke(self, renderer: RendererAgg, line: Line) -> None:
        context = self._context(renderer, line.pen.colour, line.pen.width, line.clip)
        if line.pen.dash:
            context.set_dashes(0, line.pen.dash)
        places = Path(np.column_stack([line.xs, line.ys]))
        renderer.draw_path(context, places, Affine2D().scale(self.scale))  # type: ignore[no-untyped-call]

    def _fill(self, renderer: RendererAgg, area: Area) -> None:
        context = self._context(renderer, area.colour, 0.0, area.clip)
        for first, last in finite_runs(area.low + area.high):
            xs = np.repeat(area.edges[first : last + 1], 2)[1:-1]
            above, below = np.repeat(area.high[first:last], 2), np.repeat(area.low[first:last], 2)
            outline = np.concatenate([np.column_stack([xs, above]), np.column_stack([xs, below])[::-1]])
            path, transform = Path(outline, closed=False), Affine2D().scale(self.scale)
            renderer.draw_path(context, path, transform, to_rgb(area.colour))  # type: ignore[no-untyped-call]

    def _polygon(self, renderer: RendererAgg, fill: Fill) -> None:
        context = self._context(renderer, fill.colour, 0.0, fill.clip)
        path, transform = Path(np.column_stack([fill.xs, fill.ys])), Affine2D().scale(self.scale)
        renderer.draw_path(context, path, transform, to_rgb(fill.colour))  # type: ignore[no-untyped-call]

    def _show(self, buffer: NDArray[np.uint8], photo: Photo) -> None:
        box, high = photo.box, len(buffer)
        left, right = round(box.x0 * self.scale), round(box.x1 * self.scale)
        top, bottom = high - round(box.y1 * self.scale), high - round(box.y0 * self.scale)
        part = buffer[max(0, top) : bottom, max(0, left) : right, :3]
        if part.size:
            part[:] = np.asarray(Image.fromarray(photo.rgb).resize(part.shape[1::-1], Image.Resampling.BICUBIC))

    def _mark(self, renderer: RendererAgg, dots: Dots) -> None:
        look = dots.dot
        context = self._context(renderer, look.edge, look.edge_width, dots.clip)
        shape, transform, snap_from, (cap, joint) = _marker(look.shape)
        context.set_capstyle(cap)
        context.set_joinstyle(joint)
        context.set_snap(None if snap_from is None else look.size * self.scale >= snap_from)
        face = None if look.fill == "none" else to_rgb(look.fill)
        grown = Affine2D(transform).scale(look.size * self.scale)
        places = Path(np.column_stack([dots.xs, dots.ys]))
        renderer.draw_markers(context, shape, grown, places, Affine2D().scale(self.scale), face)

    def _write(self, buffer: NDArray[np.uint8], words: Words) -> None:
        drawn = strip(words.text, words.ink.letters, self.scale)
        left, base = words.corner(self.scale)
        if words.ink.backed:
            pad, box = _BACKING_PAD * self.scale, words.box(self.scale)
            rows = slice(max(0, round(len(buffer) - box.y1 - pad)), max(0, round(len(buffer) - box.y0 + pad)))
            part = buffer[rows, max(0, round(box.x0 - pad)) : max(0, round(box.x1 + pad)), :3]
            ground = np.array(_bytes(self.palette.ground))
            part[:] = np.rint(part * (1 - _BACKING_ALPHA) + ground * _BACKING_ALPHA).astype(np.uint8)
        coverage = np.rot90(drawn.coverage) if words.ink.turned else drawn.coverage
        ahead, rise = (-drawn.above, drawn.right) if words.ink.turned else (drawn.left, drawn.above)
        top, x0 = len(buffer) - base - rise, left + ahead
        part = buffer[max(0, top) : max(0, top + len(coverage)), max(0, x0) : max(0, x0 + coverage.shape[1]), :3]
        cut = coverage[max(0, -top) :, max(0, -x0) :][: len(part), : part.shape[1], None].astype(np.int32)
        part[:] = (part * (255 - cut) + np.array(_bytes(words.ink.colour)) * cut + 127) // 255


def _bytes(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


@lru_cache(maxsize=32)
def _marker(shape: str) -> tuple[Path, NDArray[np.float64], float | None, tuple[str, str]]:
    """Outline, its transformation at size 1, from which size it is snapped to pixels, and how its edge is drawn."""
    style = MarkerStyle(shape)
    ends = str(style.get_capstyle()), str(style.get_joinstyle())
    threshold = style.get_snap_threshold()
    return style.get_path(), style.get_transform().get_matrix(), threshold, ends
