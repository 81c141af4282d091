"""`ChartSpec | PictureSpec -> PNG bytes`, the public face of this package. Pure; same input, same bytes.

Synchronous and CPU-bound (tens of milliseconds): a process with an event loop calls it through `charts_render.pool`.
"""

from typing import Final

from agent.domain.charts import ChartSpec
from agent.domain.pictures import PictureSpec
from charts_render.canvas import Sheet
from charts_render.drawing import PanelPainter, legend_entry
from charts_render.layout import NOTE, SUBTITLE, TITLE, lay_out
from charts_render.placement import Plot
from charts_render.plan import plan
from charts_render.raster import encode
from charts_render.results import sheet as results
from charts_render.scene import Ink
from charts_render.theme import PALETTES

NARROWEST_PX: Final = 240
WIDEST_PX: Final = 3000


def render(spec: ChartSpec | PictureSpec) -> bytes:
    """A PNG of `spec.width_px` pixels (held within 240 and 3000); the height follows from the content.

    Draws at most twelve panels of eight series, or four pictures, and says in the picture what it left out. Gaps,
    infinities and odd names are drawn, not refused: no data raises an error. Not thread-safe, as matplotlib is not.
    """
    sheet = compose(spec)
    return encode(sheet.pixels(), spec.theme, sheet.photos)


def compose(spec: ChartSpec | PictureSpec) -> Sheet:
    """The sheet before it becomes pixels, for whoever wants to measure it."""
    width_px = min(max(int(spec.width_px), NARROWEST_PX), WIDEST_PX)
    return _curves(spec, width_px) if isinstance(spec, ChartSpec) else results.compose(spec, width_px)


def _curves(spec: ChartSpec, width_px: int) -> Sheet:
    chart = plan(spec)
    layout = lay_out(chart)
    look = PALETTES[spec.theme]
    sheet = Sheet(width_px, layout.height, look)
    for line in layout.title:
        sheet.text(line.x, line.base, line.text, Ink(TITLE, look.ink), "title")
    sheet.text(layout.subtitle.x, layout.subtitle.base, layout.subtitle.text, Ink(SUBTITLE, look.muted), "subtitle")
    for entry in layout.legend:
        legend_entry(sheet, entry, entry.curve, of="all")
    reading = layout.reading
    sheet.text(reading.x, reading.base, reading.text, Ink(NOTE, look.muted), "reading")
    for frame in layout.frames:
        PanelPainter(sheet, frame, chart.x, Plot(frame.plot)).paint(whole_steps=chart.whole_steps)
    for label in layout.x_labels:
        sheet.text(label.x, label.base, label.text, Ink(NOTE, look.muted, "center"), "x-label")
    return sheet
