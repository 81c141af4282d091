"""Small disks that can be filled: a tmpfs of so many bytes on a folder. Root only; others skip, visibly."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def tmpfs(folder: Path, size_bytes: int) -> Iterator[Path]:
    """`folder` as a file system of its own with `size_bytes` of space."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a tmpfs: the full-disk faults were not tried")
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=0700", "trainyard-faults", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"this machine lets nobody mount a tmpfs ({mounted.stderr.strip()}): full disks were not tried")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, *, leave_bytes: int = 0) -> Path:
    """Take all space but `leave_bytes`; the file that holds it, to be removed for space again."""
    stat = os.statvfs(folder)
    ballast = folder / "ballast"
    with ballast.open("wb") as file, contextlib.suppress(OSError):
        os.posix_fallocate(file.fileno(), 0, max(1, stat.f_bavail * stat.f_frsize - leave_bytes))
    if not leave_bytes:
        with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
            while file.write(b"\0" * 4096):
                pass
    return ballast
