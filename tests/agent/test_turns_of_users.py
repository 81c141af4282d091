"""The fair queue over a real database: two users with long queues on one slot take turns."""

from pathlib import Path

from agent.domain.events import Accepted, Ended, Started
from agent.domain.runs import Outcome, RunState
from agent.storage.database import Database
from tests.agent.engine import engine_on
from tests.fakes import host


async def test_who_asked_for_much_first_does_not_keep_others_waiting_for_all_of_it(tmp_path: Path) -> None:
    order: list[str] = []
    async with engine_on(Database(f"sqlite:///{tmp_path / 'runs.db'}")) as engine:
        engine.fleet.infos = (host("gpu-1", slots=1),)
        for number in range(6):
            await engine.create(token=f"a{number}", user="slack/T/alice")
        for number in range(3):
            await engine.create(token=f"b{number}", user="slack/T/bob")
        for _ in range(9):
            await engine.service.tick()
            (run,) = await engine.runs.in_state([RunState.STARTING])
            order.append(run.requester[-1])
            await engine.says(run, Accepted(boot_id="b"), Started(model="m", total_steps=1))
            engine.clock.forward(3600.0)
            await engine.says(run, Ended(outcome=Outcome(state=RunState.SUCCEEDED, seconds=3600.0)))
    first_seven = "".join(order[:7])
    assert first_seven.count("b") == 3, order
    assert "eeee" not in first_seven, order
