"""What the evaluation of tags shows: values in the words of `agent.domain.results.Pictured`. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from worker.recipes.common.scoring import named, rounded, short
from worker.recipes.common.table import Table
from worker.recipes.spans.sentences import TEXT, WORDS
from worker.recipes.spans.tags import Span, by_label, f1, label_of, spans_of

_MOST_LABELS, _MOST_CLASSES, _MOST_SENTENCES, _MOST_CHARS = 20, 20, 8, 300
Tags = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Compared:
    """The sealed tags, those of the model and of the best baseline; `table` has the sentences where it is there."""

    wanted: Tags
    said: Tags
    theirs: Tags
    plain: bool
    table: Table | None


def pictured(compared: Compared, *, beaten: str) -> dict[str, Any]:
    """F1 of each label beside the baseline's, sentences that are wrong, and which labels are mixed up."""
    pictures = [_classes(compared, beaten), _mistakes(compared), _confusion(compared)]
    return {
        "kind": "pictured",
        "rows": len(compared.wanted),
        "beaten": named(beaten),
        "words": _words(compared),
        "pictures": [{"view": view, "picture": picture} for view, picture in pictures if picture],
    }


def _words(compared: Compared) -> str:
    wrong = sum(list(one) != list(other) for one, other in zip(compared.wanted, compared.said, strict=True))
    found = by_label(compared.wanted, compared.said, plain=compared.plain)
    there = {label: f1(counts) for label, counts in found.items() if counts[2]}
    words = f"{wrong:,} of {len(compared.wanted):,} sentences have a word with a wrong tag."
    if len(there) > 1:
        worst = min(there, key=lambda label: there[label])
        words += f" “{short(worst, 40)}” is hardest to find (F1 {there[worst]:.2f})."
    return words


def _classes(compared: Compared, beaten: str) -> tuple[str, dict[str, Any]]:
    ours = by_label(compared.wanted, compared.said, plain=compared.plain)
    theirs = by_label(compared.wanted, compared.theirs, plain=compared.plain)
    shown = sorted(ours, key=lambda label: -ours[label][2])[:_MOST_LABELS]
    groups = [
        {"name": "this model", "values": [rounded(f1(ours[label])) for label in shown]},
        {"name": named(beaten), "values": [rounded(f1(theirs.get(label, (0, 0, 0)))) for label in shown]},
    ]
    names = [f"{short(label, 40)} ({ours[label][2]:,})" for label in shown]
    left_out = len(ours) - len(shown)
    title = "F1 of each label (how many there are)"
    return "classes", {"kind": "bars", "title": title, "names": names, "groups": groups, "most": 1.0,
                       "left_out": left_out}  # fmt: skip


def _mistakes(compared: Compared) -> tuple[str, dict[str, Any] | None]:
    """Sentences where the model is wrong, those with the most wrong spans first, each with what was there."""
    if compared.table is None:
        return "mistakes", None
    rows = []
    for at, (wanted, said) in enumerate(zip(compared.wanted, compared.said, strict=True)):
        there, found = (set(spans_of(tags, plain=compared.plain)) for tags in (wanted, said))
        if there != found:
            rows.append((-len(there ^ found), at, there, found))
    passages, seen = [], set()
    for _, at, there, found in sorted(rows, key=lambda row: row[:2]):
        text, places = compared.table.columns[TEXT][at], json.loads(compared.table.columns[WORDS][at])
        if len(text) > _MOST_CHARS or text in seen:
            continue
        seen.add(text)
        wrong = [*((span, False) for span in sorted(found - there)), *((span, True) for span in sorted(there - found))]
        spans = [_span(span, places, truth=truth) for span, truth in wrong][:60]
        right = len(there & found)
        caption = f"row {at}: {len(found - there)} found wrongly, {len(there - found)} missed, {right} right"
        passages.append({"text": text, "spans": spans, "caption": caption, "right": False})
        if len(passages) == _MOST_SENTENCES:
            break
    picture = {"kind": "texts", "title": "sentences with the most wrong spans", "passages": passages}
    return "mistakes", picture | {"left_out": len(rows) - len(passages)} if passages else None


def _span(span: Span, places: Sequence[Sequence[int]], *, truth: bool) -> dict[str, Any]:
    first, behind, label = span
    return {"start": places[first][0], "end": places[behind - 1][1], "name": short(label, 40), "truth": truth}


def _confusion(compared: Compared) -> tuple[str, dict[str, Any] | None]:
    """How often each word of a label was said to be of which."""
    pairs = [
        (label_of(a), label_of(b))
        for one, other in zip(compared.wanted, compared.said, strict=True)
        for a, b in zip(one, other, strict=True)
    ]
    labels = sorted({label for pair in pairs for label in pair})
    if not 1 < len(labels) <= _MOST_CLASSES:
        return "confusion", None
    place = {label: at for at, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, tuple(np.array([(place[a], place[b]) for a, b in pairs]).T), 1)
    names = [short(label, 40) for label in labels]
    picture = {"kind": "matrix", "title": "labels of words", "rows": names, "columns": names, "counts": counts.tolist()}
    return "confusion", picture
