"""A run from the order to its outcome, on a real host."""

from agent.domain.events import Accepted, Logged, Measured, Started
from agent.domain.runs import ExitClass, RunState
from tests.worker.conftest import GOOD, Yard


async def test_a_run_goes_from_order_to_outcome(yard: Yard) -> None:
    await yard.launch(yard.order("r-good00", GOOD))
    outcome = yard.outcome("r-good00")
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert outcome.scorecard is not None
    assert outcome.scorecard.beats_baseline
    assert outcome.chosen == "the tiny one"
    events = yard.events("r-good00")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    bodies = [event.body for event in events]
    assert isinstance(bodies[0], Accepted)
    assert [body.model for body in bodies if isinstance(body, Started)] == ["tiny"]
    rows = [row for body in bodies if isinstance(body, Measured) for row in body.rows]
    assert [row.step for row in rows] == [1, 2, 3]
    lines = [line for body in bodies if isinstance(body, Logged) for line in body.lines]
    assert "trained" in lines
    assert outcome.artifact is not None
    assert outcome.artifact.files == ("config.json", "model.txt")
    assert yard.blobs.get_file(outcome.artifact.sha256).stat().st_size == outcome.artifact.size_bytes
    yard.gone("r-good00")
