"""The run service: hints are re-sent, silence is noticed, nothing waits for ever."""

from pathlib import Path

import pytest

from agent.brain import Brain
from agent.domain.errors import Conflict, Unavailable
from agent.domain.events import Beat, Started, WorkerEvent
from agent.domain.runs import Run, RunState
from tests.agent.conftest import House
from tests.agent.test_storage import SPEC
from tests.fakes import ALICE, ROOM


async def started(brain: Brain) -> Run:
    session_id = await brain.stores.conversations.session_of(ROOM, create=True)
    assert session_id is not None
    return await brain.service.create(SPEC, session_id=session_id, requester=ALICE.key, room=ROOM, token="t")


async def state(brain: Brain, run: Run) -> RunState:
    return (await brain.stores.runs.get(run.id)).state


def heard(house: House, run: Run, seq: int, body: object) -> WorkerEvent:
    return WorkerEvent(run=run.id, attempt=1, seq=seq, host="gpu-1", at=house.clock.now(), body=body)  # type: ignore[arg-type]


async def test_an_unanswered_launch_is_sent_again_then_given_up(house: House) -> None:
    async with house.open() as brain:
        run = await started(brain)
        assert len(house.fleet.launched) == 1
        await brain.service.tick()
        assert len(house.fleet.launched) == 1
        for hints in (2, 3):
            house.clock.forward(21)
            await brain.service.tick()
            assert len(house.fleet.launched) == hints
        assert {order.attempt for order in house.fleet.launched} == {1}
        house.clock.forward(21)
        await brain.service.tick()
        assert await state(brain, run) is RunState.LOST
        lost = (await brain.stores.runs.get(run.id)).outcome
        assert lost is not None
        assert "trainyard worker" in lost.reason


async def test_a_silent_run_is_unreachable_then_lost_and_may_come_back_between(house: House) -> None:
    async with house.open() as brain:
        run = await started(brain)
        await brain.service.take([heard(house, run, 1, Started(model="m", total_steps=9))])
        assert await state(brain, run) is RunState.RUNNING
        house.clock.forward(61)
        await brain.service.tick()
        assert await state(brain, run) is RunState.UNREACHABLE
        await brain.service.take([heard(house, run, 2, Beat())])
        assert await state(brain, run) is RunState.RUNNING
        house.clock.forward(901)
        await brain.service.tick()
        assert await state(brain, run) is RunState.LOST


async def test_a_launch_that_cannot_be_sent_waits_for_redis(house: House) -> None:
    async def away(order: object) -> None:
        raise Unavailable("Redis is away.")

    async with house.open() as brain:
        launch = house.fleet.launch
        house.fleet.launch = away  # type: ignore[method-assign, assignment]
        run = await started(brain)
        assert await state(brain, run) is RunState.STARTING
        house.fleet.launch = launch  # type: ignore[method-assign]
        house.clock.forward(21)
        await brain.service.tick()
        assert len(house.fleet.launched) == 1


async def test_stop_is_hinted_until_the_host_answers(house: House) -> None:
    async with house.open() as brain:
        run = await started(brain)
        await brain.service.take([heard(house, run, 1, Started(model="m", total_steps=9))])
        assert "is stopping" in await brain.service.stop(run.id)
        house.clock.forward(21)
        await brain.service.tick()
        assert len(house.fleet.stopped) == 2
        house.clock.forward(900)
        await brain.service.tick()
        assert await state(brain, run) is RunState.LOST
        with pytest.raises(Conflict, match="nothing to stop"):
            await brain.service.stop(run.id)


async def test_the_live_card_follows_the_run(house: House, tmp_path: Path) -> None:
    async with house.open() as brain:
        run = await started(brain)
        await brain.service.take([heard(house, run, 1, Started(model="m", total_steps=9))])
        await house.until(
            lambda: any(
                c.card and c.card.title.startswith(run.id) and c.card.facts[0].value == "running"
                for c in house.door.shown
            )
        )
        cards = [c for c in house.door.shown if c.card and c.card.title.startswith(run.id)]
        assert len(cards) == 1
