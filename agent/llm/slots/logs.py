"""Reads which lines of a log are wanted, and whether numbers are wanted as a file."""

import re
from typing import Any

from agent.llm.slots.numbers import count_in
from agent.llm.slots.runs import RUN_ID
from agent.tools.targets import QUOTE

_QUOTED = re.compile(rf"{QUOTE}|«\s*([^»\n]{{1,80}}?)\s*»")
_MOST_LINES = 200
_NO_TEXT = frozenset({"it", "me", "errors", "warnings", "all"})
_FOR = re.compile(
    r"\b(?:for|with|containing|contains?|about|mention(?:s|ing)?|mit|avec|contenant|con|que contengan)"
    r"\s+([\w.\-/:]+)\W*$|(?:包含|含有)\s*([\w.\-/:]+)",
    re.IGNORECASE,
)
_CSV = re.compile(r"\bcsv\b|\bparquet\b|\bas (?:a )?file\b|\bdownload\b|\bexport\b", re.IGNORECASE)
_WHOLE = re.compile(r"\b(?:whole|full|entire|complete) logs?\b|\blogs? (?:file\b|in full\b)", re.IGNORECASE)
_OLDER = re.compile(r"\b(?:older|earlier|previous)\b", re.IGNORECASE)
_LEVEL = re.compile(r"\b(error|warning)s?\b", re.IGNORECASE)
_WARNINGS = re.compile(r"\bwarnungen\b|\bavertissements?\b|\b(?:avisos|advertencias?)\b|警告", re.IGNORECASE)
_TAIL = re.compile(r"\b(?:tail|head)?\s*-n\s*(\d{1,4})\b|\btail\s+-?(\d{1,4})\b", re.IGNORECASE)


def log_arguments(asked: str) -> dict[str, Any]:
    """Which lines of a log are wanted: level, words, how many, older ones, or all as a file."""
    asked = _WARNINGS.sub("warnings", asked)
    level, quoted, named = _LEVEL.search(asked), _QUOTED.search(asked), _FOR.search(asked)
    found: dict[str, Any] = {}
    search = (quoted.group(1) or quoted.group(2)) if quoted else (named.group(1) or named.group(2)) if named else ""
    if level and not quoted:
        found["level"] = level.group(1).lower()
    if search and not RUN_ID.fullmatch(search.lower()) and search.lower() not in _NO_TEXT:
        found["search"] = search
    tail = _TAIL.search(asked)
    lines = int(tail.group(1) or tail.group(2)) if tail else count_in(asked)
    if lines is not None:
        found["lines"] = min(max(lines, 1), _MOST_LINES)
    if _WHOLE.search(asked) or wants_csv(asked):
        found["file"] = True
    if _OLDER.search(asked):
        found["older"] = True
    return found


def wants_csv(asked: str) -> bool:
    """Whether numbers are wanted as a file."""
    return bool(_CSV.search(asked))
