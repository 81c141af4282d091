"""The answers of a model that marks spans in sentences. Copied beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from worker.recipes.spans.sentences import Sentence
from worker.recipes.spans.tags import spans_of

ADDED = ["prediction"]


@dataclass(frozen=True)
class Marked:
    """A tag for each word of each sentence."""

    sentences: Sequence[Sentence]
    tags: Sequence[Sequence[str]]
    plain: bool

    def spans(self) -> Iterator[list[dict[str, Any]]]:
        """The spans of each sentence, in characters of its text."""
        for sentence, tags in zip(self.sentences, self.tags, strict=True):
            found = []
            for first, behind, label in spans_of(tags, plain=self.plain):
                start, end = sentence.places[first][0], sentence.places[behind - 1][1]
                found.append({"start": start, "end": end, "label": label, "text": sentence.text[start:end]})
            yield found

    def cells(self) -> Iterator[list[str]]:
        """What each row gets in the columns of `ADDED`: its spans as JSON."""
        for spans in self.spans():
            yield [json.dumps(spans, ensure_ascii=False)]

    def said(self) -> list[dict[str, Any]]:
        """One answer a sentence."""
        texts = (sentence.text for sentence in self.sentences)
        return [
            {"kind": "spans", "text": text, "spans": spans} for text, spans in zip(texts, self.spans(), strict=True)
        ]
