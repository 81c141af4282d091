"""The file of a run's metrics: one line a row, written by one call to a file opened to append.

Owns how a row is spelled, what is taken for a number, and what is done where the disk takes nothing. Imports nothing
but the standard library. Used by `trainyard.runtime`.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_MOST_ROW_BYTES = 256 * 1024  # the supervisor reads no longer line
_TAIL_BYTES = 2 * _MOST_ROW_BYTES
_MOST_LATE = 10_000  # rows kept in memory while the disk takes none
_MOST_TEMPLATES = 512  # sets of names known at a time

_NUMBER = r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?\.?\d*(?:[eE][+-]?\d+)?)\s*([^\W\d_]+(?:/[^\W\d_]+)?|%|x)"
_MULTIPLES = frozenset("kKMBGT")  # "3.2k" is not 3.2


class Warnings:
    """The only place that prints warnings: each subject once, on stderr."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, about: str, text: str) -> None:
        if about not in self._said:
            self._said.add(about)
            try:
                print(f"trainyard: {text}", file=sys.stderr)  # noqa: T201 - the effect
            except (OSError, ValueError):  # nobody reads stderr any more, and there is no other place to say it
                return

    def of(self, error: Exception, what: str) -> None:
        """A full disk or a forbidden folder is one subject, whatever could not be written."""
        number = error.errno if isinstance(error, OSError) else None
        self(f"errno {number}" if number else what, f"{what} cannot be written, training goes on: {error}")


class MetricsFile:
    """metrics.jsonl, to which this process and perhaps others append whole lines.

    Rows that no disk takes wait in memory, and go out with a later row or at `close`.
    """

    def __init__(self, path: Path, warn: Warnings) -> None:
        self._path, self._warn = path, warn
        self._templates: dict[tuple[str, ...], str] = {}
        self._file = -1
        self._torn = False  # whether the file's last line has no end: the next write begins with one
        self._late: deque[bytes] = deque(maxlen=_MOST_LATE)
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal's handler may log within a call

    def append(self, step: int, values: Mapping[str, Any]) -> bool:
        """Write one row, or keep it for later; False for one that is too long."""
        names, numbers = self._numbers(values)
        template = self._templates.get(names)
        if template is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[names] = _template(names)
        line = (template % (step, time.time(), *numbers)).encode()
        if len(line) > _MOST_ROW_BYTES:
            self._warn("row", f"a row of {len(names)} metrics is left out: it is too long")
            return False
        self._append(line)
        return True

    def _numbers(self, values: Mapping[str, Any]) -> tuple[tuple[str, ...], list[Any]]:
        """The names and numbers of a row, without what is no number."""
        names = tuple(values)
        numbers: list[Any] = [value if type(value) is float else _number(value) for value in values.values()]
        if None in numbers:
            pairs = list(zip(names, numbers, strict=True))
            for name in [name for name, found in pairs if found is None]:
                self._warn(f"metric {name}", f"metric {name!r} left out: {shown(values[name])} is not one number")
            names = tuple(name for name, found in pairs if found is not None)
            numbers = [found for found in numbers if found is not None]
        if not math.isfinite(sum(numbers)):
            numbers = [_spelled(found) for found in numbers]
        return names, numbers

    def _append(self, line: bytes) -> None:
        if self._pid != os.getpid():  # a forked child: what waits is the parent's, and a thread of it may hold the lock
            self._pid, self._lock = os.getpid(), threading.RLock()
            self._late.clear()
        with self._lock:
            self._late.append(line)
            self._write_late()

    def close(self) -> None:
        """Write what waits. A later `append` opens the file again."""
        if self._pid != os.getpid():  # what waits is the parent's
            return
        with self._lock:
            self._write_late()
            if self._file >= 0 and not os.fstat(self._file).st_nlink:
                self._warn("removed", f"{self._path.name} was removed while training runs: its newest rows are lost")
            file, self._file = self._file, -1
            if file >= 0:
                os.close(file)

    def _write_late(self) -> None:
        try:
            while self._late:
                self._write(self._late.popleft())
        except OSError as error:
            if error.errno is None:  # raised by a signal's handler of the script, such as TimeoutError
                raise
            self._warn.of(error, f"{self._path.name} (metrics)")

    def _write(self, line: bytes) -> None:
        """Raises: OSError, and what is not written waits."""
        try:
            if self._file < 0:
                self._open()
            data = b"\n" + line if self._torn else line
            written = os.write(self._file, data)
        except OSError as error:
            if error.errno is not None:
                self._late.appendleft(line)
            if error.errno != errno.EBADF or self._file < 0:
                raise
            self._file = -1  # the script closed it: the next try opens it again
            return
        self._torn = written < len(data)
        if self._torn:
            self._late.appendleft(b"" if written == len(data) - 1 else line)  # nothing but the line's end is missing
            raise OSError(errno.ENOSPC, "the disk took only a part of a row")

    def _open(self) -> None:
        """No link is followed and no pipe is waited for. Raises: OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(self._path, flags, 0o644)
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, f"{self._path.name} is no plain file")
        self._torn = found.st_size > 0 and os.pread(file, 1, found.st_size - 1) != b"\n"
        self._file = file


def _template(names: Sequence[str]) -> str:
    """A row of these metrics but for its numbers."""
    spelled = ",".join(f'"{name}":%s' for name in _tidied(names))
    return '{"step":%d,"at":%.3f,"values":{' + spelled + "}}\n"


def _spelled(number: float) -> float | str:
    """As JSON can say it: it has no word for what is not finite."""
    if math.isfinite(number):
        return number
    return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'


def last_step(path: Path) -> int | None:
    """The step of the last whole line of metrics.jsonl, None without one."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # not there, or not to be read: no row of it is known
        return None
    try:
        found = os.fstat(file)
        at = max(0, found.st_size - _TAIL_BYTES)
        lines = os.pread(file, _TAIL_BYTES, at).splitlines() if stat.S_ISREG(found.st_mode) else []
    finally:
        os.close(file)
    return next((step for line in reversed(lines) if (step := _step_of(line)) is not None), None)


