"""The life of a run: pause, resume, stop, kill, retry, another script, restarts, leases, hosts that come and go."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from agent.domain.errors import Conflict, Unavailable
from agent.domain.events import (
    Accepted,
    Beat,
    Ended,
    Logged,
    Measured,
    MetricRow,
    Noted,
    Saved,
    Started,
    WorkerEvent,
    stand_in,
)
from agent.domain.orders import HostInfo
from agent.domain.runs import LIVE, ExitClass, GpuUsage, Outcome, Run, RunState, Usage
from agent.runs.life.service import Timings
from agent.runs.queue.fair import Limits
from agent.storage.database import Database
from agent.stores import LogQuery
from tests.agent.databases import on_both
from tests.agent.engine import SPEC, Engine
from tests.fakes import host

S = RunState
GPU = SPEC.model_copy(update={"gpus": 1})
BOTH = SPEC.model_copy(update={"gpus": 2})
ACCEPTED, STARTED = Accepted(boot_id="boot-1"), Started(model="m", total_steps=100)


@pytest.fixture
def engine(either_database: Database) -> Engine:
    return Engine(either_database)


def failed(exit_class: ExitClass, *, step: int | None = None, seconds: float = 60.0) -> Ended:
    reason = "It ended."
    outcome = Outcome(state=S.FAILED, exit_class=exit_class, reason=reason, seconds=seconds, checkpoint_step=step)
    return Ended(outcome=outcome)


def paused(step: int = 10, seconds: float = 60.0) -> Ended:
    return Ended(outcome=Outcome(state=S.PAUSED, checkpoint_step=step, seconds=seconds))


async def leased(engine: Engine) -> list[tuple[str, int]]:
    return [(lease.run, lease.attempt) for lease in await engine.runs.leases()]


@on_both
async def test_pause_frees_the_gpu_and_resume_goes_on_where_the_checkpoint_is(engine: Engine) -> None:
    run = await engine.create(GPU)
    await engine.says(run, ACCEPTED, STARTED, Saved(step=10, size_bytes=5))
    assert await leased(engine) == [(run.id, 1)]
    assert "is pausing" in await engine.service.pause(run.id)
    assert [(order.how, order.attempt) for order in engine.fleet.stopped] == [("pause", 1)]
    assert (await engine.now(run)).state is S.PAUSING
    run = await engine.says(run, paused())
    assert (run.state, run.used_s, run.outcome) == (S.PAUSED, 60.0, None)
    assert "step 10" in run.note
    assert await leased(engine) == []
    engine.fleet.infos = tuple(reversed(engine.fleet.infos))
    assert "attempt 2" in await engine.service.resume(run.id)
    order = engine.fleet.launched[-1]
    assert (order.attempt, order.host, order.budget_s) == (2, "gpu-1", 3540.0)
    assert [attempt.first_step for attempt in await engine.runs.attempts(run.id)] == [0, 10]


async def test_a_run_with_a_checkpoint_waits_for_its_host_unless_that_was_lost(engine: Engine) -> None:
    run = await engine.create(GPU)
    await engine.says(run, ACCEPTED, STARTED, Saved(step=10, size_bytes=5))
    await engine.service.pause(run.id)
    await engine.says(run, paused())
    engine.fleet.infos = (host("gpu-2", gpus=2),)
    assert "as soon as there is room" in await engine.service.resume(run.id)
    (waiting,) = await engine.service.queue()
    assert (waiting.position, "gpu-1, which has its checkpoint" in waiting.why) == (1, True)
    assert (await engine.now(run)).note == f"It is number 1 in line. {waiting.why}"


@on_both
async def test_a_lost_host_is_left_behind_and_its_attempt_killed_when_it_comes_back(engine: Engine) -> None:
    run = await engine.create(GPU)
    await engine.says(run, ACCEPTED, STARTED, Saved(step=10, size_bytes=5))
    engine.fleet.infos = (host("gpu-2", gpus=2),)
    await engine.passes(70)
    assert (await engine.now(run)).state is S.UNREACHABLE
    await engine.passes(860)
    run = await engine.now(run)
    assert (run.state, run.note) == (S.QUEUED, "Host gpu-1 has been silent for 15 min; restart 1 of 3 comes in 30 s.")
    assert await leased(engine) == []
    late = Measured(rows=(MetricRow(step=11, at=1.0, values={"loss": 1.0}),))
    await engine.says(run, late)  # it lives, and another attempt is on its way
    assert [(order.attempt, order.how) for order in engine.fleet.stopped] == [(1, "kill")]
    await engine.passes(40)
    run = await engine.now(run)
    assert (run.state, run.attempt, engine.fleet.launched[-1].host) == (S.STARTING, 2, "gpu-2")
    await engine.says(run, late, attempt=1)
    assert [row.step for row in await engine.runs.metrics(run.id)] == [11]  # the fence refused the second
    assert len(engine.fleet.stopped) == 2


async def test_a_host_that_was_lost_and_comes_back_with_the_result_is_believed(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, ACCEPTED, STARTED)
    await engine.passes(920)
    assert (await engine.now(run)).state is S.QUEUED
    run = await engine.says(run, Ended(outcome=Outcome(state=S.SUCCEEDED, seconds=500.0)))
    assert (run.state, run.used_s) == (S.SUCCEEDED, 500.0)
    await engine.passes(60)
    assert len(engine.fleet.launched) == 1


async def test_it_is_believed_too_where_somebody_paused_the_run_that_waited_for_its_restart(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, ACCEPTED, STARTED)
    await engine.passes(920)
    assert "was waiting and is paused" in await engine.service.pause(run.id)
    run = await engine.says(run, failed(ExitClass.USER_ERROR))
    assert run.state is S.PAUSED, "a failure changes nothing: it goes on when somebody resumes it"
    other = await engine.create(token="u")
    await engine.says(other, ACCEPTED, STARTED)
    await engine.passes(920)
    await engine.service.pause(other.id)
    other = await engine.says(other, Ended(outcome=Outcome(state=S.SUCCEEDED, seconds=500.0)))
    assert other.outcome is not None
    assert (other.state, other.used_s, other.outcome.state) == (S.SUCCEEDED, 500.0, S.SUCCEEDED)
    with pytest.raises(Conflict, match="has succeeded"):
        await engine.service.resume(other.id)


async def test_a_restart_waits_by_our_clock_not_by_that_of_its_host(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, ACCEPTED, STARTED)
    engine.clock.forward(60)
    ended = engine.event(await engine.now(run), failed(ExitClass.PREEMPTED))
    await engine.service.take([ended.model_copy(update={"at": ended.at + timedelta(hours=3)})])
    run = await engine.now(run)
    assert (run.state, run.queued_at) == (S.QUEUED, engine.clock.now())


async def test_an_end_that_cannot_be_read_is_left_to_people_and_not_called_lost(engine: Engine) -> None:
    run = await engine.create(GPU)
    await engine.says(run, ACCEPTED, STARTED)
    await engine.passes(60)
    await engine.says(run, stand_in("more"))
    run = await engine.says(run, stand_in("ended"))
    await engine.passes(2000)
    run = await engine.now(run)
    assert run.outcome is not None
    assert 60 <= run.used_s < 70  # its time counts, as that of a lost one does
    assert (run.state, run.outcome.exit_class) == (S.FAILED, None)
    assert "could not read or store that" in run.outcome.reason
    assert len(engine.fleet.launched) == 1
    assert await leased(engine) == []
    assert "is tried again" in await engine.service.retry(run.id)


async def test_a_lost_run_that_still_trains_goes_on_when_nothing_took_its_place(engine: Engine) -> None:
    run = await engine.create(GPU.model_copy(update={"auto_resume": False}))
    await engine.says(run, ACCEPTED, STARTED)
    await engine.passes(920)
    assert (await engine.now(run)).state is S.LOST
    lost = await engine.now(run)
    run = await engine.says(run, Beat())
    assert (run.state, run.outcome, await leased(engine)) == (S.RUNNING, None, [(run.id, 1)])
    assert run.used_s <= lost.used_s == 0.0  # it was heard in its first second only
    assert engine.fleet.stopped == []


async def test_a_lost_run_whose_gpu_was_given_away_is_told_to_end(engine: Engine) -> None:
    engine.fleet.infos = (host("gpu-1", gpus=1),)
    run = await engine.create(GPU.model_copy(update={"auto_resume": False}))
    await engine.says(run, ACCEPTED, STARTED)
    await engine.passes(920)
    other = await engine.create(GPU, token="u")
    assert other.state is S.STARTING
    assert (await engine.says(run, Beat())).state is S.LOST
    assert [(order.run, order.how) for order in engine.fleet.stopped] == [(run.id, "kill")]
    assert await leased(engine) == [(other.id, 1)]


async def test_a_reboot_is_noticed_at_once(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, ACCEPTED, STARTED)
    engine.clock.forward(5)
    engine.fleet.infos = (host("gpu-1", boot_id="boot-2", at=engine.clock.now()),)
    await engine.service.tick()
    run = await engine.now(run)
    assert (run.state, (await engine.runs.attempts(run.id))[0].outcome.exit_class) == (S.QUEUED, ExitClass.LOST)  # type: ignore[union-attr]


async def test_silence_does_not_count_while_the_bot_cannot_hear(engine: Engine) -> None:
    run = await engine.create(SPEC.model_copy(update={"auto_resume": False}))
    await engine.says(run, ACCEPTED, STARTED)
    engine.listening = False
    await engine.passes(3600)
    engine.listening = True
    await engine.passes(50)
    assert (await engine.now(run)).state is S.RUNNING
    await engine.passes(920)
    assert (await engine.now(run)).state is S.LOST


@pytest.mark.parametrize(
    ("exit_class", "state"),
    [
        (ExitClass.HANG, S.QUEUED),
        (ExitClass.NCCL, S.QUEUED),
        (ExitClass.CUDA_FAULT, S.QUEUED),
        (ExitClass.PREEMPTED, S.QUEUED),
        (ExitClass.USER_ERROR, S.FAILED),
        (ExitClass.CUDA_OOM, S.FAILED),
        (ExitClass.DIVERGED, S.FAILED),
    ],
)
async def test_only_what_helps_is_tried_again(engine: Engine, exit_class: ExitClass, state: RunState) -> None:
    run = await engine.create(GPU)
    run = await engine.says(run, ACCEPTED, STARTED, failed(exit_class))
    assert run.state is state
    assert (run.not_before is not None) is (state is S.QUEUED)
    assert await leased(engine) == []


async def test_restarts_come_to_an_end_and_a_person_begins_to_count_anew(engine: Engine) -> None:
    run = await engine.create()
    for step in range(1, 4):
        run = await engine.says(run, ACCEPTED, STARTED, failed(ExitClass.HANG, step=step, seconds=1.0))
        assert run.state is S.QUEUED
        assert f"restart {step} of 3 comes in {seconds_of(30 * 2 ** (step - 1))}" in run.note
        await engine.passes(30 * 2 ** (step - 1) + 20)
    run = await engine.says(run, ACCEPTED, failed(ExitClass.HANG, step=9, seconds=1.0))
    assert run.state is S.FAILED
    assert run.outcome is not None
    assert "restarted 3 times and still failed" in run.outcome.reason
    assert "is tried again, as attempt 5" in await engine.service.retry(run.id)
    run = await engine.says(run, ACCEPTED, failed(ExitClass.HANG, step=9, seconds=1.0))
    assert "restart 1 of 3" in run.note


def seconds_of(value: float) -> str:
    return f"{value:.0f} s" if value < 100 else f"{value / 60:.0f} min"


async def test_hours_that_are_used_up_are_not_used_again(engine: Engine) -> None:
    run = await engine.create()
    run = await engine.says(run, ACCEPTED, STARTED, failed(ExitClass.HANG, seconds=3600.0))
    assert run.state is S.FAILED
    assert run.outcome is not None
    assert "1 hours are used up" in run.outcome.reason
    for wish in (engine.service.retry(run.id), engine.service.update_script(run.id, "c" * 64, was="b" * 64)):
        with pytest.raises(Conflict, match="has used the 1 hour that were approved"):
            await wish


@pytest.mark.parametrize("wish", ["stop", "kill", "pause"])
async def test_a_wish_decides_what_a_preemption_means(engine: Engine, wish: str) -> None:
    run = await engine.create(GPU)
    await engine.says(run, ACCEPTED, STARTED)
    await getattr(engine.service, wish)(run.id)
    run = await engine.says(run, failed(ExitClass.PREEMPTED, step=3))
    assert run.state is (S.PAUSED if wish == "pause" else S.STOPPED)
    assert await leased(engine) == []


async def test_kill_overtakes_stop_and_stop_overtakes_pause(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, ACCEPTED, STARTED)
    for wish in ("pause", "stop", "kill"):
        await getattr(engine.service, wish)(run.id)
    said = await engine.service.stop(run.id)  # does not turn a kill into a stop
    assert "is being killed already" in said
    assert "saves a checkpoint" not in said
    assert [order.how for order in engine.fleet.stopped] == ["pause", "stop", "kill", "kill"]
    engine.restart()
    await engine.passes(60)
    assert {order.how for order in engine.fleet.stopped[4:]} == {"kill"}
    assert (await engine.says(run, failed(ExitClass.KILLED))).state is S.STOPPED


@on_both
async def test_another_script_takes_over_after_a_checkpoint_and_the_old_one_is_kept(engine: Engine) -> None:
    run = await engine.create(GPU)
    await engine.says(run, ACCEPTED, STARTED, Saved(step=10, size_bytes=5))
    assert "Version 2" in await engine.service.update_script(run.id, "c" * 64, was="b" * 64)
    assert engine.fleet.stopped[-1].how == "pause"
    run = await engine.says(run, paused())
    assert (run.state, run.script, run.spec.bundle_sha256) == (S.QUEUED, 2, "c" * 64)
    await engine.service.tick()
    assert (engine.fleet.launched[-1].attempt, engine.fleet.launched[-1].spec.bundle_sha256) == (2, "c" * 64)
    versions = [(script.version, script.bundle_sha256[0]) for script in await engine.runs.scripts(run.id)]
    assert versions == [(1, "b"), (2, "c")]


@pytest.mark.parametrize("state", [S.QUEUED, S.RUNNING, S.PAUSED, S.FAILED])
async def test_of_two_scripts_for_one_program_one_is_taken_and_the_same_one_only_once(
    engine: Engine, state: RunState
) -> None:
    run = await in_state(engine, state, "t")

    async def change(new: str) -> str:
        return await engine.service.update_script(run.id, new * 64, was="b" * 64)

    said = await asyncio.gather(change("c"), change("c"), change("d"), change("d"), return_exceptions=True)
    taken = [text for text in said if isinstance(text, str)]
    refused = [error for error in said if isinstance(error, Conflict)]
    assert (len(taken), len(refused)) == (2, 2)
    assert sum("it is version 2" in text for text in taken) == 1
    assert all("has changed since" in error.text for error in refused)
    versions = await engine.runs.scripts(run.id)
    assert [one.version for one in versions] == [1, 2]
    assert (await engine.now(run)).spec.bundle_sha256 == versions[-1].bundle_sha256


async def test_a_program_is_compared_where_it_is_replaced(engine: Engine) -> None:
    run = await in_state(engine, S.PAUSED, "t")

    async def replace(new: str) -> int | None:
        at = engine.clock.now()
        return await engine.runs.replace_script(
            run.id, expect=S.PAUSED, to=S.PAUSED, was="b" * 64, bundle_sha256=new * 64, at=at
        )

    assert await replace("c") == 2
    assert await replace("d") is None
    assert (await engine.now(run)).spec.bundle_sha256 == "c" * 64


async def test_another_script_mends_a_run_that_failed(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, ACCEPTED, failed(ExitClass.USER_ERROR))
    assert "in the queue" in await engine.service.update_script(run.id, "c" * 64, was="b" * 64)
    run = await engine.now(run)
    assert (run.state, run.attempt, run.outcome) == (S.STARTING, 2, None)


async def test_resume_while_it_pauses_puts_it_back_into_the_queue(engine: Engine) -> None:
    run = await engine.create()
    await engine.says(run, ACCEPTED, STARTED)
    await engine.service.pause(run.id)
    assert "as soon as it has paused" in await engine.service.resume(run.id)
    assert (await engine.says(run, paused())).state is S.QUEUED


async def test_what_never_reached_a_host_is_paused_or_stopped_without_it(engine: Engine) -> None:
    async def away(order: object) -> None:
        raise Unavailable("Redis is away.")

    engine.fleet.submit = away  # type: ignore[method-assign, assignment]
    first, second = await engine.create(GPU), await engine.create(GPU, token="u")
    await engine.service.pause(first.id)
    await engine.service.stop(second.id)
    await engine.service.tick()
    assert ((await engine.now(first)).state, (await engine.now(second)).state) == (S.PAUSED, S.STOPPED)
    assert await leased(engine) == []


STATES = {
    S.QUEUED: {"resume", "retry"},
    S.RUNNING: {"resume", "retry"},
    S.PAUSING: {"retry"},
    S.PAUSED: {"pause", "retry"},
    S.STOPPING: {"pause", "resume", "retry", "update_script"},
    S.STOPPED: {"pause", "resume", "stop", "kill", "prioritise"},
    S.SUCCEEDED: {"pause", "resume", "retry", "stop", "kill", "update_script", "prioritise"},
    S.FAILED: {"pause", "resume", "stop", "kill", "prioritise"},
    S.LOST: {"pause", "resume", "stop", "kill", "prioritise"},
}
WISHES = ("pause", "resume", "stop", "kill", "retry", "update_script", "prioritise")


async def in_state(engine: Engine, state: RunState, token: str) -> Run:
    """A run that got there by the ways that there are."""
    if state is S.QUEUED:
        engine.fleet.connected = False
    run = await engine.create(SPEC.model_copy(update={"auto_resume": False}), token=token)
    engine.fleet.connected = True
    if state is S.QUEUED:
        return run
    await engine.says(run, ACCEPTED, STARTED)
    if state in (S.PAUSING, S.PAUSED):
        await engine.service.pause(run.id)
    if state in (S.STOPPING, S.STOPPED):
        await engine.service.stop(run.id)
    if state in (S.PAUSED, S.STOPPED, S.SUCCEEDED, S.FAILED):
        await engine.says(run, Ended(outcome=Outcome(state=state)))
    if state is S.LOST:
        await engine.passes(920)
    return await engine.now(run)


@pytest.mark.parametrize("state", list(STATES))
async def test_every_illegal_wish_is_refused_with_a_sentence_and_changes_nothing(
    engine: Engine, state: RunState
) -> None:
    for wish in WISHES:
        run = await in_state(engine, state, wish)
        assert run.state is state
        change = {"bundle_sha256": "c" * 64, "was": run.spec.bundle_sha256}
        arguments: dict[str, Any] = {"update_script": change, "prioritise": {"priority": 1}}.get(wish, {})
        if wish not in STATES[state]:
            assert run.id in await getattr(engine.service, wish)(run.id, **arguments)
            continue
        with pytest.raises(Conflict) as refused:
            await getattr(engine.service, wish)(run.id, **arguments)
        assert run.id in refused.value.text
        assert refused.value.text.endswith(".")
        assert await engine.now(run) == run


async def test_a_gang_gets_all_of_its_gpus_or_none(engine: Engine) -> None:
    one = await engine.create(GPU)
    assert await engine.runs.dispatch(one.id, host="gpu-1", gpus=["x"], at=engine.clock.now()) is None
    engine.fleet.connected = False
    gang = await engine.create(BOTH, token="u")
    taken, free = (await engine.runs.leases())[0].uuid, "GPU-gpu-1-9"
    assert await engine.runs.dispatch(gang.id, host="gpu-1", gpus=[free, taken], at=engine.clock.now()) is None
    assert (await engine.now(gang)).state is S.QUEUED
    assert await leased(engine) == [(one.id, 1)]
    engine.fleet.connected = True
    await engine.service.tick()
    assert sorted(await leased(engine)) == sorted([(one.id, 1), (gang.id, 1), (gang.id, 1)])


@on_both
async def test_of_many_dispatchers_of_one_gpu_exactly_one_wins(engine: Engine) -> None:
    engine.fleet.connected = False
    waiting = [await engine.create(GPU, token=str(n), user=f"u{n}") for n in range(10)]
    now = engine.clock.now()
    won = await asyncio.gather(*(engine.runs.dispatch(run.id, host="h", gpus=["g"], at=now) for run in waiting))
    assert sum(result is not None for result in won) == 1
    assert len(await leased(engine)) == 1


async def test_the_queue_says_who_is_next_and_why_they_wait(engine: Engine) -> None:
    engine.fleet.infos = (host("gpu-1", gpus=1),)
    first = await engine.create(GPU)
    second = await engine.create(GPU, token="2")
    engine.clock.forward(1)
    third = await engine.create(GPU, token="3")
    assert [(place.run.id, place.position) for place in await engine.service.queue()] == [(second.id, 1), (third.id, 2)]
    assert "number 1 in the queue" in await engine.service.prioritise(third.id, 1)
    places = await engine.service.queue()
    assert [place.run.id for place in places] == [third.id, second.id]
    assert "The one GPU that it may use is in use by your own run r-" in places[0].why
    await engine.says(first, ACCEPTED, STARTED, failed(ExitClass.USER_ERROR))
    await engine.service.tick()
    assert engine.fleet.launched[-1].run == third.id


@on_both
async def test_nobody_fills_the_queue_alone(engine: Engine) -> None:
    engine.timings = Timings(limits=Limits(queued_per_user=2))
    engine.restart()
    engine.fleet.connected = False
    for token in ("1", "2"):
        await engine.create(token=token)
    with pytest.raises(Conflict, match="You have 2 runs waiting"):
        await engine.create(token="3")
    assert (await engine.create(token="2")).state is S.QUEUED  # a repetition is no new run
    assert (await engine.create(token="4", user="bob")).state is S.QUEUED


def with_gpus(info: HostInfo, **of_first: object) -> HostInfo:
    return info.model_copy(update={"gpus": (info.gpus[0].model_copy(update=of_first), *info.gpus[1:])})


async def test_sick_and_cordoned_gpus_get_nothing_until_they_are_well(engine: Engine) -> None:
    well = host("gpu-1", gpus=1)
    engine.fleet.infos = (with_gpus(well, sick="Xid 79"),)
    run = await engine.create(GPU)
    assert run.state is S.QUEUED
    await engine.service.tick()
    assert [(cordon.reason, cordon.sticky) for cordon in await engine.runs.cordons()] == [("Xid 79", False)]
    engine.fleet.infos = (well,)
    await engine.service.tick()
    assert (await engine.now(run)).state is S.STARTING
    assert list(await engine.runs.cordons()) == []
    await engine.runs.cordon("gpu-1", well.gpus[0].uuid, "It smells.", at=engine.clock.now(), sticky=True)
    await engine.says(run, ACCEPTED, failed(ExitClass.HANG))
    await engine.passes(60)
    assert (await engine.now(run)).state is S.QUEUED
    assert await engine.runs.uncordon("gpu-1", well.gpus[0].uuid)
    await engine.service.tick()
    assert (await engine.now(run)).state is S.STARTING


async def test_what_hosts_say_can_be_read(engine: Engine) -> None:
    run = await engine.create(GPU)
    usage = Usage(cpus=1.5, memory_bytes=10, gpus=(GpuUsage(uuid="g", busy=0.9, memory_bytes=7),))
    run = await engine.says(
        run, ACCEPTED, STARTED, Saved(step=5, size_bytes=9), Noted(text="TERM sent"), Beat(usage=usage)
    )
    assert run.usage == usage
    assert [(saved.attempt, saved.step, saved.size_bytes) for saved in await engine.runs.checkpoints(run.id)] == [
        (1, 5, 9)
    ]
    assert [note.text for note in await engine.runs.notes(run.id)] == ["TERM sent"]
    (attempt,) = await engine.runs.attempts(run.id)
    assert (attempt.boot_id, attempt.sent, attempt.gpus) == ("boot-1", 1, ("GPU-gpu-1-0",))
    lines = ("INFO start", "WARNING: slow disk", "Ünïcode ÄRGER", "ValueError: no", "100% done_well")
    await engine.says(run, Logged(lines=lines, dropped=3))

    async def page(**query: object) -> tuple[str, ...]:
        return (await engine.runs.log_page(run.id, LogQuery(**query))).lines  # type: ignore[arg-type]

    assert await page() == (*lines, "… 3 lines dropped")
    assert await page(contains="ünïcode ärger") == (lines[2],)
    assert await page(contains="%") == (lines[4],)
    assert await page(contains="_") == (lines[4],)
    assert await page(level="error") == (lines[3],)
    assert await page(level="warning") == (lines[1], lines[3], "… 3 lines dropped")
    newest = await engine.runs.log_page(run.id, LogQuery(limit=4))
    older = await engine.runs.log_page(run.id, LogQuery(limit=4, before=newest.older))
    assert (*older.lines, *newest.lines) == (*lines, "… 3 lines dropped")
    assert older.older is None


@on_both
async def test_events_in_any_order_are_stored_once_each(engine: Engine) -> None:
    run = await engine.create()
    rows = [Measured(rows=(MetricRow(step=n, at=1.0, values={"loss": 1.0}),)) for n in range(60)]
    events: list[WorkerEvent] = [engine.event(run, row) for row in rows]
    shuffled = [events[n * 7 % 60] for n in range(60)]
    for start in range(0, 60, 9):
        await engine.service.take(shuffled[start : start + 9])
        await engine.service.take(shuffled[max(0, start - 5) : start + 3])
    assert [row.step for row in await engine.runs.metrics(run.id)] == list(range(60))


async def test_many_events_of_a_run_are_one_change(engine: Engine) -> None:
    run = await engine.create()
    engine.changed.clear()
    await engine.says(run, *[Beat() for _ in range(200)])
    assert engine.changed == [run.id]


async def test_the_resend_of_a_hint_waits_while_redis_hangs(engine: Engine) -> None:
    calls = 0

    async def away(order: object) -> None:
        nonlocal calls
        calls += 1
        raise Unavailable("Redis hangs.")

    engine.fleet.submit = away  # type: ignore[method-assign, assignment]
    for token in ("1", "2", "3"):
        await engine.create(token=token, user=token)
    calls = 0
    await engine.service.tick()
    assert calls == 1  # each trial may take seconds: one of them is enough for a tick
    assert all(run.state in LIVE for run in await engine.runs.recent(5))
    assert timedelta(seconds=engine.timings.order_lives_s) == timedelta(minutes=1)
