"""Which checkpoints of a run are whole: `checkpoints/step_<n>`, renamed into place by whoever wrote them.

Owns that name. Reads no content. Used by the supervisor, and by launches and the sweep for their outcomes.
"""

import re
from pathlib import Path

from agent.domain.events import Saved, fits
from worker.host.usage import folder_bytes

_NAME = re.compile(r"step_(\d+)\Z")


def whole(folder: Path) -> dict[int, Path]:
    """The checkpoints in a run's folder by step. No link, empty folder or name of another form is one."""
    place = folder / "checkpoints"
    found: dict[int, Path] = {}
    try:
        paths = () if place.is_symlink() else tuple(place.iterdir())
    except OSError:
        return found
    for path in paths:
        match = _NAME.match(path.name)
        if match and fits(int(match[1])) and not path.is_symlink() and _holds_something(path):
            found[int(match[1])] = path
    return found


def newest_step(folder: Path) -> int | None:
    """The step of the newest whole checkpoint, None without one."""
    return max(whole(folder), default=None)


class CheckpointWatch:
    """Tells each checkpoint once, when it is whole. Those of earlier attempts do not count."""

    def __init__(self, folder: Path) -> None:
        """What is there now is old."""
        self._folder = folder
        self._seen = self._stamps()

    def take(self) -> list[Saved]:
        """The checkpoints that are new or written anew since the last call, by step."""
        now = self._stamps()
        fresh = sorted(step for step, stamp in now.items() if self._seen.get(step) != stamp)
        self._seen = now
        places = whole(self._folder)
        return [Saved(step=step, size_bytes=_size(places[step])) for step in fresh if step in places]

    def _stamps(self) -> dict[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for step, path in whole(self._folder).items():
            try:
                stat = path.stat()
            except OSError:  # the policy of the runtime removed it in this moment
                continue
            found[step] = (stat.st_ino, stat.st_mtime_ns)
        return found


def _holds_something(path: Path) -> bool:
    try:
        return path.is_file() or (path.is_dir() and any(path.iterdir()))
    except OSError:
        return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else folder_bytes(path)
    except OSError:
        return 0
