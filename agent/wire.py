"""The one codec for everything that crosses a process: values to JSON bytes and back.

Raises `Malformed` with the raw text where the bytes are not what they should be.
"""

import contextlib
import json
import logging
from datetime import UTC, datetime
from typing import Literal, TypeVar

from pydantic import ValidationError

from agent.domain.errors import AppError
from agent.domain.events import WorkerEvent, stand_in
from agent.domain.orders import SignedOrder
from agent.domain.value import Value

V = TypeVar("V", bound=Value)
log = logging.getLogger(__name__)


class Malformed(AppError):
    """Bytes from another process that are not the value they should be."""

    def __init__(self, text: str, *, raw: bytes) -> None:
        """`raw` is kept for the log."""
        super().__init__(text)
        self.raw = raw


def encode(value: Value) -> bytes:
    """JSON bytes; NaN and infinity survive the way back."""
    return value.model_dump_json().encode()


def decode(kind: type[V], raw: bytes | str, *, extra: Literal["ignore"] | None = None) -> V:
    """The value that `encode` was given; with `extra` "ignore" also that of a newer sender, who says more.

    Raises:
        Malformed: the bytes are not such a value.
    """
    try:
        return kind.model_validate_json(raw, extra=extra)
    except ValidationError as error:
        kept = raw.encode() if isinstance(raw, str) else raw
        raise Malformed(f"not a {kind.__name__}: {error.error_count()} errors", raw=kept) from error


def event_of(raw: bytes, *, host: str, at: datetime | None = None) -> WorkerEvent | None:
    """An event of a host, read past keys that only a newer worker knows; None for what has no number.

    What cannot be understood becomes a `stand_in` of its number, so that no gap stays.
    """
    try:
        return decode(WorkerEvent, raw, extra="ignore")
    except Malformed as error:
        log.warning("event_malformed host=%s why=%s raw=%r", host, error, raw[:200])
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        fields = json.loads(raw)
        body = fields.get("body")
        instead = stand_in(str(body.get("kind") if isinstance(body, dict) else None))
        attempt = {name: fields[name] for name in ("run", "attempt", "seq")}
        return WorkerEvent(**attempt, host=host, at=at or datetime.now(UTC), body=instead)
    return None


def signed_bytes(order: SignedOrder) -> bytes:
    """What the signature of an order covers: its kind, and all of it but the signature itself."""
    return type(order).__name__.encode() + b"\n" + encode(order.model_copy(update={"signature": ""}))
