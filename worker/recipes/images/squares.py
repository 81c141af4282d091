"""The pixels of many images: held in memory where they fit, else read from their files for each batch."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.recipes.images.encoding import pixels

HELD_BYTES = 2 * 1024**3
_BLOCK = 256


class Squares:
    """Squares of `size_px`, taken by their places as from an array (n, size_px, size_px, 3). Raises: BadData."""

    def __init__(self, paths: Sequence[str], size_px: int, *, held_bytes: int = HELD_BYTES) -> None:
        self._paths, self._size_px = list(paths), size_px
        self.size_bytes = 3 * size_px**2 * len(self._paths)
        self._held = pixels(self._paths, size_px) if self.size_bytes <= held_bytes else None

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, places: Any) -> NDArray[np.uint8]:
        if self._held is not None:
            found: NDArray[np.uint8] = self._held[places]
            return found
        at = np.arange(len(self))[places]
        read = pixels([self._paths[place] for place in np.atleast_1d(at)], self._size_px)
        return read if np.ndim(at) else read[0]

    @property
    def said(self) -> str:
        """The sentence on images that are too many for the memory, else nothing."""
        if self._held is not None:
            return ""
        return (
            f"The pixels of {len(self):,} images take {self.size_bytes / 1e9:,.1f} GB: each batch is read from files."
        )


def checksum(images: Squares | NDArray[np.uint8], start: int) -> int:
    """That of the pixels, going on from `start`; it reads all of them once."""
    for at in range(0, len(images), _BLOCK):
        start = zlib.crc32(images[at : at + _BLOCK].tobytes(), start)
    return start
