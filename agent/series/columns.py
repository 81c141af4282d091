"""Columns of one series and their bytes: points as they were logged, and spans that stand for many points.

Both are numpy structured arrays. A block of at most `BLOCK` of either becomes bytes by differences between neighbours
(whole numbers and moments), by laying the same byte of all numbers side by side, and by zlib. Nothing is rounded.
"""

import struct
import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

BLOCK: Final = 2048  # entries; a multiple of `pyramid.FAN`
POINT: Final = np.dtype([("row", "<i8"), ("step", "<i8"), ("at", "<f8"), ("value", "<f8")])
SPAN: Final = np.dtype(
    [
        ("first", "<i8"), ("last", "<i8"),  # the lowest and the highest step
        ("began", "<f8"), ("ended", "<f8"),  # the earliest and the latest moment, seconds since the epoch
        ("low", "<f8"), ("low_step", "<i8"), ("high", "<f8"), ("high_step", "<i8"),  # of finite values, else NaN and 0
        ("mean", "<f8"), ("count", "<i8"),  # of finite values
        ("nans", "<i8"), ("ups", "<i8"), ("downs", "<i8"),  # how many are NaN, +infinity, -infinity
    ]
)  # fmt: skip
Entries = NDArray[Any]
_MOMENTS: Final = frozenset({"at", "began", "ended"})
_HEAD: Final = struct.Struct("<BI")  # version, entries
_SIZE: Final = struct.Struct("<I")
_VERSION: Final = 1
_LEVEL: Final = 4  # of zlib: half the time of its default, 2 % more bytes


class Unreadable(ValueError):
    """Bytes that are no block, or one of a version that is not known here."""


def pack(entries: Entries) -> bytes:
    """The bytes of a block; `unpack` gives the same entries back, bit for bit."""
    parts = [_HEAD.pack(_VERSION, len(entries))]
    for name in entries.dtype.names or ():
        kind = entries.dtype[name].kind
        words = np.ascontiguousarray(entries[name]).view(np.int64)
        if kind == "i" or name in _MOMENTS:  # the bits of moments grow as the moments do
            words = np.diff(words, prepend=np.int64(0))
        if kind == "i":
            words = np.diff(words, prepend=np.int64(0))
        shuffled = words.view(np.uint8).reshape(-1, 8).T
        data = zlib.compress(np.ascontiguousarray(shuffled).tobytes(), _LEVEL)
        parts += (_SIZE.pack(len(data)), data)
    return b"".join(parts)


def unpack(data: bytes, kind: np.dtype[Any]) -> Entries:
    """Entries of `POINT` or `SPAN`. Raises: Unreadable."""
    try:
        version, count = _HEAD.unpack_from(data)
        if version != _VERSION:
            raise Unreadable(f"A block of metrics has version {version}; version {_VERSION} is known here.")
        entries, at = np.empty(count, dtype=kind), _HEAD.size
        for name in kind.names or ():
            (size,) = _SIZE.unpack_from(data, at)
            at += _SIZE.size
            shuffled = np.frombuffer(zlib.decompress(data[at : at + size]), dtype=np.uint8)
            at += size
            words = np.ascontiguousarray(shuffled.reshape(8, count).T).reshape(-1).view(np.int64)
            if kind[name].kind == "i":
                words = np.cumsum(words)
            if kind[name].kind == "i" or name in _MOMENTS:
                words = np.cumsum(words)
            entries[name] = words.view(kind[name])
    except (struct.error, zlib.error, ValueError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(f"A block of metrics is damaged: {error}") from error
    return entries
