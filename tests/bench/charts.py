"""Rows: charts of four panels, from the store to PNG, against pyplot with the raw points; and what the store takes.

Ours is the way of a card: the window of each series out of SQLite, the spans as curves, and a render process that is
warm. The peer draws the same numbers, which it has in memory already, with `plt.subplots(2, 2)` in this process.
"""

import asyncio
import io
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, update

from agent.domain.charts import ChartSpec, Panel
from agent.runs.charts.curves import series_of
from agent.series.columns import POINT
from agent.storage import sql_stores
from agent.storage.database import Database
from agent.storage.series import append
from agent.storage.series_reads import SeriesReads, unpacked_spans
from agent.storage.tables import attempt
from charts_render.pool import ChartPool
from tests.agent.engine import a_run
from tests.bench.progress import say
from tests.bench.rows import Row, compared, limited, median
from tests.fakes import START

PANELS = 4
SMALL, LARGE, HUGE = 1_000, 1_000_000, 10_000_000
ROUNDS = 27  # of ours; the peer's are a third of them, and of the large ones a ninth
WINDOWS, LOOKS = 100, 5
CARDS = 50
LAG_EVERY_S = 0.001


def measure() -> Sequence[Row]:
    """In an event loop of its own."""
    return asyncio.run(_measure())


async def _measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        database, pool = Database(f"sqlite:///{folder}/bench.db"), ChartPool()
        await database.start()
        await pool.start()
        try:
            return [*await _drawing(database, pool), *await _storing(database, Path(folder))]
        finally:
            await pool.close()
            await database.close()


async def _drawing(database: Database, pool: ChartPool) -> list[Row]:
    small, large = await _filled(database, SMALL, PANELS), await _filled(database, LARGE, PANELS)
    say("charts: the store holds 4 series of 1,000 and 4 of 1,000,000 points")
    first = await _timed(lambda: _chart(database, pool, small))
    ours: dict[str, list[float]] = {small: [], large: []}
    peer: dict[str, list[float]] = {small: [], large: []}
    for number in range(ROUNDS):
        for run_id, size in ((small, SMALL), (large, LARGE)):
            ours[run_id].append(await _timed(lambda run_id=run_id: _chart(database, pool, run_id)))  # type: ignore[misc]
            if number % (3 if size == SMALL else 9) == 0:
                peer[run_id].append(_pyplot(size))
    longer = median([many / few for few, many in zip(ours[small], ours[large], strict=True)])
    few, many = 1000 * median(ours[small]), 1000 * median(ours[large])
    peer_few, peer_many = 1000 * median(peer[small]), 1000 * median(peer[large])
    say(f"charts, ms: {few:.0f} and {many:.0f}; pyplot {peer_few:.0f} and {peer_many:.0f}")
    png_kb = len(await _chart(database, pool, large)) / 1024
    lag = await _lag(database, pool, small)
    raw, of = "pyplot, raw points", "chart of 4 panels"
    return [
        compared(f"{of} of {LARGE:,} points", ours=many, peer=peer_many, peer_name=raw, unit="ms", at_least=20),
        compared(f"{of} of {SMALL:,} points", ours=few, peer=peer_few, peer_name=raw, unit="ms", at_least=3),
        limited(f"{of}: longer than of few points", ours=longer, peer=1, peer_name="few", unit="times", at_most=1.3),
        limited(f"{of}: PNG", ours=png_kb, peer=40, peer_name="the goal", unit="KB", at_most=40),
        limited("first chart after the start", ours=1000 * first, peer=few, peer_name="later", unit="ms", at_most=150),
        limited(f"lag of the loop, {CARDS} cards, p99", ours=lag, peer=20, peer_name="the goal", unit="ms", at_most=20),
    ]


async def _chart(database: Database, pool: ChartPool, run_id: str) -> bytes:
    """A card's chart."""

    def find(connection: Connection) -> tuple[Panel, ...]:
        reads = SeriesReads(connection, run_id)
        return tuple(Panel(f"metric {n}", (series_of(reads.window(f"m{n}"), "train"),)) for n in range(PANELS))

    return await pool.render(ChartSpec("bench", await database.read(find), "run"))


