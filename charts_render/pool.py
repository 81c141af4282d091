"""Charts off the event loop: `ChartPool` renders in processes of its own and keeps them warm.

Owns the life of those processes: start, time limit, replacement, end. Loads neither matplotlib nor numpy itself; the
worker's side is `charts_render.easel`. Python's own resource tracker, shared by everything that spawns, ends with the
interpreter, not with the pool.
"""

import asyncio
import multiprocessing
import os
import signal
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from agent.domain.charts import ChartSpec, Panel, Series
from agent.domain.errors import Unavailable
from agent.domain.pictures import PictureSpec
from charts_render import easel
from charts_render.theme import MAX_PANELS, MAX_SERIES

T = TypeVar("T")
_START_LIMIT_S: Final = 60.0  # the first start on a machine builds matplotlib's list of fonts


class ChartPool:
    """Implements `agent.ports.Charts`. Belongs to one event loop; close it before that loop ends."""

    def __init__(self, *, workers: int = 1, limit_s: float = 10.0) -> None:
        """`limit_s` is the time one render may take, waiting for a free worker not counted."""
        self._limit_s = limit_s
        self._workers = [_Worker() for _ in range(workers)]
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        for worker in self._workers:
            self._idle.put_nowait(worker)
        self._closed = False

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that are warm now."""
        return tuple(worker.pid for worker in self._workers if worker.pid)

    async def start(self) -> None:
        """Warm every worker, so that the first chart is as fast as the others. Raises `Unavailable`."""
        await asyncio.gather(*[worker.ready() for worker in self._workers])

    async def render(self, spec: ChartSpec | PictureSpec) -> bytes:
        """PNG bytes. Raises `Unavailable` when the time limit passes, the worker dies twice, or the pool is closed."""
        return await self._done(easel.draw, spec)

    async def describe(self, spec: ChartSpec | PictureSpec) -> str:
        """What the picture says, in words. Raises like `render`."""
        return await self._done(easel.describe, spec)

    async def _done(self, act: Callable[[ChartSpec | PictureSpec], T], spec: ChartSpec | PictureSpec) -> T:
        """What a worker makes of it. One that died is replaced and asked again, once."""
        packed = await asyncio.to_thread(_packed, spec)
        worker = await self._idle.get()
        try:
            for _ in range(2):
                if self._closed:
                    break
                try:
                    return await self._ask(worker, act, packed)
                except BrokenProcessPool:
                    await worker.stop()
        finally:
            self._idle.put_nowait(worker)
        if self._closed:
            raise Unavailable("Charts are switched off: the program is ending.")
        raise Unavailable("The chart could not be drawn: its process died twice, perhaps for want of memory.")

    async def close(self) -> None:
        """End all workers and wait until they are gone; renders under way fail. May be called twice."""
        self._closed = True
        await asyncio.gather(*[worker.stop() for worker in self._workers])

    async def _ask(
        self, worker: "_Worker", act: Callable[[ChartSpec | PictureSpec], T], packed: ChartSpec | PictureSpec
    ) -> T:
        executor = await worker.ready()
        try:
            async with asyncio.timeout(self._limit_s):
                return await asyncio.wrap_future(executor.submit(act, packed))
        except TimeoutError as error:
            await worker.stop()
            raise Unavailable(f"The chart took longer than {self._limit_s:g} s and was given up.") from error


class _Worker:
    """One process behind an executor of its own, so that its id is known and it can be replaced alone."""

    def __init__(self) -> None:
        self.pid = 0
        self._executor: ProcessPoolExecutor | None = None

    async def ready(self) -> ProcessPoolExecutor:
        """A warm executor, started when there is none. Raises `Unavailable`."""
        if self._executor is not None:
            return self._executor
        # Submitting happens in the loop's own thread: the kernel ends the child when the thread that made it ends.
        executor = ProcessPoolExecutor(
            max_workers=1,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=easel.prepare,
            initargs=(os.getpid(),),
        )
        first: Future[int] = executor.submit(os.getpid)
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                self.pid = await asyncio.wrap_future(first)
                await asyncio.wrap_future(executor.submit(easel.warm))
        except (TimeoutError, BrokenProcessPool) as error:
            self._executor = executor
            await self.stop()
            raise Unavailable("The process that draws charts did not start.") from error
        except asyncio.CancelledError:
            self._executor = executor
            await self.stop()
            raise
        self._executor = executor
        return executor

    async def stop(self) -> None:
        """Kill the process, which holds nothing worth keeping, and wait for it."""
        executor, pid = self._executor, self.pid
        self._executor, self.pid = None, 0
        if executor is None:
            return
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(executor.shutdown, wait=True, cancel_futures=True)


def _packed(spec: ChartSpec | PictureSpec) -> ChartSpec | PictureSpec:
    """The same chart in a form that is cheap to send: no series that is not drawn, numbers as flat arrays."""
    if isinstance(spec, PictureSpec):  # at most some ten thousand points
        return spec
    return replace(
        spec, panels=tuple(_packed_panel(panel, drawn=i < MAX_PANELS) for i, panel in enumerate(spec.panels))
    )


def _packed_panel(panel: Panel, *, drawn: bool) -> Panel:
    shown = MAX_SERIES if drawn else 0
    series = [
        replace(s, x=_flat(s.x), y=_flat(s.y), low=_flat(s.low), high=_flat(s.high), counts=_flat(s.counts))
        for s in panel.series[:shown]
    ]
    rest = [Series("", (), ()) for _ in panel.series[shown:]]  # they still count
    return replace(panel, series=(*series, *rest))


def _flat(values: Sequence[float]) -> Sequence[float]:
    if hasattr(values, "__array_interface__"):  # one of numpy's is as flat
        return values
    try:
        return array("d", values)
    except (TypeError, OverflowError):  # not plain numbers: the worker sorts them out one by one
        return list(values)
