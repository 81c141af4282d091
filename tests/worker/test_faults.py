"""Things die, and the truth survives: worker, supervisor, Redis."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from agent.domain.events import Measured
from agent.domain.runs import ExitClass, RunState
from tests.worker.conftest import ENDLESS, GOOD, LIMIT_S, Yard, eventually
from worker.folders import HostFolder, read_fence, write_atomically
from worker.launches.sweep import Sweep
from worker.reporting.sender import sent_notes


@pytest.fixture
def served_yard(yard: Yard) -> Yard:
    """The module's host: its Redis answers and its worker lives, whatever the test before did to them."""
    if yard.workers[-1].poll() is not None:
        yard.start_worker()
        yard.waits()
    return yard


def steps_of(yard: Yard, run: str) -> list[int]:
    bodies = [event.body for event in yard.events(run)]
    return [row.step for body in bodies if isinstance(body, Measured) for row in body.rows]


async def test_sigterm_ends_the_worker_and_not_the_run(served_yard: Yard) -> None:
    yard, worker = served_yard, served_yard.workers[-1]
    await yard.launch(yard.order("r-term-w", ENDLESS))
    yard.running("r-term-w")
    worker.send_signal(signal.SIGTERM)
    worker.wait(25)
    (yard.folder("r-term-w").path / "go-on").touch()
    assert yard.outcome("r-term-w").state is RunState.SUCCEEDED


def test_a_killed_supervisor_takes_the_training_with_it_at_once(host: Yard) -> None:
    """Without a worker nobody sweeps: the kernel does it."""
    host.launch_here(host.order("r-kill-p", ENDLESS))
    host.running("r-kill-p")
    os.kill(host.supervisor_pid("r-kill-p"), signal.SIGKILL)
    host.gone("r-kill-p")
    assert "ended" not in host.kinds("r-kill-p")
    Sweep(HostFolder.of(host.home, host.host), host=host.host, redis_url=host.server.url).run()
    assert host.outcome("r-kill-p").state is RunState.LOST


def test_a_run_that_hangs_is_ended_and_shows_where(host: Yard) -> None:
    host.extra = {"TRAINYARD_FIRST_STEP_QUIET_S": "1"}
    host.launch_here(host.order("r-hang00", "def stuck():\n    time.sleep(600)\nstuck()\n"))
    outcome = host.outcome("r-hang00")
    assert (outcome.state, outcome.exit_class) == (RunState.FAILED, ExitClass.HANG)
    assert any("in stuck" in line for line in outcome.traceback)


async def test_a_killed_supervisor_takes_the_training_with_it_and_is_reported(served_yard: Yard) -> None:
    yard = served_yard
    helper = "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    await yard.launch(yard.order("r-kill-s", helper + ENDLESS))
    yard.running("r-kill-s")
    os.kill(yard.supervisor_pid("r-kill-s"), signal.SIGKILL)
    yard.gone("r-kill-s")
    outcome = yard.outcome("r-kill-s")
    assert (outcome.state, outcome.exit_class) == (RunState.LOST, ExitClass.LOST)
    events = yard.events("r-kill-s")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_nothing_is_lost_while_redis_is_away(served_yard: Yard) -> None:
    yard = served_yard
    await yard.launch(yard.order("r-redis0", ENDLESS))
    yard.running("r-redis0")
    assert yard.server.pid is not None
    os.kill(yard.server.pid, signal.SIGKILL)
    yard.server.stop()
    spool = yard.folder("r-redis0").spool
    before = spool.stat().st_size
    eventually(lambda: spool.stat().st_size > before + 2000, what="a spool that grows without Redis")
    (yard.folder("r-redis0").path / "go-on").touch()
    eventually(yard.folder("r-redis0").outcome.exists, what="an outcome on disk")
    yard.server.start()
    assert yard.outcome("r-redis0").state is RunState.SUCCEEDED
    events = yard.events("r-redis0")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    steps = steps_of(yard, "r-redis0")
    assert steps == list(range(1, len(steps) + 1))
    yard.gone("r-redis0")
    await yard.launch(yard.order("r-redis1", GOOD))  # and the worker consumes again
    assert yard.outcome("r-redis1").state is RunState.SUCCEEDED


async def test_a_redis_that_forgot_everything_is_told_again(served_yard: Yard) -> None:
    yard = served_yard
    await yard.launch(yard.order("r-flush0", ENDLESS))
    yard.running("r-flush0")
    assert yard.server.pid is not None
    os.kill(yard.server.pid, signal.SIGKILL)
    yard.server.stop()
    for path in (yard.home / "redis").rglob("appendonly*"):
        if path.is_file():
            path.unlink()
    yard.server.start()
    eventually(lambda: yard.kinds("r-flush0")[:1] == ["accepted"], what="the first event again")
    (yard.folder("r-flush0").path / "go-on").touch()
    assert yard.outcome("r-flush0").state is RunState.SUCCEEDED
    events = yard.events("r-flush0")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_the_sweep_sends_what_no_supervisor_could(host: Yard) -> None:
    folder = host.folder("r-sweep0")
    folder.path.mkdir(parents=True)
    write_atomically(folder.fence, b"1")
    line = '{"run":"r-sweep0","attempt":1,"seq":%d,"host":"h1","at":"%s","body":{"kind":"beat"}}\n'
    now = datetime.now(UTC).isoformat()
    folder.spool.write_text(line % (1, now) + line % (2, now) + '{"run":"r-sw')
    sweep = Sweep(HostFolder.of(host.home, "h1"), host="h1", redis_url=host.server.url)
    assert sweep.run() == 1
    assert host.outcome("r-sweep0").state is RunState.LOST
    assert [event.seq for event in host.events("r-sweep0")] == [1, 2, 3]
    length = host.redis().xlen("trainyard:ev:h1")
    assert sweep.run() == 0
    assert host.redis().xlen("trainyard:ev:h1") == length
    host.redis().hset("trainyard:acked", "r-sweep0:1", "3")
    sweep.run()
    assert sent_notes(folder)["1"]["done"]
    assert read_fence(folder) == 1


def test_a_worker_without_redis_says_what_to_do(host: Yard) -> None:
    env = {**host.env, "TRAINYARD_REDIS_URL": "redis://:secret@127.0.0.1:1/0"}
    done = subprocess.run(
        [sys.executable, "-m", "worker"], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 1
    assert "Redis at redis://:***@127.0.0.1:1/0 does not answer" in done.stderr
    assert "TRAINYARD_REDIS_URL" in done.stderr
    assert "secret" not in done.stderr
    assert "Traceback" not in done.stderr
