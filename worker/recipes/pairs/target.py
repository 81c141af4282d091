"""What is said of a table of pairs: its problems, its report, what people should read first, and how it is split."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from worker.recipes.common.columns import missing_problems, values_of
from worker.recipes.common.numerals import counted
from worker.recipes.common.split import same_text
from worker.recipes.common.table import Table, is_missing, number
from worker.recipes.pairs.finding import source_of

_SAME = 0.9
_LONG_WORDS = 180  # about 256 tokens


def describe(table: Table, target: str) -> dict[str, Any]:
    """The fields of a TargetReport."""
    cells = [cell for cell in table.columns[target] if not is_missing(cell)]
    return {"column": target, "missing": table.rows - len(cells), "about": lengths(cells)}


def lengths(texts: Sequence[str]) -> str:
    """How long texts are, in words."""
    if not texts:
        return "no text"
    counts = sorted(len(text.split()) for text in texts)
    return f"texts of {counts[0]:,} to {counts[-1]:,} words, usually {statistics.median(counts):,.0f}"


def problems(table: Table, target: str) -> list[str]:
    """Sentences that stop a training on this target."""
    counts = values_of(table, target)
    found = missing_problems(table, target)
    if counts and all(number(cell) is not None for cell in counts):
        found.append(f"The target “{target}” holds numbers; a text is needed. To predict numbers ask for a regression.")
    elif len(counts) == 1:
        found.append(f"The target “{target}” is always “{next(iter(counts))[:60]}”; there is nothing to learn.")
    source = source_of(table, target)
    if source is None:
        return [*found, f"There is no column with the text that “{target}” is to be written from."]
    same = sum(a.strip() == b.strip() for a, b in zip(table.columns[source], table.columns[target], strict=True))
    if same > _SAME * table.rows:
        found.append(f"“{target}” is the same as “{source}” in {same:,} of {table.rows:,} rows: nothing to learn.")
    return found


def warnings(table: Table, target: str) -> list[str]:
    """Sentences that people should read before they train on this target."""
    source = source_of(table, target)
    if source is None:
        return []
    cells = table.columns[source]
    counts = Counter(map(same_text, cells))
    said = [f"“{target}” is written from “{source}” ({lengths([cell for cell in cells if not is_missing(cell)])})."]
    empty = sum(is_missing(cell) for cell in cells)
    if empty:
        said.append(f"“{source}” is empty in {counted(empty, 'row', 'rows')}.")
    repeated = table.rows - len(counts)
    if repeated:
        again = counted(repeated, "row repeats", "rows repeat")
        said.append(f"{again} the text of another one. Equal texts stay on one side of the split.")
    long = sum(len(cell.split()) > _LONG_WORDS for cell in cells)
    if long:
        said.append(
            f"{counted(long, 'text is', 'texts are')} longer than {_LONG_WORDS} words; what follows is not read by the "
            "usual settings (`max_source_tokens`)."
        )
    return said


def leaks(_table: Table, _target: str) -> list[dict[str, Any]]:
    """Nothing beside the text is read, so nothing gives the target away."""
    return []
