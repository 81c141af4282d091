"""Several engines: a run goes to the one that it names, which is said before people are asked."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal

import pytest

from agent.domain.errors import BadRequest, Conflict, Unavailable
from agent.domain.events import Accepted, Beat, Ended, Started, WorkerEvent
from agent.domain.orders import AttemptLabel, LaunchOrder
from agent.domain.runs import Outcome, RunState
from agent.ports import Capabilities
from agent.runs.polling import PolledFeed
from bot.relay import relay
from tests.agent.conftest import Harness
from tests.agent.engine import SPEC
from tests.agent.stage import BOOT, Stage
from tests.agent.test_changing import card_of, facts, table
from tests.agent.test_own_scripts import PROGRAM, attach, cards
from tests.fakes import FakeFleet, clicked, engines_of, host, said

ON_CLOUD = SPEC.model_copy(update={"engine": "cloud", "host": "cloud-1"})


@pytest.fixture
def cloud(harness: Harness) -> FakeFleet:
    """A second engine with one host, which charges."""
    cloud = FakeFleet()
    cloud.name = "cloud"
    cloud.an_hour = Decimal("1.5")
    cloud.infos = (host("cloud-1", engine="cloud"),)
    harness.others = (cloud,)
    return cloud


async def test_a_card_names_the_engine_and_what_it_charges_and_the_run_goes_there(
    harness: Harness, cloud: FakeFleet
) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        files = attach(harness.folder, train__py=PROGRAM)
        await brain.router.accept(said("start train.py engine=cloud hours=3", files=files))
        asked = await stage.asked()
        assert facts(asked)["Engine"] == "cloud"
        assert facts(asked)["Host"].startswith("cloud-1")
        assert facts(asked)["Cost"] == "stops at 3 h 00 min, $4.50 at most ($1.50 an hour)"
        await brain.router.accept(clicked(card_of(asked).buttons[0]))
        await harness.until(lambda: bool(cloud.launched))
        assert harness.fleet.launched == []
        run = cloud.launched[0].run
        await brain.router.accept(said(f"clone {run} engine=hosts"))
        await harness.until(lambda: any("again" in card.title for card in cards(harness)))
        shown = next(one for one in harness.adapter.shown if one.card and "again" in one.card.title)
        assert table(shown)["engine"] == ("cloud", "hosts")
        assert "Engine" not in facts(shown)
        assert facts(shown)["Cost"] == "stops at 3 h 00 min"


async def test_an_engine_that_is_not_there_is_refused_before_anybody_is_asked(
    harness: Harness, cloud: FakeFleet
) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        said_back = await stage.tells("start train.py engine=kaggle", files=attach(harness.folder, train__py=PROGRAM))
        assert "There is no engine `kaggle` here. Engines: hosts, cloud." in said_back
        assert not any(content.card and content.card.kind == "approval" for content in harness.adapter.shown)


async def test_what_is_to_end_is_told_to_its_own_engine(harness: Harness, cloud: FakeFleet) -> None:
    async with harness.open() as brain:
        run = await Stage(harness, brain).running(ON_CLOUD)
        await brain.service.kill(run.id)
    assert ([order.how for order in cloud.stopped], harness.fleet.stopped) == (["kill"], [])


async def test_an_engine_that_cannot_pause_says_so_and_the_run_goes_on(harness: Harness, cloud: FakeFleet) -> None:
    cloud.capabilities = Capabilities(pauses=False)
    async with harness.open() as brain:
        run = await Stage(harness, brain).running(ON_CLOUD)
        with pytest.raises(Conflict, match="on the engine cloud, which cannot pause a run"):
            await brain.service.pause(run.id)
        with pytest.raises(Conflict, match="cannot pause"):
            await brain.service.update_script(run.id, "c" * 64, was=SPEC.bundle_sha256)
        assert (await brain.stores.runs.get(run.id)).state is RunState.RUNNING


async def test_one_engine_that_is_away_holds_up_no_other(harness: Harness, cloud: FakeFleet) -> None:
    async def away(order: LaunchOrder) -> None:
        raise Unavailable("It does not answer.")

    cloud.submit = away  # type: ignore[method-assign]
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        stuck, fine = await stage.create(ON_CLOUD), await stage.create()
        assert [order.run for order in harness.fleet.launched] == [fine.id]
        assert (await brain.stores.runs.get(stuck.id)).state is RunState.STARTING


async def test_a_run_waits_for_a_host_of_its_engine(harness: Harness, cloud: FakeFleet) -> None:
    cloud.infos = ()
    async with harness.open() as brain:
        run = await Stage(harness, brain).create(ON_CLOUD)
        assert (run.state, harness.fleet.launched) == (RunState.QUEUED, [])
        assert "No host of the engine cloud is connected" in run.note


async def test_an_attempt_that_its_engine_has_is_not_begun_elsewhere(harness: Harness) -> None:
    async with harness.open() as brain:
        run = await Stage(harness, brain).create()
        harness.fleet.began.add((run.id, 1))
        for _ in range(6):
            harness.clock.forward(40)
            await brain.service.tick()
        assert (await brain.stores.runs.get(run.id)).state is RunState.STARTING
        harness.fleet.began.clear()
        await brain.service.tick()
        assert (await brain.stores.runs.get(run.id)).state is RunState.QUEUED


async def test_the_hosts_of_an_engine_that_answers_are_known_while_another_is_away() -> None:
    class Away(FakeFleet):
        async def hosts(self) -> Sequence[object]:  # type: ignore[override]
            raise Unavailable("It does not answer.")

    away, here = Away(), FakeFleet()
    away.name = "away"
    assert [info.host for info in await engines_of(away, here).hosts()] == ["gpu-1"]
    with pytest.raises(Unavailable):
        await engines_of(away).hosts()
    with pytest.raises(BadRequest, match="Engines: away, hosts"):
        engines_of(away, here).named("nothing")


class Log:
    """The events of attempts, in order; those behind a number are handed out a few at a time."""

    def __init__(self, events: Sequence[WorkerEvent]) -> None:
        self.events_, self.asked, self.away = events, [0], False

    async def events(self, label: AttemptLabel, after: int) -> Sequence[WorkerEvent]:
        self.asked.append(after)
        if self.away:
            raise Unavailable("It does not answer.")
        mine = [event for event in self.events_ if (event.run, event.attempt) == (label.run, label.attempt)]
        return [event for event in mine if event.seq > after][:2]


async def test_a_polled_engine_is_asked_from_where_the_database_stands(harness: Harness, cloud: FakeFleet) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run, other = await stage.create(ON_CLOUD), await stage.create()
        end = Ended(outcome=Outcome(state=RunState.SUCCEEDED))
        bodies = (Accepted(boot_id=BOOT), Started(model="m", total_steps=3), Beat(), Beat(), end)
        log = Log(
            [
                WorkerEvent(run=id_, attempt=1, seq=seq, host="cloud-1", at=harness.clock.now(), body=body)
                for id_ in (run.id, other.id)
                for seq, body in enumerate(bodies, start=1)
            ]
        )
        runs = brain.stores.runs
        first = PolledFeed("cloud", log, runs, pause_s=0.001)
        await brain.service.take([event for _, event in await first.read()])
        await first.read()  # what was read and not stored is read again by the next bot
        assert (await runs.get(run.id)).state is RunState.RUNNING
        log.away, log.asked = True, []
        second = PolledFeed("cloud", log, runs, pause_s=0.001)
        assert (await second.read(), second.away) == ([], True)
        log.away = False
        serving = asyncio.create_task(relay(second, brain.service))
        while (await runs.get(run.id)).state is not RunState.SUCCEEDED:
            await asyncio.sleep(0.005)
        serving.cancel()
        assert log.asked[:3] == [2, 2, 4]
        assert not second.away
        assert (await runs.attempts(run.id))[-1].seen_to == len(bodies)
        assert (await runs.get(other.id)).state is RunState.STARTING
