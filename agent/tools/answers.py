"""The answers of a finished model in words and as a card, by kind of answer. Called by `agent.tools.data`."""

import base64
from collections.abc import Sequence

from agent.cards import counted, number
from agent.domain.content import Card, Fact, Table
from agent.domain.datasets import DatasetRef
from agent.domain.orders import (
    BoxesPrediction,
    ClusterPrediction,
    FoundBox,
    LabelPrediction,
    NumberPrediction,
    OfImage,
    Prediction,
    Predictions,
    SpansPrediction,
    StepPrediction,
    TextPrediction,
)
from agent.domain.pictures import (
    MOST_BOXES,
    MOST_CELL,
    MOST_IMAGES,
    MOST_NAME,
    MOST_POINTS,
    MOST_SPANS,
    MOST_TEXTS,
    Box,
    Images,
    Line,
    Lines,
    Passage,
    PictureSpec,
    Span,
    Texts,
    Tile,
)
from agent.domain.runs import Run

ROWS_SHOWN = 10
_FACTS = 6
_SERIES_DRAWN = 4
_NAME_CHARS = 40
_LABELS_SAID = 5
_TEXT_CHARS, _ONE_TEXT_CHARS, _SAID_CHARS = 180, 3_000, 200
_NO_BREAK = "\u00a0"


def answer_words(run: Run, predictions: Predictions) -> str:
    """What was predicted, of how many, in a sentence."""
    steps = any(isinstance(row, StepPrediction) for row in predictions.rows)
    what = "step" if steps else "row"
    said = values_words(predictions)
    return f"Predicted `{run.spec.subject}` for {counted(predictions.total, what)} with `{run.id}`: {said}."


def values_words(predictions: Predictions) -> str:
    """The answers, of all rows."""
    if predictions.spread is not None:
        low, middle, high = map(number, predictions.spread)
        if low == high:
            return low
        return f"from {low} to {high}, median {middle}"
    if predictions.counts:
        return ", ".join(f"{label} {count:,}" for label, count in predictions.counts[:_LABELS_SAID])
    texts = [row.text for row in predictions.rows if isinstance(row, TextPrediction)]
    return f"“{_cut(texts[0], _SAID_CHARS)}”" + (", …" if len(texts) > 1 else "") if texts else "nothing"


def predictions_card(run: Run, predictions: Predictions, dataset: DatasetRef | None) -> Card:
    """The first answers, and how often each where that says something."""
    shown = predictions.rows[:ROWS_SHOWN]
    row = "image" if _of_images(shown) else "row"
    often = tuple(Fact(name=label, value=counted(count, row)) for label, count in predictions.counts[:_FACTS])
    more = predictions.total - len(shown)
    plain = Card(
        kind="data",
        title=f"Predictions of {run.id}" + (f" for {dataset.name}" if dataset else ""),
        footer=f"and {counted(more, f'more {row}')}" + (", all in the file" if predictions.file else "")
        if more > 0
        else "",
    )
    if predictions.total == 1 and isinstance(shown[0], TextPrediction):
        return plain.model_copy(update={"body": quoted(shown[0].text)})
    if isinstance(shown[0], SpansPrediction | BoxesPrediction):
        facts = tuple(Fact(name=label, value=f"{count:,}") for label, count in predictions.counts[:_FACTS])
        return plain.model_copy(update={"facts": facts, "table": _spans_table(run, shown)})
    facts = often if often or _are_texts(shown) else (Fact(name="Predicted", value=values_words(predictions)),)
    return plain.model_copy(update={"facts": facts, "table": _table(run, shown)})


def predictions_picture(run: Run, predictions: Predictions) -> PictureSpec | None:
    """The answers as a picture, for kinds of answers that a picture shows better than words."""
    seen = [row for row in predictions.rows[:MOST_IMAGES] if isinstance(row, OfImage) and row.thumbnail]
    if seen:
        tiles = tuple(Tile(base64.b64decode(row.thumbnail), _caption(row), boxes=_drawn(row)) for row in seen)
        heading = "found" if isinstance(seen[0], BoxesPrediction) else "answers"
        pictures = (Images(heading, tiles, left_out=predictions.total - len(tiles)),)
        return PictureSpec(title=f"{run.spec.subject} · {run.id}", pictures=pictures)
    marked = [row for row in predictions.rows[:MOST_TEXTS] if isinstance(row, SpansPrediction) and row.text.strip()]
    if not marked:
        return _forecast_picture(run, [row for row in predictions.rows if isinstance(row, StepPrediction)])
    passages = tuple(Passage(row.text[:MOST_CELL], _marks(row)) for row in marked)
    left_out = predictions.total - len(passages)
    return PictureSpec(title=f"{run.spec.subject} · {run.id}", pictures=(Texts("found", passages, left_out=left_out),))


def _forecast_picture(run: Run, steps: Sequence[StepPrediction]) -> PictureSpec | None:
    """What comes, with its intervals, a line for each of the first series; one step alone is no line."""
    moments = sorted({step.moment for step in steps})
    if not 1 < len(moments) <= MOST_POINTS // _SERIES_DRAWN:
        return None
    series: dict[str, list[StepPrediction]] = {}
    for step in steps:
        series.setdefault(step.series, []).append(step)
    drawn = [_line(name, of, moments) for name, of in list(series.items())[:_SERIES_DRAWN]]
    picture = Lines("forecast", tuple(drawn), moments=moments, y_label=run.spec.subject[:MOST_NAME])
    return PictureSpec(title=f"{run.spec.subject} · {run.id}", pictures=(picture,))


