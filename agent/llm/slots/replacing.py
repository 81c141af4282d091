"""Replaces what patterns find in a sentence, and tries only those that can be in it.

A sentence is read by hundreds of patterns, of which few match. From each pattern follow pieces of text of which one
stands in whatever it matches; a pattern is tried where a sentence has one.
"""

import re
from collections.abc import Iterable, Sequence
from re import _constants, _parser  # type: ignore[attr-defined]  # no other module knows what a pattern is made of
from typing import Any

_LONGEST = 3  # characters of a piece
_Pieces = frozenset[str]


class Replacements:
    """Patterns, in their order, with what stands for what each finds."""

    def __init__(self, table: Iterable[tuple[str, str]]) -> None:
        """`table` has (pattern, replacement); case does not matter."""
        self._table = tuple(
            (re.compile(pattern, re.IGNORECASE), instead, needed(pattern)) for pattern, instead in table
        )

    def __call__(self, text: str) -> str:
        """The text with everything replaced; a later pattern sees what the ones before it wrote."""
        pieces = _pieces_of(text)
        for pattern, instead, needs in self._table:
            if needs is None or not needs.isdisjoint(pieces):
                replaced = pattern.sub(instead, text)
                if replaced != text:
                    text, pieces = replaced, _pieces_of(replaced)
        return text


def needed(pattern: str) -> _Pieces | None:
    """Pieces of lower case text of which one stands in whatever the pattern matches; None where it needs none."""
    return _needs(_parser.parse(pattern, re.IGNORECASE))


def _pieces_of(text: str) -> set[str]:
    said = text.lower()
    return {said[at : at + size] for size in range(1, _LONGEST + 1) for at in range(len(said) - size + 1)}


def _needs(parts: Iterable[tuple[Any, Any]]) -> _Pieces | None:
    """Of a sequence each part's needs are its own: the one with the longest pieces, and the fewest."""
    found: list[_Pieces] = []
    literal = ""
    for kind, what in [*parts, (None, None)]:
        if kind is _constants.LITERAL:
            literal += chr(what)
            continue
        if literal:
            found.append(frozenset({literal.lower()[:_LONGEST]}))
            literal = ""
        if (needs := _needs_of(kind, what)) is not None:
            found.append(needs)
    return max(found, key=lambda needs: (min(map(len, needs)), -len(needs)), default=None)


def _needs_of(kind: Any, what: Any) -> _Pieces | None:
    if kind is _constants.SUBPATTERN:
        return _needs(what[-1])
    if kind is _constants.BRANCH:
        return _one_of([_needs(branch) for branch in what[1]])
    if kind in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT) and what[0] > 0:
        return _needs(what[2])
    if kind is _constants.ATOMIC_GROUP:
        return _needs(what)
    if kind is _constants.ASSERT:
        return _needs(what[1])
    if kind is _constants.IN and all(one is _constants.LITERAL for one, _ in what):
        return frozenset(chr(character).lower() for _, character in what)
    return None


def _one_of(branches: Sequence[_Pieces | None]) -> _Pieces | None:
    whole: set[str] = set()
    for needs in branches:
        if needs is None:
            return None
        whole |= needs
    return frozenset(whole)
