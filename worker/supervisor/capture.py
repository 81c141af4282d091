"""What a step prints: from its pipe into output.log and, thinner, into events.

Owns line splitting and every cap. Knows no process. A payload can print for ever and as fast as it likes: the file, the
events and this process's memory stay small. Lines longer than the cap are split; what is over a rate is counted.
"""

import os
import select
import time
from pathlib import Path

from agent.domain.events import Logged

LINE_BYTES = 64 * 1024
_READ_BYTES = 1024 * 1024
_FILE_RATE, _FILE_BURST = 2 * 1024**2, 8 * 1024**2
_FILE_LIMIT = 128 * 1024**2
_EVENT_RATE, _EVENT_BURST = 32 * 1024, 256 * 1024
_EVENT_LINE_CHARS = 4096
_EVENT_LINES = 200
_TAIL_BYTES = 64 * 1024


class Bucket:
    """Lets `rate` bytes a second through, after a burst."""

    def __init__(self, rate: float, burst: float) -> None:
        """Full at first."""
        self._rate, self._burst = rate, burst
        self._level = burst
        self._at = time.monotonic()

    def take(self, amount: int) -> bool:
        """Whether `amount` may pass now; it counts if so."""
        now = time.monotonic()
        self._level = min(self._burst, self._level + (now - self._at) * self._rate)
        self._at = now
        if amount > self._level:
            return False
        self._level -= amount
        return True


class Capture:
    """Appends to output.log; `pump` reads a pipe, `take` gives the lines for the next event."""

    def __init__(self, path: Path) -> None:
        """Opens the log for appending."""
        self._file = path.open("ab", buffering=0)
        self._size = path.stat().st_size
        self._file_bucket = Bucket(_FILE_RATE, _FILE_BURST)
        self._event_bucket = Bucket(_EVENT_RATE, _EVENT_BURST)
        self._partial = b""
        self._lines: list[str] = []
        self._dropped = 0
        self._unwritten = 0
        self._tail: bytearray = bytearray()
        self.lines_seen = 0

    @property
    def tail(self) -> str:
        """The last lines that were printed, whether they were kept or not."""
        return bytes(self._tail).decode(errors="replace")

    def pump(self, fd: int, *, wait_s: float) -> bool:
        """Read what there is, waiting at most `wait_s` for it. False when nobody holds the other end any more."""
        if not select.select([fd], [], [], wait_s)[0]:
            return True
        data = os.read(fd, _READ_BYTES)
        self._feed(data)
        return bool(data)

    def drain(self, fd: int, *, limit_s: float) -> None:
        """Read until the end, or until `limit_s`: something that left the group may hold the pipe open."""
        end = time.monotonic() + limit_s
        while self.pump(fd, wait_s=0.05) and time.monotonic() < end:
            pass
        if self._partial:
            self._line(self._partial)
            self._partial = b""

    def say(self, text: str) -> None:
        """A line of our own."""
        self._line(f"[trainyard] {text}".encode())

    def take(self) -> Logged | None:
        """The lines since the last call, None for none."""
        if self._unwritten and self._file_bucket.take(64):
            self._write(f"[trainyard] {self._unwritten} lines left out: the script prints too much\n".encode())
            self._unwritten = 0
        if not self._lines and not self._dropped:
            return None
        logged = Logged(lines=tuple(self._lines), dropped=self._dropped)
        self._lines, self._dropped = [], 0
        return logged

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _feed(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            self._line(line)
        while len(self._partial) >= LINE_BYTES:
            self._line(self._partial[:LINE_BYTES])
            self._partial = self._partial[LINE_BYTES:]

    def _line(self, line: bytes) -> None:
        for start in range(0, max(1, len(line)), LINE_BYTES):
            self._piece(line[start : start + LINE_BYTES])

    def _piece(self, line: bytes) -> None:
        self.lines_seen += 1
        self._tail += line[-_EVENT_LINE_CHARS:] + b"\n"
        if len(self._tail) > 2 * _TAIL_BYTES:
            del self._tail[:-_TAIL_BYTES]
        if self._size + len(line) < _FILE_LIMIT and self._file_bucket.take(len(line) + 1):
            self._write(line + b"\n")
        else:
            self._unwritten += 1
        cost = min(len(line), _EVENT_LINE_CHARS) + 1
        if len(self._lines) < _EVENT_LINES and self._event_bucket.take(cost):
            self._lines.append(_printable(line))
        else:
            self._dropped += 1

    def _write(self, data: bytes) -> None:
        self._size += self._file.write(data) or 0


def _printable(line: bytes) -> str:
    text = line.decode(errors="replace")[:_EVENT_LINE_CHARS]
    return "".join(char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text)
