"""What only the engine `local` has to get right."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.domain.orders import StopOrder
from agent.domain.runs import RunState
from tests.engines.conftest import Rig, Site, local
from tests.engines.test_contract import ENDLESS, STEPS
from worker.engines.local.machine import LocalMachine


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with local(tmp_path_factory.mktemp("site") / "home") as found:
        yield found


async def test_a_launch_that_was_cut_off_is_no_attempt_yet(rig: Rig) -> None:
    folder = rig.folder("r-cut000")
    folder.path.mkdir(parents=True)
    folder.fence.write_text("1")
    assert await rig.engine.status(rig.label("r-cut000")) is None
    await rig.engine.submit(rig.order("r-cut000", "print('begun')\n"))
    assert (await rig.ended("r-cut000")).state is RunState.SUCCEEDED


async def test_the_events_of_an_attempt_are_its_own_and_whole(rig: Rig) -> None:
    await rig.engine.submit(rig.order("r-whole0", STEPS))
    await rig.ended("r-whole0")
    label = rig.label("r-whole0")
    whole = await rig.parts.events.events(label, 0)  # type: ignore[union-attr]
    assert [event.seq for event in whole] == list(range(1, len(whole) + 1))
    assert whole[-1].body.kind == "ended"
    spool = rig.folder("r-whole0").spool
    lines = spool.read_bytes().splitlines(keepends=True)
    spool.write_bytes(b"".join(lines[:3]) + lines[3][:10])
    again = rig.new_parts().events
    assert [event.seq for event in await again.events(label, 0)] == [1, 2, 3]  # type: ignore[union-attr]
    spool.write_bytes(b"".join(lines[:2]) + lines[3].replace(b"r-whole0", b"r-others"))
    again = rig.new_parts().events
    assert [event.seq for event in await again.events(label, 1)] == [2]  # type: ignore[union-attr]


async def test_an_older_attempt_keeps_its_events(rig: Rig) -> None:
    await rig.engine.submit(rig.order("r-older0", ENDLESS))
    await rig.printed("r-older0", "begun")
    await rig.engine.submit(rig.order("r-older0", "print('second')\n", attempt=2))
    assert (await rig.ended("r-older0", 2)).state is RunState.SUCCEEDED
    for number in (1, 2):
        events = await rig.parts.events.events(rig.label("r-older0", number), 0)  # type: ignore[union-attr]
        assert {event.attempt for event in events} == {number}
    await rig.engine.cancel(StopOrder(run="r-older0", attempt=1), host="local")
    assert (await rig.ended("r-older0", 2)).state is RunState.SUCCEEDED


async def test_a_machine_without_a_sandbox_says_why_nothing_can_run(site: Site, tmp_path: Path) -> None:
    home = {"TRAINYARD_HOME": str(tmp_path), "TRAINYARD_SANDBOX": "bwrap", "PATH": str(tmp_path)}
    machine = LocalMachine(tmp_path, {**site.environment, **home})
    assert await machine.hosts() == ()
    while machine.starting:
        await asyncio.sleep(0.02)
    assert await machine.hosts() == ()
    assert machine.nobody().startswith("This machine cannot run anything: TRAINYARD_SANDBOX is bwrap")
    await machine.close()
