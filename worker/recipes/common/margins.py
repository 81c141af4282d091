"""What people write around a table: titles above it, a header of two rows, a total and a source below it.

Copied beside a finished model with `table`; knows cells, not files.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from statistics import median_low

Record = tuple[int, list[str]]  # the line on which it starts, and its cells
_TOTALS = frozenset({"total", "totals", "grand total", "sum", "summe", "gesamt", "gesamtsumme", "insgesamt"})
_NUMBER = re.compile(r"\s*[(+-]?\d[\d.,'’\s]*\D{0,4}")
_SENTENCE = re.compile(r"(?=.*\w)(?:.*[.!…。]|(?:\S+\s+){2,}\S*[^?\s])")  # ends like one, or has three words
_ALMOST_ALL = 0.8
_FEWEST = 5  # rows that a total may stand below


def titles_above(rows: Sequence[Sequence[str]]) -> int:
    """How many rows stand above the header: titles and remarks, which fill one cell, or half as many as the others."""
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    usual = median_low(filled)
    titles = (
        usual > 1 and (count <= 1 or 2 * count <= usual or row[0].startswith("# "))
        for count, row in zip(filled, rows, strict=True)
    )
    above = len(list(takewhile(bool, titles)))
    if above == len(rows):
        return 0
    first = next((at for at, count in enumerate(filled) if count > 1 and not rows[at][0].startswith("# ")), above)
    values = any(map(_NUMBER.fullmatch, rows[above]))
    return min(first, above) if values else above  # what stands above values is a header that lacks names


def joined_header(rows: Sequence[Sequence[str]]) -> list[str] | None:
    """The names of a header of two rows, the upper one with merged cells; None where the first row is all of it."""
    if len(rows) < 3 or "" not in rows[0]:
        return None
    upper, lower, first = rows[:3]
    holes = [below for above, below in zip(upper, lower, strict=True) if not above]
    numbers = any(map(_NUMBER.fullmatch, lower)) or not any(map(_NUMBER.fullmatch, first))
    if numbers or not all(holes):
        return None
    names, group = [], ""
    for above, below in zip(upper, lower, strict=True):
        group = above or group
        names.append(f"{group} {below}".strip())
    return names


def is_data(header: Sequence[str], rows: Sequence[Sequence[str]], *, pairs: bool) -> bool:
    """Whether a first line of words is a row and names nothing: its cells recur below it, or are sentences.

    `pairs`: a few texts between tabs, which are usually written without a header.
    """
    cells = [(at, cell.strip()) for at, cell in enumerate(header) if cell.strip()]
    below = [Counter(row[at].strip() for row in rows if at < len(row)) for at, _ in cells]
    again = [found[cell] > 0 and len(set(found) - {""}) > 1 for (_, cell), found in zip(cells, below, strict=True)]
    said = [_NUMBER.fullmatch(cell) or _SENTENCE.fullmatch(cell) for _, cell in cells]
    rows_alike = sum(map(bool, map(operator.or_, again, map(bool, said))))
    return len(rows) >= _FEWEST and rows_alike >= _ALMOST_ALL * len(cells) > 0 and (any(again) or pairs)


def without_footer(records: Iterator[Record], said: list[str]) -> Iterator[Record]:
    """The records without those of a few words alone at the end, such as the source of the data."""
    last = list[Record]()
    for record in records:
        if len(record[1]) == 1 and not _NUMBER.fullmatch(record[1][0]):
            last.append(record)
            continue
        yield from last
        last.clear()
        yield record
    if last:
        said.append(f"Line {last[0][0]} (“{last[0][1][0].strip()[:40]}”), below the table, was left out.")


def total_below(columns: Mapping[str, Sequence[str]]) -> str:
    """The word with which the last row begins, where it sums up the others; else empty."""
    filled = [(cells, cells[-1].strip()) for cells in columns.values() if cells[-1].strip()]
    if len(filled) < 2 or len(filled[0][0]) <= _FEWEST:
        return ""
    (cells, word), *others = filled
    alone = sum(cell.strip() == word for cell in cells) == 1
    sums = any(_NUMBER.fullmatch(cell) for _, cell in others)
    return word if word.lower().rstrip(":") in _TOTALS and alone and sums else ""
