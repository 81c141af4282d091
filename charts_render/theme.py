"""Colours, marker shapes and letter sizes of both themes.

Owns every visual constant; knows nothing of data or drawing. Sizes are pixels of a picture 1200 px wide, chosen so
that a third of them can still be read on a phone. Of the lines of a panel, any two keep apart under
protanopia and deuteranopia by their colours or their dashes (checked by a test); a marker shape repeats it.
"""

from dataclasses import dataclass
from typing import Final

from agent.domain.charts import Theme


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours as `#rrggbb`; `lines` are used in the order of the series."""

    ground: str
    ink: str
    muted: str
    grid: str
    lines: tuple[str, ...]


PALETTES: Final[dict[Theme, Palette]] = {
    "light": Palette(
        ground="#ffffff",
        ink="#16191d",
        muted="#5c646d",
        grid="#e3e6ea",
        lines=("#0b62c4", "#d4580a", "#067a63", "#a1308f", "#8a6d00", "#4a4f57", "#2a9bd6", "#c2185b"),
    ),
    "dark": Palette(
        ground="#17191e",
        ink="#f1f3f5",
        muted="#a3abb5",
        grid="#31353d",
        lines=("#5cadff", "#ff9142", "#2fd0a8", "#e58ad8", "#e5c84a", "#c9d1d9", "#9fe0ff", "#ff7d9c"),
    ),
}


def blend(colour: str, ground: str, share: float) -> str:
    """`share` of the colour over the ground."""
    pairs = [(int(colour[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(c * share + g * (1 - share)):02x}" for c, g in pairs)


def readable(ground: str, look: Palette) -> str:
    """Ink or the theme's ground, whichever stands out more from a coloured ground."""

    def contrast(colour: str) -> float:
        ours, theirs = _luminance(colour), _luminance(ground)
        return (max(ours, theirs) + 0.05) / (min(ours, theirs) + 0.05)

    return max((look.ink, look.ground), key=contrast)


def _luminance(colour: str) -> float:
    """Relative luminance, 0 to 1. Source: WCAG 2.2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


SHAPES: Final = ("o", "s", "^", "D", "v", "P", "X", "p")
DASHES: Final[tuple[tuple[float, ...], ...]] = (
    (), (), (), (), (16.0, 7.0), (5.0, 6.0), (24.0, 6.0, 6.0, 6.0), (2.5, 7.0),
)  # fmt: skip
MAX_PANELS: Final = 12
TWO_COLUMNS_FROM: Final = 4  # panels; fewer have the whole width
MULTIPLES_FROM: Final = 5  # panels; so many are small multiples: flatter, with one legend
MAX_PICTURES: Final = 4
MAX_SERIES: Final = len(SHAPES)
MAX_BASELINES: Final = 4

DESIGN_WIDTH_PX: Final = 1200
TITLE_PX: Final = 42.0
SUBTITLE_PX: Final = 29.0
HEADING_PX: Final = 32.0
VALUE_PX: Final = 29.0
TICK_PX: Final = 27.0
NOTE_PX: Final = 26.0

LINE_PX: Final = 4.5
MARKER_PX: Final = 13.0
