"""What a step prints: from its pipe into output.log and, thinner, into events.

Owns line splitting and every cap. Knows no process. A payload can print for ever and as fast as it likes: the file, the
events and this process's memory stay small. Lines longer than the cap are split. What is over a rate is counted and
dropped before anything is looked for in it, so that whoever prints it does not wait.
output.log is rotated: the newest lines are in it, older ones in output.log.1 and so on. Secrets are taken out before a
line is kept anywhere.
"""

import contextlib
import os
import select
import time
from collections.abc import Sequence
from pathlib import Path

from agent.domain.events import Logged
from agent.domain.redaction import Redactor
from worker.folders import remove, rename_over
from worker.host.disk import FULL

LINE_BYTES = 64 * 1024
_READ_BYTES = 1024 * 1024
_AHEAD_BYTES = 4096  # at least so much of a long line is seen beyond a cut, so that no secret is cut in two
_FILE_RATE, _FILE_BURST = 2 * 1024**2, 8 * 1024**2
_FILE_BYTES, _FILES = 16 * 1024**2, 8
_EVENT_RATE, _EVENT_BURST = 32 * 1024, 256 * 1024
_EVENT_LINE_CHARS = 4096
_EVENT_LINES = 200
_TAIL_BYTES = 64 * 1024
_RAW_TAIL_BYTES = 128 * 1024
_KEY_HEAD_BYTES = 128  # no first line of a private key is longer


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

    def __init__(
        self,
        path: Path,
        *,
        secrets: Sequence[str] = (),
        file_bytes: int = _FILE_BYTES,
        files: int = _FILES,
    ) -> None:
        """Opens the log for appending. `secrets` are values that no line may show."""
        self._path, self._file_bytes, self._files = path, file_bytes, files
        self._secrets = tuple(secrets)
        self._redactor = Redactor(secrets)
        self._ahead = max(_AHEAD_BYTES, self._redactor.longest)
        self._fd = _open(path)
        self._size = os.fstat(self._fd).st_size
        self._file_bucket = Bucket(_FILE_RATE, _FILE_BURST)
        self._event_bucket = Bucket(_EVENT_RATE, _EVENT_BURST)
        self._partial = b""
        self._dropping = False  # the line that is being printed
        self._left_out_bytes = 0  # that were dropped since something was kept
        self._kept: list[bytes] = []  # lines that are to be written
        self._lines: list[str] = []
        self._dropped = 0
        self._unwritten = 0
        self._tail: bytearray = bytearray()
        self.bytes_seen = 0  # that were printed

    @property
    def tail(self) -> str:
        """The last lines that were printed, whether they were kept or not, without secrets."""
        return b"\n".join(self._newest(_TAIL_BYTES)).decode(errors="replace")

    def pump(self, fd: int, *, wait_s: float) -> bool:
        """Read what there is, waiting at most `wait_s` for it. False when nobody holds the other end any more."""
        if not select.select([fd], [], [], wait_s)[0]:
            return True
        data = os.read(fd, _READ_BYTES)
        self.bytes_seen += len(data)
        self._feed(data)
        return bool(data)

    def drain(self, fd: int, *, limit_s: float) -> None:
        """Read what is in the pipe once its writer has ended, at most for `limit_s`.

        What the writer wrote is in the pipe by then. The end is not waited for: others may hold it open, such as a
        process that left the group, or one of ours that watches a warm step.
        """
        end = time.monotonic() + limit_s
        while select.select([fd], [], [], 0.0)[0] and self.pump(fd, wait_s=0.0) and time.monotonic() < end:
            pass
        if self._left_out_bytes:
            self._keep_newest()
        elif self._partial and not self._dropping:
            self._line(self._partial, cut=True)  # whoever wrote it may have died in the middle of a secret
            self._write()
        self._partial, self._dropping, self._left_out_bytes = b"", False, 0

    def redacted(self, text: str) -> str:
        """`text` without secrets, for what a step said in other ways than by printing."""
        return "\n".join(self._redactor.line(line.encode()).decode(errors="replace") for line in text.split("\n"))

    def say(self, text: str) -> None:
        """A line of our own."""
        self._piece(f"[trainyard] {text}".encode())
        self._write()

    def take(self) -> Logged | None:
        """The lines since the last call, None for none."""
        if self._unwritten and self._file_bucket.take(64):
            self._write(even_none=True)
        if not self._lines and not self._dropped:
            return None
        logged = Logged(lines=tuple(self._lines), dropped=self._dropped)
        self._lines, self._dropped = [], 0
        return logged

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _feed(self, data: bytes) -> None:
        """What is over the rate is counted and dropped as it came: only what is kept is split and searched."""
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._tail += data[-_RAW_TAIL_BYTES:]
        if len(self._tail) > 2 * _RAW_TAIL_BYTES:
            del self._tail[:-_RAW_TAIL_BYTES]
        if not self._file_bucket.take(len(data)):
            self._drop(data)
            return
        if self._dropping:
            data = self._after_dropped_line(data)
        if data:
            self._left_out_bytes = 0
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0], self._partial = self._partial + lines[0], b""
        for line in lines:
            self._line(line)
        self._partial += rest
        while len(self._partial) >= LINE_BYTES + self._ahead:
            self._partial = self._cut(self._partial)
        self._write()

    def _drop(self, data: bytes) -> None:
        """Count each line once, where it begins. A line that is dropped in part is dropped to its end."""
        self._left_out_bytes += len(data)
        counted, self._dropping = self._dropping, not data.endswith(b"\n")
        lines = data.count(b"\n") + self._dropping - counted
        self._unwritten += lines
        self._dropped += lines
        self._skip(data)

    def _keep_newest(self) -> None:
        """Nothing comes any more: what was printed last is what people look for, whatever the rate is."""
        lines = [line for line in self._newest(min(self._left_out_bytes, _TAIL_BYTES)) if line]
        self._unwritten = max(0, self._unwritten - len(lines))
        self._dropped = max(0, self._dropped - len(lines))
        for line in lines:
            self._piece(line)
        self._write()

    def _newest(self, most: int) -> list[bytes]:
        """The lines of the last `most` bytes without secrets, the first of them whole.

        What lies before them is searched too, so that a private key is known by its first line.
        """
        redactor, left, shown = Redactor(self._secrets), len(self._tail), []
        for line in bytes(self._tail).split(b"\n"):
            left -= len(line) + 1
            clean = redactor.line(line, cut=left < 0)
            if left < most:
                shown.append(clean[-_EVENT_LINE_CHARS:])
        return shown

    def _after_dropped_line(self, data: bytes) -> bytes:
        rest, end, data = data.partition(b"\n")
        self._dropping = not end
        self._skip(rest + end)
        return data

    def _skip(self, data: bytes) -> None:
        """A few bytes of the line stay, so that a key's first line is found in pieces, too."""
        data = self._partial + data
        self._redactor.skip(data)
        self._partial = data[data.rfind(b"\n") + 1 :][-_KEY_HEAD_BYTES:] if self._dropping else b""

    def _cut(self, line: bytes) -> bytes:
        """Keep the first piece of a line that is too long; what is left of it.

        A secret that the cut would split lies wholly in the window, so it is replaced before; one that only begins in
        the window is whole in what is left.
        """
        window = LINE_BYTES + self._ahead
        clean = self._redactor.line(line[:window])
        self._piece(clean[:LINE_BYTES])
        return clean[LINE_BYTES:] + line[window:]

    def _line(self, line: bytes, *, cut: bool = False) -> None:
        while len(line) > LINE_BYTES:
            line = self._cut(line)
        self._piece(self._redactor.line(line, cut=cut))

    def _piece(self, line: bytes) -> None:
        self._kept.append(line)
        cost = min(len(line), _EVENT_LINE_CHARS) + 1
        if len(self._lines) < _EVENT_LINES and self._event_bucket.take(cost):
            self._lines.append(_printable(line))
        else:
            self._dropped += 1

    def _write(self, *, even_none: bool = False) -> None:
        """Write the kept lines, and before them how many were left out; with `even_none` that alone, too."""
        lines, self._kept = self._kept, []
        if not lines and not even_none:
            return
        lines_out = f"{self._unwritten} {'line' if self._unwritten == 1 else 'lines'}"
        note = f"[trainyard] {lines_out} left out: the script prints too much\n" if self._unwritten else ""
        data = note.encode() + b"".join(line + b"\n" for line in lines)
        try:
            if self._size + len(data) > self._file_bytes:
                self._rotate()
            self._size += os.write(self._fd, data)
        except OSError as error:  # a full disk: the lines still go into the events, and the disk guard speaks up
            if error.errno not in FULL:
                raise
            self._unwritten += len(lines)
        else:
            self._unwritten = 0

    def _rotate(self) -> None:
        """The newest file begins anew; the oldest is dropped. Renames never follow what a payload may have laid out.

        The new file is there before any is renamed: on a full disk all stay as they are.
        """
        aside = self._path.with_name(f".{self._path.name}.new")
        remove(aside)
        fresh = _open(aside)
        for number in range(self._files - 1, 0, -1):
            older = self._path if number == 1 else _numbered(self._path, number - 1)
            with contextlib.suppress(FileNotFoundError):
                rename_over(older, _numbered(self._path, number))
        rename_over(aside, self._path)
        os.close(self._fd)
        self._fd, self._size = fresh, os.fstat(fresh).st_size


def _open(path: Path) -> int:
    """For appending; a link that lies there is removed, not followed."""
    if path.is_symlink():
        path.unlink()
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _printable(line: bytes) -> str:
    text = line.decode(errors="replace")[:_EVENT_LINE_CHARS]
    return "".join(char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text)
