"""Token files (CoNLL): a token a line with its tag, sentences parted by blank lines. Copied beside a finished model.

Read are files with spans in the last column, in any of the ways to write them, CoNLL-U with its parts of speech, and
two columns with a plain tag for each token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

_TAG = re.compile(r"O|[BIESLU]-\S+")
_PLAIN = re.compile(r"[A-Z]{1,6}\$?|[^\w\s]{1,3}|-[LR]RB-")
_NUMBERED = re.compile(r"\d+([-.]\d+)?")  # 3-4 and 3.1 stand beside the tokens of a sentence in CoNLL-U
_LOOKED_AT = 500
_ENOUGH = 0.95  # of the lines fit; the others are mistakes, which are named
Token = tuple[str, str]


class NoToken(Exception):
    """A line that is neither a token with its tag nor empty; `line` is its number."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def read_tokens(text: str) -> list[tuple[int, int, str, str]] | None:
    """Line, sentence, token and tag of each token; None for a file that is no token file. Raises: NoToken."""
    lines = text.splitlines()
    reader = _reader(lines[:_LOOKED_AT])
    if reader is None:
        return None
    found: list[tuple[int, int, str, str]] = []
    sentence, begun = 1, False
    for number, line in enumerate(lines, start=1):
        if _parts_sentences(line):
            sentence, begun = sentence + begun, False
            continue
        if _is_remark(line) or (reader is _universal and not line.split("\t")[0].isdigit()):
            continue
        token = reader(line)
        if token is None:
            raise NoToken(number)
        found.append((number, sentence, *token))
        begun = True
    return found


def _parts_sentences(line: str) -> bool:
    return not line.strip() or line.startswith("-DOCSTART-")


def _is_remark(line: str) -> bool:
    """Whether a line begins with a mark of comments and has no tag, as a token `#` has."""
    return line.startswith("#") and _spans(line) is None


def _reader(lines: Sequence[str]) -> Callable[[str], Token | None] | None:
    """What reads a line of this file; None where too few lines fit."""
    told = [line for line in lines if not _parts_sentences(line) and not _is_remark(line)]
    blank = any(not line.strip() for line in lines)
    if len(told) < 2:
        return None
    if _share(told, _spans) >= _ENOUGH and (blank or any(line.split()[-1] != "O" for line in told)):
        return _spans
    if _share(told, _universal) == 1:
        return _universal
    return _plain if blank and _share(told, _plain) == 1 else None


def _share(lines: Sequence[str], reader: Callable[[str], Token | None]) -> float:
    return sum(reader(line) is not None for line in lines) / len(lines)


def _spans(line: str) -> Token | None:
    parts = line.split()
    return (parts[0], parts[-1]) if len(parts) > 1 and _TAG.fullmatch(parts[-1]) else None


def _universal(line: str) -> Token | None:
    parts = line.split("\t")
    return (parts[1], parts[3]) if len(parts) == 10 and _NUMBERED.fullmatch(parts[0]) else None


def _plain(line: str) -> Token | None:
    parts = line.split()
    return (parts[0], parts[1]) if len(parts) == 2 and _PLAIN.fullmatch(parts[1]) else None
