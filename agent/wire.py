"""The one codec for everything that crosses a process: values to JSON bytes and back.

Raises `Malformed` with the raw text where the bytes are not what they should be.
"""

from typing import Literal, TypeVar

from pydantic import ValidationError

from agent.domain.errors import AppError
from agent.domain.orders import SignedOrder
from agent.domain.value import Value

V = TypeVar("V", bound=Value)


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


def signed_bytes(order: SignedOrder) -> bytes:
    """What the signature of an order covers: its kind, and all of it but the signature itself."""
    return type(order).__name__.encode() + b"\n" + encode(order.model_copy(update={"signature": ""}))
