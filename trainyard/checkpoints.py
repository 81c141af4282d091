"""Folders of checkpoints: written aside, taken by the disk, and only then given their names.

Killed at any moment, a training leaves whole checkpoints and what `remove_leftovers` knows as none. Imports nothing but
the standard library. Used by `trainyard.runtime`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

CHECKPOINT = r"step_(\d+)"  # patterns are compiled when they are wanted: every training waits for this import


def save_aside(final: Path, save: Callable[[Path], None]) -> None:
    """Have `save` write a folder, have the disk take all of it, and only then give it its name.

    The lock says to `remove_leftovers` that somebody writes; the kernel frees it with the process.
    """
    aside = _aside_of(final)
    file = -1
    try:
        aside.mkdir(parents=True)
        file = os.open(aside, os.O_RDONLY | os.O_DIRECTORY)
        _try_lock(file)
        save(aside)
        for place, _, names in os.walk(aside):
            for path in (Path(place), *(Path(place, name) for name in names)):
                _sync(path)
        if final.exists():
            discard(final)
        aside.rename(final)
        _sync(final.parent)
    except BaseException:  # Ctrl-C too leaves nothing behind
        shutil.rmtree(aside, ignore_errors=True)
        raise
    finally:
        if file >= 0:
            os.close(file)


def remove_leftovers(folder: Path) -> None:
    """Remove checkpoints whose writer was killed while it wrote or removed them. Raises: OSError."""
    for aside in folder.glob(".step_*"):
        file = os.open(aside, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if _try_lock(file):
                shutil.rmtree(aside)
        finally:
            os.close(file)


def checkpoint_step(path: Path) -> int:
    """The step of a checkpoint's folder, 0 for what is none."""
    found = re.fullmatch(CHECKPOINT, path.name)
    return int(found[1]) if found else 0


def discard(checkpoint: Path) -> None:
    """Remove a checkpoint. Killed within, it leaves nothing that is taken for one. Raises: OSError."""
    shutil.rmtree(checkpoint.rename(_aside_of(checkpoint)), ignore_errors=True)


def _aside_of(checkpoint: Path) -> Path:
    return checkpoint.with_name(f".{checkpoint.name}.{os.urandom(6).hex()}")


def _try_lock(file: int) -> bool:
    """Take the lock if it is free. True too where the file system knows no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _sync(path: Path) -> None:
    """Have the disk take a file, or the names in a folder. Raises: OSError."""
    if not stat.S_ISREG(path.lstat().st_mode) and not path.is_dir():
        return
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that takes no folders
            raise
    finally:
        os.close(file)
