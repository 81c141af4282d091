"""How many bits compressors need for texts when they have seen the training part: what a language model has to beat.

Unlike the model they go on learning: each text is compressed with all that came before it.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Sequence

import numpy as np

_WINDOW = 32_768  # as far as zlib looks back
_LARGEST_WINDOW = 1 << 28
_WORK = 10_000_000  # bytes that are compressed to learn what single texts cost


def lzma_bits(known: bytes, texts: Sequence[bytes]) -> list[float]:
    """Bits of each text after `known` and the texts before it, by LZMA with a window over all of them.

    Exact for groups of texts, of one where that takes no time; within a group by what zlib needs for each.
    """
    whole = len(known) + sum(map(len, texts))
    groups = np.array_split(np.arange(len(texts)), max(1, min(len(texts), _WORK // whole)))
    costs = zlib_bits(known, texts)
    found: list[float] = []
    before = known
    for group in groups:
        own = b"".join(texts[at] for at in group)
        bits = lzma_cost(before, own)
        shares = np.array([costs[at] for at in group])
        found += (bits * shares / shares.sum()).tolist()
        before += own
    return found


def lzma_cost(known: bytes, text: bytes) -> float:
    """Bits of a text after what is known."""
    return 8.0 * (_lzma_bytes(known + text) - _lzma_bytes(known))


def _lzma_bytes(data: bytes) -> int:
    window = min(_LARGEST_WINDOW, 1 << max(16, len(data).bit_length()))
    filters = [{"id": lzma.FILTER_LZMA1, "preset": 6, "dict_size": window}]
    return len(lzma.compress(data, format=lzma.FORMAT_RAW, filters=filters))


def zlib_bits(known: bytes, texts: Sequence[bytes]) -> list[float]:
    """Bits of each text after `known` and the texts before it, by zlib, which looks back 32 KB."""
    encoder = zlib.compressobj(9)
    encoder.compress(known[-_WINDOW:])
    encoder.flush(zlib.Z_SYNC_FLUSH)
    return [8.0 * (len(encoder.compress(text)) + len(encoder.flush(zlib.Z_SYNC_FLUSH))) for text in texts]