async def _lag(database: Database, pool: ChartPool, run_id: str) -> float:
    """Milliseconds, p99, that the loop is late while many cards are drawn at once."""
    late: list[float] = []
    over = asyncio.Event()

    async def watch() -> None:
        while not over.is_set():
            began = time.perf_counter()
            await asyncio.sleep(LAG_EVERY_S)
            late.append(time.perf_counter() - began - LAG_EVERY_S)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(_chart(database, pool, run_id) for _ in range(CARDS)))
    over.set()
    await watching
    return 1000 * float(np.percentile(late, 99))


async def _storing(database: Database, folder: Path) -> list[Row]:
    before = await _size(database, folder)
    run_id = await _filled(database, HUGE, 1)
    per_point = (await _size(database, folder) - before) / HUGE
    say(f"charts: a series of {HUGE:,} points is stored")
    slowest, random = 0.0, np.random.default_rng(0)
    widths = np.exp(random.uniform(0, np.log(HUGE), WINDOWS)).astype(int)
    for low, high in [(0, HUGE), *((first := int(random.integers(0, HUGE - w + 1)), first + int(w)) for w in widths)]:

        async def read(low: int = low, high: int = high) -> int:
            unpacked_spans.cache_clear()  # as if nobody had looked before
            return await _window(database, run_id, low, high)

        times = [await _timed(read) for _ in range(LOOKS)]
        slowest = max(slowest, 1000 * median(times))
    of = f"store of {HUGE:,} points"
    return [
        limited(f"{of}: at rest, each", ours=per_point, peer=16, peer_name="two floats", unit="B", at_most=16),
        limited(f"{of}: slowest window", ours=slowest, peer=10, peer_name="the goal", unit="ms", at_most=10),
    ]


async def _window(database: Database, run_id: str, low: int, high: int) -> int:
    return await database.read(lambda connection: len(SeriesReads(connection, run_id).window("m0", low, high).spans))


async def _size(database: Database, folder: Path) -> int:
    """Bytes of the file, with all of its log in it."""
    await database.read(lambda connection: connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").all())
    return (folder / "bench.db").stat().st_size


async def _filled(database: Database, size: int, series: int) -> str:
    """A run with noisy decays, logged every 50 ms or so."""
    stores = sql_stores(database)
    run = await a_run(stores, f"{size}")
    await stores.runs.dispatch(run.id, host="gpu-1", at=START)

    def fill(connection: Connection) -> None:
        random = np.random.default_rng(size)
        for number in range(series):
            for start in range(0, size, 100_000):
                points = np.zeros(min(100_000, size - start), dtype=POINT)
                points["row"] = points["step"] = np.arange(start, start + len(points))
                points["at"] = 1.79e9 + np.cumsum(0.05 + random.normal(0, 0.005, len(points))) + 0.05 * start
                points["value"] = np.exp(-3 * points["row"] / size) + random.normal(0, 0.03, len(points))
                append(connection, {"run_id": run.id, "attempt": 1, "name": f"m{number}"}, points)
        whole = update(attempt).where(attempt.c.run_id == run.id).values(rows=size, folded=size, low_step=0)
        connection.execute(whole)

    await database.write(fill)
    return run.id


async def _timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


def _pyplot(size: int) -> float:
    """Seconds of the usual way."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    random = np.random.default_rng(size)
    xs = np.arange(size)
    curves = [np.exp(-3 * xs / size) + random.normal(0, 0.03, size) for _ in range(PANELS)]
    began = time.perf_counter()
    figure, axes = plt.subplots(2, 2, figsize=(12, 9), dpi=100)
    for number, (axis, ys) in enumerate(zip(axes.flat, curves, strict=True)):
        axis.plot(xs, ys, label="train")
        axis.set_title(f"metric {number}")
        axis.legend()
        axis.grid(visible=True)
    figure.tight_layout()
    figure.savefig(io.BytesIO(), format="png")
    plt.close(figure)
    return time.perf_counter() - began
