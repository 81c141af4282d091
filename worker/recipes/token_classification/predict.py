"""The finished tagger: sentences in, spans out.

Needs torch and transformers for an encoder, the standard library alone for the most frequent tags.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worker.recipes.common.estimators import loading
from worker.recipes.common.table import Table
from worker.recipes.spans.answers import ADDED, Marked
from worker.recipes.spans.sentences import TEXT, WORDS, Sentence, read_sentences
from worker.recipes.spans.tagging import load_tagger
from worker.recipes.spans.tags import words_in


class Model:
    """`needs` is the text; `takes` are the places of its words, where a file has cut it already."""

    needs: Sequence[str] = [TEXT]
    takes: Sequence[str] = [WORDS]
    added: Sequence[str] = ADDED

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self._form: dict[str, str] = description["form"]
        self._plain = bool(description["plain"])
        self._tagger = load_tagger(folder, description)

    def read(self, table: Table) -> Table:
        """A row a sentence, of any table that says which words are in which. Raises: BadData."""
        if {TEXT, WORDS} <= set(table.names):
            return table
        found = read_sentences(table, self._form)
        columns = {TEXT: [one.text for one in found], WORDS: [json.dumps(one.places) for one in found]}
        lines = [table.lines[one.row] for one in found]
        return Table([TEXT, WORDS], columns, lines, table.encoding, table.delimiter, table.warnings, table.form)

    def answers(self, columns: Mapping[str, Sequence[str]]) -> Marked:
        """The spans of each sentence."""
        texts = columns[TEXT]
        given = columns.get(WORDS) or [""] * len(texts)
        places = [
            [(int(start), int(end)) for start, end in json.loads(cell)] if cell else words_in(text)
            for text, cell in zip(texts, given, strict=True)
        ]
        sentences = [Sentence(text, found, at) for at, (text, found) in enumerate(zip(texts, places, strict=True))]
        return Marked(sentences, self._tagger.tags([sentence.words for sentence in sentences]), self._plain)


load = loading(Model)
