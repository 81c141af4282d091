"""What counts as a full disk. Pure but for the one question to the kernel in `space`.

Used by the supervisor's guard and by the host's word about itself.
"""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)  # a full disk, or a used-up share of it


@dataclass(frozen=True, slots=True)
class Space:
    """Of one file system, in bytes: what an ordinary user may still write, and the whole."""

    free: int
    total: int


def space(path: Path) -> Space:
    """Of the file system that `path` lies on. Raises `OSError`."""
    found = os.statvfs(path)
    return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def floor_of(total: int, *, floor_bytes: int, floor_share: float) -> int:
    """The free bytes below which a disk of `total` bytes is low: the smaller of a fixed amount and a share of it."""
    return min(floor_bytes, int(total * floor_share))


def disk_is_low(path: Path, *, floor_bytes: int, floor_share: float) -> bool:
    """Whether the disk that holds `path` has less than `floor_of` left. Raises `OSError`."""
    now = space(path)
    return now.free < floor_of(now.total, floor_bytes=floor_bytes, floor_share=floor_share)
