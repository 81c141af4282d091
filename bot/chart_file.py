"""`trainyard chart FILE`: the curves of a file of metrics as a PNG, once or again and again while it grows.

As for the card of a run, rows go into a pyramid, and windows of it to `charts_render`. Owns the picture on the disk.
Called by `bot.cli`.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent.cards import counted
from agent.domain.charts import ChartSpec
from agent.domain.errors import BadData, BadRequest, NotFound
from agent.runs.charts.curves import Clock, clock_of
from agent.runs.charts.run_charts import BASELINE, Curves, Look, clock_name, file_chart, pages, panel_names
from agent.series.growing import Growing
from agent.series.tail import Tail
from agent.series.window import Window
from bot.metric_files import FORMATS, Runs, read_other, slice_of
from bot.png_file import write_png
from charts_render.alt_text import describe
from charts_render.pool import ChartPool

LOOK_EVERY_S = 1.0
PARTS_OF_A_STEP = 10_000  # that steps are counted in where some lie between whole numbers


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is drawn: `metrics` are names or parts of names, none for all; `last` a number of steps."""

    look: Look
    metrics: tuple[str, ...] = ()
    last: int | None = None
    by_epoch: bool = False


class ChartFile:
    """One file and its picture."""

    def __init__(self, path: Path, output: Path, wanted: Wanted, say: Callable[[str], None]) -> None:
        """`output` is written anew, whole or not at all; `say` shows people what a picture says."""
        self._path, self._output, self._wanted, self._say = path, output, wanted, say
        self._scale = 1
        self._tail = Tail(path)
        self._runs: dict[str, Growing] = {"": Growing()}
        self._malformed = 0

    async def once(self) -> int:
        """Draw what is there. Raises: NotFound, BadData, BadRequest."""
        await self.load()
        await self._draw_with(ChartPool())
        return 0

    async def load(self) -> None:
        """Take the whole file. Raises: NotFound, BadData."""
        if not self._path.exists():
            raise NotFound(f"There is no file {self._path}.")
        if found := await self._other():
            await self._take(found)
        else:
            await self._read(last=True)

    async def _other(self) -> Runs | None:
        """What another program wrote; None where it is lines of JSON."""
        try:
            return await asyncio.to_thread(read_other, self._path)
        except OSError as error:
            raise BadData(f"{self._path} cannot be read: {error.strerror or error}.") from error

    async def _take(self, found: Runs) -> None:
        rows = [row for of in found.values() for row in of]
        if any(isinstance(row.step, float) and not row.step.is_integer() for row in rows):
            self._scale = PARTS_OF_A_STEP
        self._runs = {run: Growing() for run in found}
        for run, of in found.items():
            await asyncio.to_thread(self._runs[run].add, slice_of(of, self._scale))

    async def follow(self) -> int:
        """Draw, and draw again when rows came, until cancelled. A file that is not there yet is waited for."""
        if self._path.exists() and await self._other():
            raise BadRequest(f"{self._path} can be drawn, but not followed: only lines of JSON can.")
        pool = ChartPool()
        try:
            await pool.start()
            self._say(f"Following {self._path} into {self._output}; Ctrl-C ends it.")
            while True:
                if await self._read() and self._known():
                    await self._draw(pool)
                await asyncio.sleep(LOOK_EVERY_S)
        finally:
            await pool.close()

    async def _read(self, *, last: bool = False) -> bool:
        """Take what is new; False where nothing is."""
        try:
            news = await asyncio.to_thread(self._tail.take, last=last)
            if news.fractional and self._scale == 1:
                self._scale, self._runs, self._malformed = PARTS_OF_A_STEP, {"": Growing()}, 0
                self._tail = Tail(self._path, self._scale)
                news = await asyncio.to_thread(self._tail.take, last=last)
        except OSError as error:
            raise BadData(f"{self._path} cannot be read: {error.strerror or error}.") from error
        if news.again:
            self._runs, self._malformed = {"": Growing()}, 0
        for lines in news.lines:
            await asyncio.to_thread(self._runs[""].add, lines.rows)
        self._malformed += news.malformed
        return news.again or bool(news.lines)

    async def _draw_with(self, pool: ChartPool) -> None:
        try:
            await self._draw(pool)
        finally:
            await pool.close()

    async def _draw(self, pool: ChartPool) -> None:
        spec, more = self.spec()
        png = await pool.render(spec)
        await asyncio.to_thread(write_png, self._output, png)
        left_out = f" Left out: {counted(self._malformed, 'line')} without a row." if self._malformed else ""
        rows = sum(run.rows for run in self._runs.values())
        self._say(f"{self._output}: {counted(rows, 'row')}.{left_out}{self._pages_said(more=more)}\n{describe(spec)}")

    def _pages_said(self, *, more: bool) -> str:
        """Where further metrics are, and that a page which is not there was asked for."""
        names = self._names()
        count = len(panel_names(names)) if len(self._runs) == 1 else len(names)
        page, last = self._wanted.look.page + 1, pages(count, self._wanted.look)
        if page > last:
            return f" There is no page {page}: this is page {last}, the last."
        return f" More metrics are on page {page + 1}." if more else ""

    def spec(self) -> tuple[ChartSpec, bool]:
        """What is drawn, and whether panels follow. Raises: BadData, BadRequest."""
        names = self._names()
        low, high = (-(2**62), 2**62)
        if self._wanted.last is not None:
            low = max(run.last_step for run in self._runs.values()) - self._wanted.last * self._scale + 1
        shown: dict[str, dict[str, Window]] = {}
        for run, rows in self._runs.items():
            windows = {name: rows.window(name, low, high) for name in names if name in rows.names}
            shown[run] = {name: found for name, found in windows.items() if len(found.spans)}
        every = [found for windows in shown.values() for found in windows.values()]
        began = min((float(found.spans["began"].min()) for found in every), default=math.nan)
        if self._wanted.look.by_time and not math.isfinite(began):
            raise BadRequest(
                "The rows of this file have no moment (`at`, `time` or `timestamp`, in seconds or as in ISO 8601)."
            )
        return file_chart(self._path.name, shown, self._look(shown), since=began, scale=self._scale)

    def _known(self) -> list[str]:
        """The names of all metrics, in the order in which they were first seen."""
        return list(dict.fromkeys(name for rows in self._runs.values() for name in rows.names))

    def _look(self, shown: Mapping[str, Curves]) -> Look:
        """With what is known by run: where it was trained anew, and its clock where epochs are wanted.

        Raises: BadRequest.
        """
        anew = {
            run: tuple(sorted({step for name in curves for step in self._runs[run].began_anew(name)}))
            for run, curves in shown.items()
        }
        look = replace(self._wanted.look, anew=anew)
        if not self._wanted.by_epoch:
            return look
        clocks: dict[str, Clock] = {}
        for run, rows in self._runs.items():
            name = clock_name(rows.names)
            clock = clock_of(rows.window(name)) if name else None
            if clock is None:
                raise BadRequest(
                    "The rows of this file have no metric `epoch` that rises, so they cannot be drawn by epoch."
                )
            clocks[run] = clock
        return replace(look, clocks=clocks)

    def _names(self) -> Sequence[str]:
        """Those that are wanted. Raises: BadData, BadRequest."""
        known = self._known()
        if not known:
            raise BadData(
                f"{self._path} has no metrics: a row is one JSON object a line, such as "
                '{"step": 1, "at": 1790000000.0, "values": {"loss": 0.5}} or {"step": 1, "loss": 0.5}. '
                f"These can be read, too: {FORMATS}."
            )
        parts = [part.lower() for part in self._wanted.metrics]
        drawn = [name for name in known if not (self._wanted.by_epoch and name == clock_name(known))] or known
        found = [name for name in drawn if not parts or any(part in name.lower() for part in parts)]
        if not any(not name.startswith(BASELINE) for name in found):
            raise BadRequest(
                f"No metric has {' or '.join(self._wanted.metrics)} in its name. There are {', '.join(known)}."
            )
        return found
