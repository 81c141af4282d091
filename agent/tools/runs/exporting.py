"""All metrics of a run, or what it used, as a file, written in slices in a thread: memory stays flat at any length.

Takes rows from the store, has them written by `agent.runs.charts.exports`, hands the file over. Used by the tools of
`agent.tools.runs.watching`.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, TypeVar

from agent.cards import counted, size
from agent.domain.content import Document
from agent.run_store import Kind
from agent.runs.charts.exports import Numbered, csv_head, csv_lines, need_polars, squeeze, write_parquet
from agent.runs.pictures.artifacts import ArtifactWriter
from agent.series.slices import MetricTable, cut
from agent.stores import Runs

Form = Literal["csv", "parquet"]
ROWS = 20_000  # of a slice
PLAIN_BYTES = 8_000_000  # a larger csv is gzipped; Discord takes 10 MB a file
_LOOK_S = 1.0
T = TypeVar("T")


class Stopped(Exception):
    """Nobody waits for the file any more."""


class Exports:
    """Writes one export at a time; others wait for it."""

    def __init__(self, runs: Runs, files: ArtifactWriter) -> None:
        """`files` has the folder where they lie until they are handed over."""
        self._runs = runs
        self._files = files
        # Not the loop's own threads: the store reads in those, and a writer that waits for a read must not hold one.
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="export")

    async def write(self, run_id: str, table: MetricTable, form: Form, kind: Kind = "metrics") -> Document:
        """The rows that `table` counts, exactly as they were logged. Raises: BadRequest without polars for parquet."""
        if form == "parquet":
            need_polars()
        path = await self._files.scratch()
        work = _Work(self._runs, run_id, table, asyncio.get_running_loop(), kind)
        try:
            written = await asyncio.get_running_loop().run_in_executor(self._writer, work.write, path, form)
        finally:
            work.stopped.set()
        return await self._files.keep(written, name=f"{run_id}-{kind}.{form}{written.suffix}", about=run_id)


class _Work:
    """One export, which runs in a thread of its own."""

    def __init__(
        self, runs: Runs, run_id: str, table: MetricTable, loop: asyncio.AbstractEventLoop, kind: Kind
    ) -> None:
        self._runs, self._run_id, self._table, self._loop, self._kind = runs, run_id, table, loop, kind
        self.stopped = threading.Event()

    def write(self, path: Path, form: Form) -> Path:
        """The file, whose name got an ending when it was squeezed; nothing is left of one that was not finished."""
        try:
            self._alive()
            if form == "parquet":
                write_parquet(path, self._slices(), self._table.names)
                return path
            with path.open("wb") as file:
                file.write(csv_head(self._table.names))
                for attempt, rows in self._slices():
                    file.write(csv_lines(attempt, rows, self._table.names))
            return packed(path, self._alive)
        except BaseException:
            for left in (path, path.with_name(path.name + ".gz")):
                left.unlink(missing_ok=True)
            raise

    def _slices(self) -> Iterator[Numbered]:
        for attempt, first, stop in cut(self._table.parts, ROWS):
            self._alive()
            yield attempt, self._asked(self._runs.metric_slice(self._run_id, attempt, first, stop, self._kind))

    def _asked(self, what: Coroutine[Any, Any, T]) -> T:
        """Ask the event loop from the thread, and give its answer."""
        future = asyncio.run_coroutine_threadsafe(what, self._loop)
        while True:
            try:
                return future.result(timeout=_LOOK_S)
            except TimeoutError:
                if future.done():
                    raise
                if self.stopped.is_set():
                    future.cancel()
                    raise Stopped from None

    def _alive(self) -> None:
        if self.stopped.is_set():
            raise Stopped


def packed(path: Path, alive: Callable[[], None] = lambda: None) -> Path:
    """The file, gzipped where it is too large to be handed over as it is; `alive` as in `squeeze`."""
    return squeeze(path, alive) if path.stat().st_size > PLAIN_BYTES else path


def words(run_id: str, table: MetricTable, file: Document, kind: Kind = "metrics") -> str:
    """What is handed over, and what it is best opened with where that is not plain."""
    row, column = ("row", "metric") if kind == "metrics" else ("measurement", "column")
    what = f"{counted(table.rows, row)} of `{run_id}`, with {counted(len(table.names), column)}"
    packed = " It is gzipped: pandas and polars read it as it is." if file.name.endswith(".gz") else ""
    return f"{what}, as a file of {size(file.size_bytes)}.{packed}"
