"""Texts as strips of pixels, drawn once with matplotlib's fonts and kept: ticks and names are alike in most charts."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from numpy.typing import NDArray

from charts_render.lettering import Letters, font

_DPI = 72.0
_MARGIN = 4  # pixels around what the font says, for strokes that reach further


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """`coverage` is 0 to 255, shape (rows, columns), cut to its strokes.

    In pixels from where the base line begins: `left` and `right` of the strokes, `above` and `below` the base line.
    """

    coverage: NDArray[np.uint8]
    left: int
    above: int

    @property
    def right(self) -> int:
        """Behind the last column."""
        return self.left + int(self.coverage.shape[1])

    @property
    def below(self) -> int:
        """Rows under the base line; negative where the strokes end above it."""
        return len(self.coverage) - self.above


@lru_cache(maxsize=4096)
def strip(text: str, letters: Letters, scale: float) -> Strip:
    """The text at `scale` pixels a unit."""
    dpi, prop = _DPI * scale, font(letters)
    size = RendererAgg(1, 1, dpi).get_text_width_height_descent(text, prop, False)  # type: ignore[no-untyped-call]
    wide, high = (int(length) + 2 * round(letters.size_px * scale) + 2 * _MARGIN for length in size[:2])
    left, base = round(letters.size_px * scale) + _MARGIN, high - round(letters.size_px * scale) - _MARGIN
    renderer = RendererAgg(wide, high, dpi)  # type: ignore[no-untyped-call]
    context = renderer.new_gc()
    renderer.draw_text(context, left, base, text, prop, 0.0)  # type: ignore[no-untyped-call]
    alpha = np.asarray(renderer.buffer_rgba())[..., 3]  # type: ignore[no-untyped-call]
    rows, columns = np.flatnonzero(alpha.any(axis=1)), np.flatnonzero(alpha.any(axis=0))
    if not rows.size:
        return Strip(np.zeros((0, 0), dtype=np.uint8), 0, 0)
    cut = alpha[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].copy()
    return Strip(cut, int(columns[0]) - left, base - int(rows[0]))
