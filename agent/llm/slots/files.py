"""Reads which of some files a request means."""

import re
from collections.abc import Sequence
from pathlib import PurePath

DATA_FILE = re.compile(r"(?<![\w./=-])([\w-][\w.-]*\.(?:csv|tsv|jsonl?|parquet|txt|xlsx|npz))\b")
_ORDERED = (r"first|1st|erste[nr]?|premi[eè]re?|primer[oa]?", r"second|2nd|zweite[nr]?|deuxi[eè]me|segund[oa]")
_FILE = r"(?:file|one|table|sheet|data ?set|attachment|datei|tabelle|fichier|archivo|tabla)"
_NOT_THAT = re.compile(
    r"\b(?:ignore|not|skip|without|forget(?: about)?|leave|drop|ohne|sans|sin)\s+(?:the\s+)?$", re.IGNORECASE
)


def file_in(words: str, files: Sequence[str]) -> str | None:
    """The file that is named: whole, without its ending, by its kind or by its place; None where none is."""
    whole = [name for name in files if _said(re.escape(name), words)]
    if whole:
        return min(whole, key=words.lower().find) if all(name.lower() in words.lower() for name in whole) else whole[0]
    stems = [name for name in files if _said(rf"{re.escape(PurePath(name).stem)}(?:[’']s)?", words)]
    kinds = [name for name in files if _said(PurePath(name).suffix[1:], words)]
    places = [name for pattern, name in zip(_ORDERED, files, strict=False) if _said(rf"(?:{pattern})\s+{_FILE}", words)]
    found = next((some for some in (stems, places, kinds) if len(some) == 1), None)
    return found[0] if found else None


def file_named(words: str) -> str | None:
    """The data file that is named with its ending."""
    found = DATA_FILE.search(words)
    return found.group(1) if found else None


def _said(pattern: str, words: str) -> bool:
    """Whether something is named and not put aside."""
    spoken = re.finditer(rf"(?<![\w.-]){pattern}(?![\w-])", words, re.IGNORECASE)
    return any(not _NOT_THAT.search(words[: one.start()]) for one in spoken)
