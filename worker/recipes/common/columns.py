"""What each column of a table holds: its kind, what is missing, its range."""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from worker.recipes.common.table import BadData, Table, is_missing, number

EXAMPLE_CHARS = 80
_MOST_VALUES = 12  # more are no short list
FEWEST_ROWS = 20
_MOST_SPELLINGS = 50  # of two values
_BOOLEANS = ({"yes", "no"}, {"true", "false"}, {"0", "1"}, {"t", "f"}, {"y", "n"}, {"0.0", "1.0"}, {"on", "off"})
_DAY, _MONTH_WORD = r"(?:0?[1-9]|[12]\d|3[01])", r"[^\W\d_]{3,9}\.?"
_DATE = re.compile(
    rf"\s*(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{4}}|{_DAY}([-/.]){_DAY}\1\d{{2}}"
    rf"|{_DAY}[-. ]{{1,2}}{_MONTH_WORD}[-, ]{{1,2}}(?:\d{{4}}|\d{{2}})|{_MONTH_WORD} {_DAY},? \d{{4}})"
    r"([ T]\d{1,2}:\d{2}[\d:.,]*\s*([AaPp][Mm]|[A-Z]{1,5}|[+-]\d{2}:?\d{2})?)?\s*"
)
_WORD = re.compile(r"\S*[^\W\d_]\S*")  # with a letter, as a telephone number has none
_IMAGE = re.compile(r"(?i)\.(png|jpe?g|gif|bmp|webp|tiff?)$")
_ID_NAME = re.compile(
    r"(?i)(.*[_\s-])?(id|uuid|guid|key|index|idx|rowid|row_?(no|nr|number)|nr|no)|unnamed_1|.*[a-z]I[Dd]"
)


def describe(table: Table, name: str) -> dict[str, Any]:
    """The fields of a ColumnReport, found once."""
    if ("report", name) not in table.known:
        table.known["report", name] = _described(name, cell_counts(table, name), table.rows)
    return dict(table.known["report", name])


def described(table: Table) -> list[dict[str, Any]]:
    """The report of each column."""
    return [describe(table, name) for name in table.names]


def cell_counts(table: Table, name: str) -> Counter[str]:
    """How often each cell of a column is there, without what is missing; counted once."""
    if ("counts", name) not in table.known:
        counts = Counter(table.columns[name])
        for cell in [cell for cell in counts if is_missing(cell)]:
            del counts[cell]
        table.known["counts", name] = counts
    found: Counter[str] = table.known["counts", name]
    return found


def _described(name: str, counts: Counter[str], rows: int) -> dict[str, Any]:
    present = counts.total()
    numbers = _numbers(counts)
    kind = column_kind(name, counts, rows=rows, numbers=numbers)
    report: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "missing": rows - present,
        "unique": len(counts),
        "example": next(iter(counts), "")[:EXAMPLE_CHARS],
        "values": _values(counts) if kind in {"category", "boolean"} else [],
        "low": None,
        "high": None,
        "mean_chars": round(sum(len(cell) * times for cell, times in counts.items()) / present, 2) if present else None,
    }
    if numbers:
        report["low"], report["high"] = min(numbers), max(numbers)
    return report


def _values(counts: Counter[str]) -> list[str]:
    """All cells of a column with few different ones, the most frequent first; empty where one is long."""
    cells = [cell for cell, _ in counts.most_common()]
    return cells if len(cells) <= _MOST_VALUES and all(len(cell) <= EXAMPLE_CHARS for cell in cells) else []


def _numbers(counts: Counter[str]) -> list[float]:
    """The number that each different cell is; empty where one is none."""
    numbers = []
    for cell in counts:
        value = number(cell)
        if value is None:
            return []
        numbers.append(value)
    return numbers


def column_kind(name: str, counts: Counter[str], *, rows: int, numbers: Sequence[float]) -> str:
    """One of ColumnKind, from the counts of the cells that are not missing, and their numbers where all are some."""
    present = counts.total()
    if present == 0:
        return "empty"
    if len(counts) == 1:
        return "constant" if present == rows else "category"
    if len(counts) <= _MOST_SPELLINGS and {cell.strip().lower() for cell in counts} in _BOOLEANS:
        return "boolean"
    if not numbers and sum(times for cell, times in counts.items() if _IMAGE.search(cell)) >= 0.95 * present:
        return "image"
    all_unique = len(counts) == present and rows >= FEWEST_ROWS
    if numbers:
        whole = all_unique and all(value.is_integer() for value in numbers)
        counted = whole and (is_id_name(name) or _consecutive(numbers))
        return "identifier" if counted else "number"
    if is_dated(counts):
        return "datetime"
    return _string_kind(counts, present, all_unique=all_unique)


