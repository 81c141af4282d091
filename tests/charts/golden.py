"""Pictures as they should look, compared with tolerance: `python -m tests.charts.golden` makes them anew.

Look at what changed before you commit it. Stored as small PNGs, so that the repository stays small; other versions of
matplotlib's renderer may differ in the soft edges of strokes, a wrong colour or place differs by much more.
"""

import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from agent.domain.charts import ChartSpec, Theme
from agent.domain.pictures import PictureSpec
from charts_render.gallery import examples
from charts_render.render import render
from charts_render.samples import results

FOLDER = Path(__file__).parent / "golden"
LOUD = 48  # of 255: a pixel that differs by more counts as changed
MOST_MEAN, MOST_CHANGED = 1.2, 0.012  # of 255, and of all pixels
_CHARTS = ("two", "log", "gpus", "nine")
_WIDE = ("matrix", "classifier", "scores")
_NARROW = (
    "matrix-large", "importance", "forecast", "histograms", "regression", "clusters", "mistakes", "progress", "tree",
    "detections",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """`mean` of all channels, 0 to 255; `changed` is the share of pixels that differ loudly."""

    mean: float
    changed: float

    @property
    def small(self) -> bool:
        """Whether the pictures count as the same."""
        return self.mean <= MOST_MEAN and self.changed <= MOST_CHANGED


def specs() -> dict[str, ChartSpec | PictureSpec]:
    """What is stored, by name: every kind in one theme, the themes in turns."""
    found: dict[str, ChartSpec | PictureSpec] = {}
    themes: tuple[Theme, Theme] = ("light", "dark")
    for theme in themes:
        for name in _CHARTS:
            found[f"chart-{name}-{theme}-400"] = replace(examples(theme)[name], width_px=400)
        found |= {f"{name}-{theme}-400": results(theme, 400)[name] for name in _NARROW}
    found |= {f"{name}-{themes[i % 2]}-1200": results(themes[i % 2])[name] for i, name in enumerate(_WIDE)}
    return found


def difference(one: bytes, other: bytes) -> Difference:
    """How far two PNGs are apart; pictures of different sizes are wholly different."""
    a, b = _pixels(one), _pixels(other)
    if a.shape != b.shape:
        return Difference(255.0, 1.0)
    apart = np.abs(a - b)
    return Difference(float(apart.mean()), float((apart.max(axis=2) > LOUD).mean()))


def _pixels(png: bytes) -> NDArray[np.int16]:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), dtype=np.int16)


def main() -> None:
    """Write all of them, and nothing else into their folder."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.png"):
        old.unlink()
    for name, spec in specs().items():
        (FOLDER / f"{name}.png").write_bytes(render(spec))


if __name__ == "__main__":
    main()
