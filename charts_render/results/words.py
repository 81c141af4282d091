"""Pictures of results in plain sentences, for those who do not see them and for notifications without a picture.

Says what a look at the picture would tell first. Loads nothing that draws. Called by `charts_render.alt_text`.
"""

import numpy as np

from agent.domain.pictures import (
    Bars,
    Histogram,
    Images,
    Line,
    Lines,
    Matrix,
    Progress,
    ResultPicture,
    Scatter,
    Table,
    Texts,
    Tree,
    Trial,
)
from charts_render.curve import Floats, floats
from charts_render.numerals import count_text, share_text, value_text
from charts_render.results.values import best_of, counted, fold

_NAMED = 3  # entries that get words of their own
_NAME = 60  # characters


def sentence(picture: ResultPicture) -> str:
    """One or two sentences. Never raises on odd data."""
    match picture:
        case Matrix():
            return _matrix(picture)
        case Lines():
            return _lines(picture)
        case Bars():
            return _bars(picture)
        case Histogram():
            return _histogram(picture)
        case Scatter():
            return _scatter(picture)
        case Table():
            return _table(picture)
        case Images():
            return _images(picture)
        case Texts():
            return _texts(picture)
        case Progress() | Tree():
            return _trials(picture)


def _short(text: str) -> str:
    text = " ".join(text[: 4 * _NAME].split())
    return text if len(text) <= _NAME else text[: _NAME - 1].rstrip() + "…"


def _titled(title: str, kind: str) -> str:
    return _short(title) or kind


def _more(count: int, noun: str) -> list[str]:
    return [f"and {count:,} more {noun}"] if count > 0 else []


def _matrix(matrix: Matrix) -> str:
    folded = fold(matrix)
    title = _titled(matrix.heading, "Matrix")
    if not folded.total > 0:
        return f"{title}: no counts yet."
    count = len(matrix.rows)
    classes = "many classes" if matrix.others else f"{count:,} {'class' if count == 1 else 'classes'}"
    bound = "at least " if folded.at_least else ""
    known = not np.isnan(folded.right)
    right = f"{bound}{share_text(folded.right)} right" if known else f"{count_text(folded.total)} in all"
    wrong = np.where(folded.agrees | folded.folded, 0.0, np.nan_to_num(folded.counts))
    row, column = np.unravel_index(int(wrong.argmax()), wrong.shape)
    if not wrong[row, column] > 0:
        return f"{title} of {classes}: {right}."
    names = f"{_short(folded.rows[row])} as {_short(folded.columns[column])}"
    most = f"most often mistaken: {names} ({count_text(float(wrong[row, column]))})"
    return f"{title} of {classes}: {right}; {most if not np.isnan(folded.right) else names + ' most often'}."


def _lines(lines: Lines) -> str:
    parts = [_line(line) for line in lines.lines[:_NAMED]] + _more(len(lines.lines) - _NAMED, "lines")
    axes = f", {_short(lines.y_label)} over {_short(lines.x_label)}" if lines.x_label and lines.y_label else ""
    return f"{_titled(lines.heading, 'Lines')}{axes}: {'; '.join(parts) or 'no lines yet'}."


def _line(line: Line) -> str:
    """Its note, where somebody already said what matters; else its first and last value."""
    name, note = _short(line.name), _short(line.note)
    if note:
        return f"{name} {note}".strip()
    y = floats(line.y)
    seen = y[~np.isnan(y)]
    if not seen.size:
        return f"{name} has no values yet".strip()
    if seen.size == 1:
        return f"{name} is {value_text(float(seen[0]))}".strip()
    return f"{name} goes from {value_text(float(seen[0]))} to {value_text(float(seen[-1]))}".strip()


def _bars(bars: Bars) -> str:
    parts = []
    for group in bars.groups[:_NAMED]:
        values = floats(group.values)[: len(bars.names)]
        order = np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")[:_NAMED]
        said = [f"{_short(bars.names[i])} {value_text(float(values[i]))}" for i in order if not np.isnan(values[i])]
        missing = len(bars.names) - int((~np.isnan(values)).sum())
        said += [f"{missing:,} without a value"] if missing else []
        parts.append(f"{_short(group.name)}: highest {', '.join(said)}" if said else f"{_short(group.name)}: no values")
    parts += _more(len(bars.groups) - _NAMED, "groups")
    unit = f" ({_short(bars.unit)})" if bars.unit else ""
    entries = _many(len(bars.names), "entry", "entries")
    return f"{_titled(bars.heading, 'Bars')}{unit} of {entries}. {'; '.join(parts) or 'No values yet'}."


