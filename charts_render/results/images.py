"""A grid of samples: mistakes of a classifier, boxes of a detector.

Images come from elsewhere: they are decoded within limits, and what cannot be decoded is an empty frame that says so.
"""

import io
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from agent.domain.pictures import Box, Images, Tile
from charts_render.curve import floats
from charts_render.layout import NOTE
from charts_render.lettering import ASCENT, DESCENT, Letters, flow, shorten, width
from charts_render.placement import Box as Place
from charts_render.placement import Plot
from charts_render.results.part import Part
from charts_render.scene import Ink, Pen
from charts_render.theme import readable

MOST_PIXELS: Final = 40_000_000
MOST_PIXELS_A_SHEET: Final = 60_000_000  # decoding more takes longer than a picture may take
_FORMATS = ("PNG", "JPEG")
_GAP = 26.0
_TALLEST = 0.8  # of a tile's width
_KEPT_PX = 1200  # longest side of what is kept in memory
_CAPTION_ROW, _CAPTION_LINES = 34.0, 2
_LABEL = Letters(24.0, bold=True)
_FRAME = 5.0
_SCORES = 1e6  # a larger one is none
_BROKEN = (
    OSError, ValueError, SyntaxError, EOFError, KeyError, IndexError, TypeError, AttributeError, OverflowError,
    MemoryError, struct.error, zlib.error, Image.DecompressionBombError, Image.DecompressionBombWarning,
)  # fmt: skip  # what Pillow's decoders raise for bytes that are no image


@dataclass(frozen=True, slots=True, eq=False)
class _Sample:
    """A tile with its pixels, None where there are none: `cause` then says why."""

    tile: Tile
    rgb: NDArray[np.uint8] | None
    cause: str


def paint(part: Part, images: Images) -> None:
    """Draw everything."""
    samples = _samples(images, part.palette.ground)
    part.head(images.heading, _notes(samples))
    if not samples:
        part.empty("no images yet")
        return
    part.depth += 6
    columns = min(len(samples), 2 if len(samples) in {2, 4} else 3)
    wide = (part.max_width - _GAP * (columns - 1)) / columns if columns > 1 else part.max_width * 0.6
    for first in range(0, len(samples), columns):
        row = samples[first : first + columns]
        high = max(_size(sample, wide)[1] for sample in row)
        deepest = 0.0
        for k, sample in enumerate(row):
            deepest = max(deepest, _tile(part, first + k, sample, (k * (wide + _GAP), wide, high)))
        part.depth += high + deepest + _GAP
    part.depth -= _GAP


def _samples(images: Images, ground: str) -> list[_Sample]:
    """The tiles with their pixels, as long as these are not too many in all."""
    found, left = [], MOST_PIXELS_A_SHEET
    for tile in images.tiles:
        count = _count(tile.image)
        if count > min(left, MOST_PIXELS):
            found.append(_Sample(tile, None, "too large"))
            continue
        left -= count
        found.append(_Sample(tile, decode(tile.image, ground), "broken image"))
    return found


def _count(data: bytes) -> int:
    """How many pixels an image says it has, read off its head; 0 for none."""
    try:
        with _quiet(), Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            return image.width * image.height
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return MOST_PIXELS + 1
    except _BROKEN:
        return 0


def decode(data: bytes, ground: str) -> NDArray[np.uint8] | None:
    """RGB of shape (rows, columns, 3), reduced to at most 1200 pixels a side; None for what is no sound image."""
    try:
        with _quiet(), Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                return None
            image.draft("RGB", (_KEPT_PX, _KEPT_PX))
            image.load()
            return _flat(image, ground)
    except _BROKEN:
        return None


@contextmanager
def _quiet() -> Iterator[None]:
    """Pillow's warning of a size is an error, its others are nothing that anybody could act on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _flat(image: Image.Image, ground: str) -> NDArray[np.uint8]:
    """Opaque eight-bit RGB; what shines through is the theme's ground."""
    if image.mode.startswith(("I", "F")):
        deep = np.nan_to_num(np.asarray(image, dtype=np.float64))
        low, span = float(deep.min()), float(np.ptp(deep)) or 1.0
        image = Image.fromarray(((deep - low) / span * 255).astype(np.uint8))
    if max(image.size) > _KEPT_PX:
        image = image.convert("RGBA" if "A" in image.getbands() or "transparency" in image.info else "RGB")
        image.thumbnail((_KEPT_PX, _KEPT_PX))
    if "A" in image.getbands() or "transparency" in image.info:
        clear = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", clear.size, ground), clear)
    return np.asarray(image.convert("RGB"))


def _size(sample: _Sample, wide: float) -> tuple[float, float]:
    """Width and height of an image in its tile, nothing cut off."""
    if sample.rgb is None:
        return wide, wide * 0.6
    high, across = sample.rgb.shape[:2]
    scale = min(wide / across, wide * _TALLEST / high)
    return max(across * scale, 2.0), max(high * scale, 2.0)


