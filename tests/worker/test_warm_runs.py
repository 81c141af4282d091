"""Whole runs whose steps begin warm, behind bubblewrap. Real workers, zygotes and sandboxes."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.domain.runs import ExitClass, RunState
from tests.worker.conftest import ENDLESS, GOOD, Yard, eventually, opened
from tests.worker.warm_host import alive, until
from worker.folders import HostFolder
from worker.host.processes import descendants_of
from worker.sandbox.tiers import why_not
from worker.warm.sets import ready_sets

AGAIN = """
start()
if os.environ["TRAINYARD_ATTEMPT"] == "1":
    sys.exit(3)
for name in ("spool-1.jsonl", "spool.jsonl", "order.json"):
    try:
        open(name, "a").close()
        sys.exit(f"{name} can be written")
    except OSError:
        pass
finish()
"""


@contextlib.contextmanager
def warm(home: Path, **extra: str) -> Iterator[Yard]:
    """A host whose trainings begin warm, behind bubblewrap."""
    if why := why_not("bwrap"):
        pytest.skip(f"nothing begins warm here: {why}")
    with opened(home, sandbox="bwrap") as found:
        found.extra |= {"TRAINYARD_WARM": "data,tabular", **extra}
        found.start_worker()
        folder = HostFolder.of(found.home, found.host).warm
        until(lambda: {"data", "tabular"} <= set(ready_sets(folder)) or None, lambda: f"ready: {ready_sets(folder)}")
        yield found


@pytest.fixture(scope="module")
def warm_yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """One for the tests that leave it as it was."""
    with warm(tmp_path_factory.mktemp("warm") / "yard") as found:
        yield found


def began_cold(yard: Yard, run: str) -> bool:
    return "cold_start" in (yard.folder(run).path / "supervisor.log").read_text()


async def test_all_steps_of_a_run_begin_warm(warm_yard: Yard) -> None:
    await warm_yard.launch(warm_yard.order("r-warm01", GOOD, sandbox="bwrap"))
    outcome = warm_yard.outcome("r-warm01")
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert not began_cold(warm_yard, "r-warm01")
    warm_yard.gone("r-warm01")


async def test_a_later_attempt_sees_what_supervisors_wrote_read_only(warm_yard: Yard) -> None:
    await warm_yard.launch(warm_yard.order("r-warm02", AGAIN, sandbox="bwrap"))
    assert warm_yard.outcome("r-warm02").exit_code == 3
    await warm_yard.launch(warm_yard.order("r-warm02", AGAIN, sandbox="bwrap", attempt=2))
    outcome = warm_yard.outcome("r-warm02", attempt=2)
    assert outcome.state is RunState.SUCCEEDED, outcome
    assert not began_cold(warm_yard, "r-warm02")
    warm_yard.gone("r-warm02")


async def test_a_supervisor_that_dies_takes_the_training_along(warm_yard: Yard) -> None:
    await warm_yard.launch(warm_yard.order("r-warm03", ENDLESS, sandbox="bwrap"))
    warm_yard.running("r-warm03")
    supervisor = warm_yard.supervisor_pid("r-warm03")
    below = descendants_of(supervisor)
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not any(map(alive, below)), what="the end of its sandbox")
    outcome = warm_yard.outcome("r-warm03")  # from the sweep
    assert outcome.exit_class is ExitClass.LOST, outcome
    warm_yard.gone("r-warm03")


@pytest.mark.faults
async def test_memory_is_watched_in_a_step_that_began_warm(tmp_path: Path) -> None:
    """Without a control group: what runs is no descendant of the sandbox that the supervisor started."""
    limit = {"TRAINYARD_MEMORY_BY": "poll", "TRAINYARD_MEMORY_LIMIT_BYTES": str(400 * 2**20)}
    with warm(tmp_path / "yard", **limit) as yard:
        script = "held = bytearray(b'x') * (700 * 2**20)\nstart()\nwait_for('go-on')\n"
        await yard.launch(yard.order("r-warm04", script, sandbox="bwrap"))
        outcome = yard.outcome("r-warm04")
        assert outcome.exit_class is ExitClass.HOST_OOM, outcome
        assert not began_cold(yard, "r-warm04")
        yard.gone("r-warm04")