def _line(name: str, steps: Sequence[StepPrediction], moments: Sequence[str]) -> Line:
    return Line(
        name=name[:MOST_NAME],
        x=[moments.index(step.moment) for step in steps],
        y=[step.value for step in steps],
        low=[step.low for step in steps],
        high=[step.high for step in steps],
    )


def _caption(row: OfImage) -> str:
    """What was said of an image, below it."""
    match row:
        case LabelPrediction():
            return " · ".join(_cells(row))
        case NumberPrediction():
            return number(row.value)
        case BoxesPrediction() if row.boxes:
            return f"{len(row.boxes):,} found"
        case _:
            return "nothing found"


def _drawn(row: OfImage) -> tuple[Box, ...]:
    """The boxes in parts of the image."""
    if not isinstance(row, BoxesPrediction):
        return ()
    wide, high = (max(1, side) for side in row.size)
    return tuple(
        Box(one.label[:80], one.left / wide, one.top / high, (one.left + one.width) / wide,
            (one.top + one.height) / high, score=one.score)
        for one in row.boxes[:MOST_BOXES]
    )  # fmt: skip


def _marks(row: SpansPrediction) -> tuple[Span, ...]:
    """The spans that lie within what is shown."""
    inside = (span for span in row.spans if span.start < span.end <= min(MOST_CELL, len(row.text)))
    return tuple(Span(span.start, span.end, span.label[:80]) for span in list(inside)[:MOST_SPANS])


def _spans_table(run: Run, rows: Sequence[Prediction]) -> Table | None:
    """The spans of one text, or of several those of each."""
    (first, *others) = rows
    if not others and isinstance(first, BoxesPrediction):
        boxes = tuple((one.label, f"{one.score:.0%}", _place(one)) for one in first.boxes[:ROWS_SHOWN])
        return Table(columns=("label", "sure", "left, top, width, height"), rows=boxes) if boxes else None
    if others or not isinstance(first, SpansPrediction):
        return _table(run, rows)
    spans = tuple((_cut(span.text, _TEXT_CHARS), span.label) for span in first.spans[:ROWS_SHOWN])
    return Table(columns=("span", run.spec.subject), rows=spans) if spans else None


def quoted(text: str) -> str:
    """A text as a block quotation; what stands in it is not read as Markdown, nor indented lines as code."""
    lines = _cut(text, _ONE_TEXT_CHARS, lines=True).expandtabs(4).splitlines() or ["–"]
    indents = (len(line) - len(line.lstrip(" ")) for line in lines)
    parts = ((_NO_BREAK * indent, _escaped(line[indent:])) for line, indent in zip(lines, indents, strict=False))
    return "\n".join(f"> {spaces}{said}  " for spaces, said in parts)


def _are_texts(rows: Sequence[Prediction]) -> bool:
    return any(isinstance(row, TextPrediction) for row in rows)


def _table(run: Run, rows: Sequence[Prediction]) -> Table:
    """Numbered answers; a forecast has moments in place of numbers."""
    subject = run.spec.subject
    if any(isinstance(row, StepPrediction) for row in rows):
        return Table(columns=("moment", subject, "90 % interval"), rows=tuple(_cells(row) for row in rows))
    labels = any(isinstance(row, LabelPrediction) for row in rows)
    first = "image" if _of_images(rows) else "row"
    columns = (first, subject, "probability") if labels else (first, subject)
    named = [_cut(row.name, _NAME_CHARS) if isinstance(row, OfImage) else "" for row in rows]
    cells = tuple((name or str(at), *_cells(row)) for at, (name, row) in enumerate(zip(named, rows, strict=True), 1))
    return Table(columns=columns, rows=cells)


def _of_images(rows: Sequence[Prediction]) -> bool:
    return any(isinstance(row, OfImage) and row.thumbnail for row in rows)


def _cells(row: Prediction) -> tuple[str, ...]:
    match row:
        case StepPrediction():
            interval = f"{number(row.low)} to {number(row.high)}"
            return f"{row.series} {row.moment}".strip(), number(row.value), interval
        case NumberPrediction():
            return (number(row.value),)
        case ClusterPrediction():
            return (row.label,)
        case BoxesPrediction():
            said = ", ".join(f"{box.label} {box.score:.0%}" for box in row.boxes)
            return (_cut(said, _TEXT_CHARS) or "–",)
        case SpansPrediction():
            said = "; ".join(f"{span.text} = {span.label}" for span in row.spans)
            return (_cut(said, _TEXT_CHARS) or "–",)
        case TextPrediction():
            return (_cut(row.text, _TEXT_CHARS) or "–",)
        case LabelPrediction():
            return row.label, f"{row.probabilities[0][1]:.0%}" if row.probabilities else "–"


def _place(box: FoundBox) -> str:
    return ", ".join(f"{side:.0f}" for side in (box.left, box.top, box.width, box.height))


def _cut(text: str, most: int, *, lines: bool = False) -> str:
    plain = text.strip() if lines else " ".join(text.split())
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _escaped(line: str) -> str:
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>#+-.!|~&@" else char for char in line)
