"""The pictures and words of a classifier's result. Pure. Called by `agent.runs.pictures.results`."""

import math
from typing import Literal

from pydantic import JsonValue

from agent.cards import counted, number
from agent.domain.pictures import MOST_CLASSES, BarGroup, Bars, Histogram, Line, Lines, Matrix, ResultPicture, Table
from agent.domain.results import (
    Calibration,
    ClassCurves,
    Classification,
    Curve,
    Importance,
    Lengths,
    Mistakes,
    ResultView,
)

_LEANS = {  # unit and title
    "gain": ("share of gain", "importance"),
    "coefficient": ("share of log-odds", "importance"),
    "words": ("weight", "telling words"),
}
_HALF_SHEET = 8  # bars of one of four pictures
_WHOLE_SHEET = 16
_SAID = 3  # mistakes in words
_WILSON = 1.96  # of a 95 % interval


def views_of(found: Classification) -> tuple[ResultView, ...]:
    """What there is to see of a result, in the order in which it is offered."""
    there: dict[ResultView, bool] = {
        "overview": True,
        "confusion": True,
        "samples": found.samples is not None,
        "mistakes": bool(found.mistakes.rows),
        "importance": found.importance is not None,
        "classes": bool(found.classes),
        "roc": bool(found.curves),
        "pr": bool(found.curves),
        "calibration": bool(found.calibration.bins),
        "lengths": found.lengths is not None,
    }
    return tuple(view for view, is_there in there.items() if is_there)


def pictures_of(found: Classification, view: ResultView) -> list[ResultPicture]:
    """The pictures of a view, none where this result has no such picture."""
    return _overview(found) if view == "overview" else _single(found, view)


def _overview(found: Classification) -> list[ResultPicture]:
    """The four that say most: mistakes, what it leans on, ranking or classes, whether its words can be trusted.

    What is about as high stands side by side.
    """
    leans: ResultView = "importance" if found.importance else "lengths" if found.lengths else "pr"
    ranks: ResultView = "roc" if found.class_count == 2 and found.curves else "classes"
    middle = (leans, ranks) if ranks == "roc" else (ranks, leans)
    wanted: tuple[ResultView, ...] = ("confusion", *middle, "calibration")
    return [picture for view in wanted for picture in _single(found, view, bars=_HALF_SHEET)[:1]]


def _single(found: Classification, view: ResultView, *, bars: int = _WHOLE_SHEET) -> list[ResultPicture]:
    """The pictures of one view, those of a whole sheet unless `bars` says otherwise."""
    if view not in views_of(found):
        return []
    match view:
        case "confusion":
            labels = found.confusion.labels
            return [Matrix("confusion matrix", labels, labels, found.confusion.counts, others=_has_others(found))]
        case "samples":
            return [found.samples] if found.samples else []
        case "classes":
            return _classes(found, bars)
        case "roc" | "pr":
            return [_curves(found, view)]
        case "calibration":
            return [_calibration(found.calibration)]
        case "importance" if found.importance is not None:
            return [_importance(found.importance, bars)]
        case "lengths" if found.lengths is not None:
            return [_lengths(found.lengths)]
        case "mistakes":
            return [_mistakes(found.mistakes)]
        case _:
            return []


def _has_others(found: Classification) -> bool:
    """Whether the last class of the matrix stands for all rare ones, so that its last cell holds right and wrong."""
    return found.class_count >= MOST_CLASSES


def _curves(found: Classification, view: Literal["roc", "pr"]) -> Lines:
    """Of two classes the curve of the second, else one for each of the most frequent against the rest."""
    area = "AUC" if view == "roc" else "AP"
    lines = [_line(one, one.roc if view == "roc" else one.pr, area) for one in found.curves]
    (name,) = (
        {f": {one.label}" for one in found.curves} if len(found.curves) == 1 else {", each class against the rest"}
    )
    if view == "roc":
        return Lines(f"ROC{name}", tuple(lines), "false positive rate", "true positive rate", (0, 1), (0, 1), "rising")
    if len(found.curves) == 1:  # always saying yes: precision is how many there are
        share = found.curves[0].share
        lines.append(Line("by chance", (0.0, 1.0), (share, share), f"{share:.3f}"))
    return Lines(f"precision and recall{name}", tuple(lines), "recall", "precision", (0, 1), (0, 1))


def _line(one: ClassCurves, curve: Curve, area: str) -> Line:
    return Line(one.label, curve.x, curve.y, f"{area} {curve.area:.3f}")


def _calibration(found: Calibration) -> Lines:
    """How often it was true for how sure it was, with intervals that say how few rows stand behind a point."""
    of = f"of {found.label}" if found.label else "of the class said"
    spans = [_wilson(one.observed, one.count) for one in found.bins]
    line = Line(
        "observed",
        [one.predicted for one in found.bins],
        [one.observed for one in found.bins],
        f"mean gap {found.error:.3f}",
        [low for low, _ in spans],
        [high for _, high in spans],
        dots=True,
    )
    return Lines(f"calibration {of}", (line,), "probability said", "how often it was so", (0, 1), (0, 1), "rising")


