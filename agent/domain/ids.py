"""Identifiers: what people type is short and speakable, what only programs read sorts by time."""

import secrets
import time

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_RUN_LETTERS = 6
_APPROVAL_LETTERS = 12


def _letters(count: int) -> str:
    return "".join(secrets.choice(_CROCKFORD) for _ in range(count))


def new_ulid() -> str:
    """26 lower-case characters: 48 bits of milliseconds, then 80 random bits (ULID)."""
    number = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))


def new_run_id() -> str:
    """`r-` and six letters that are hard to confuse; safe in a path, a URL and a sentence."""
    return f"r-{_letters(_RUN_LETTERS)}"


def new_approval_id() -> str:
    """`a-` and twelve letters; fits every platform's button."""
    return f"a-{_letters(_APPROVAL_LETTERS)}"


def is_run_id(text: str) -> bool:
    """Whether `text` has the form of a run id (it need not exist)."""
    head, _, tail = text.partition("-")
    return head == "r" and len(tail) == _RUN_LETTERS and all(letter in _CROCKFORD for letter in tail)
