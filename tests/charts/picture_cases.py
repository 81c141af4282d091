"""Charts to test with, and ways to look at what was drawn."""

import io
import math
import struct
import zlib
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from PIL import Image

from agent.domain.charts import Baseline, ChartSpec, Mark, Panel, Series
from agent.domain.pictures import PictureSpec, ResultPicture
from charts_render.canvas import Sheet
from charts_render.placement import Box
from charts_render.render import compose
from charts_render.scene import Dots, Line, Shape, Words


def chart(*series: Series, **panel: object) -> ChartSpec:
    """One panel with these series."""
    return ChartSpec("Ticket classifier", (Panel("loss", series, **panel),))  # type: ignore[arg-type]


def curve(*ys: float, name: str = "train") -> Series:
    """Values at the steps 0, 1, 2…"""
    return Series(name, tuple(range(len(ys))), ys)


def shape(sheet: Sheet, gid: str) -> Shape | None:
    """What is drawn under that name."""
    return next((shape for shape in sheet.shapes if shape.gid == gid), None)


def line(sheet: Sheet, gid: str) -> Line | Dots | None:
    """The drawn line or markers of that name."""
    found = shape(sheet, gid)
    assert found is None or isinstance(found, (Line, Dots))
    return found


def texts(sheet: Sheet, kind: str = "") -> list[Words]:
    """Drawn texts whose name starts with `kind`."""
    return [words for words in sheet.words if words.gid.startswith(kind)]


def collisions(sheet: Sheet) -> list[tuple[str, str]]:
    """Pairs of texts whose strokes' boxes overlap by more than a pixel, and texts that leave the picture."""
    boxes = [(f"{words.gid} {words.text!r}", words.box(sheet.scale)) for words in texts(sheet)]
    pairs = [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if _meet(one, other)]
    return pairs + [(name, "edge") for name, box in boxes if not _inside(box, sheet)]


def _meet(one: Box, other: Box) -> bool:
    return min(one.x1, other.x1) - max(one.x0, other.x0) > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1


def _inside(box: Box, sheet: Sheet) -> bool:
    return box.x0 >= -1 and box.y0 >= -1 and box.x1 <= sheet.size[0] + 1 and box.y1 <= sheet.size[1] + 1


def crowded() -> Iterator[tuple[str, ChartSpec]]:
    """Charts that tempt texts to meet, with their names."""
    steps = tuple(range(200))
    close = tuple(Series(f"run {i} of the sweep", steps, [1 / (s + 1) + i * 1e-3 for s in steps]) for i in range(8))
    lines = tuple(Baseline(f"baseline number {i}", 0.004 + i * 1e-4) for i in range(4))
    marks = tuple(Mark(s, f"checkpoint {s}") for s in range(0, 200, 9))
    busy = Panel(
        "validation loss of a very long winded metric name", close, "nats per token", lines, marks, better="lower"
    )
    small = Panel("lr", (Series("lr", steps, [3e-4 * (1 - s / 200) for s in steps]),), log_scale=True)
    large = Panel("tokens", (Series("n", steps, [1.5e9 * s for s in steps]),), "tokens", (Baseline("goal", 1e15),))
    empty = Panel("", ())
    for panels in [
        (busy,),
        (small, large),
        (busy, small, large),
        (busy, busy, busy, busy),
        (small, empty, busy, large),
    ]:
        for width in (400, 2400):
            spec = ChartSpec("A title " * 12, panels, "subtitle " * 30, "optimizer step " * 20, "light", width)
            yield f"{len(panels)}-crowded-{len(panels[0].series)}-{width}", spec


ODD = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e300, -1e300, 5e-324, 1.7e308, -1.7e308, 1e-12)


def million(seed: int) -> Panel:
    """A noisy decay over 1,000,000 steps."""
    x = np.arange(1_000_000, dtype=np.float64)
    y = np.exp(-x / 200_000) + np.random.default_rng(seed).normal(0, 0.05, x.size)
    return Panel(f"metric {seed}", (Series("a", x, y),), better="lower")  # type: ignore[arg-type]


NAMES = (
    "",
    "\n",
    "損失",
    "خسارة",
    "🚀",
    "a" * 400,
    "$\\frac{",
    "a\u0301" + "\u0301" * 90,
    "\ud800",
    "%s {}",
    "x\x00y",
    "two words",
)

SCRIPTS = (
    "損失",
    "خسارة",
    "ÅÄǗ gj",
    "学習率",
    "检验 j",
    "plain",
    "손실",
    "ẤỘ|jgp",
)  # reach further up and down than Latin


def drawn(picture: ResultPicture, width_px: int = 1200) -> Sheet:
    """A sheet with one picture."""
    return compose(PictureSpec("t", (picture,), width_px=width_px))


def said(sheet: Sheet, kind: str) -> list[str]:
    """The texts of that name, in their order."""
    return [words.text for words in texts(sheet, kind + ":")]


def notes(picture: ResultPicture) -> str:
    """What the picture says beside or below its heading."""
    return " · ".join(said(drawn(picture), "note"))


def png(wide: int, high: int, mode: str = "RGB") -> bytes:
    """A black image."""
    out = io.BytesIO()
    Image.new(mode, (wide, high)).save(out, "PNG")
    return out.getvalue()


def bomb(wide: int, high: int) -> bytes:
    """The head of a PNG that claims a size, without its pixels."""
    head = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", 13) + b"IHDR" + head + struct.pack(">I", zlib.crc32(b"IHDR" + head))
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", 9) + b"IDAT" + bytes(13)


def _noise() -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (60, 60, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


BROKEN = (
    b"",
    b"no image",
    b"\x89PNG\r\n\x1a\n",
    _noise()[:200],
    _noise()[:-4000],
    bomb(60_000, 60_000),
    bomb(8000, 8000),
    b"GIF89a",
)
