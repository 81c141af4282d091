"""What every engine keeps to, tried with small programs of somebody's own."""

import asyncio
import contextlib
import os
import signal
import tarfile
from pathlib import Path

import pytest

from agent.domain.errors import BadData, NotAllowed, NotFound
from agent.domain.orders import FetchOrder, InspectOrder, StopOrder
from agent.domain.runs import ExitClass, RunState
from agent.domain.sources import PathSource
from tests.engines.conftest import Rig, serving

STEPS = """
from trainyard import TrainingRuntime
runtime = TrainingRuntime()
for step in range(1, 301):
    runtime.log_metrics(step=step, loss=1 / step)
    if step % 10 == 0:
        print("step", step, flush=True)
runtime.finish()
import pathlib
pathlib.Path("artifacts").mkdir(exist_ok=True)
pathlib.Path("artifacts/model.txt").write_text("the model")
"""
ENDLESS = "import time\nprint('begun', flush=True)\nwhile True:\n    time.sleep(0.05)\n"
SAVES = """
import pathlib, signal, sys, time
state = pathlib.Path("state.txt")
if state.exists():
    print("goes on from", state.read_text(), flush=True)
    sys.exit(0)
def save(*_):
    state.write_text("step 7")
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("begun", flush=True)
while True:
    time.sleep(0.05)
"""


async def test_a_program_runs_to_its_end_and_leaves_its_files(rig: Rig, tmp_path: Path) -> None:
    await rig.engine.submit(rig.order("r-end000", STEPS))
    outcome = await rig.ended("r-end000")
    assert (outcome.state, outcome.exit_code) == (RunState.SUCCEEDED, 0)
    with tarfile.open(await rig.engine.fetch(rig.label("r-end000"), tmp_path)) as tar:
        names = [name.removeprefix("./") for name in tar.getnames()]
    assert any(name.endswith("model.txt") for name in names)
    said = [line for line in (await rig.log("r-end000")).splitlines() if line.startswith("step")]
    assert said == [f"step {step}" for step in range(10, 301, 10)]


async def test_a_repeated_order_starts_nothing_twice(rig: Rig) -> None:
    order = rig.order("r-twice0", ENDLESS)
    await asyncio.gather(*(rig.engine.submit(order) for _ in range(3)))
    await rig.printed("r-twice0", "begun")
    await rig.engine.submit(order)
    await rig.engine.cancel(StopOrder(run="r-twice0", attempt=1, how="kill"), host=rig.site.host)
    await rig.ended("r-twice0")
    await rig.engine.submit(order)
    assert (await rig.log("r-twice0")).count("begun") == 1


async def test_after_a_lost_answer_the_attempt_is_found_by_its_label(rig: Rig) -> None:
    order = rig.order("r-found0", ENDLESS)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(rig.engine.submit(order), 0.3)
    if await rig.engine.status(rig.label("r-found0")) is None:
        await rig.engine.submit(order)
    await rig.printed("r-found0", "begun")
    status = await rig.engine.status(rig.label("r-found0"))
    assert status is not None
    assert (status.alive, status.outcome) == (True, None)
    await rig.engine.cancel(StopOrder(run="r-found0", attempt=1, how="kill"), host=rig.site.host)
    await rig.ended("r-found0")
    assert (await rig.log("r-found0")).count("begun") == 1


async def test_of_an_unknown_label_there_is_nothing(rig: Rig, tmp_path: Path) -> None:
    label = rig.label("r-nobody")
    assert await rig.engine.status(label) is None
    assert await rig.log("r-nobody") == ""
    with pytest.raises(NotFound):
        await rig.engine.fetch(label, tmp_path)
    await rig.engine.cancel(StopOrder(run="r-nobody", attempt=1), host=rig.site.host)


async def test_an_attempt_ends_when_it_is_told_to(rig: Rig) -> None:
    await rig.engine.submit(rig.order("r-stop00", ENDLESS))
    await rig.printed("r-stop00", "begun")
    for _ in range(2):
        await rig.engine.cancel(StopOrder(run="r-stop00", attempt=1), host=rig.site.host)
    assert (await rig.ended("r-stop00")).state is RunState.STOPPED


async def test_a_log_is_read_on_from_where_one_stopped(rig: Rig) -> None:
    await rig.engine.submit(rig.order("r-logs00", "print('one')\n" * 20_000 + "print('last')\n"))
    await rig.ended("r-logs00")
    first = await rig.engine.logs(rig.label("r-logs00"))
    second = await rig.engine.logs(rig.label("r-logs00"), first.end)
    assert first.text.endswith("one\n")
    assert second.text.startswith("one\n")
    assert 0 < first.end < second.end
    end = (await rig.log("r-logs00")).splitlines()
    assert "last" in end
    assert (await rig.engine.logs(rig.label("r-logs00"), 10**9)).text == ""