def _wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share of `count` rows (Wilson 1927), which stays within 0 and 1."""
    if not count:
        return 0.0, 1.0
    squared = _WILSON**2
    middle = (share + squared / (2 * count)) / (1 + squared / count)
    half = _WILSON / (1 + squared / count) * math.sqrt(share * (1 - share) / count + squared / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def _classes(found: Classification, most: int) -> list[ResultPicture]:
    """F1 of each class beside the strongest baseline's, then precision and recall."""
    shown = found.classes[:most]
    rest = f", {len(shown)} most frequent of {found.class_count}" if found.class_count > len(shown) else ""
    names = tuple(f"{one.label} ({one.support:,})" for one in shown)
    model = BarGroup("this model", [one.f1 for one in shown])
    theirs = BarGroup(found.beaten, [one.baseline_f1 for one in shown])
    same = model.values == theirs.values  # the baseline itself was kept
    scores: list[ResultPicture] = [
        Bars(f"F1 of each class{rest}", names, (model,) if same else (model, theirs), most=1.0)
    ]
    both = (
        BarGroup("precision", [one.precision for one in shown]),
        BarGroup("recall", [one.recall for one in shown]),
    )
    return [*scores, Bars(f"precision and recall{rest}", names, both, most=1.0)]


def _importance(found: Importance, most: int) -> Bars:
    shown = found.features[:most]
    unit, title = _LEANS[found.kind]
    every = len(found.features) + found.left_out
    rest = f", {len(shown)} of {every}" if every > len(shown) else ""
    return Bars(
        title if found.kind == "words" else f"{title}{rest}",
        tuple(one.name for one in shown),
        (BarGroup("this model", [one.share for one in shown]),),
        unit=unit,
    )


def _lengths(found: Lengths) -> Histogram:
    beyond = f", {found.beyond:,} longer texts left out" if found.beyond else ""
    groups = (BarGroup("right", found.right), BarGroup("wrong", found.wrong))
    return Histogram("length of texts", tuple(map(float, found.edges)), groups, f"{found.unit}{beyond}", "texts")


def _mistakes(found: Mistakes) -> Table:
    rows = tuple((one.true, one.predicted, f"{one.confidence:.0%}", *one.cells) for one in found.rows)
    title = f"{len(rows)} of {counted(found.count, 'mistake')}, the surest first"
    if found.columns:
        title += ", alike ones once"
    return Table(
        title,
        ("true", "predicted", "sure", *found.columns),
        rows,
    )


def words_of(found: Classification, view: ResultView) -> str:
    """What a view says, in a sentence or two."""
    said: dict[str, str] = {
        "confusion": _confusion_words(found),
        "overview": _confusion_words(found),
        "mistakes": _mistake_words(found.mistakes),
        "importance": _importance_words(found.importance),
        "calibration": f"What it says and what is so are {number(found.calibration.error)} apart on average.",
        "classes": _class_words(found),
        "lengths": "",
    }
    if view in {"roc", "pr"}:
        areas = [(one.label, (one.roc if view == "roc" else one.pr).area) for one in found.curves]
        said[view] = f"{'AUC' if view == 'roc' else 'AP'} " + ", ".join(
            f"{_code(name)} {number(at)}" for name, at in areas
        )
    return said.get(view, "")


def _code(text: str) -> str:
    """Text of the data as it stands, which must not become a link, a mention or a heading."""
    plain = text.replace("`", "'") or "–"
    return f"`{plain}`"


def _confusion_words(found: Classification) -> str:
    counts, labels = found.confusion.counts, found.confusion.labels
    right = found.rows - found.mistakes.count  # not from the matrix, where rare classes share a cell
    wrong = [
        (count, labels[true], labels[other])
        for true, row in enumerate(counts)
        for other, count in enumerate(row)
        if true != other and count
    ]
    text = f"{right:,} of {found.rows:,} right ({right / max(1, found.rows):.0%})"
    if not wrong:
        return f"{text}."
    most, true, other = max(wrong, key=lambda one: one[0])
    return f"{text}; most often {_code(true)} is taken for {_code(other)} ({most:,})."


def _mistake_words(found: Mistakes) -> str:
    shown = [
        f"row {one.row}: {_code(one.true)} taken for {_code(one.predicted)} ({one.confidence:.0%} sure)"
        + (f": {_code(one.cells[0])}" if len(found.columns) == 1 else "")
        for one in found.rows[:_SAID]
    ]
    return f"{counted(found.count, 'mistake')}; the surest: {'; '.join(shown)}." if shown else "No mistakes."


def _importance_words(found: Importance | None) -> str:
    if found is None:
        return ""
    how = "LightGBM's gain" if found.kind == "gain" else "the pull on a linear model's log-odds"
    strongest = ", ".join(f"{_code(one.name)} {one.share:.0%}" for one in found.features[:_SAID])
    if found.kind == "words":
        return f"Its most telling words: {', '.join(_code(one.name) for one in found.features[:_SAID])}."
    return f"It leans on {strongest} (shares of {how})."


def _class_words(found: Classification) -> str:
    if not found.classes:
        return ""
    worst = min(found.classes, key=lambda one: one.f1)
    best = max(found.classes, key=lambda one: one.f1)
    return f"Best at {_code(best.label)} (F1 {number(best.f1)}), worst at {_code(worst.label)} (F1 {number(worst.f1)})."


def data_of(found: Classification) -> dict[str, JsonValue]:
    """The numbers of the pictures, without the points of curves."""
    data: dict[str, JsonValue] = found.model_dump(
        mode="json", include={"rows", "class_count", "beaten", "confusion", "importance", "mistakes"}
    )
    data["areas"] = {one.label: {"roc_auc": one.roc.area, "average_precision": one.pr.area} for one in found.curves}
    data["classes"] = [
        {"label": one.label, "f1": one.f1, "baseline_f1": one.baseline_f1, "support": one.support}
        for one in found.classes[:_WHOLE_SHEET]
    ]
    data["calibration_error"] = found.calibration.error
    if len(found.confusion.labels) > _WHOLE_SHEET:
        del data["confusion"]  # thousands of numbers
    return data
