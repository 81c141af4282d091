"""Follows what the training script writes: metrics.jsonl row by row, meta.json when it changes.

Owns the position in the file. Knows no events' transport. A half-written last line is read once it is
whole: never lost, never twice. A line that is no row (a torn one that the runtime closed off) is left out and counted.
"""

import json
import math
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent.domain.events import Measured, MetricRow, Started

ROWS = 200
_READ_BYTES = 256 * 1024
_LOSS_NAMES = ("loss", "train_loss")


class MetricsTail:
    """New rows of metrics.jsonl from where the file ended when this was made."""

    def __init__(self, path: Path) -> None:
        """An earlier attempt's rows are not read again."""
        self._path = path
        self._position = _whole_size(path)
        self.malformed = 0
        self.rows_seen = 0
        self.bad_losses = 0  # non-finite losses in a row

    def take(self) -> Measured | None:
        """At most `ROWS` new rows, None for none. Call again until None to catch up."""
        rows: list[MetricRow] = []
        for line in self._new_lines():
            self._position += len(line)
            row = _row(line)
            if row is None:
                self.malformed += bool(line.strip())
                continue
            rows.append(row)
            self._judge(row)
            if len(rows) == ROWS:
                break
        self.rows_seen += len(rows)
        return Measured(rows=tuple(rows)) if rows else None

    def _new_lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = file.read(_READ_BYTES)
        except FileNotFoundError:
            return []
        end = data.rfind(b"\n") + 1
        if not end and len(data) == _READ_BYTES:  # no row is that long: step over it
            self._position += len(data)
            self.malformed += 1
        return data[:end].splitlines(keepends=True)

    def _judge(self, row: MetricRow) -> None:
        losses = [row.values[name] for name in _LOSS_NAMES if name in row.values]
        if losses:
            self.bad_losses = 0 if all(math.isfinite(loss) for loss in losses) else self.bad_losses + 1


class MetaWatch:
    """Notices that the script called `start`."""

    def __init__(self, path: Path) -> None:
        """An earlier attempt's meta.json does not count."""
        self._path = path
        self._seen = _stamp(path)
        self._done = False

    def take(self) -> Started | None:
        """Once, after meta.json was written anew."""
        stamp = _stamp(self._path)
        if self._done or stamp is None or stamp == self._seen:
            return None
        self._seen = stamp
        try:
            meta: Any = json.loads(self._path.read_bytes())
            started = Started(model=str(meta["model"]), total_steps=meta.get("total_steps"))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):  # half-written: look again next time
            self._seen = None
            return None
        self._done = True
        return started


def _row(line: bytes) -> MetricRow | None:
    try:
        return MetricRow.model_validate_json(line)
    except ValidationError:
        return None


def _whole_size(path: Path) -> int:
    """The size up to the last line's end."""
    try:
        return path.read_bytes().rfind(b"\n") + 1
    except FileNotFoundError:
        return 0


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns
