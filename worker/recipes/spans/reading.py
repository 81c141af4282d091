"""Tagged sentences out of a data file, however tags stand in it, and what is said of them before a training.

Read are a row a token with its tag (CoNLL files are), lists of tokens and of tags, and texts with spans of characters
(`start`, `end`, `label`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worker.recipes.common.columns import FEWEST_ROWS, find_column
from worker.recipes.common.numerals import counted
from worker.recipes.common.table import BadData, Table
from worker.recipes.spans.sentences import Form, Sentence, in_sentences, joined, listed
from worker.recipes.spans.tags import Span, is_plain, label_of, spans_of, tags_of, words_in

_TOKENS = ("token", "tokens", "word", "words", "form")
_SENTENCES = ("sentence", "sentence_id", "sentence #", "sent", "sent_id", "sentence_no", "doc", "doc_id")
_TAGS = ("tags", "ner_tags", "tag", "ner", "labels", "spans", "entities", "pos", "pos_tags", "upos")
_SPAN_KEYS = ("label", "type", "tag", "entity_group")
_IOB = re.compile(r"O|[BIESLU]-\S+")
_MOST_LABELS = 200
_LOOKED_AT = 200


@dataclass(frozen=True)
class Tagged:
    """Sentences with a tag for each word, and how they stood in the file. `plain`: each word is a span of its own."""

    sentences: list[Sentence]
    tags: list[list[str]]
    form: Form
    plain: bool
    said: list[str]

    def labels(self) -> Counter[str]:
        """How many spans there are of each label."""
        return Counter(label for tags in self.tags for _, _, label in spans_of(tags, plain=self.plain))


def tags_column(table: Table, *, asked: bool) -> str | None:
    """The column that looks like tags; with `asked` a likely name is enough."""
    if table.form == "token file":
        return "tag"
    named = [name for word in _TAGS for name in table.names if name.lower() == word]
    for name in [*named, *(name for name in table.names if name not in named)]:
        if _has_spans(table, name) or _tokens_beside(table, name, only_lists=not asked):
            return name
    return next((name for name in named if _token_column(table, name) and (asked or _in_rows(table, name))), None)


def tagged(table: Table, target: str, text_column: str | None = None) -> Tagged:
    """Sentences and tags. Raises: BadData naming the line."""
    target = find_column(table, target)
    if _has_spans(table, target):
        return _from_spans(table, target, text_column)
    beside = _tokens_beside(table, target, only_lists=False)
    if beside:
        return _from_lists(table, beside, target)
    return _from_rows(table, target)


def problems(found: Tagged) -> list[str]:
    """Sentences that stop a training."""
    labels = found.labels()
    if len(found.sentences) < FEWEST_ROWS:
        return [f"There are only {len(found.sentences)} sentences; at least {FEWEST_ROWS} are needed."]
    if not labels:
        return ["No word has a tag other than “O”; there is nothing to find."]
    if found.plain and len(labels) == 1:
        return [f"Every word has the tag “{next(iter(labels))}”; there is nothing to tell apart."]
    if len(labels) > _MOST_LABELS:
        return [f"There are {len(labels)} different tags; at most {_MOST_LABELS} are possible. Is it the right column?"]
    return []


def about(found: Tagged) -> str:
    """What the target holds, in a few words."""
    labels, words = found.labels(), sum(len(tags) for tags in found.tags)
    some = ", ".join(f"{count:,} × {label}" for label, count in labels.most_common(5))
    more = f" and {len(labels) - 5} more labels" if len(labels) > 5 else ""
    what = "tags of words" if found.plain else "spans"
    return f"{what} in {len(found.sentences):,} sentences of {words:,} words: {some}{more}"


def _from_rows(table: Table, target: str) -> Tagged:
    token = _token_column(table, target)
    if token is None:
        raise BadData(
            f"No column beside “{target}” holds its tokens. Send a token file (CoNLL), or columns such as sentence, "
            "token and tag, or tokens and tags as lists, or text and spans."
        )
    sentence = next((name for word in _SENTENCES for name in table.names if name.lower() == word), None)
    if sentence is None or sentence in {token, target}:
        raise BadData(
            "No column says to which sentence a token belongs. Add one, named sentence, with one value a sentence."
        )
    sentences, tags = [], []
    for rows in in_sentences(table, sentence):
        for row in rows:
            if not table.columns[token][row].strip() or not table.columns[target][row].strip():
                empty = token if not table.columns[token][row].strip() else target
                raise BadData(f"Line {table.lines[row]}: “{empty}” is empty. Each token needs its tag.")
        sentences.append(joined([table.columns[token][row] for row in rows], rows[0]))
        tags.append([table.columns[target][row].strip() for row in rows])
    return _even(sentences, tags, {"kind": "rows", "token": token, "sentence": sentence})


def _from_lists(table: Table, tokens: str, target: str) -> Tagged:
    sentences, tags, empty = [], [], 0
    for row, line in enumerate(table.lines):
        words, said = listed(table.columns[tokens][row]), listed(table.columns[target][row])
        if words is None or said is None or len(words) != len(said):
            lists = "" if words is None or said is None else f"{len(words)} tokens but {len(said)} tags. "
            raise BadData(f"Line {line}: {lists or 'no list. '}Each token needs one tag.")
        empty += not words
        if words:
            sentences.append(joined(list(map(str, words)), row))
            tags.append(list(map(str, said)))
    return _even(sentences, tags, {"kind": "lists", "token": tokens}, said=_left_out(empty))


def _even(sentences: list[Sentence], tags: list[list[str]], form: Form, said: Sequence[str] = ()) -> Tagged:
    """Every way to write spans as IOB2; plain tags of words stay as they are. Of numbers a 0 is no span."""
    if _are_numbers(tags):
        tags = [["O" if tag == "0" else tag for tag in one] for one in tags]
        said = [*said, "The tags are numbers without names; 0 is read as “O”, a word outside of every span."]
    plain = is_plain(tag for one in tags for tag in one)
    if not plain:
        tags = [tags_of(spans_of(one), len(one)) for one in tags]
    return Tagged(sentences, tags, form, plain, list(said))


def _are_numbers(tags: Sequence[Sequence[str]]) -> bool:
    """Whether all tags are whole numbers, and 0 the most frequent one, as where entities are rare."""
    counts = Counter(tag for one in tags for tag in one)
    return bool(counts) and all(map(str.isdigit, counts)) and counts.most_common(1)[0][0] == "0"


def _from_spans(table: Table, target: str, text_column: str | None) -> Tagged:
    others = [name for name in table.names if name != target]
    if not others:
        raise BadData(f"No column beside “{target}” holds the texts.")
    text = find_column(table, text_column, role="text") if text_column else _longest(table, others)
    sentences, tags, empty, overlapping, widened = [], [], 0, 0, 0
    for row, line in enumerate(table.lines):
        written = table.columns[text][row]
        asked = _spans_in(table.columns[target][row], len(written), line)
        places = words_in(written)  # by the same rule as before a prediction, whatever the spans are
        found: list[Span] = []
        for start, end, label in asked:
            touched = [at for at, (begin, stop) in enumerate(places) if begin < end and stop > start]
            if not touched:
                continue
            if found and touched[0] < found[-1][1]:
                overlapping += 1
                continue
            widened += places[touched[0]][0] < start or places[touched[-1]][1] > end
            found.append((touched[0], touched[-1] + 1, label))
        empty += not places
        if places:
            sentences.append(Sentence(written, places, row))
            tags.append(tags_of(found, len(places)))
    said = _left_out(empty)
    over = counted(overlapping, "span overlaps", "spans overlap")
    said += [f"{over} an earlier one: left out."] if overlapping else []
    within = counted(widened, "span begins or ends", "spans begin or end")
    said += [f"{within} within a word: read as whole words."] if widened else []
    return Tagged(sentences, tags, {"kind": "texts", "text": text}, plain=False, said=said)


def _spans_in(cell: str, length: int, line: int) -> list[Span]:
    """The spans of one text, in characters. Raises: BadData."""
    found: list[Span] = []
    for one in json.loads(cell) if cell.strip() else []:
        try:
            if isinstance(one, Mapping):
                label = next(str(one[key]) for key in _SPAN_KEYS if one.get(key))
                start, end = int(one["start"]), int(one["end"])
            else:
                start, end, label = int(one[0]), int(one[1]), str(one[2])
        except (KeyError, IndexError, TypeError, ValueError, StopIteration) as error:
            raise BadData(f"Line {line}: a span needs start, end and label, not {json.dumps(one)[:80]}.") from error
        if not 0 <= start < end <= length:
            raise BadData(
                f"Line {line}: the span from {start} to {end} does not lie in its text of {length} characters."
            )
        found.append((start, end, label))
    return sorted(found)


def _left_out(empty: int) -> list[str]:
    return [f"{counted(empty, 'row without a word is', 'rows without a word are')} left out."] if empty else []


def _has_spans(table: Table, name: str) -> bool:
    """Whether the cells are JSON lists of spans; some may be empty."""
    some = False
    for cell in table.columns[name][:_LOOKED_AT]:
        if not cell.strip() or cell.strip() == "[]":
            continue
        found = listed(cell) if cell.lstrip().startswith("[") else None
        if not found or not isinstance(found[0], Mapping | list):
            return False
        first: Any = found[0]
        if not ({"start", "end"} <= set(first) if isinstance(first, Mapping) else _is_triple(first)):
            return False
        some = True
    return some


def _in_rows(table: Table, name: str) -> bool:
    """Whether each row is a token with its tag, in the letters of IOB, and its sentence."""
    sentences = any(column.lower() in _SENTENCES for column in table.names)
    return sentences and all(_IOB.fullmatch(cell.strip()) for cell in table.columns[name][:_LOOKED_AT])


def _is_triple(one: list[Any]) -> bool:
    return len(one) == 3 and isinstance(one[0], int) and isinstance(one[2], str)


def _tokens_beside(table: Table, target: str, *, only_lists: bool) -> str | None:
    """The column with a token for each tag of a list; words between spaces count where `only_lists` is off."""
    wanted = [listed(cell) for cell in table.columns[target][:_LOOKED_AT]]
    brackets = all(cell.lstrip().startswith("[") for cell in table.columns[target][:_LOOKED_AT])
    several = sum(len(one or []) for one in wanted) > 1.5 * len(wanted)
    if (only_lists and not brackets) or None in wanted or not several:
        return None
    others = sorted((name for name in table.names if name != target), key=lambda name: name.lower() not in _TOKENS)
    for name in others:
        found = [listed(cell) for cell in table.columns[name][:_LOOKED_AT]]
        fitting = sum(a is not None and b is not None and len(a) == len(b) for a, b in zip(found, wanted, strict=True))
        words = [word for one in found for word in one or []]
        lettered = sum(isinstance(word, str) and any(map(str.isalpha, word)) for word in words)
        if all(isinstance(word, str) for word in words) and 2 * lettered > len(words) and fitting >= 0.9 * len(wanted):
            return name
    return None


def _token_column(table: Table, target: str) -> str | None:
    named = [name for word in _TOKENS for name in table.names if name.lower() == word and name != target]
    return named[0] if named else None


def _longest(table: Table, names: Sequence[str]) -> str:
    """The column with the most characters, which the texts are in."""
    return max(names, key=lambda name: sum(map(len, table.columns[name][:_LOOKED_AT])))


def strata(found: Tagged) -> list[str]:
    """The rarest label of each sentence, so that each label stands on both sides of a split."""
    counts = found.labels()
    each = [{label_of(tag) for tag in tags if tag != "O"} for tags in found.tags]
    return [min(labels, key=lambda label: (counts[label], label), default="") for labels in each]
