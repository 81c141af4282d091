"""The processes behind the charts: warm, replaceable, gone at the end."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from agent.domain.charts import ChartSpec, Panel, Series
from agent.domain.errors import Unavailable
from agent.ports import Charts
from charts_render.pool import ChartPool
from charts_render.render import render
from charts_render.samples import results
from tests.charts.picture_cases import chart, curve

IN_ONE_LOOP = pytest.mark.asyncio(loop_scope="module")  # to which a pool belongs


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ChartPool]:
    """One for the tests that leave a process in it."""
    pool = ChartPool()
    await pool.start()
    yield pool
    await pool.close()


@IN_ONE_LOOP
async def test_the_pool_draws_what_render_draws(pool: ChartPool) -> None:
    charts: Charts = pool
    spec = chart(curve(3, 2, float("nan"), 1), Series("long", range(10**5), [10**400] * 10), better="lower")
    assert await charts.render(spec) == render(spec)
    many = ChartSpec("t", tuple(Panel(f"metric {i}", (curve(1, i),)) for i in range(14)))
    assert await charts.render(many) == render(many)
    assert "matplotlib" in _modules(pool.pids[0])


@IN_ONE_LOOP
async def test_the_pool_draws_pictures_of_results_too(pool: ChartPool) -> None:
    charts: Charts = pool
    for name in ("classifier", "images"):
        spec = results("dark")[name]
        assert await charts.render(spec) == render(spec)


@IN_ONE_LOOP
async def test_a_killed_worker_is_replaced(pool: ChartPool) -> None:
    before = pool.pids
    os.kill(before[0], signal.SIGKILL)
    assert (await pool.render(chart(curve(1, 2)))).startswith(b"\x89PNG")
    assert pool.pids != before


@IN_ONE_LOOP
async def test_ctrl_c_does_not_reach_the_worker(pool: ChartPool) -> None:
    before = pool.pids
    os.kill(before[0], signal.SIGINT)
    await asyncio.gather(*[pool.render(chart(curve(1, i))) for i in range(3)])
    assert pool.pids == before


async def test_a_stuck_worker_is_given_up_and_close_leaves_nothing() -> None:
    pool = ChartPool(limit_s=0.5)
    await pool.start()
    stuck = pool.pids[0]
    os.kill(stuck, signal.SIGSTOP)
    with pytest.raises(Unavailable, match=r"longer than 0\.5 s"):
        await pool.render(chart(curve(1, 2)))
    assert not psutil.pid_exists(stuck)
    await pool.start()
    fresh = pool.pids[0]
    await pool.close()
    assert not psutil.pid_exists(fresh)
    with pytest.raises(Unavailable, match="ending"):
        await pool.render(chart(curve(1, 2)))
    await pool.close()


_PARENT = """
import asyncio, sys
from charts_render.pool import ChartPool
async def main():
    pool = ChartPool()
    print("matplotlib" in sys.modules, "numpy" in sys.modules, flush=True)
    await pool.start()
    print(pool.pids[0], flush=True)
    await asyncio.sleep(60)
if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_killed_parent_takes_the_worker_along_and_loads_no_matplotlib(tmp_path) -> None:  # type: ignore[no-untyped-def]
    script = tmp_path / "parent.py"
    script.write_text(_PARENT)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "False False\n"
        worker = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    left = psutil.wait_procs([worker], timeout=30)[1]
    assert [one.status() for one in left] in ([], [psutil.STATUS_ZOMBIE])  # not every first process buries orphans


def _modules(pid: int) -> str:
    return " ".join(m.path for m in psutil.Process(pid).memory_maps())
