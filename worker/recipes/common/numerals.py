"""Numbers as people write them: 80,8 and 1.234,50, 1,234.50, € 12, 45 %, 70 kg, (12), and a word where one is missing.

A column is taken as a whole: where every cell is a number in one way of writing, its cells are rewritten the plain way,
and a sentence says so. Counts of our own are worded here too. Copied beside a finished model with `table`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# Words that say that nothing is known, in a column of numbers only: elsewhere they may be a category.
_UNKNOWN = frozenset(
    {"-", "--", "–", ".", "none", "n.a.", "n.a", "na.", "k.a.", "nil", "missing", "unknown", "#nv", "#div/0!",
     "#value!", "#ref!", "#num!", "inf", "-inf", "infinity", "-infinity"}
)  # fmt: skip
_ENOUGH = 0.9  # of the cells are numbers, where the others may be such words
_MONEY = r"(?:€|\$|£|¥|₹|eur|usd|gbp|chf|jpy)"
_DRESS = re.compile(
    rf"(?i)\s*([+-]?)\s*{_MONEY}?\s*([+-]?[\d.,'’\s\u00a0\u202f]*\d[.,]?(?:e[+-]?\d+)?)\s*(?:{_MONEY}|%)?\s*"
)
# Behind every number of a column the same word, or glued to it one of those that are no part of a code such as 4G.
_UNIT = re.compile(
    r"(?<=[\d.,])(?:\s+[^\W\d_][^\d]{0,11}|\s*(?:[kmµ]?[gm]|[cm]m|[kcm]?m[²³23]|m?l|lbs?|oz|ft|km/h|mph|[km]?[sh]|min|[kMGT]B|"
    r"[MG]?Hz|[km]?Wh?|°[CF]?|px|k))$"
)
_SPACES = re.compile(r"(?<=\d)['’\s\u00a0\u202f](?=\d{3}(?:\D|$))")
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d+)?")
_POINT = re.compile(r"[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d+)?")


def counted(count: int, one: str, many: str) -> str:
    """`1 row is`, `2,000 rows are`."""
    return f"{count:,} {one if count == 1 else many}"


def plain_numbers(
    columns: Mapping[str, Sequence[str]], missing: frozenset[str], *, delimiter: str = ","
) -> tuple[dict[str, list[str]], list[str]]:
    """The columns whose cells are rewritten, and a sentence on each.

    What `1,234` is, the other columns of the file say, else its delimiter: a comma is no decimal comma where it parts
    cells. `missing` are the words, in lower case, that mean nothing everywhere.
    """
    found = {name: _read(cells, missing) for name, cells in columns.items()}
    numbers = {name: read for name, read in found.items() if read is not None}
    votes = Counter(read.mark for read in numbers.values() if read.mark)
    usual = votes.most_common(1)[0][0] if votes else ""
    rewritten, said = {}, []
    for name, read in numbers.items():
        mark = read.mark or usual or ("," if delimiter == ";" and not read.plain else ".")
        if mark == "." and read.plain and not read.unknown:
            continue
        sentence = read.sentence(name, mark)
        if sentence:
            rewritten[name] = [read.rewritten(cell, mark) for cell in columns[name]]
            said.append(sentence)
    return rewritten, said


@dataclass(frozen=True)
class _Read:
    """A column of numbers. `bare` has each cell without what stands around it, `unknown` the words of missing ones.

    `mark` is the decimal mark where its cells leave no choice, else empty; `plain`: nothing needs to be rewritten then.
    """

    bare: Mapping[str, str]
    unknown: Mapping[str, int]
    mark: str
    plain: bool

    def rewritten(self, cell: str, mark: str) -> str:
        """A cell, the plain way."""
        if cell in self.unknown:
            return ""
        value = self.bare.get(cell)
        if value is None:
            return cell
        if _PLAIN.fullmatch(value) and (mark == "." or "." not in value):
            return value
        return value.replace(".", "").replace(",", ".") if mark == "," else value.replace(",", "")

    def sentence(self, name: str, mark: str) -> str:
        """What people are told; empty where every cell is written the plain way."""
        parts = []
        odd = next((cell for cell, value in self.bare.items() if self.rewritten(cell, mark) != cell.strip()), None)
        if odd is not None:
            parts.append(f"numbers such as “{odd.strip()[:40]}”, read as {self.rewritten(odd, mark)}")
        if self.unknown:
            words = ", ".join(f"“{word.strip()}”" for word in list(self.unknown)[:3])
            parts.append(f"{words} in {counted(sum(self.unknown.values()), 'row', 'rows')}, read as no value")
        return f"“{name}” holds {' and '.join(parts)}." if parts else ""


def _read(cells: Sequence[str], missing: frozenset[str]) -> _Read | None:
    """What a column's cells are, None for another than one of numbers."""
    if _are_plain(cells, missing):
        return _Read({}, {}, ".", plain=True)
    bare: dict[str, str] = {}
    unknown: dict[str, int] = {}
    counts = Counter(cells)
    units = units_of(counts, missing)
    unit = next(iter(units)) if len(units) == 1 else ""
    total = 0
    for cell, times in counts.items():
        word = cell.strip()
        if word.lower() in missing:
            continue
        total += times
        if _PLAIN.fullmatch(word):
            bare[cell] = word
        elif word.lower() in _UNKNOWN:
            unknown[cell] = times
        elif (value := _undressed(word.removesuffix(unit))) is not None:
            bare[cell] = value
        else:
            return None
    if not bare or total - sum(unknown.values()) < _ENOUGH * total:
        return None
    values = bare.values()
    plain = all(map(_PLAIN.fullmatch, values))
    comma, point = all(map(_COMMA.fullmatch, values)), plain or all(map(_POINT.fullmatch, values))
    if not (comma or point):
        return None
    mark = "" if comma and point else "," if comma else "."
    return _Read(bare, unknown, mark, plain and all(cell.strip() == value for cell, value in bare.items()))


def _are_plain(cells: Sequence[str], missing: frozenset[str]) -> bool:
    """Whether all cells are numbers written the plain way, and their points no commas: soon known of most columns."""
    words = set(cells).difference(missing, map(str.upper, missing))
    return bool(words) and all(map(_PLAIN.fullmatch, words)) and not all(map(_COMMA.fullmatch, words))


def units_of(cells: Iterable[str], missing: frozenset[str]) -> set[str]:
    """The units behind the numbers of a column; none where not every cell has one."""
    found, nothing = set[str](), missing | _UNKNOWN
    for cell in cells:
        word = cell.strip()
        if word.lower() in nothing:
            continue
        match = _UNIT.search(word)
        if match is None or not _undressed(word[: match.start()]):
            return set()
        found.add(match[0])
    return found


def _undressed(word: str) -> str | None:
    """The digits and marks of a number, without what people write around them; one in brackets is negative."""
    if word.startswith("(") and word.endswith(")"):
        word = f"-{word[1:-1]}"
    found = _DRESS.fullmatch(word)
    if found is None:
        return None
    value = found.group(1) + _SPACES.sub("", found.group(2)).strip()
    grouped = len(value) < len(found.group(1) + found.group(2).strip())
    return None if grouped and value.lstrip("+-").startswith("0") else value  # a telephone number
