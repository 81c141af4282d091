"""Follows what the training script reports: metrics.jsonl, and meta.json when it changes.

Owns the position in the file. Knows no events' transport. A half-written last line is read once it is whole: never
lost, never twice. A line that is no row is left out and counted. The files belong to the training: no link is followed,
nothing of them is mapped, and names of metrics and the model's are texts like any: secrets are taken out (`clean`).
"""

import json
import math
import os
import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent.domain.events import Measured, MetricRow, Started, fits
from worker.folders import read_plain

ROWS = 200
_READ_BYTES = 256 * 1024
_TAKE_S = 0.5  # for looking for the next row
_CLEAN_NAMES, _CLEAN_CHARS = 4096, 256  # names of metrics that are known to hold no secret: how many, and how long
_LOSS_NAMES = ("loss", "train_loss")
_MEASURED, _VALUES = b'"body":{"kind":"measured","rows":[', b'"values":{'  # as spools have them; `_VALUES` once a row


class MetricsTail:
    """New rows of a run's metrics, each once over all attempts if it is known how many were handed out before."""

    def __init__(self, path: Path, *, handed_out: int | None = None, clean: Callable[[str], str] = str) -> None:
        """`path` is metrics.jsonl. `clean` takes secrets out of a name.

        `handed_out` is how many rows earlier attempts sent (`rows_in`); reading goes on after them. None: after all
        lines that are there.
        """
        self._path = path
        self._clean = clean
        self._clean_names: set[str] = set()
        self._position = _whole_size(path) if handed_out is None else _after(path, handed_out)
        self.malformed = 0
        self.rows_seen = 0
        self.behind = True  # whether there may be more at once, though `take` found nothing
        self.bad_losses = 0  # non-finite losses in a row

    def take(self) -> Measured | None:
        """At most `ROWS` new rows; None for none, or where none came in half a second and it is still `behind`."""
        rows: list[MetricRow] = []
        end = time.monotonic() + _TAKE_S
        while True:
            before = self._position
            for line in self._new_lines():
                self._position += len(line)
                row = _row(line)
                if row is None:
                    self.malformed += bool(line.strip())
                    continue
                rows.append(self._cleaned(row))
                self._judge(row)
                if len(rows) == ROWS:
                    break
            self.behind = self._position != before
            if rows or not self.behind or time.monotonic() > end:  # what was read may hold no row at all
                break
        self.rows_seen += len(rows)
        return Measured(rows=tuple(rows)) if rows else None

    def _new_lines(self) -> list[bytes]:
        data = _read(self._path, self._position, _READ_BYTES)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == _READ_BYTES:  # no row is that long: step over it
            self._position += len(data)
            self.malformed += 1
        return data[:end].splitlines(keepends=True)

    def _cleaned(self, row: MetricRow) -> MetricRow:
        """The row without secrets in its names. A training writes the same few over and over."""
        if self._clean_names.issuperset(row.values):
            return row
        values = {self._clean(name): value for name, value in row.values.items()}
        if len(self._clean_names) < _CLEAN_NAMES:
            self._clean_names.update(name for name in row.values.keys() & values if len(name) <= _CLEAN_CHARS)
        return row.model_copy(update={"values": values})

    def _judge(self, row: MetricRow) -> None:
        losses = [row.values[name] for name in _LOSS_NAMES if name in row.values]
        if losses:
            self.bad_losses = 0 if all(math.isfinite(loss) for loss in losses) else self.bad_losses + 1


def rows_in(spools: Iterable[Path]) -> int:
    """How many rows of metrics stand in the spools of a run's attempts: they were handed out."""
    count = 0
    for path in spools:
        if path.is_file():
            with path.open("rb") as file:
                count += sum(map(_rows_of, file))
    return count


def _rows_of(event: bytes) -> int:
    if _MEASURED in event and event.endswith(b"\n"):
        return event.count(_VALUES)  # in a text its quotes would be escaped
    try:
        body = json.loads(event)["body"]
    except (ValueError, RecursionError, KeyError, TypeError):  # the last line of a supervisor that died while writing
        return 0
    return len(body["rows"]) if body.get("kind") == "measured" else 0


class MetaWatch:
    """Notices that the script called `start`."""

    def __init__(self, path: Path, *, clean: Callable[[str], str] = str) -> None:
        """An earlier attempt's meta.json does not count. `clean` takes secrets out of a text."""
        self._path = path
        self._clean = clean
        self._seen = _stamp(path)
        self._done = False

    def take(self) -> Started | None:
        """Once, after meta.json was written anew."""
        stamp = _stamp(self._path)
        if self._done or stamp is None or stamp == self._seen:
            return None
        self._seen = stamp
        try:
            meta: Any = json.loads(read_plain(self._path))
            started = Started(model=self._clean(str(meta["model"])), total_steps=meta.get("total_steps"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # half-written: look again
            self._seen = None
            return None
        self._done = True
        if started.total_steps is not None and not fits(started.total_steps):
            return started.model_copy(update={"total_steps": None})
        return started


def _row(line: bytes) -> MetricRow | None:
    try:
        row = MetricRow.model_validate_json(line)
    except ValidationError:
        return None
    return row if fits(row.step) else None


def _read(path: Path, at: int, size: int) -> bytes:
    """A piece of a plain file; nothing of what is no plain file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # not there yet, or a link that is not ours to follow
        return b""
    try:
        return os.pread(file, size, at) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)


def _pieces(path: Path) -> Iterable[tuple[int, bytes]]:
    """Whole lines of a file, some at a time, and where they begin: cut as `_new_lines` does, which steps over the rest
    of what is too long for a row.
    """
    at = 0
    while data := _read(path, at, _READ_BYTES):
        end = data.rfind(b"\n") + 1
        if end:
            yield at, data[:end]
        elif len(data) < _READ_BYTES:
            return
        at += end or len(data)


def _whole_size(path: Path) -> int:
    """The size up to the last line's end."""
    return max((start + len(piece) for start, piece in _pieces(path)), default=0)


def _after(path: Path, rows: int) -> int:
    """Where the first `rows` rows end, or all that are there."""
    whole = 0
    for start, piece in _pieces(path) if rows else ():
        whole = start
        for line in piece.splitlines(keepends=True):
            whole += len(line)
            rows -= _row(line) is not None
            if not rows:
                return whole
    return whole


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
