"""A supervisor that waits forks for each attempt, and is never in the way of a launch. Real workers."""

import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from agent.domain.orders import StopOrder
from agent.domain.runs import RunState
from tests.worker.conftest import ENDLESS, GOOD, Yard, eventually
from tests.worker.warm_host import alive
from worker.folders import HostFolder
from worker.host.processes import children_of
from worker.launches.spawning import WAITING
from worker.warm.sets import ReadySet, environment_state, read_ready, write_ready


@pytest.fixture
def waiting_yard(yard: Yard) -> Yard:
    """The module's host, whose worker lives. Without a sandbox nothing but the supervisor stands ready."""
    if yard.workers[-1].poll() is not None:
        yard.start_worker()
    waiting_one(yard)
    return yard


def warm_folder(yard: Yard) -> Path:
    return HostFolder.of(yard.home, yard.host).warm


def waiting_one(yard: Yard, *, other_than: int = 0) -> ReadySet:
    """What waits, once it answers."""

    def look() -> ReadySet | None:
        found = [one for one in read_ready(warm_folder(yard)) if one.pid != other_than and alive(one.pid)]
        return found[0] if found else None

    one = eventually(look, what="a supervisor that waits")
    assert one is not None
    assert one.name == WAITING
    return one


def was_forked(yard: Yard, run: str) -> bool:
    return b"--wait" in Path(f"/proc/{yard.supervisor_pid(run)}/cmdline").read_bytes()


async def stopped(yard: Yard, run: str) -> None:
    await yard.stop(StopOrder(run=run, attempt=1))
    assert yard.outcome(run).state is RunState.STOPPED
    yard.gone(run)


async def test_attempts_begin_as_forks_that_look_like_supervisors_of_their_own(waiting_yard: Yard) -> None:
    yard, first = waiting_yard, waiting_one(waiting_yard)
    for run in ("r-wait01", "r-wait02"):
        await yard.launch(yard.order(run, ENDLESS))
        yard.running(run)
        assert was_forked(yard, run)
        pid = yard.supervisor_pid(run)
        assert Path(f"/proc/{pid}/comm").read_text().strip() == run
        assert Path(f"/proc/{pid}/cwd").resolve() == yard.folder(run).path
        log = yard.folder(run).path / "supervisor.log"
        assert {Path(f"/proc/{pid}/fd/{number}").readlink() for number in (1, 2)} == {log}
        assert os.getsid(pid) not in (os.getsid(first.pid), os.getsid(yard.workers[-1].pid))
        assert not children_of(first.pid)
    for run in ("r-wait01", "r-wait02"):
        await stopped(yard, run)
    assert alive(first.pid)


async def test_an_attempt_outlives_the_worker_and_what_waits_does_not(waiting_yard: Yard) -> None:
    yard, first = waiting_yard, waiting_one(waiting_yard)
    await yard.launch(yard.order("r-wait03", ENDLESS))
    yard.running("r-wait03")
    assert was_forked(yard, "r-wait03")
    yard.kill_worker(yard.workers[-1])
    eventually(lambda: not alive(first.pid), what="the end of what waits")
    (yard.folder("r-wait03").path / "go-on").touch()
    assert yard.outcome("r-wait03").state is RunState.SUCCEEDED


@pytest.mark.parametrize("number", [pytest.param(signal.SIGKILL, marks=pytest.mark.faults), signal.SIGSTOP])
async def test_one_that_does_not_answer_costs_no_launch(waiting_yard: Yard, number: signal.Signals) -> None:
    yard, first = waiting_yard, waiting_one(waiting_yard)
    os.kill(first.pid, number)
    try:
        await yard.launch(yard.order(f"r-wait4{number:d}", GOOD))
        assert yard.outcome(f"r-wait4{number:d}").state is RunState.SUCCEEDED
    finally:
        if alive(first.pid):
            os.kill(first.pid, signal.SIGCONT)
    if number == signal.SIGKILL:
        waiting_one(yard, other_than=first.pid)
    run = f"r-wait5{number:d}"
    await yard.launch(yard.order(run, ENDLESS))  # nothing of the attempt that was given up is in the way
    yard.running(run)
    assert was_forked(yard, run)
    await stopped(yard, run)


NOT_WHOLE = [b"", b"no JSON", b"[1]", b"{}", b'{"argv": []}']


async def test_requests_that_are_not_whole_leave_it_waiting(
    waiting_yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard, first = waiting_yard, waiting_one(waiting_yard)
    monkeypatch.chdir(warm_folder(yard))
    for message in NOT_WHOLE:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(60.0)
            connection.connect(Path(first.socket).name)
            socket.send_fds(connection, [message], [connection.fileno()])
            assert connection.recv(16) == b""  # closed without a word
    eventually(lambda: not children_of(first.pid), what="the end of the forks that were asked")
    await yard.launch(yard.order("r-wait06", ENDLESS))
    yard.running("r-wait06")
    assert was_forked(yard, "r-wait06")
    await stopped(yard, "r-wait06")


def test_one_that_dies_with_the_attempt_in_hand_costs_no_launch(host: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody takes the request and ends before the first word."""
    folder = warm_folder(host)  # of a host without a worker: nobody else waits
    folder.mkdir(parents=True, exist_ok=True)
    taken: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        monkeypatch.chdir(folder)
        listener.bind("mine.sock")
        listener.listen(1)
        write_ready(folder, [ReadySet(WAITING, str(folder / "mine.sock"), os.getpid(), environment_state())])

        def take_and_die() -> None:
            connection, _ = listener.accept()
            with connection:
                said, files, _, _ = socket.recv_fds(connection, 65536, 4)
                taken.append(said)
                connection.send(b"taken")
                for fd in files:
                    os.close(fd)

        thread = threading.Thread(target=take_and_die)
        thread.start()
        host.launch_here(host.order("r-wait07", GOOD))
        assert host.outcome("r-wait07").state is RunState.SUCCEEDED
        thread.join()
    assert b"r-wait07" in taken[0]
