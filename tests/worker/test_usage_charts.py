"""From a real worker's heartbeats to a picture: its training uses the machine, the store keeps it, a chart shows it.

GPUs are a stand-in for NVML in the process that is asked; everything else is real.
"""

import asyncio
import io
import os
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from PIL import Image

from agent.domain.events import Beat, WorkerEvent
from agent.domain.runs import Run
from agent.runs.charts.usage import UsageLook, throughput_chart, usage_chart
from agent.storage import sql_stores
from agent.stores import Runs, Stores
from charts_render.alt_text import describe
from charts_render.render import render
from tests.agent.databases import sqlite
from tests.agent.engine import ENDING, SPEC, a_run
from tests.fakes import START
from tests.worker.conftest import Yard, eventually
from tests.worker.test_gpus import GIB, World, world  # noqa: F401 - a fixture
from worker.host.usage import Sampler

BUSY = """
start(200)
held = bytearray(60_000_000)
held[::4096] = b"x" * len(held[::4096])
for step in range(1, 201):
    metric(step, loss=1 / step, tokens_per_s=1000.0 + step)
    end = time.time() + 0.02
    while time.time() < end:
        pass
finish()
"""


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    database = sqlite(tmp_path / "bot.db")
    await database.start()
    yield sql_stores(database)
    await database.close()


async def stored(stores: Stores, events: Sequence[WorkerEvent], *gpus: str) -> tuple[Runs, Run]:
    """A run of the store to which these events happen."""
    run = await a_run(stores, spec=SPEC.model_copy(update={"gpus": len(gpus), "recipe": "own"}))
    assert await stores.runs.dispatch(run.id, host="gpu-1", gpus=gpus, at=START)
    own = [event.model_copy(update={"run": run.id}) for event in events]
    await stores.runs.apply(own, at=datetime.now(UTC), ending=ENDING)
    return stores.runs, await stores.runs.get(run.id)


async def test_the_beats_of_a_worker_become_charts(host: Yard, stores: Stores) -> None:
    host.extra["TRAINYARD_HEARTBEAT_S"] = "0.3"
    host.launch_here(host.order("r-usage1", BUSY))
    await asyncio.to_thread(host.outcome, "r-usage1")
    events = host.events("r-usage1")
    beats = [event.body.usage for event in events if isinstance(event.body, Beat) and event.body.usage]
    assert len(beats) >= 4
    runs, run = await stored(stores, events)
    used = await runs.usage(run.id)
    assert sum(len(one.window.spans) for one in used["cpus"]) == len(beats)
    spec = usage_chart(run, used, "gpu", UsageLook(), began=None)
    assert spec is not None
    processors, memory = spec.panels
    assert (processors.title, memory.title) == ("processors", "memory")  # there is no GPU
    assert max(processors.series[0].y) > 0.3  # it does nothing but count
    assert max(memory.series[0].y) > 50
    assert memory.unit == "MiB"
    assert Image.open(io.BytesIO(render(spec))).size[0] == 1200
    rates = await runs.stretches(run.id, ["tokens_per_s"])
    fast = throughput_chart(run, await runs.paces(run.id), rates, UsageLook(), began=None)
    assert fast is not None
    pace, tokens = fast.panels
    assert 0 < max(pace.series[0].y) < 60  # a step takes a fiftieth of a second at least
    assert tokens.series[0].y[-1] == 1200.0
    assert "tokens per s: goes from 1,001 to 1,200" in describe(fast)


async def test_what_nvml_says_of_the_leased_gpu_becomes_a_chart(
    world: World,  # noqa: F811
    stores: Stores,
    tmp_path: Path,
) -> None:
    world.is_(
        {"uuid": "GPU-other", "used": 70 * GIB, "busy": 99, "total": 80 * GIB},
        {"uuid": "GPU-a", "used": 3 * GIB, "busy": 42, "total": 24 * GIB},
    )
    sampler = Sampler(os.getpid(), tmp_path, gpus=("GPU-a",), ask_gpus=lambda: world.look().gpus)
    measured = await asyncio.to_thread(eventually, lambda: [seen for seen in (sampler.sample(),) if seen.gpus])
    named = {"run": "r", "attempt": 1, "host": "gpu-1"}
    events = [
        WorkerEvent(**named, seq=n, at=START + timedelta(seconds=10 * n), body=Beat(usage=measured[0]))  # type: ignore[arg-type]
        for n in (1, 2, 3)
    ]
    runs, run = await stored(stores, events, "GPU-a")
    spec = usage_chart(run, await runs.usage(run.id), "gpu", UsageLook(), began=None)
    assert spec is not None
    busy, memory = spec.panels
    assert [list(line.y) for line in busy.series] == [[42.0] * 3]
    assert [list(line.y) for line in memory.series] == [[3.0] * 3]
    assert [guide.value for guide in memory.baselines] == [24.0]
    assert "GPU busy: goes from 42 to 42 % at 20 seconds" in describe(spec)