def _tidied(names: Sequence[str]) -> list[str]:
    """Names without what is awkward in charts and queries: `learning rate(group 1)` -> `learning_rate_group_1`."""
    found: dict[str, None] = {}
    for name in names:
        tidy = re.sub(r"[^a-zA-Z0-9_./-]+$", "", name)
        tidy = re.sub(r"[^a-zA-Z0-9_./-]+", "_", tidy) or "unnamed"
        number = 2
        while tidy in found:  # two names that differ only in such characters
            tidy, number = f"{tidy.removesuffix(f'_{number - 1}') if number > 2 else tidy}_{number}", number + 1
        found[tidy] = None
    return list(found)


def _number(value: Any) -> float | None:
    """One number, or None."""
    if isinstance(value, (str, bytes)):
        return _read_number(value if isinstance(value, str) else value.decode(errors="replace"))
    try:
        value = value.item() if hasattr(value, "item") else value
        return None if value is None else float(value)
    except Exception:  # noqa: BLE001 - code of others; whatever it raises, the value is no number
        return None


def _read_number(text: str) -> float | None:
    """The number in a text, with or without a unit, which is dropped: "3.2 ms" is 3.2, "85%" is 85."""
    try:
        return float(text)
    except ValueError:
        found = re.fullmatch(_NUMBER, text.strip())
    if found is None or found[2] in _MULTIPLES:
        return None
    try:
        return float(found[1].replace(",", ""))
    except ValueError:  # a unit alone
        return None


def shown(value: Any, most: int = 60) -> str:
    """A value in a warning. Code of others too: an integer of many thousand digits has no text, for one."""
    try:
        return repr(str(value)[:most])
    except Exception:  # noqa: BLE001 - likewise
        return f"of type {type(value).__name__}"


def step_number(step: Any) -> int | None:
    """A whole number that fits 64 bits, or None."""
    number = step
    if type(step) is not int:  # no code of others is called for a usual one
        try:
            number = int(step)
        except Exception:  # noqa: BLE001 - likewise
            return None
    return number if -(2**63) <= number < 2**63 else None


def _step_of(line: bytes) -> int | None:
    try:
        return step_number(json.loads(line)["step"])
    except (ValueError, RecursionError, KeyError, TypeError):  # torn, or no row
        return None
