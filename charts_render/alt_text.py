"""A chart in plain sentences, for those who do not see it and for notifications without a picture."""

from agent.domain.charts import ChartSpec, Panel
from agent.domain.pictures import PictureSpec
from charts_render.curve import Curve, clean
from charts_render.numerals import step_text, value_text
from charts_render.plan import smooth_text
from charts_render.results.words import sentence
from charts_render.smoothing import smoothed
from charts_render.theme import MAX_PANELS

_TIMES = frozenset({"seconds", "minutes", "hours", "days"})
_NAMED = 3  # series that get words of their own
_LONGEST = 1500  # characters; Discord shows 1024 of a description, Slack 2000


def describe(spec: ChartSpec | PictureSpec) -> str:
    """One sentence for the title, one for each panel (first and last value, best value, baselines) or picture.

    At most 1500 characters. The numbers are those that the picture shows. Never raises on odd data.
    """
    sentences = _chart(spec) if isinstance(spec, ChartSpec) else _pictures(spec)
    text = " ".join(sentences)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def _chart(spec: ChartSpec) -> list[str]:
    title = " ".join(spec.title.split())
    sentences = [f"Chart: {title}." if title else "Chart."]
    sentences += [_panel(panel, spec.x_label or "x") for panel in spec.panels[:MAX_PANELS]]
    if len(spec.panels) > MAX_PANELS:
        sentences.append(f"{len(spec.panels) - MAX_PANELS:,} more panels are not shown.")
    if not spec.panels:
        sentences.append("It has no panels yet.")
    return sentences


def _pictures(spec: PictureSpec) -> list[str]:
    title = " ".join(spec.title.split())
    sentences = [f"{title}."] if title else []
    sentences += [sentence(picture) for picture in spec.pictures[:MAX_PANELS]]
    if len(spec.pictures) > MAX_PANELS:
        sentences.append(f"{len(spec.pictures) - MAX_PANELS:,} more pictures are not shown.")
    return sentences if spec.pictures else [*sentences, "There are no pictures yet."]


def _panel(panel: Panel, x_label: str) -> str:
    curves = [clean(series) for series in panel.series[:_NAMED]]
    name = " ".join((panel.title or (panel.series[0].name if panel.series else "") or "metric").split())
    unit = f" {panel.unit}" if panel.unit else ""
    parts = [_curve(curve, panel, unit, x_label, named=len(panel.series) > 1) for curve in curves]
    if len(panel.series) > _NAMED:
        parts.append(f"and {len(panel.series) - _NAMED:,} more series")
    if any(smoothed(curve, panel.smooth) is not None for curve in curves):
        parts.append(f"the line is {smooth_text(panel.smooth)}, these values are not")
    parts += [f"baseline {b.name} {value_text(b.value)}" for b in panel.baselines[:_NAMED]]
    return f"{name}: {'; '.join(parts) or 'no values yet'}."


def _place(x_label: str, x: float) -> str:
    """`step 3`, but `3 hours`."""
    if x_label not in _TIMES:
        return f"{x_label} {step_text(x)}"
    said = step_text(x)
    return f"{said} {x_label.removesuffix('s') if said == '1' else x_label}"


def _curve(curve: Curve, panel: Panel, unit: str, x_label: str, *, named: bool) -> str:
    start = f"{curve.name or 'unnamed'} " if named else ""
    if curve.last is None:
        return f"{start}has no values yet" if named else "no values yet"
    at = _place(x_label, curve.last.x)
    if curve.first is None or curve.first == curve.last:
        text = f"{start}is {value_text(curve.last.y)}{unit} at {at}"
    else:
        text = f"{start}goes from {value_text(curve.first.y)} to {value_text(curve.last.y)}{unit} at {at}"
    best = curve.best(panel.better)
    if best is not None and curve.first != curve.last:
        where = "the last" if best == curve.last else f"at {_place(x_label, best.x)}"
        text += f", best {value_text(best.y)} ({panel.better} is better) {where}"
    count = curve.up.size + curve.down.size
    return text + (f", {count:,} infinite" if count else "")
