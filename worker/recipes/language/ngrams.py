"""A language model of counted byte sequences: the simple model that a network has to beat, and that can write too.

The probability of a byte after the bytes before it is interpolated over their last 6, 5, … 0 (Witten and Bell 1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ORDER = 6
MOST_BYTES = 4_000_000  # learned from: the last of a longer text
_START = b"\0"
Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class _Counts:
    """How often each sequence of one length is there; and of each of its beginnings (one byte shorter) how often it
    goes on, and in how many ways."""

    whole: Keys
    times: NDArray[np.int64]
    beginnings: Keys
    total: NDArray[np.int64]
    ways: NDArray[np.int64]


class ByteNgrams:
    """Counts of a training text."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        data = _START.join([b"", *texts])[-MOST_BYTES:]
        self._counts = [_counted(_windows(data, length)) for length in range(1, ORDER + 2)]

    def bits(self, text: bytes) -> float:
        """What the text costs, in bits, from its start."""
        return float(-np.log2(self._shares(_windows(_START * ORDER + text, ORDER + 1))).sum())

    def continuation(self, prompt: bytes, length: int, *, seed: int) -> bytes:
        """`length` bytes that go on from the prompt, drawn by their probabilities."""
        random = np.random.default_rng(seed)
        said = bytearray((_START * ORDER + prompt)[-max(ORDER, len(prompt)) :])
        start = len(said)
        every = np.arange(256, dtype=np.uint64)
        for _ in range(length):
            context = np.uint64(int.from_bytes(said[-ORDER:], "big") << 8)
            shares = self._shares(context | every)
            shares[0] = 0.0  # the mark between texts
            said.append(int(random.choice(256, p=shares / shares.sum())))
        return bytes(said[start:])

    def _shares(self, windows: Keys) -> NDArray[np.float64]:
        """The probability of the last byte of each window after the bytes before it (n,)."""
        found = np.full(len(windows), 1 / 256)
        for length, counts in enumerate(self._counts, start=1):
            keys = windows & np.uint64((1 << 8 * length) - 1)
            times = _looked_up(counts.whole, counts.times, keys)
            begun = keys >> np.uint64(8)
            total = _looked_up(counts.beginnings, counts.total, begun)
            ways = _looked_up(counts.beginnings, counts.ways, begun)
            seen = total > 0
            found[seen] = (times + ways * found)[seen] / (total + ways)[seen]
        return found


def _windows(data: bytes, length: int) -> Keys:
    """Each sequence of `length` bytes as a number, in order."""
    values = np.frombuffer(data, dtype=np.uint8).astype(np.uint64)
    found = np.zeros(max(0, len(values) - length + 1), dtype=np.uint64)
    for at in range(length):
        found = (found << np.uint64(8)) | values[at : at + len(found)]
    return found


def _counted(windows: Keys) -> _Counts:
    whole, times = np.unique(windows, return_counts=True)
    beginnings, first, ways = np.unique(whole >> np.uint64(8), return_index=True, return_counts=True)
    return _Counts(whole, times, beginnings, np.add.reduceat(times, first), ways)


def _looked_up(keys: Keys, values: NDArray[np.int64], wanted: Keys) -> NDArray[np.int64]:
    """The value of each wanted key, 0 where it is not there. `keys` are sorted."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)
