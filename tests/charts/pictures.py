"""Charts to test with, and ways to look at what was drawn."""

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from agent.domain.charts import Baseline, ChartSpec, Mark, Panel, Series


def chart(*series: Series, **panel: object) -> ChartSpec:
    """One panel with these series."""
    return ChartSpec("Ticket classifier", (Panel("loss", series, **panel),))  # type: ignore[arg-type]


def curve(*ys: float, name: str = "train") -> Series:
    """Values at the steps 0, 1, 2…"""
    return Series(name, tuple(range(len(ys))), ys)


def line(figure: Figure, gid: str) -> Line2D | None:
    """The drawn line of that name."""
    return next((a for a in figure.get_children() if isinstance(a, Line2D) and a.get_gid() == gid), None)


def texts(figure: Figure, kind: str = "") -> list[Text]:
    """Drawn texts whose name starts with `kind`."""
    found = [a for a in figure.get_children() if isinstance(a, Text) and a.get_text()]
    return [t for t in found if (t.get_gid() or "").startswith(kind)]


def collisions(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes overlap by more than a pixel, and texts that leave the picture."""
    FigureCanvasAgg(figure).draw()
    boxes = [(f"{t.get_gid()} {t.get_text()!r}", t.get_window_extent()) for t in texts(figure)]
    pairs = [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if _meet(one, other)]
    return pairs + [(name, "edge") for name, box in boxes if not _inside(box, figure)]


def _meet(one: Bbox, other: Bbox) -> bool:
    return min(one.x1, other.x1) - max(one.x0, other.x0) > 1 and min(one.y1, other.y1) - max(one.y0, other.y0) > 1


def _inside(box: Bbox, figure: Figure) -> bool:
    page = figure.bbox
    return box.x0 >= -1 and box.y0 >= -1 and box.x1 <= page.width + 1 and box.y1 <= page.height + 1


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
