"""Images of a training script as PNG or JPEG bytes: arrays and tensors, Pillow's, files; and how large one says it is.

Part of a bundle; standard library only: arrays are known by what they can do, and numpy is used only where the script
has loaded it. Called by `trainyard.pictures`; the supervisor reads the heads of what comes to it with `image_size`.
"""

from __future__ import annotations

import io
import math
import os
import struct
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MOST_BYTES = 2 * 1024 * 1024
MOST_SIDE, MOST_PIXELS = 4_096, 4_000_000
_SIDE, _SMALL_SIDE = 640, 160  # larger arrays are thinned, smaller ones drawn with larger pixels
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers of a JPEG that say how large it is


class NoPicture(Exception):
    """What was given cannot be shown; the message says why."""


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height that a PNG or JPEG says it has, read off its head; None for anything else."""
    if data.startswith(_SIGNATURE):
        if len(data) < 24 or data[12:16] != b"IHDR":
            return None
        width, height = struct.unpack_from(">II", data, 16)
        return int(width), int(height)
    at = 2 if data.startswith(b"\xff\xd8\xff") else len(data)
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return int(width), int(height)
        alone = marker == 1 or 0xD0 <= marker <= 0xD8  # no length follows
        at += 1 if marker == 0xFF else 2 if alone else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def listed(values: Any) -> list[Any]:
    """A list of an array, a tensor, a column or anything that can be gone through."""
    if isinstance(values, (str, bytes)):
        raise NoPicture(f"a list is wanted, and there is the text {values[:40]!r}")
    return list(values.tolist() if hasattr(values, "tolist") else values)


def encoded(given: Any, most: int) -> tuple[bytes, tuple[int, int]]:
    """A PNG or JPEG of at most `most` bytes, and the size of what was given, in which its boxes are."""
    if isinstance(given, (str, os.PathLike)):
        with Path(given).open("rb") as file:
            given = file.read(MOST_BYTES + 1)
    if isinstance(given, (bytes, bytearray)):
        size = image_size(bytes(given))
        if size is None or max(size) > MOST_SIDE or size[0] * size[1] > MOST_PIXELS:
            raise NoPicture(f"an image must be a PNG or JPEG of at most {MOST_PIXELS:,} pixels")
        if len(given) > most:
            raise NoPicture(
                f"an image takes {len(given):,} bytes, and {most:,} are left for it; an array is made smaller"
            )
        return bytes(given), size
    if hasattr(given, "thumbnail") and hasattr(given, "save"):
        return _of_pillow(given, most)
    return _of_array(given, most)


def _of_pillow(given: Any, most: int) -> tuple[bytes, tuple[int, int]]:
    size, side = (int(given.width), int(given.height)), _SIDE
    if max(size) < _SMALL_SIDE:
        larger = _SMALL_SIDE // max(1, *size)
        given = given.resize((size[0] * larger, size[1] * larger), 0)  # nearest: whole pixels
    while True:
        copy = given.copy() if given.mode in {"1", "L", "LA", "P", "RGB", "RGBA"} else given.convert("RGB")
        copy.thumbnail((side, side))
        for kind, mode in (("PNG", None), ("JPEG", "RGB")):
            out = io.BytesIO()
            (copy.convert(mode) if mode else copy).save(out, kind)
            if out.tell() <= most:
                return out.getvalue(), size
        side //= 2


def _of_array(given: Any, most: int) -> tuple[bytes, tuple[int, int]]:
    """Shape (rows, columns), (rows, columns, 1 to 4) or (1 to 4, rows, columns), as torch has it."""
    if hasattr(given, "detach"):
        given = given.detach().cpu()
    rows, channels, size = _of_numpy(given) if "numpy" in sys.modules and hasattr(given, "shape") else _of_lists(given)
    side = _SIDE
    while True:
        longest = max(len(rows), len(rows[0]) // channels)
        every, larger = math.ceil(longest / side), max(1, _SMALL_SIDE // longest)
        data = _png(rows[::every], channels, every=every, larger=larger)
        if len(data) <= most or side < _SIDE // 16:
            return data, size
        side //= 2


def _of_numpy(given: Any) -> tuple[list[bytes], int, tuple[int, int]]:
    """Rows of bytes, the number of channels, and width and height of the whole."""
    np: Any = sys.modules["numpy"]
    array = np.asarray(given.float() if str(getattr(given, "dtype", "")) == "torch.bfloat16" else given)
    if array.ndim == 3 and array.shape[0] <= 4 < array.shape[2]:
        array = array.transpose(1, 2, 0)
    array = array[:, :, None] if array.ndim == 2 else array
    if array.ndim != 3 or not array.size or array.shape[2] > 4:
        raise NoPicture(f"an image cannot have the shape {tuple(array.shape)}")
    size = int(array.shape[1]), int(array.shape[0])
    every = math.ceil(max(size) / _SIDE)
    array = array[::every, ::every]
    if array.dtype != np.uint8:
        array = array.astype(float)
        known = array[np.isfinite(array)]
        low, span = _shades(float(known.min()), float(known.max())) if known.size else (0.0, 0.5)
        shares = (np.nan_to_num(array, nan=2 * low, posinf=np.inf, neginf=-np.inf) / 2 - low) / span
        array = (np.clip(shares, 0.0, 1.0) * 255 + 0.5).astype(np.uint8)
    return [row.tobytes() for row in array], int(array.shape[2]), size


def _of_lists(given: Any) -> tuple[list[bytes], int, tuple[int, int]]:
    """The same of lists of lists of numbers, or of lists of channels."""
    rows = [listed(row) for row in listed(given)]
    deep = bool(rows and rows[0]) and isinstance(rows[0][0], Sequence)
    flat = [[float(one) for cell in row for one in (cell if deep else (cell,))] for row in rows]
    channels = len(rows[0][0]) if deep else 1
    if not flat or not flat[0] or len({len(row) for row in flat}) > 1 or not 1 <= channels <= 4:
        raise NoPicture("an image must be a PNG, a JPEG, or rows of as many pixels each")
    known = [one for row in flat for one in row if math.isfinite(one)] or [0.0]
    low, span = _shades(min(known), max(known))
    shades = [
        bytes(int(255 * min(1.0, max(0.0, (one / 2 - low) / span)) + 0.5) if one == one else 0 for one in row)
        for row in flat
    ]
    return shades, channels, (len(flat[0]) // channels, len(flat))


def _shades(low: float, high: float) -> tuple[float, float]:
    """What is black, and how far from it white is: 0 and 1 where values are shares, else the lowest to the highest.

    Both are halves: the difference of two large values may be beyond what a float holds.
    """
    if low >= 0 and high <= 1:
        return 0.0, 0.5
    return low / 2, (high / 2 - low / 2) or 0.5


def _png(rows: list[bytes], channels: int, *, every: int, larger: int) -> bytes:
    """A PNG of every `every`-th pixel of these rows, or of each pixel `larger` times in both directions."""
    if every > 1 or larger > 1:
        across = range(0, len(rows[0]), channels * every)
        rows = [b"".join([row[at : at + channels] * larger for at in across]) for row in rows for _ in range(larger)]
    colours = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    head = struct.pack(">IIBBBBB", len(rows[0]) // channels, len(rows), 8, colours, 0, 0, 0)
    body = zlib.compress(b"".join([b"\0" + row for row in rows]), 6)
    return _SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
