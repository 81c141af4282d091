"""Columns of one series and their bytes: points as they were logged, and spans that stand for many points.

Both are numpy structured arrays. A block of at most `BLOCK` of either becomes bytes by differences between neighbours
(whole numbers and moments) and by laying the same byte of all numbers side by side: such a plane is one byte where it
is the same everywhere, plain where it is noise, else part of the block's one zlib stream, so that reading unpacks
little. Nothing is rounded. Blocks of version 1, a zlib stream a column, are read as well.
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
_VERSION: Final = 2
_LEVEL: Final = 4  # of zlib: half the time of its default, 2 % more bytes
_WIDTH: Final = 8  # bytes of every column's numbers
_SAME, _PLAIN, _ZLIB = range(3)  # how a plane is stored
_NOISE_BITS: Final = 7.3  # of entropy a byte, from which on zlib gains less than a tenth


class Unreadable(ValueError):
    """Bytes that are no block, or one of a version that is not known here."""


def pack(entries: Entries) -> bytes:
    """The bytes of a block; `unpack` gives the same entries back, bit for bit.

    Head, the first two words of every column, how each plane is stored, the bytes of planes that are the same
    everywhere, the length of the zlib stream, that stream, the plain planes.
    """
    head = _HEAD.pack(_VERSION, len(entries))
    if not len(entries):
        return head
    words = np.stack([_differences(entries, name) for name in entries.dtype.names or ()])
    begins = words[:, :2].copy()
    if len(entries) > 2:  # they are unlike what follows: without them, many planes are the same everywhere
        words[:, :2] = words[:, 2:3]
    bytes_of = words.view(np.uint8).reshape(len(words), len(entries), _WIDTH)
    planes = bytes_of.transpose(0, 2, 1).reshape(-1, len(entries))
    how = np.array([_how(plane) for plane in planes], dtype=np.uint8)
    squeezed = zlib.compress(planes[how == _ZLIB].tobytes(), _LEVEL)
    same = planes[how == _SAME, :1].tobytes()
    plain = planes[how == _PLAIN].tobytes()
    return b"".join((head, begins.tobytes(), how.tobytes(), same, _SIZE.pack(len(squeezed)), squeezed, plain))


def unpack(data: bytes, kind: np.dtype[Any]) -> Entries:
    """Entries of `POINT` or `SPAN`. Raises: Unreadable."""
    try:
        version, count = _HEAD.unpack_from(data)
        if version not in _READERS:
            raise Unreadable(f"A block of metrics has version {version}; version {_VERSION} is known here.")
        if count > BLOCK:
            raise Unreadable(f"A block of metrics says that it has {count:,} entries; none has more than {BLOCK:,}.")
        return _READERS[version](data, count, kind) if count else np.empty(0, dtype=kind)
    except (struct.error, zlib.error, ValueError, IndexError, KeyError) as error:
        if isinstance(error, Unreadable):
            raise
        raise Unreadable(f"A block of metrics is damaged: {error}") from error


def _differences(entries: Entries, name: str) -> NDArray[np.int64]:
    """The column as words that are mostly small; `_sums` is the way back."""
    words: NDArray[np.int64] = np.ascontiguousarray(entries[name]).view(np.int64)
    for _ in range(_times(entries.dtype, name)):
        words = np.diff(words, prepend=np.int64(0))
    return words


def _sums(words: NDArray[np.int64], kind: np.dtype[Any], name: str) -> Any:
    for _ in range(_times(kind, name)):
        words = np.cumsum(words)
    return words.view(kind[name])


def _times(kind: np.dtype[Any], name: str) -> int:
    """How often differences are taken: whole numbers mostly grow evenly, and the bits of moments as the moments do."""
    return 2 if kind[name].kind == "i" else int(name in _MOMENTS)


def _how(plane: NDArray[np.uint8]) -> int:
    if (plane == plane[0]).all():
        return _SAME
    shares = np.bincount(plane) / len(plane)
    shares = shares[shares > 0]
    return _PLAIN if -(shares * np.log2(shares)).sum() > _NOISE_BITS else _ZLIB


def _read_planes(data: bytes, count: int, kind: np.dtype[Any]) -> Entries:
    names = kind.names or ()
    at = _HEAD.size
    begins = np.frombuffer(data, np.int64, len(names) * min(2, count), at).reshape(len(names), -1)
    at += begins.nbytes
    how = np.frombuffer(data, np.uint8, len(names) * _WIDTH, at)
    at += how.nbytes
    same = np.frombuffer(data, np.uint8, int((how == _SAME).sum()), at)
    at += same.nbytes
    (size,) = _SIZE.unpack_from(data, at)
    at += _SIZE.size
    squeezed = np.frombuffer(zlib.decompress(data[at : at + size]), np.uint8)
    plain = np.frombuffer(data, np.uint8, int((how == _PLAIN).sum()) * count, at + size)
    words = np.zeros((len(names), count), dtype=np.int64)
    into = words.view(np.uint8).reshape(len(names), count, _WIDTH)
    sources = {_SAME: same.reshape(-1, 1), _PLAIN: plain.reshape(-1, count), _ZLIB: squeezed.reshape(-1, count)}
    taken = [0, 0, 0]
    for place, what in enumerate(how.tolist()):
        plane = sources[what][taken[what]]
        taken[what] += 1
        if what != _SAME or plane[0]:
            into[place // _WIDTH, :, place % _WIDTH] = plane
    words[:, :2] = begins
    entries = np.empty(count, dtype=kind)
    for place, name in enumerate(names):
        entries[name] = _sums(words[place], kind, name)
    return entries


def _read_columns(data: bytes, count: int, kind: np.dtype[Any]) -> Entries:
    """Version 1."""
    entries, at = np.empty(count, dtype=kind), _HEAD.size
    for name in kind.names or ():
        (size,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
        shuffled = np.frombuffer(zlib.decompress(data[at : at + size]), dtype=np.uint8)
        at += size
        words = np.ascontiguousarray(shuffled.reshape(_WIDTH, count).T).reshape(-1).view(np.int64)
        entries[name] = _sums(words, kind, name)
    return entries


_READERS: Final = {1: _read_columns, 2: _read_planes}
