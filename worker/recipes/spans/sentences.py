"""Sentences out of a table: a row a token, lists of tokens, or plain texts. Copied beside the model.

A sentence is a text with the places of its words; tokens are joined with spaces to a text.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worker.recipes.common.table import BadData, Table
from worker.recipes.spans.tags import words_in

TEXT, WORDS = "text", "words"
Form = Mapping[str, str]  # `kind` (rows, lists or texts) and the names of the columns that hold what


@dataclass(frozen=True)
class Sentence:
    """A text, where its words are in it, and the row of the table on which it begins."""

    text: str
    places: Sequence[tuple[int, int]]
    row: int

    @property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self.places]


def joined(words: Sequence[str], row: int) -> Sentence:
    """Tokens as a sentence."""
    ends = list(itertools.accumulate(len(word) + 1 for word in words))
    places = [(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)]
    return Sentence(" ".join(words), places, row)


def listed(cell: str) -> list[Any] | None:
    """A cell as a list: JSON, or words between spaces; None where it is a JSON list that cannot be read."""
    if not cell.lstrip().startswith("["):
        return list(cell.split())
    try:
        found = json.loads(cell)
    except ValueError:
        return None
    return found if isinstance(found, list) else None


def in_sentences(table: Table, column: str) -> list[range]:
    """The rows of each sentence: those in a row with one value in the column, and below it with none."""
    cells = table.columns[column]
    starts = [at for at in range(table.rows) if at == 0 or (cells[at] != cells[at - 1] and cells[at].strip())]
    return [range(start, end) for start, end in itertools.pairwise([*starts, table.rows])]


def read_sentences(table: Table, form: Form) -> list[Sentence]:
    """The sentences of a table that has the columns of `form`, or one `text`. Raises: BadData."""
    names = set(table.names)
    if form["kind"] == "rows" and {form["token"], form["sentence"]} <= names:
        tokens = table.columns[form["token"]]
        return [joined([tokens[row] for row in rows], rows[0]) for rows in in_sentences(table, form["sentence"])]
    if form["kind"] == "lists" and form["token"] in names:
        lists = [listed(cell) for cell in table.columns[form["token"]]]
        return [joined(list(map(str, words or [])), row) for row, words in enumerate(lists)]
    column = next((name for name in (form.get("text", TEXT), TEXT) if name in names), None)
    if column is None:
        wanted = [form[name] for name in ("text", "sentence", "token") if name in form]
        raise BadData(
            f"There is no column with sentences: they are read from {' and '.join(f'“{name}”' for name in wanted)}, or "
            f"from “{TEXT}”. The columns are: {', '.join(table.names[:30])}."
        )
    return [Sentence(text, words_in(text), row) for row, text in enumerate(table.columns[column])]
