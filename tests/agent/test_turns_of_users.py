"""The fair queue over a real database: who asks later does not wait for all that somebody asked for before."""

from pathlib import Path

from agent.domain.events import Accepted, Ended, Started
from agent.domain.runs import Outcome, RunState
from tests.agent.databases import sqlite
from tests.agent.engine import Engine, engine_on
from tests.fakes import host


async def one_hour(engine: Engine) -> str:
    """The run on the only slot trains for an hour and succeeds; whose it was."""
    await engine.service.tick()
    (run,) = await engine.runs.in_state([RunState.STARTING])
    await engine.says(run, Accepted(boot_id="b"), Started(model="m", total_steps=1))
    engine.clock.forward(3600.0)
    await engine.says(run, Ended(outcome=Outcome(state=RunState.SUCCEEDED, seconds=3600.0)))
    return run.requester.rpartition("/")[2]


async def test_who_asked_for_much_first_does_not_keep_others_waiting_for_all_of_it(tmp_path: Path) -> None:
    async with engine_on(sqlite(tmp_path / "runs.db")) as engine:
        engine.fleet.infos = (host("gpu-1", slots=1),)
        for number in range(9):
            await engine.create(token=f"a{number}", user="slack/T/alice")
        order = [await one_hour(engine) for _ in range(2)]
        assert order == ["alice", "alice"]
        engine.clock.forward(60.0)
        for number in range(3):
            await engine.create(token=f"b{number}", user="slack/T/bob")
        order = [await one_hour(engine) for _ in range(7)]
    assert order.count("bob") == 3, order  # in turns, from soon on; by age alone all of alice's seven would go first
