"""The audit log's entries: a chain in which each holds the hash of the one before, so that a change shows."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent.domain.value import Value


class AuditEntry(Value):
    """One act. `who` is a person's key (empty: nobody, as when a question expires), `name` how people know them.

    `subject` is an approval and its tool, or a tool and what it was called with where nobody was asked (`did`).
    `digest` is that of the exact arguments, `channel` where it was asked.
    """

    number: int
    at: datetime
    who: str
    name: str
    act: str
    subject: str
    channel: str
    digest: str
    previous: str = ""
    hash: str = ""


@dataclass(frozen=True, slots=True)
class Verified:
    """What a look at the whole chain found: how many entries, the newest's hash, the first that does not fit."""

    entries: int
    newest: str
    broken: int | None


def sealed(entry: AuditEntry, *, previous: str) -> AuditEntry:
    """The entry as part of the chain."""
    linked = entry.model_copy(update={"previous": previous})
    return linked.model_copy(update={"hash": _hash_of(linked)})


def verify(entries: Iterable[AuditEntry]) -> Verified:
    """Follow the chain from its first entry; entries that are missing at its end only their known hash can show."""
    count, previous, broken = 0, "", None
    for count, entry in enumerate(entries, 1):
        fits = (entry.number, entry.previous, entry.hash) == (count, previous, _hash_of(entry))
        if not fits and broken is None:
            broken = entry.number
        previous = entry.hash
    return Verified(count, previous, broken)


def _hash_of(entry: AuditEntry) -> str:
    return hash_of(entry.model_dump(exclude={"hash"}) | {"at": entry.at.astimezone(UTC).isoformat()})


def hash_of(parts: Mapping[str, Any]) -> str:
    """sha256 over canonical JSON, hex."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