def is_dated(counts: Counter[str]) -> bool:
    """Whether nearly all cells are dates."""
    return sum(times for cell, times in counts.items() if _DATE.fullmatch(cell)) >= 0.95 * counts.total() > 0


def _string_kind(counts: Counter[str], present: int, *, all_unique: bool) -> str:
    words = sum(len(_WORD.findall(cell)) * times for cell, times in counts.items()) / present
    chars = sum(len(cell) * times for cell, times in counts.items()) / present
    many = len(counts) > 0.3 * present and len(counts) >= FEWEST_ROWS
    if words >= 4 and (many or chars > 60):
        return "text"
    if all_unique and words < 2:
        return "identifier"
    return "text" if many and words >= 2 else "category"


def is_id_name(name: str) -> bool:
    """Whether a column is called like a number or key of something."""
    return _ID_NAME.fullmatch(name) is not None


def _consecutive(numbers: Sequence[float]) -> bool:
    return all(after - before == 1 for before, after in itertools.pairwise(numbers))


def find_column(table: Table, wanted: str, *, role: str = "target") -> str:
    """The column with this name; case and outer spaces do not matter.

    Raises: BadData naming the columns, with a guess at what was meant.
    """
    if wanted in table.columns:
        return wanted
    folded = {name.lower(): name for name in table.names}
    if wanted.strip().lower() in folded:
        return folded[wanted.strip().lower()]
    close = difflib.get_close_matches(wanted.lower(), folded, n=1, cutoff=0.6)
    guess = f" Did you mean “{folded[close[0]]}”?" if close else ""
    names = ", ".join(table.names[:30]) + (f" and {len(table.names) - 30} more" if len(table.names) > 30 else "")
    raise BadData(f"There is no {f'{role} ' if role else ''}column “{wanted}”.{guess} The columns are: {names}.")


def text_column(columns: list[dict[str, Any]], *, leave_out: str | None, asked: bool = False) -> str | None:
    """The text column with the longest cells. When a text task was asked for, any column of words will do."""
    others = [column for column in columns if column["name"] != leave_out]
    texts = [column for column in others if column["kind"] == "text"]
    if not texts and asked:
        texts = [c for c in others if c["kind"] in {"category", "identifier"} and c["low"] is None]
    return str(max(texts, key=lambda column: column["mean_chars"])["name"]) if texts else None


def require_words(cells: list[str], column: str) -> None:
    """Raises: BadData where a text column holds nothing."""
    if not any(cell.strip() for cell in cells):
        raise BadData(f"The text column “{column}” is empty.")


def missing_problems(table: Table, target: str) -> list[str]:
    """Sentences on a target without a value in some rows, and on too few rows."""
    missing = [line for cell, line in zip(table.columns[target], table.lines, strict=True) if is_missing(cell)]
    problems = []
    if missing:
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        where = f"line{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing[:5]))}{more}"
        problems.append(
            f"The target “{target}” has no value in {len(missing)} of {table.rows} rows: "
            f"{where}. Fill them in or remove them."
        )
    if table.rows < FEWEST_ROWS:
        problems.append(f"There are only {table.rows} rows; at least {FEWEST_ROWS} are needed to train and to measure.")
    return problems


def is_quantity(counts: Counter[str]) -> bool:
    """Whether the values of a column are a quantity rather than classes: many different numbers."""
    many = len(counts) > 20 and len(counts) > 0.02 * counts.total()
    return many and all(number(label) is not None for label in counts)


def values_of(table: Table, name: str) -> Counter[str]:
    """How often each value of a column is there, without what is missing."""
    counts: Counter[str] = Counter()
    for cell, times in cell_counts(table, name).items():
        counts[cell.strip()] += times
    return counts


def useful(columns: list[dict[str, Any]], target: str) -> list[str]:
    """The columns beside the target that a recipe of tables learns from."""
    kinds = {"number", "category", "boolean", "datetime"}
    return [column["name"] for column in columns if column["kind"] in kinds and column["name"] != target]
