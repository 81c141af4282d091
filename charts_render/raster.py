"""From drawn pixels to a small PNG: one fixed palette of 256 colours for each theme.

The colours of a chart are known beforehand (ground, letters, lines and their soft edges), so no search through the
picture is needed, and the same pixels always give the same bytes.
"""

import io
from collections.abc import Sequence
from functools import cache

import numpy as np
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from PIL import Image

from agent.domain.charts import Theme
from charts_render.placement import Box
from charts_render.theme import PALETTES

_BITS = 5  # of each channel that choose the nearest palette entry
_SAMPLE = 60_000  # pixels of photos that their colours are chosen by


def encode(pixels: NDArray[np.uint8], theme: Theme, photos: Sequence[Box] = ()) -> bytes:
    """PNG bytes of opaque RGBA pixels, shape (height, width, 4). No time stamp, no metadata.

    Where `photos` lie (pixels, y upwards), the colours that the theme leaves free are chosen for them.
    """
    entries, nearest = _palette(theme)
    height, width = pixels.shape[:2]
    indices = np.zeros((height, width), dtype=np.uint8)
    ground = np.append(entries[0], np.uint8(255)).view("<u4")
    words = np.ascontiguousarray(pixels).view("<u4")[..., 0]
    drawn = words != ground
    indices[drawn] = nearest[_bins_of_words(words[drawn])]
    if photos:
        entries = _show(pixels, indices, entries, theme, photos)
    image = Image.frombytes("P", (width, height), indices.tobytes())
    image.putpalette(entries.tobytes())
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=6)
    return out.getvalue()


def _show(
    pixels: NDArray[np.uint8],
    indices: NDArray[np.uint8],
    entries: NDArray[np.uint8],
    theme: Theme,
    photos: Sequence[Box],
) -> NDArray[np.uint8]:
    """Index the photos anew, with colours of their own in the entries that the theme leaves free; the new palette."""
    parts = [_part(pixels.shape[0], box) for box in photos]
    sample = np.concatenate([pixels[part][..., :3].reshape(-1, 3) for part in parts])
    sample = sample[:: max(1, len(sample) // _SAMPLE)]
    if not len(sample):
        return entries
    used = len(_colours(theme))
    found = Image.fromarray(sample[None]).quantize(256 - used, Image.Quantize.MAXCOVERAGE, kmeans=1)
    chosen = np.array(found.getpalette(), dtype=np.uint8).reshape(-1, 3)[: 256 - used]
    entries = entries.copy()
    entries[used : used + len(chosen)] = chosen
    palette = Image.new("P", (1, 1))
    palette.putpalette(entries.tobytes())
    for part in parts:
        region = pixels[part][..., :3]
        if region.size:
            indices[part] = np.asarray(Image.fromarray(region).quantize(palette=palette, dither=Image.Dither.NONE))
    return entries


def _part(high: int, box: Box) -> tuple[slice, slice]:
    top, bottom = max(0, round(high - box.y1)), max(0, round(high - box.y0))
    return slice(top, bottom), slice(max(0, round(box.x0)), max(0, round(box.x1)))


def _bins_of_words(words: NDArray[np.uint32]) -> NDArray[np.uint32 | np.int64]:
    """The same of pixels as little-endian words, red first."""
    short = (1 << _BITS) - 1
    red, green, blue = ((words >> (shift + 8 - _BITS)) & short for shift in (0, 8, 16))
    return (red << (2 * _BITS)) | (green << _BITS) | blue


def _bins(rgb: NDArray[np.int64]) -> NDArray[np.int64]:
    short = rgb >> (8 - _BITS)
    return (short[:, 0] << (2 * _BITS)) | (short[:, 1] << _BITS) | short[:, 2]


@cache
def _palette(theme: Theme) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Entries, shape (256, 3), the ground first; and the nearest entry of every bin, shape (32768,)."""
    colours = _colours(theme)
    pure = 4 + len(PALETTES[theme].lines)
    entries = np.zeros((256, 3), dtype=np.uint8)
    entries[: len(colours)] = np.round(np.array(colours) * 255).astype(np.uint8)
    entries[len(colours) :] = entries[0]
    axis = (np.arange(1 << _BITS) << (8 - _BITS)) + (1 << (7 - _BITS))
    cells = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3).astype(np.float32)
    known = entries[: len(colours)].astype(np.float32)
    squares = (known**2).sum(axis=1) - 2 * cells @ known.T  # (32768, n): the distance, less a term of the cell's own
    nearest = squares.argmin(axis=1).astype(np.uint8)
    nearest[_bins(entries[:pure].astype(np.int64))] = np.arange(pure)
    return entries, nearest


def _colours(theme: Theme) -> list[NDArray[np.float64]]:
    """What a chart is made of, 0 to 1: the theme's colours as they are, then in steps towards the ground."""
    look = PALETTES[theme]
    ground = np.array(to_rgb(look.ground))
    pure = [look.ground, look.ink, look.muted, look.grid, *look.lines]
    ramps = [(look.ink, 12), (look.muted, 10), (look.grid, 4), *((line, 9) for line in look.lines)]
    colours = [np.array(to_rgb(colour)) for colour in pure]
    colours += [ground + (np.array(to_rgb(c)) - ground) * i / n for c, n in ramps for i in range(1, n)]
    return colours
