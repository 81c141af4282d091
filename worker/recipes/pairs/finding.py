"""Which two columns of a table are a pair: the text that is read and the text that is to be written.

By their names first (text and summary, source and target, en and fr), then by how long their texts are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from worker.recipes.common.columns import is_dated
from worker.recipes.common.table import Table, is_missing, number

_SOURCES = frozenset({
    "text", "texts", "document", "documents", "article", "articles", "source", "src", "input", "inputs", "body",
    "content", "dialogue", "dialog", "passage", "story", "description", "report", "transcript", "review", "question",
})  # fmt: skip
_SUMMARIES = frozenset({
    "summary", "summaries", "abstract", "highlights", "headline", "title", "tldr", "gist", "synopsis", "subject",
})  # fmt: skip
_TARGETS = frozenset({"target", "tgt", "trg", "output", "outputs", "translation", "translated"})
_LANGUAGES: Mapping[str, str] = {
    name: code
    for code, names in {
        "ar": "arabic", "bg": "bulgarian", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german deutsch",
        "el": "greek", "en": "english", "es": "spanish español espanol", "et": "estonian", "fa": "persian farsi",
        "fi": "finnish", "fr": "french français francais", "he": "hebrew", "hi": "hindi", "hr": "croatian",
        "hu": "hungarian", "id": "indonesian", "it": "italian italiano", "ja": "japanese", "ko": "korean",
        "lt": "lithuanian", "lv": "latvian", "nl": "dutch nederlands", "no": "norwegian", "pl": "polish polski",
        "pt": "portuguese português portugues", "ro": "romanian", "ru": "russian", "sk": "slovak", "sl": "slovenian",
        "sr": "serbian", "sv": "swedish", "sw": "swahili", "th": "thai", "tr": "turkish", "uk": "ukrainian",
        "ur": "urdu", "vi": "vietnamese", "zh": "chinese mandarin",
    }.items()
    for name in (code, *names.split())
}  # fmt: skip
_PARTS = re.compile(r"[^\W_]+")
_LOOKED_AT = 500  # rows
_SHORTER = 0.6  # a summary is at most so much of its text
_SAME_CHARS = 8
_FEW_CHARS = 3.0  # of a column of texts, on average


def language_of(column: str) -> str | None:
    """The language that a column's name says: `en`, `text_de`, `French`."""
    parts = _PARTS.findall(column.lower())
    if len(parts) > 2:
        return None
    return next((_LANGUAGES[part] for part in parts if part in _LANGUAGES), None)


def text_columns(table: Table) -> dict[str, float]:
    """The columns that hold texts of their own in most rows, with how many characters they have on average."""
    found = {}
    for name in table.names:
        cells = [cell for cell in table.columns[name][:_LOOKED_AT] if not is_missing(cell)]
        wordy = sum(number(cell) is None for cell in cells) > 0.9 * len(cells) and not is_dated(Counter(cells))
        if cells and wordy and len(set(cells)) > 0.5 * len(cells):
            chars = sum(map(len, cells)) / len(cells)
            if chars >= _FEW_CHARS:
                found[name] = chars
    return found


def summary_pair(table: Table, *, asked: bool = False) -> tuple[str, str] | None:
    """Text and summary, None where no names say so; somebody who asked for summaries means the two text columns."""
    texts = text_columns(table)
    target = next((name for name in texts if set(_PARTS.findall(name.lower())) & _SUMMARIES), None)
    if target is None and asked:
        target = next((name for name in texts if name.lower() in _TARGETS), None)
        if target is None and len(texts) > 1:
            target = min(sorted(texts, key=lambda name: -texts[name])[:2], key=lambda name: texts[name])
    source = source_of(table, target) if target else None
    if target is None or source is None or (not asked and texts[target] > _SHORTER * texts[source]):
        return None
    return source, target


def translation_pair(table: Table, *, asked: bool = False) -> tuple[str, str] | None:
    """Text and translation, None where no names say so; of languages the first is read, English before others."""
    texts = text_columns(table)
    target = next((name for name in texts if name.lower() in _TARGETS), None)
    spoken = {name: language for name in texts if (language := language_of(name))}
    if target is None and len(spoken) > 1:
        first = next((name for name, language in spoken.items() if language == "en"), next(iter(spoken)))
        target = next(name for name in spoken if name != first)
    if target is None and asked and len(texts) > 1:
        target = list(texts)[1]
    source = source_of(table, target) if target else None
    if target is None or source is None:
        return None
    alike = 0.2 < texts[target] / texts[source] < 5
    return (source, target) if asked or alike else None


def source_of(table: Table, target: str) -> str | None:
    """The column that is read to write `target`: by its name, by its language, else the longest texts."""
    texts = {name: chars for name, chars in text_columns(table).items() if name != target}
    if not texts:
        return None
    if language_of(target):
        spoken = {name: language for name in texts if (language := language_of(name))}
        if spoken:
            return next((name for name, language in spoken.items() if language == "en"), next(iter(spoken)))
    named = [name for name in texts if set(_PARTS.findall(name.lower())) & _SOURCES]
    return max(named or list(texts), key=lambda name: (not _begin_alike(table, name), texts[name]))


def _begin_alike(table: Table, name: str) -> bool:
    """Whether all texts begin with the same words, as remarks on where a text comes from do."""
    cells = [cell for cell in table.columns[name][:_LOOKED_AT] if not is_missing(cell)]
    return all(cell.startswith(cells[0][:_SAME_CHARS]) for cell in cells)
