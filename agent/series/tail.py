"""A file of metrics that grows: its whole lines, each once, at the cost of what is new.

A last line without an end is kept for later: it may be half-written. A file that was replaced, cut off or written anew
is read from its beginning, and says so. Bounded memory but for the rows themselves. Called by `bot.chart_file`.
"""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final

import numpy as np

from agent.series.jsonl import Lines, Text, read

PIECE_BYTES: Final = 8 << 20  # that one thread takes at once
MOST_LINE_BYTES: Final = 16 << 20  # a longer line is no row
_PROOF_BYTES: Final = 256  # before the position, by which a file is known again


@dataclass(frozen=True, slots=True)
class News:
    """What came since the last look. `again`: this is another file, or was; what was read before does not count."""

    lines: tuple[Lines, ...]
    again: bool

    @property
    def fractional(self) -> bool:
        """Whether some steps were rounded."""
        return any(lines.fractional for lines in self.lines)

    @property
    def malformed(self) -> int:
        """Lines that were left out."""
        return sum(lines.malformed for lines in self.lines)


class Tail:
    """The rows of one file."""

    def __init__(self, path: Path, scale: int = 1) -> None:
        """The file need not be there yet; steps are counted in so many parts of one."""
        self._path, self._scale = path, scale
        self._begin(0)

    def _begin(self, inode: int) -> None:
        self._inode, self._position, self._lines, self._proof = inode, 0, 0, b""

    def take(self, *, last: bool = False) -> News:
        """Whole lines behind those of the last call. `last`: nobody writes any more, so a line without an end counts.

        Raises:
            OSError: the file is there and cannot be read.
        """
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            again = self._inode != 0
            self._begin(0)
            return News((), again)
        with closing(file):
            known, inode = self._inode, os.fstat(file.fileno()).st_ino
            again = bool(known) and (inode != known or not self._is_known(file))
            if not known or again:
                self._begin(inode)
            return News(tuple(self._new(file, last=last)), again)

    def _is_known(self, file: BufferedReader) -> bool:
        """Whether what was read last still stands there."""
        file.seek(self._position - len(self._proof))
        return file.read(len(self._proof)) == self._proof

    def _new(self, file: BufferedReader, *, last: bool) -> Iterator[Lines]:
        """Pieces of whole lines, some at a time in threads: most of the work is done without the interpreter's lock."""
        file.seek(self._position)
        first = next(pieces := self._pieces(file, last=last), None)
        second = next(pieces, None) if first else None
        if first is None or second is None:
            yield from [self._read(first)] if first else []
            return
        workers = os.cpu_count() or 1
        with ThreadPoolExecutor(workers) as pool:
            under_way: deque[Future[Lines]] = deque([pool.submit(self._read, first), pool.submit(self._read, second)])
            for piece in pieces:
                under_way.append(pool.submit(self._read, piece))
                if len(under_way) > workers + 1:
                    yield under_way.popleft().result()
            for future in under_way:
                yield future.result()

    def _read(self, piece: tuple[Text, int]) -> Lines:
        return read(*piece, self._scale)

    def _pieces(self, file: BufferedReader, *, last: bool) -> Iterator[tuple[Text, int]]:
        """Whole lines and the number of their first; the position moves past them."""
        whole = True
        while whole and (size := min(PIECE_BYTES, os.fstat(file.fileno()).st_size - file.tell())) > 0:
            data = bytearray(size)  # is filled and cut in place: a copy costs as much as reading
            del data[file.readinto(data) :]
            rest = b"" if data.endswith(b"\n") else file.readline(MOST_LINE_BYTES)
            data += rest
            whole = data.endswith(b"\n") or len(rest) == MOST_LINE_BYTES  # its rest is no row either
            if not whole and not last:
                del data[data.rfind(b"\n") + 1 :]
            if data:
                yield self._passed(data)

    def _passed(self, data: Text) -> tuple[Text, int]:
        first = self._lines
        self._lines += int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")))
        self._position += len(data)
        self._proof = (self._proof + data[-_PROOF_BYTES:])[-_PROOF_BYTES:]
        return data, first
