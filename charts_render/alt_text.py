"""A chart in plain sentences, for those who do not see it and for notifications without a picture."""

from collections.abc import Sequence
from dataclasses import dataclass

from agent.domain.charts import ChartSpec, Panel
from agent.domain.pictures import PictureSpec
from charts_render.curve import Curve, clean
from charts_render.numerals import step_text, value_text
from charts_render.plan import smooth_text
from charts_render.results.words import sentence
from charts_render.smoothing import smoothed
from charts_render.theme import MAX_PANELS, MAX_PICTURES, MULTIPLES_FROM

_TIMES = frozenset({"seconds", "minutes", "hours", "days"})
_NAMED = 3  # series that get words of their own
_LONGEST = 1500  # characters; Discord shows 1024 of a description, Slack 2000
_SHOWN_EVERYWHERE = 1024


@dataclass(frozen=True, slots=True)
class _Brevity:
    """How much is said of each of many panels: characters of a name, how many series, whether more than last values."""

    name: int
    series: int
    more: bool


_BREVITIES = (_Brevity(60, _NAMED, more=True), _Brevity(40, _NAMED, more=False), _Brevity(24, 1, more=False))


def describe(spec: ChartSpec | PictureSpec) -> str:
    """One sentence for the title, one for each panel (first and last value, best value, baselines) or picture.

    At most 1500 characters; more than four panels are said more briefly, in at most 1024. The numbers are those that
    the picture shows. Never raises on odd data.
    """
    sentences = _chart(spec) if isinstance(spec, ChartSpec) else _pictures(spec)
    return _cut(" ".join(sentences), _LONGEST)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _chart(spec: ChartSpec) -> list[str]:
    title = " ".join(spec.title.split())
    sentences = [f"Chart: {title}." if title else "Chart."]
    x_label = spec.x_label or "x"
    if len(spec.panels) >= MULTIPLES_FROM:
        return _multiples(spec, sentences[0], x_label)
    sentences += [_panel(panel, x_label) for panel in spec.panels]
    if not spec.panels:
        sentences.append("It has no panels yet.")
    return sentences


def _pictures(spec: PictureSpec) -> list[str]:
    title = " ".join(spec.title.split())
    sentences = [f"{title}."] if title else []
    sentences += [sentence(picture) for picture in spec.pictures[:MAX_PICTURES]]
    if len(spec.pictures) > MAX_PICTURES:
        sentences.append(f"{len(spec.pictures) - MAX_PICTURES:,} more pictures are not shown.")
    return sentences if spec.pictures else [*sentences, "There are no pictures yet."]


def _multiples(spec: ChartSpec, title: str, x_label: str) -> list[str]:
    """The last values of each of many panels; as much more as all of them have room for."""
    shown = [(panel, [clean(series) for series in panel.series[:_NAMED]]) for panel in spec.panels[:MAX_PANELS]]
    ends = [curve.last.x for _, curves in shown for curve in curves if curve.last is not None]
    head = f"{_cut(title, 200)} {len(shown)} panels"
    head += f", last values up to {_place(x_label, max(ends))}." if ends else ", no values yet."
    weights = {panel.smooth for panel, curves in shown if any(smoothed(c, panel.smooth) is not None for c in curves)}
    tail = [f"Lines are {smooth_text(max(weights))}, these values are not."] if weights else []
    if len(spec.panels) > MAX_PANELS:
        tail.append(f"{len(spec.panels) - MAX_PANELS:,} more panels are not shown.")
    sentences: list[str] = []
    for brevity in _BREVITIES:
        sentences = [head, *(_brief(panel, curves, brevity) for panel, curves in shown), *tail]
        if len(" ".join(sentences)) <= _SHOWN_EVERYWHERE:
            break
    return [_cut(" ".join(sentences), _SHOWN_EVERYWHERE)]


def _brief(panel: Panel, curves: Sequence[Curve], brevity: _Brevity) -> str:
    """`loss: train 0.34, valid 0.51 nats, best 0.5.`"""
    said = curves[: brevity.series]
    values = [value_text(curve.last.y) if curve.last is not None else "no values yet" for curve in said]
    if len(panel.series) > 1:
        names = (_cut(" ".join(curve.name.split()) or "unnamed", brevity.name // 2) for curve in said)
        values = [f"{name} {value}" for name, value in zip(names, values, strict=True)]
    unit = _cut(f" {panel.unit}", brevity.name // 2) if panel.unit and values else ""
    parts = [", ".join(values) + unit if values else "no values yet"]
    if len(panel.series) > len(said):
        parts.append(f"{len(panel.series) - len(said):,} more series")
    if brevity.more:
        moved = [curve for curve in said if curve.first != curve.last]
        bests = [best.y for curve in moved if (best := curve.best(panel.better)) is not None]
        parts += [f"best {value_text((min if panel.better == 'lower' else max)(bests))}"] if bests else []
        parts += [f"{b.name} {value_text(b.value)}" for b in panel.baselines[:_NAMED]]
    return f"{_cut(_name(panel), brevity.name)}: {', '.join(parts)}."


def _name(panel: Panel) -> str:
    return " ".join((panel.title or (panel.series[0].name if panel.series else "") or "metric").split())


def _panel(panel: Panel, x_label: str) -> str:
    curves = [clean(series) for series in panel.series[:_NAMED]]
    unit = f" {panel.unit}" if panel.unit else ""
    parts = [_curve(curve, panel, unit, x_label, named=len(panel.series) > 1) for curve in curves]
    if len(panel.series) > _NAMED:
        parts.append(f"and {len(panel.series) - _NAMED:,} more series")
    if any(smoothed(curve, panel.smooth) is not None for curve in curves):
        parts.append(f"the line is {smooth_text(panel.smooth)}, these values are not")
    parts += [f"baseline {b.name} {value_text(b.value)}" for b in panel.baselines[:_NAMED]]
    return f"{_name(panel)}: {'; '.join(parts) or 'no values yet'}."


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
    at, span = _place(x_label, curve.last.x), curve.hi - curve.lo
    if curve.first is None or curve.first == curve.last:
        text = f"{start}is {value_text(curve.last.y, span)}{unit} at {at}"
    else:
        text = f"{start}goes from {value_text(curve.first.y, span)} to {value_text(curve.last.y, span)}{unit} at {at}"
    best = curve.best(panel.better)
    if best is not None and curve.first != curve.last:
        where = "the last" if best == curve.last else f"at {_place(x_label, best.x)}"
        text += f", best {value_text(best.y, span)} ({panel.better} is better) {where}"
    count = curve.up.size + curve.down.size
    text += f", {count:,} infinite" if count else ""
    return text + (f", NaN from {_place(x_label, float(curve.nans[0]))}" if curve.nans.size else "")
