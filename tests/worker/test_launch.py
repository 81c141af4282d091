"""What a host lets in: once, in order, signed, in time."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent.domain.orders import LaunchOrder, StopOrder
from agent.domain.runs import RunState
from agent.wire import encode
from tests.worker.conftest import ENDLESS, GOOD, Yard, eventually, processes_naming
from worker.client.keys import load_or_create, sign
from worker.client.queue import host_queue, make_app
from worker.folders import is_alive, read_fence, take_lock


def send(yard: Yard, order: LaunchOrder, *, task: str = "trainyard.launch") -> None:
    """Publish an order as it is, as anybody could who reaches Redis."""
    app = make_app("forger", yard.server.url)
    app.send_task(task, args=[encode(order).decode()], queue=host_queue(yard.host), ignore_result=True)
    app.close()


def pass_queue(yard: Yard) -> None:
    """Wait until everything that was sent before has been worked on: both processes of the pool are free."""
    yard_redis = yard.redis()
    eventually(lambda: not yard_redis.llen(f"trainyard:host.{yard.host}") and not yard_redis.hlen("trainyard:unacked"))


async def test_a_launch_that_comes_twice_starts_once(yard: Yard) -> None:
    order = yard.order("r-twice0", ENDLESS)
    await yard.launch(order)
    yard.running("r-twice0")
    supervisor = yard.supervisor_pid("r-twice0")
    await yard.launch(order)
    pass_queue(yard)
    assert yard.supervisor_pid("r-twice0") == supervisor
    assert yard.kinds("r-twice0").count("accepted") == 1
    (yard.folder("r-twice0").path / "go-on").touch()
    assert yard.outcome("r-twice0").state is RunState.SUCCEEDED
    eventually(lambda: not is_alive(yard.folder("r-twice0")), what="the end of its supervisor, which had more to send")
    await yard.launch(order)
    pass_queue(yard)
    eventually(lambda: not is_alive(yard.folder("r-twice0")), what="nobody: a look of the sweep at its lock is no life")
    assert yard.kinds("r-twice0").count("accepted") == 1


async def test_ten_launches_at_once_start_once(yard: Yard) -> None:
    order = yard.order("r-ten000", ENDLESS)
    await yard.launch(*[order] * 10)
    yard.running("r-ten000")
    pass_queue(yard)
    folder = yard.folder("r-ten000").path
    pids = [pid for pid in processes_naming("worker.supervisor") if Path(f"/proc/{pid}/cwd").readlink() == folder]
    assert pids == [yard.supervisor_pid("r-ten000")]
    (yard.folder("r-ten000").path / "go-on").touch()
    assert yard.outcome("r-ten000").state is RunState.SUCCEEDED
    assert yard.kinds("r-ten000").count("accepted") == 1


def test_a_second_supervisor_leaves_with_17(yard: Yard) -> None:
    folder = yard.folder("r-lock00")
    folder.path.mkdir(parents=True)
    lock = take_lock(folder.lock)
    assert lock is not None
    reading, writing = os.pipe()
    argv = [sys.executable, "-m", "worker.supervisor", str(folder.path), str(folder.sealed), "1", str(writing)]
    assert subprocess.run(argv, pass_fds=(writing,), check=False).returncode == 17
    assert os.read(reading, 64) == b"BUSY\n"
    for fd in (lock, reading, writing):
        os.close(fd)


async def test_an_older_attempt_is_refused(yard: Yard) -> None:
    folder = yard.folder("r-stale0")
    await yard.launch(yard.order("r-stale0", ENDLESS, attempt=2))
    yard.running("r-stale0", attempt=2)
    supervisor = yard.supervisor_pid("r-stale0")
    await yard.launch(yard.order("r-stale0", GOOD, attempt=1))
    pass_queue(yard)
    assert yard.supervisor_pid("r-stale0") == supervisor
    (folder.path / "go-on").touch()
    assert yard.outcome("r-stale0", attempt=2).state is RunState.SUCCEEDED
    await yard.launch(yard.order("r-stale0", GOOD, attempt=1))  # and once more after its end
    pass_queue(yard)
    assert yard.events("r-stale0", attempt=1) == []
    assert read_fence(folder) == 2


async def test_a_newer_attempt_ends_the_older_one(yard: Yard) -> None:
    await yard.launch(yard.order("r-newer0", ENDLESS))
    yard.running("r-newer0")
    await yard.launch(yard.order("r-newer0", GOOD, attempt=2))
    assert yard.outcome("r-newer0", attempt=2).state is RunState.SUCCEEDED
    assert yard.outcome("r-newer0", attempt=1).state is not RunState.SUCCEEDED


async def test_a_forged_order_is_refused_and_reported(yard: Yard) -> None:
    order = sign(yard.order("r-forge0", GOOD), load_or_create(yard.keys))
    send(yard, order.model_copy(update={"spec": order.spec.model_copy(update={"max_hours": 99.0})}))
    outcome = yard.outcome("r-forge0")
    assert outcome.state is RunState.FAILED
    assert "signature" in outcome.reason
    assert not yard.folder("r-forge0").path.exists()


async def test_a_forged_order_cannot_end_a_living_run(yard: Yard) -> None:
    order = yard.order("r-forge1", ENDLESS)
    await yard.launch(order)
    yard.running("r-forge1")
    send(yard, order.model_copy(update={"signature": "00"}))
    pass_queue(yard)
    (yard.folder("r-forge1").path / "go-on").touch()
    assert yard.outcome("r-forge1").state is RunState.SUCCEEDED


async def test_a_late_order_is_refused_for_good(yard: Yard) -> None:
    order = yard.order("r-late00", GOOD)
    await yard.launch(order.model_copy(update={"expires_at": datetime.now(UTC) - timedelta(seconds=1)}))
    assert "too late" in yard.outcome("r-late00").reason
    await yard.launch(order)
    pass_queue(yard)
    assert yard.kinds("r-late00") == ["ended"]


async def test_orders_that_this_host_cannot_carry_out_are_reported(yard: Yard) -> None:
    order = yard.order("r-lost00", GOOD)
    await yard.launch(
        order.model_copy(update={"spec": order.spec.model_copy(update={"bundle_sha256": "0" * 64})}),
        yard.order("r-walls0", GOOD, sandbox="bwrap"),
    )
    assert "program is missing" in yard.outcome("r-lost00").reason
    assert "sandbox" in yard.outcome("r-walls0").reason


async def test_a_name_that_leads_elsewhere_writes_nothing(yard: Yard) -> None:
    await yard.launch(yard.order("../../elsewhere", GOOD))
    pass_queue(yard)
    assert not list(yard.home.rglob("elsewhere*"))


async def test_a_stop_that_overtakes_its_launch_counts(yard: Yard) -> None:
    await yard.stop(StopOrder(run="r-early1", attempt=1))
    pass_queue(yard)
    await yard.launch(yard.order("r-early1", ENDLESS))
    assert yard.outcome("r-early1").state is RunState.STOPPED
