"""The run service: hints are re-sent, silence is noticed, nothing waits for ever."""

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.brain import Brain
from agent.domain.errors import Conflict, Unavailable
from agent.domain.events import Accepted, Beat, Ended, Measured, MetricRow, Saved, Started, WorkerEvent
from agent.domain.orders import LaunchOrder
from agent.domain.runs import Outcome, Run, RunSpec, RunState
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.fakes import ALICE, THREAD, commanded, host

ONCE = SPEC.model_copy(update={"auto_resume": False})


async def started(brain: Brain, token: str = "t", spec: RunSpec = SPEC) -> Run:
    session_id = await brain.stores.conversations.session_of(THREAD, create=True)
    assert session_id is not None
    return await brain.service.create(spec, session_id=session_id, requester=ALICE.key, thread=THREAD, token=token)


async def state(brain: Brain, run: Run) -> RunState:
    return (await brain.stores.runs.get(run.id)).state


def heard(harness: Harness, run: Run, seq: int, body: object) -> WorkerEvent:
    return WorkerEvent(run=run.id, attempt=1, seq=seq, host="gpu-1", at=harness.clock.now(), body=body)  # type: ignore[arg-type]


async def silence(harness: Harness, brain: Brain, seconds: float) -> None:
    """Time that passes while the bot works."""
    while seconds > 0:
        harness.clock.forward(min(seconds, 30))
        await brain.service.tick()
        seconds -= 30


