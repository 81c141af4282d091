"""Writers without a network: the first sentences, a copy, a dictionary. Copied beside a model that is one of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+|(?<=[。！？])|\n\s*\n")
_WORD = re.compile(r"\w+|[^\w\s]")
_MOST_PAIRS = 50_000  # that a dictionary is learned from
_MOST_WORDS = 60  # of a text


def sentences(text: str) -> list[str]:
    """A text's sentences, by their marks."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


@dataclass(frozen=True)
class Lead:
    """The first `count` sentences of each text, which is hard to beat on news."""

    count: int

    def texts(self, sources: Sequence[str]) -> list[str]:
        return [" ".join(sentences(source)[: self.count]) for source in sources]

    def facts(self) -> dict[str, Any]:
        """What `simple_writer` makes it of again."""
        return {"kind": "lead", "count": self.count}


@dataclass(frozen=True)
class Copy:
    """Each text as it stands: names and numbers often stay the same in another language."""

    def texts(self, sources: Sequence[str]) -> list[str]:
        return list(sources)

    def facts(self) -> dict[str, Any]:
        """What `simple_writer` makes it of again."""
        return {"kind": "copy"}


@dataclass(frozen=True)
class Dictionary:
    """A text that was in the data as it was translated there, else word by word; a word that is unknown stays."""

    whole: Mapping[str, str]
    words: Mapping[str, str]

    def texts(self, sources: Sequence[str]) -> list[str]:
        return [self.whole.get(source) or self._by_words(source) for source in sources]

    def _by_words(self, source: str) -> str:
        return _WORD.sub(lambda found: self.words.get(found.group().lower(), found.group()), source)

    def facts(self) -> dict[str, Any]:
        """What `simple_writer` makes it of again."""
        return {"kind": "dictionary", "whole": dict(self.whole), "words": dict(self.words)}


def learned_dictionary(sources: Sequence[str], targets: Sequence[str]) -> Dictionary:
    """A dictionary from pairs: to each word the one that stands most often where it stands (by Dice's coefficient)."""
    whole: dict[str, Counter[str]] = {}
    ours: Counter[str] = Counter()
    theirs: Counter[str] = Counter()
    both: dict[str, Counter[str]] = {}
    for source, target in list(zip(sources, targets, strict=True))[:_MOST_PAIRS]:
        whole.setdefault(source, Counter())[target] += 1
        said, meant = _words(source.lower()), _words(target)
        ours.update(said)
        theirs.update(meant)
        for word in said:
            both.setdefault(word, Counter()).update(meant)
    best = {word: max(beside, key=lambda other: (beside[other] / (ours[word] + theirs[other]), other))
            for word, beside in both.items() if beside}  # fmt: skip
    return Dictionary({source: found.most_common(1)[0][0] for source, found in whole.items()}, best)


def simple_writer(facts: Mapping[str, Any]) -> Lead | Copy | Dictionary:
    """The writer that `facts()` described."""
    match facts["kind"]:
        case "lead":
            return Lead(int(facts["count"]))
        case "copy":
            return Copy()
        case "dictionary":
            return Dictionary(facts["whole"], facts["words"])
        case other:
            raise ValueError(f"no writer is called {other!r}")


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(text)))[:_MOST_WORDS]
