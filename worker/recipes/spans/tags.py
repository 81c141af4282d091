"""Tags of words, the spans that they mean, and span F1. Copied beside the model; standard library only.

A span is some words in a row with a label. Tags are kept as IOB2 (`B-PER`, `I-PER`, `O`) or plain. Plain tags with an
`O` mean a span for each run of equal tags, plain tags without one (parts of speech) a span for each word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

Span = tuple[int, int, str]  # the first word, the word behind the last, the label
OUTSIDE = "O"
_PREFIXED = re.compile(r"([BIESLU])-(.+)")
_WORD = re.compile(r"\w+|[^\w\s]")


def words_in(text: str) -> list[tuple[int, int]]:
    """Where the words and marks of a text begin and end, in characters."""
    return [found.span() for found in _WORD.finditer(text)]


def is_plain(tags: Iterable[str]) -> bool:
    """Whether tags have no prefix and no `O`, so that each is of one word."""
    return not any(tag == OUTSIDE or _PREFIXED.fullmatch(tag) for tag in tags)


def label_of(tag: str) -> str:
    """What a tag says without its prefix."""
    found = _PREFIXED.fullmatch(tag)
    return found.group(2) if found else tag


def spans_of(tags: Sequence[str], *, plain: bool = False) -> list[Span]:
    """The spans that tags of IOB1, IOB2, BILOU, BIOES or without prefix mean, as conlleval reads them."""
    if plain:
        return [(at, at + 1, tag) for at, tag in enumerate(tags)]
    spans: list[Span] = []
    start, label, open_ = 0, "", False
    for at, tag in enumerate([*tags, OUTSIDE]):
        found = _PREFIXED.fullmatch(tag)
        prefix, said = found.groups() if found else ("I", "" if tag == OUTSIDE else tag)
        if open_ and (said != label or prefix in "BSU"):
            spans.append((start, at, label))
            open_ = False
        if said and not open_:
            start, label, open_ = at, said, True
        if open_ and prefix in "ELSU":
            spans.append((start, at + 1, label))
            open_ = False
    return spans


def tags_of(spans: Iterable[Span], words: int) -> list[str]:
    """The spans as IOB2 tags."""
    tags = [OUTSIDE] * words
    for start, end, label in spans:
        tags[start:end] = [f"B-{label}", *[f"I-{label}"] * (end - start - 1)]
    return tags


Counts = tuple[int, int, int]  # spans that are found and there, found, there


def counted(wanted: Sequence[str], said: Sequence[str], *, plain: bool) -> Counts:
    """The counts of one sentence. A span is right where both ends and the label are."""
    there, found = set(spans_of(wanted, plain=plain)), set(spans_of(said, plain=plain))
    return len(there & found), len(found), len(there)


def f1(counts: Counts) -> float:
    """The harmonic mean of precision and recall; 0 where nothing is there and nothing was found."""
    right, found, there = counts
    return 2 * right / (found + there) if found + there else 0.0


def measured(wanted: Sequence[Sequence[str]], said: Sequence[Sequence[str]], *, plain: bool) -> dict[str, float]:
    """Span F1, precision and recall over all sentences, and the part of words with the right tag."""
    pairs = list(zip(wanted, said, strict=True))
    each = [counted(one, other, plain=plain) for one, other in pairs]
    right, found, there = (sum(part) for part in zip(*each, strict=True))
    words = [a == b for one, other in pairs for a, b in zip(one, other, strict=True)]
    return {
        "span_f1": f1((right, found, there)),
        "precision": right / found if found else 0.0,
        "recall": right / there if there else 0.0,
        "accuracy": sum(words) / len(words) if words else 0.0,
    }


def by_label(wanted: Sequence[Sequence[str]], said: Sequence[Sequence[str]], *, plain: bool) -> dict[str, Counts]:
    """The counts of each label."""
    right, found, there = Counter[str](), Counter[str](), Counter[str]()
    for one, other in zip(wanted, said, strict=True):
        true, guessed = set(spans_of(one, plain=plain)), set(spans_of(other, plain=plain))
        for counter, spans in ((right, true & guessed), (found, guessed), (there, true)):
            counter.update(label for _, _, label in spans)
    return {label: (right[label], found[label], there[label]) for label in sorted(found | there)}