async def test_an_unanswered_launch_is_sent_again_then_goes_back_to_the_queue(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await started(brain)
        assert len(harness.fleet.launched) == 1
        await brain.service.tick()
        assert len(harness.fleet.launched) == 1
        for hints in (2, 3):
            harness.clock.forward(21)
            await brain.service.tick()
            assert len(harness.fleet.launched) == hints
        assert {order.attempt for order in harness.fleet.launched} == {1}
        harness.clock.forward(21)  # the last order may still be taken
        await brain.service.tick()
        assert await state(brain, run) is RunState.STARTING
        harness.clock.forward(40)
        await brain.service.tick()
        waiting = await brain.stores.runs.get(run.id)
        assert waiting.state is RunState.QUEUED
        assert "gpu-1 took no order" in waiting.note
        assert len(harness.fleet.launched) == 3
        harness.clock.forward(121)
        await brain.service.tick()
        assert harness.fleet.launched[-1].attempt == 2


async def test_a_host_that_takes_no_order_is_passed_over(harness: Harness) -> None:
    harness.fleet.infos = (host("gpu-1"), host("gpu-2"))
    async with harness.open() as brain:
        run = await started(brain)
        for _ in range(2):
            harness.clock.forward(21)
            await brain.service.tick()
        await silence(harness, brain, 61)
        assert [(order.host, order.attempt) for order in harness.fleet.launched[-2:]] == [("gpu-1", 1), ("gpu-2", 2)]
        late = heard(harness, run, 1, Accepted(boot_id="b"))
        await brain.service.take([late])  # the old order was taken after all: its attempt may not live
        assert [(order.attempt, order.how) for order in harness.fleet.stopped] == [(1, "kill")]


async def test_a_silent_run_is_unreachable_then_lost_and_may_come_back_between(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await started(brain, spec=ONCE)
        await brain.service.take([heard(harness, run, 1, Started(model="m", total_steps=9))])
        assert await state(brain, run) is RunState.RUNNING
        await silence(harness, brain, 61)
        assert await state(brain, run) is RunState.UNREACHABLE
        await brain.service.take([heard(harness, run, 2, Beat())])
        assert await state(brain, run) is RunState.RUNNING
        await silence(harness, brain, 901)
        assert await state(brain, run) is RunState.LOST


async def test_a_launch_that_cannot_be_sent_waits_for_redis(harness: Harness) -> None:
    async def away(order: object) -> None:
        raise Unavailable("Redis is away.")

    async with harness.open() as brain:
        launch = harness.fleet.submit
        harness.fleet.submit = away  # type: ignore[method-assign, assignment]
        run = await started(brain)
        assert await state(brain, run) is RunState.STARTING
        harness.fleet.submit = launch  # type: ignore[method-assign]
        harness.clock.forward(21)
        await brain.service.tick()
        assert len(harness.fleet.launched) == 1


async def test_stop_is_hinted_until_the_host_answers(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await started(brain)
        await brain.service.take([heard(harness, run, 1, Started(model="m", total_steps=9))])
        assert "is stopping" in await brain.service.stop(run.id)
        harness.clock.forward(21)
        await brain.service.take([heard(harness, run, 2, Beat())])  # it lives, and still it may have missed the order
        await brain.service.tick()
        assert len(harness.fleet.stopped) == 2
        await brain.service.tick()
        assert len(harness.fleet.stopped) == 2
        await silence(harness, brain, 901)
        assert await state(brain, run) is RunState.LOST
        with pytest.raises(Conflict, match="nothing to stop"):
            await brain.service.stop(run.id)


async def test_the_live_card_follows_the_run(harness: Harness, tmp_path: Path) -> None:
    async with harness.open() as brain:
        run = await started(brain)
        await brain.service.take([heard(harness, run, 1, Started(model="m", total_steps=9))])
        await harness.until(
            lambda: any(
                c.card and c.card.title.startswith(run.id) and c.card.facts[0].value == "running"
                for c in harness.adapter.shown
            )
        )
        cards = [c for c in harness.adapter.shown if c.card and c.card.title.startswith(run.id)]
        assert len(cards) == 1


async def test_nobody_is_silent_while_the_bot_does_not_listen(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await started(brain, spec=ONCE)
        await brain.service.take([heard(harness, run, 1, Started(model="m", total_steps=9))])
    harness.clock.forward(3600)
    async with harness.open() as brain:
        await brain.service.tick()
        assert await state(brain, run) is RunState.RUNNING
        harness.clock.forward(3600)  # the machine slept
        await brain.service.tick()
        assert await state(brain, run) is RunState.RUNNING
        await silence(harness, brain, 901)
        assert await state(brain, run) is RunState.LOST


async def test_a_lost_run_whose_host_comes_back_with_a_result_is_not_lost(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await started(brain, spec=ONCE)
        await brain.service.take([heard(harness, run, 1, Started(model="m", total_steps=9))])
        await silence(harness, brain, 931)
        assert await state(brain, run) is RunState.LOST
        await brain.service.take(
            [heard(harness, run, 2, Ended(outcome=Outcome(state=RunState.FAILED, reason="Boom.")))]
        )
        assert await state(brain, run) is RunState.FAILED
        await harness.until(lambda: any(f"Run `{run.id}` failed. Boom." in text for text in harness.adapter.texts()))
        assert not any("is lost" in text for text in harness.adapter.texts())


async def test_stopped_before_its_host_took_it_does_not_wait_for_ever(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await started(brain)
        await brain.service.stop(run.id)
        await silence(harness, brain, 150)
        assert await state(brain, run) is RunState.STOPPED


async def test_a_stop_that_cannot_be_sent_is_sent_later(harness: Harness) -> None:
    async def away(order: object, *, host: str) -> None:
        raise Unavailable("Redis is away.")

    async with harness.open() as brain:
        run = await started(brain)
        stop, harness.fleet.cancel = harness.fleet.cancel, away  # type: ignore[method-assign, assignment]
        assert "is stopping" in await brain.service.stop(run.id)
        harness.fleet.cancel = stop  # type: ignore[method-assign]
        harness.clock.forward(21)
        await brain.service.tick()
        assert len(harness.fleet.stopped) == 1


async def test_a_stop_that_meets_a_changing_state_still_holds(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await started(brain)
        get = brain.stores.runs.get

        async def starts_meanwhile(run_id: str) -> Run:
            brain.stores.runs.get = get  # type: ignore[method-assign]
            old = await get(run_id)
            await brain.service.take([heard(harness, run, 1, Started(model="m", total_steps=9))])
            return old

        brain.stores.runs.get = starts_meanwhile  # type: ignore[method-assign]
        await brain.service.stop(run.id)
        assert await state(brain, run) is RunState.STOPPING


async def test_one_run_that_breaks_harms_no_other(harness: Harness) -> None:
    async with harness.open() as brain:
        first, second = await started(brain, "t1"), await started(brain, "t2")
        launch = harness.fleet.submit

        async def breaks(order: LaunchOrder) -> None:
            if order.run == first.id:
                raise ZeroDivisionError
            await launch(order)

        harness.fleet.submit = breaks  # type: ignore[method-assign]
        harness.clock.forward(21)
        await brain.service.tick()
        assert [order.run for order in harness.fleet.launched] == [first.id, second.id, second.id]


async def test_a_redrawing_reads_windows_and_the_newest_rows_only(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await started(brain)

        async def everything(run_id: str, *_: object, **__: object) -> Sequence[MetricRow]:
            raise AssertionError(f"all metrics of {run_id} were read")

        brain.stores.runs.metrics = everything  # type: ignore[method-assign]
        for seq in (1, 2, 3):
            rows = tuple(MetricRow(step=100 * seq + n, at=1.0, values={"loss": 1 / seq}) for n in range(100))
            await brain.service.take([heard(harness, run, seq, Measured(rows=rows))])
            await brain.cards.refresh(run.id)
        await harness.until(lambda: len(harness.charts.drawn[-1].panels[0].series[0].x) == 300)
        await brain.service.take([heard(harness, run, 4, Ended(outcome=Outcome(state=RunState.FAILED)))])
        await harness.until(lambda: any("failed" in text for text in harness.adapter.texts()))


async def test_nan_is_neither_the_lowest_nor_the_highest(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await started(brain)
        rows = tuple(MetricRow(step=n, at=1.0, values={"loss": value}) for n, value in enumerate((math.nan, 2.0, 1.0)))
        await brain.service.take([heard(harness, run, 1, Measured(rows=rows))])
        await brain.router.accept(commanded("metrics", run.id))
        await harness.until(lambda: len(harness.adapter.whispers) == 1)
        card = harness.adapter.whispers[0][1].card
        assert card is not None
        assert card.table is not None
        assert card.table.rows == (("loss", "nan", "1", "1", "2"),)


async def test_a_number_that_no_database_holds_costs_nothing_else(harness: Harness) -> None:
    huge = 99999999999999999999
    rows = tuple(MetricRow(step=step, at=1.0, values={"loss": 1.0}) for step in (1, huge, -huge, 2))
    async with harness.open() as brain:
        run = await started(brain)
        bodies = (Started(model="m", total_steps=huge), Measured(rows=rows), Saved(step=huge, size_bytes=1))
        await brain.service.take([heard(harness, run, seq, body) for seq, body in enumerate(bodies, start=1)])
        found = await brain.stores.runs.get(run.id)
        assert (found.state, found.step, found.total_steps) == (RunState.RUNNING, 2, None)
        series = await brain.stores.runs.metrics(run.id)
        assert [row.step for row in series] == [1, 2]
        outcome = Outcome(state=RunState.STOPPED, checkpoint_step=huge)
        await brain.service.take([heard(harness, run, 4, Ended(outcome=outcome))])
        assert await state(brain, run) is RunState.STOPPED
