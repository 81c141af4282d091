"""A supervisor that waits for its attempt: taken once, replaced, never in the way of a launch. Real workers."""

import contextlib
import os
import signal
import socket
import threading
from pathlib import Path

import pytest

from agent.domain.orders import StopOrder
from agent.domain.runs import RunState
from tests.worker.conftest import ENDLESS, GOOD, Yard, eventually, processes_naming
from tests.worker.warm_host import alive
from worker import standby
from worker.folders import HostFolder
from worker.settings import Settings
from worker.standby import Standby, engage, supervisor_environment
from worker.warm.sets import environment_state


@pytest.fixture
def waiting_yard(own_yard: Yard) -> Yard:
    """A host without a sandbox, so that nothing but the supervisor stands ready."""
    own_yard.extra["TRAINYARD_WARM"] = "data"
    own_yard.start_worker()
    waiting_one(own_yard)
    return own_yard


def warm_folder(yard: Yard) -> Path:
    return HostFolder.of(yard.home, yard.host).warm


def waiting_one(yard: Yard, *, other_than: int = 0) -> int:
    """The process that waits, once its socket is there."""

    def look() -> int:
        sockets = list(warm_folder(yard).glob("supervisor-*.sock"))
        pids = [pid for pid in processes_naming(str(sockets[0])) if pid != other_than] if sockets else []
        forked = [pid for pid in pids if parent_of(pid) in pids]
        return forked[0] if len(forked) == 1 else 0

    return eventually(look, what="a supervisor that waits")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def begun_in(yard: Yard, run: str) -> bytes:
    """The command line of the run's supervisor."""
    return Path(f"/proc/{yard.supervisor_pid(run)}/cmdline").read_bytes()


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def test_an_attempt_begins_in_the_one_that_waits(waiting_yard: Yard) -> None:
    yard, first = waiting_yard, waiting_one(waiting_yard)
    await yard.launch(yard.order("r-wait01", ENDLESS))
    yard.running("r-wait01")
    pid = yard.supervisor_pid("r-wait01")
    assert b"--wait" in begun_in(yard, "r-wait01")
    assert Path(f"/proc/{pid}/comm").read_text().strip() == "r-wait01"
    assert Path(f"/proc/{pid}/cwd").resolve() == yard.folder("r-wait01").path
    log = yard.folder("r-wait01").path / "supervisor.log"
    assert {Path(f"/proc/{pid}/fd/{number}").readlink() for number in (1, 2)} == {log}
    assert waiting_one(yard, other_than=first) != pid
    await yard.stop(StopOrder(run="r-wait01", attempt=1))
    assert yard.outcome("r-wait01").state is RunState.STOPPED
    yard.gone("r-wait01")


async def test_it_outlives_the_worker_and_the_next_one_does_not(waiting_yard: Yard) -> None:
    yard, first = waiting_yard, waiting_one(waiting_yard)
    await yard.launch(yard.order("r-wait02", ENDLESS))
    yard.running("r-wait02")
    assert b"--wait" in begun_in(yard, "r-wait02")
    second = waiting_one(yard, other_than=first)
    yard.kill_worker(yard.workers[-1])
    eventually(lambda: not alive(second), what="the end of the one that waits")
    (yard.folder("r-wait02").path / "go-on").touch()
    assert yard.outcome("r-wait02").state is RunState.SUCCEEDED


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_one_that_does_not_answer_costs_no_launch(waiting_yard: Yard, number: signal.Signals) -> None:
    yard, first = waiting_yard, waiting_one(waiting_yard)
    os.kill(first, number)
    try:
        await yard.launch(yard.order("r-wait03", GOOD))
        assert yard.outcome("r-wait03").state is RunState.SUCCEEDED
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(first, signal.SIGKILL)
    waiting_one(yard, other_than=first)


NOT_WHOLE = [b"", b"no JSON", b"[1]", b'{"argv": []}', b'{"argv": [], "cwd": "/", "env": {}}']


async def test_requests_that_are_not_whole_leave_it_waiting(
    waiting_yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard, first = waiting_yard, waiting_one(waiting_yard)
    monkeypatch.chdir(warm_folder(yard))
    path = next(Path().glob("supervisor-*.sock"))
    before, before_parent = open_files(first), parent_of(first)
    for message in NOT_WHOLE:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(60.0)
            connection.connect(str(path))
            socket.send_fds(connection, [message], [connection.fileno()])
            assert connection.recv(16) == b""  # closed without a word
    eventually(lambda: open_files(first) == before, what="the files that came to be closed")
    await yard.launch(yard.order("r-wait05", ENDLESS))
    yard.running("r-wait05")
    assert b"--wait" in begun_in(yard, "r-wait05")
    assert yard.supervisor_pid("r-wait05") == first
    eventually(lambda: not alive(before_parent), what="the end of its parent")
    await yard.stop(StopOrder(run="r-wait05", attempt=1))
    assert yard.outcome("r-wait05").state is RunState.STOPPED
    yard.gone("r-wait05")


async def test_one_that_dies_with_the_attempt_in_hand_costs_no_launch(
    own_yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody takes the request and ends before the first word."""
    own_yard.start_worker()  # warm starts are off: nobody else waits
    folder = warm_folder(own_yard)
    folder.mkdir(parents=True, exist_ok=True)
    taken: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        monkeypatch.chdir(folder)
        listener.bind(f"supervisor-{environment_state()}-0.sock")
        listener.listen(1)

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
        await own_yard.launch(own_yard.order("r-wait04", GOOD))
        assert own_yard.outcome("r-wait04").state is RunState.SUCCEEDED
        thread.join()
    assert b"r-wait04" in taken[0]


def test_changed_packages_replace_the_one_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states = ["0" * 16]
    monkeypatch.setattr(standby, "environment_state", lambda: states[-1])
    keeper = Standby(tmp_path / "warm", supervisor_environment(Settings(home=tmp_path), tier="none"))

    def socket_of(state: str) -> list[Path]:
        keeper.look()
        return list((tmp_path / "warm").glob(f"supervisor-{state}-*.sock"))

    try:
        eventually(lambda: socket_of("0" * 16))
        states.append("1" * 16)
        eventually(lambda: socket_of("1" * 16))
        assert not socket_of("0" * 16)
    finally:
        keeper.close()
    assert not processes_naming(str(tmp_path / "warm"))
    assert not list((tmp_path / "warm").glob("*.sock"))


def test_nobody_waits_where_nobody_was_started(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        assert not engage(tmp_path, ["run", "sealed", "1"], cwd=tmp_path, env={}, output=writing, word=writing)
    finally:
        os.close(reading)
        os.close(writing)
