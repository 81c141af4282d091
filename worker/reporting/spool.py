"""The spool: every event of one attempt in a file, numbered from 1 without gaps, before any of it is sent.

Owns numbering and durability. Knows no Redis. Written by one process at a time: the supervisor, then the sweep.
"""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.domain.events import EventBody, WorkerEvent
from agent.wire import encode

_TAIL_BYTES = 4 * 1024**2  # more than an event may have


class Spool:
    """Appends events. `append` is for one thread; `sync` and the readers may be called from another."""

    def __init__(self, path: Path, *, run: str, attempt: int, host: str) -> None:
        """Opens or creates the file; a half-written last line (never sent, so nobody saw it) is cut off."""
        self.path = path
        self.run, self.attempt, self.host = run, attempt, host
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.seq, self.size_bytes, self.last_kind = self._repair()

    def _repair(self) -> tuple[int, int, str]:
        data = self.path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            os.ftruncate(self._fd, end)
        if not end:
            return 0, 0, ""
        last = _event(data[:end].splitlines()[-1])
        return int(last["seq"]), end, str(last["body"]["kind"])

    def append(self, body: EventBody) -> int:
        """Add one event; its number. Durable after the next `sync`."""
        event = WorkerEvent(
            run=self.run,
            attempt=self.attempt,
            seq=self.seq + 1,
            host=self.host,
            at=datetime.now(UTC),
            body=body,
        )
        line = encode(event) + b"\n"
        if os.write(self._fd, line) != len(line):  # a full disk: leave no half line behind
            os.ftruncate(self._fd, self.size_bytes)
            raise OSError(28, "No space left on device", str(self.path))
        self.seq += 1
        self.last_kind = body.kind
        self.size_bytes += len(line)
        return self.seq

    def sync(self) -> int:
        """Make everything so far durable; the size up to which that holds."""
        size = self.size_bytes
        os.fsync(self._fd)
        return size

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def lines_between(path: Path, start: int, end: int, *, limit: int) -> tuple[list[bytes], int]:
    """At most `limit` whole lines from byte `start` on, and the byte after the last of them."""
    found: list[bytes] = []
    with path.open("rb") as file:
        file.seek(start)
        while len(found) < limit and start < end:
            line = file.readline()
            found.append(line.rstrip(b"\n"))
            start += len(line)
    return found, start


def offset_after(path: Path, seq: int) -> int:
    """The byte after event `seq`, 0 when there is no such event."""
    return max((end for number, end in _numbered(path) if number <= seq), default=0)


def last_seq(path: Path) -> int:
    """The number of the last whole event, 0 for none."""
    return max((number for number, _ in _numbered(path)), default=0)


def has_ended(path: Path) -> bool:
    """Whether the last event says that the attempt is over; False for a file that is not there or not whole."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            *_, last, rest = file.read().split(b"\n")
        return not rest and _event(last)["body"]["kind"] == "ended"
    except (OSError, ValueError, KeyError, TypeError):
        return False


def is_of(path: Path, run: str, attempt: int) -> bool:
    """Whether each whole event in `path` is of this attempt: a payload may write to what an earlier one left."""
    with path.open("rb") as file:
        events = (_event(line) for line in file if line.endswith(b"\n"))
        return all((event["run"], event["attempt"]) == (run, attempt) for event in events)


def attempt_of(path: Path) -> int:
    """The attempt whose events stand in `path`, 0 for none."""
    with path.open("rb") as file:
        line = file.readline()
    return int(_event(line)["attempt"]) if line.endswith(b"\n") else 0


def _event(line: bytes) -> Any:
    """An event as it was stored. Raises: ValueError."""
    try:
        return json.loads(line)
    except RecursionError as error:
        raise ValueError("nested without end") from error


def _numbered(path: Path) -> Iterator[tuple[int, int]]:
    end = 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            end += len(line)
            yield int(_event(line)["seq"]), end