async def test_what_can_pause_goes_on_from_there(rig: Rig) -> None:
    if not rig.engine.capabilities.pauses:
        pytest.skip("this engine says that it cannot pause")
    await rig.engine.submit(rig.order("r-pause0", SAVES))
    await rig.printed("r-pause0", "begun")
    await rig.engine.cancel(StopOrder(run="r-pause0", attempt=1, how="pause"), host=rig.site.host)
    assert (await rig.ended("r-pause0")).state is RunState.PAUSED
    await rig.engine.submit(rig.order("r-pause0", SAVES, attempt=2))
    assert (await rig.ended("r-pause0", 2)).state is RunState.SUCCEEDED
    assert "goes on from step 7" in await rig.log("r-pause0")
    first = await rig.engine.status(rig.label("r-pause0"))
    assert first is not None
    assert first.outcome is not None
    assert first.outcome.state is RunState.PAUSED


async def test_it_says_what_it_charges_and_which_hosts_are_its_own(rig: Rig) -> None:
    price = rig.engine.price(rig.spec(ENDLESS))
    assert price is None or price > 0
    assert {info.engine for info in await rig.parts.hosts.hosts()} == {rig.engine.name} == {rig.site.engine}


async def test_data_are_looked_at(rig: Rig) -> None:
    rows = "".join(f"{n},{'yes' if n % 3 else 'no'}\n" for n in range(60))
    data = rig.blobs.put_bytes(f"age,churn\n{rows}".encode(), name="people.csv")
    report = await rig.parts.data.inspect(InspectOrder(dataset=data, target="churn"))
    assert (report.rows, report.dataset) == (60, data)
    with pytest.raises(BadData):
        await rig.parts.data.inspect(InspectOrder(dataset=rig.blobs.put_bytes(b"\x00\x01", name="noise.csv")))
    with pytest.raises(NotFound):
        await rig.parts.data.inspect(InspectOrder(dataset=data.model_copy(update={"sha256": "0" * 64})))


async def test_data_are_fetched_from_a_folder_that_the_host_allows(rig: Rig) -> None:
    folder = rig.site.home / "data"
    folder.mkdir()
    (folder / "people.csv").write_text("age,churn\n1,no\n")
    source = PathSource(path=str(folder / "people.csv"))
    fetched = await rig.parts.data.fetch_data(FetchOrder(source=source, limit_bytes=1000))
    assert (fetched.dataset.name, fetched.dataset.origin) == ("people.csv", source)
    assert (await rig.blobs.get(fetched.dataset.sha256)).read_text().startswith("age,churn")
    with pytest.raises(NotAllowed, match="is in no folder that this host gives data from"):
        await rig.parts.data.fetch_data(FetchOrder(source=PathSource(path="/etc/hosts.csv"), limit_bytes=1000))


async def test_events_come_once_and_in_order_though_the_reader_is_restarted(rig: Rig, tmp_path: Path) -> None:
    async with serving(rig, tmp_path) as served:
        slow = STEPS.replace("    if step", "    import time; time.sleep(0.005)\n    if step")
        run = await served.create(slow)
        await served.until(run, lambda now: now.step > 30)
        await served.restart_relay()
        await served.until(run, lambda now: now.step > 150)
        await served.restart_relay()
        ended = await served.until(run, lambda now: now.outcome is not None)
        assert ended.state is RunState.SUCCEEDED
        assert [row.step for row in await served.runs.metrics(run.id)] == list(range(1, 301))
        said = [line for line in await served.runs.log(run.id, 1000) if line.startswith("step")]
        assert said == [f"step {step}" for step in range(10, 301, 10)]
        (attempt,) = await served.runs.attempts(run.id)
        assert attempt.seen_to > 0


async def test_a_supervisor_that_is_killed_is_an_end_that_says_so(rig: Rig, tmp_path: Path) -> None:
    async with serving(rig, tmp_path) as served:
        run = await served.create(ENDLESS)
        await rig.printed(run.id, "begun")
        os.kill(int(rig.folder(run.id).lock.read_text()), signal.SIGKILL)
        ended = await served.until(run, lambda now: now.outcome is not None)
        assert ended.outcome is not None
        assert (ended.state, ended.outcome.exit_class) == (RunState.LOST, ExitClass.LOST)
        assert f"supervisor on host {rig.site.host} was killed or crashed" in ended.outcome.reason