def _histogram(histogram: Histogram) -> str:
    edges = floats(histogram.edges)
    parts = []
    for group in histogram.groups[:_NAMED]:
        counts = counted(group.values)
        total = float(counts.sum())
        if not total > 0:
            parts.append(f"{_short(group.name) or 'values'}: none")
            continue
        top = int(counts.argmax())
        most = f"most between {value_text(float(edges[top]))} and {value_text(float(edges[top + 1]))}"
        parts.append(f"{_short(group.name) or 'values'}: {count_text(total)}, {most}")
    parts += _more(len(histogram.groups) - _NAMED, "groups")
    return f"{_titled(histogram.heading, 'Histogram')}: {'; '.join(parts) or 'no values yet'}."


def _median(values: Floats) -> float:
    """Of halves: the sum of two large values may be beyond what a float holds."""
    return float(np.median(values / 2) * 2)


def _scatter(scatter: Scatter) -> str:
    counts = [len(group.x) for group in scatter.groups]
    parts = [
        f"{_short(group.name) or 'points'} {count:,}"
        for group, count in zip(scatter.groups[:_NAMED], counts, strict=False)
    ] + _more(len(scatter.groups) - _NAMED, "groups")
    axes = f", {_short(scatter.y_label)} over {_short(scatter.x_label)}" if scatter.x_label and scatter.y_label else ""
    if not sum(counts):
        return f"{_titled(scatter.heading, 'Points')}{axes}: no points yet."
    joined: Floats = np.concatenate([floats(group.y) for group in scatter.groups])
    known = joined[np.isfinite(joined)]
    middle = f"; the median is {value_text(_median(known))}" if known.size else ""
    return f"{_titled(scatter.heading, 'Points')}{axes}: {_many(sum(counts), 'point')} ({', '.join(parts)}){middle}."


def _table(table: Table) -> str:
    marks = [f"{table.marks.count(mark):,} {mark}" for mark in ("good", "bad") if mark in table.marks]
    first = " | ".join(_short(cell) for cell in table.rows[0][:_NAMED]) if table.rows else ""
    said = f"{_many(len(table.rows), 'row')} of {', '.join(_short(name) for name in table.columns[:_NAMED]) or 'text'}"
    rest = "; ".join([said, *marks, *([f"first: {first}"] if first else [])])
    return f"{_titled(table.heading, 'Table')}: {rest}."


def _many(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _images(images: Images) -> str:
    right, wrong = (sum(1 for tile in images.tiles if tile.right is flag) for flag in (True, False))
    boxes = sum(len(tile.boxes) for tile in images.tiles)
    said = [_many(len(images.tiles), "image")]
    said += [f"{right:,} right, {wrong:,} wrong"] if right or wrong else []
    said += [_many(boxes, "box", "boxes")] if boxes else []
    captions = [_short(tile.caption) for tile in images.tiles if tile.caption][:_NAMED]
    said += [f"first: {'; '.join(captions)}"] if captions else []
    return f"{_titled(images.heading, 'Images')}: {', '.join(said)}."


def _texts(texts: Texts) -> str:
    spans = [(number, span) for number, passage in enumerate(texts.passages) for span in passage.spans]
    found, there = (
        {(number, span.start, span.end, span.name) for number, span in spans if span.truth is truth}
        for truth in (False, True)
    )
    said = [_many(len(texts.passages), "text")]
    if there:
        said.append(f"{len(found & there):,} of {_many(len(there), 'span')} found")
    said += [f"{len(found - there):,} {'found that are not there' if there else 'found'}"] if found - there else []
    said += [f"first: {_short(texts.passages[0].text)}"] if texts.passages else []
    return f"{_titled(texts.heading, 'Texts')}: {', '.join(said)}."


def _trials(picture: Progress | Tree) -> str:
    trials = picture.trials
    title = _titled(picture.heading, "Experiments")
    if not trials:
        return f"{title}: no experiments yet."
    states = [f"{n:,} {s}" for s in ("kept", "discarded", "pruned", "crashed", "running") if (n := _count(trials, s))]
    best = best_of(trials, picture.better)
    metric = _short(picture.metric) or "value"
    said = f"{len(trials):,} {'experiment' if len(trials) == 1 else 'experiments'}, {', '.join(states)}"
    if best is None:
        return f"{title}: {said}; none has a {metric} yet."
    name = f" ({_short(best.name)})" if best.name else ""
    better = f"({picture.better} is better)"
    return f"{title}: {said}; best {metric} {value_text(best.value)} {better} in {best.number:,}{name}."


def _count(trials: tuple[Trial, ...], state: str) -> int:
    return sum(1 for trial in trials if trial.state == state)