def _tile(part: Part, number: int, sample: _Sample, place: tuple[float, float, float]) -> float:
    """One image, its boxes and its caption in `place` (left, width, height); the caption's height."""
    (left, wide, high), look = place, part.palette
    own = _size(sample, wide)
    x, top = left, -part.depth - (high - own[1])
    box = Place(x, top - own[1], x + own[0], top)
    if sample.rgb is None:
        part.line([box.x0, box.x1, box.x1, box.x0, box.x0], [box.y0, box.y0, box.y1, box.y1, box.y0],
                  Pen(look.muted, 2.0, (6.0, 6.0)), part.gid("frame", number))  # fmt: skip
        text = shorten(sample.cause, NOTE, wide - 8)
        part.say((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2 - 9, text, f"broken:{number}", align="center")
    else:
        part.photo(box, sample.rgb, part.gid("image", number))
        _boxes(part, number, sample.tile, box)
    return _caption(part, number, sample.tile, (left, wide, -part.depth - high))


def _caption(part: Part, number: int, tile: Tile, place: tuple[float, float, float]) -> float:
    (left, wide, bottom), look = place, part.palette
    indent = 0.0
    if tile.right is not None:
        colour = look.lines[0 if tile.right else 1]
        part.rect(Place(left, bottom - 4 - _FRAME, left + wide, bottom - 4), colour, 1.5, part.gid("verdict", number))
        sign = "✓" if tile.right else "✗"
        part.text(left, bottom - 38, sign, Ink(_LABEL, colour), part.gid("sign", number))
        indent = width(sign, _LABEL) + 10
    lines = flow(tile.caption, NOTE, wide - indent, lines=_CAPTION_LINES)
    for i, line in enumerate(lines):
        ink = Ink(NOTE, look.ink)
        part.text(left + indent, bottom - 38 - i * _CAPTION_ROW, line, ink, part.gid("caption", f"{number}-{i}"))
    return max(len(lines), 1 if indent else 0) * _CAPTION_ROW + (16 if lines or indent else 0)


def _boxes(part: Part, number: int, tile: Tile, area: Place) -> None:
    """Rectangles with a halo; what is there dashed, what was found solid. A name that was found is said once."""
    plot = Plot(area)
    found = {box.name for box in tile.boxes if not box.truth}
    for i, box in enumerate(tile.boxes):
        place = _inside(box, area)
        if place is None:
            continue
        colour = part.palette.lines[2 if box.truth else 1]
        xs = [place.x0, place.x1, place.x1, place.x0, place.x0]
        ys = [place.y0, place.y0, place.y1, place.y1, place.y0]
        part.line(xs, ys, Pen(part.palette.ground, 7.0, layer=2.0), part.gid("halo", f"{number}-{i}"), area)
        pen = Pen(colour, 4.0, (9.0, 6.0) if box.truth else (), 2.2)
        part.line(xs, ys, pen, part.gid("box", f"{number}-{i}"), area)
        score = f" {box.score:.2f}" if box.score is not None and abs(box.score) < _SCORES else ""
        text = shorten(box.name + score, _LABEL, area.width - 16)
        if box.truth and box.name in found:
            continue
        _label(part, plot, (text, colour, f"{number}-{i}"), place)


def _label(part: Part, plot: Plot, what: tuple[str, str, str], place: Place) -> None:
    """A chip above the box, inside of it or below it; none where others already are."""
    (text, colour, item), wide = what, width(what[0], _LABEL) + 12
    if not text:
        return
    high, size = 32.0, _LABEL.size_px
    x = min(max(place.x0, plot.area.x0), plot.area.x1 - wide)
    spots = [Place(x, y, x + wide, y + high) for y in (place.y1, place.y1 - high, place.y0, place.y0 - high)]
    spot = plot.claim(spots)
    if spot is not None:
        part.rect(spot, colour, 5.0, part.gid("chip", item))
        base = (spot.y0 + spot.y1) / 2 - size * (ASCENT - DESCENT) / 2
        part.text(spot.x0 + 6, base, text, Ink(_LABEL, readable(colour, part.palette)), part.gid("box-name", item))


def _inside(box: Box, area: Place) -> Place | None:
    """Its place in the image, None for what is no rectangle."""
    parts = floats([box.left, box.top, box.right, box.bottom])
    if not np.isfinite(parts).all():
        return None
    left, top, right, bottom = np.clip(parts, 0.0, 1.0).tolist()
    if right <= left or bottom <= top:
        return None
    return Place(
        area.x0 + left * area.width, area.y1 - bottom * area.height,
        area.x0 + right * area.width, area.y1 - top * area.height,
    )  # fmt: skip


def _notes(samples: list[_Sample]) -> list[str]:
    broken = sum(1 for sample in samples if sample.rgb is None)
    notes = [f"{broken:,} cannot be shown"] if broken else []
    if any(box.truth for sample in samples for box in sample.tile.boxes):
        notes.append("dashed: what is there")
    return notes
