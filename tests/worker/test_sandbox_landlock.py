"""The tier landlock: its broker, older kernels, and whole runs behind it."""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agent.domain.orders import StopOrder
from agent.domain.runs import RunState
from tests.worker.conftest import ENDLESS, GOOD, Yard, opened
from worker.sandbox import (
    Walls,
    handed_over,
    landlock,
    selftest,
    wrap,
)

CLEAN = {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}


def run_in(tier: str, code: str, folder: Path, *, gpus: Sequence[int] = ()) -> "subprocess.CompletedProcess[str]":
    """Runs `code` as train.py in `folder`."""
    (folder / "train.py").write_text(code)
    command = wrap(tier, [sys.executable, "train.py"], Walls(folder, env={**CLEAN, "HOME": str(folder)}, gpus=gpus))
    with handed_over(command) as (full, files):
        return subprocess.run(
            full, env=dict(command.env or {}), cwd=folder, pass_fds=files, capture_output=True, text=True, timeout=200,
            check=False,
        )  # fmt: skip


landlock_only = pytest.mark.usefixtures("landlock")


@landlock_only
def test_no_link_leads_the_broker_out_of_the_folder(tmp_path: Path) -> None:
    """The broker connects with rights that the script does not have; it must not be led elsewhere."""
    outside = tmp_path / "outside"
    folder = tmp_path / "run"
    outside.mkdir()
    folder.mkdir()
    (folder / "link").symlink_to(outside / "s")
    (folder / "folder").symlink_to(outside)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(outside / "s"))
        server.listen()
        code = f"""
import os, socket
for name in ("link", "folder/s", "../outside/s", {str(outside / "s")!r}, "/proc/self/cwd/../outside/s"):
    try:
        socket.socket(socket.AF_UNIX).connect(name)
        print("reached", name)
    except OSError as error:
        print(type(error).__name__)
try:
    os.link({str(outside / "s")!r}, "hard")
    print("linked")
except OSError:
    print("refused")
"""
        done = run_in("landlock", code, folder)
    assert done.stdout.split() == ["PermissionError"] * 5 + ["refused"], done.stdout + done.stderr


@landlock_only
def test_packets_go_where_streams_may(tmp_path: Path) -> None:
    """CUDA makes a unix socket for packets; it reaches the run's own folder and nothing else, also by `sendto`."""
    outside = tmp_path / "outside"
    folder = tmp_path / "run"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(str(outside))
        server.listen()
        code = f"""
import socket
def made():
    return socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
own, one = made(), made()
own.bind("s")
own.listen()
one.connect("s")
one.send(b"a packet")
print(own.accept()[0].recv(100))
for reach in (lambda: made().connect({str(outside)!r}), lambda: made().sendto(b"x", {str(outside)!r})):
    try:
        print("reached", reach())
    except OSError as error:
        print(error.errno)
"""
        done = run_in("landlock", code, folder)
    assert done.stdout.splitlines() == ["b'a packet'", str(errno.EACCES), str(errno.ENOTCONN)], done.stderr


NAMES = """
import os, subprocess, sys, threading
done = threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
own, parent = f"/proc/self/task/{thread.native_id}/comm", f"/proc/{os.getppid()}/task/{os.getppid()}/comm"
for path in (own, own.replace("self", str(os.getpid())), parent, "/proc/1/task/1/comm", "/proc/self/oom_score_adj",
             "a-file", "/proc/self/task/1/comm"):
    try:
        with open(path, "w") as file:
            file.write("500")
        print(open(path).read().strip())
    except OSError as error:
        print(type(error).__name__)
done.set()
if len(sys.argv) < 2:
    print(subprocess.run([sys.executable, "train.py", "child"], capture_output=True, text=True).stdout)
"""


@landlock_only
@pytest.mark.parametrize("gpus", [(), (99,)])
def test_with_a_gpu_a_process_names_its_own_threads_and_nothing_else(gpus: tuple[int, ...], tmp_path: Path) -> None:
    """CUDA does so when it starts, in whatever process it is used, and does not start where it cannot."""
    done = run_in("landlock", NAMES, tmp_path, gpus=gpus)
    own = ["500", "500"] if gpus else ["PermissionError", "PermissionError"]
    expected = [*own, *["PermissionError"] * 3, "500", "FileNotFoundError"]
    assert done.stdout.split() == expected * 2, done.stderr


@landlock_only
def test_a_workbook_can_be_read(tmp_path: Path) -> None:
    """What reads it asks for the types of files, which stand in a file of the system on many hosts."""
    done = run_in("landlock", "import openpyxl\nprint('read')", tmp_path)
    assert done.stdout == "read\n", done.stderr


@landlock_only
@pytest.mark.parametrize("version", [3, 4, 5])
def test_older_kernels_get_the_same_walls(version: int) -> None:
    """Landlock before version 6 leaves signals and abstract sockets alone; the broker does not."""
    found = selftest.run_probes("landlock", lambda _tier, argv, walls: landlock.command(argv, walls, newest=version))
    assert {name for name, text in found.items() if text} == selftest.NOT_CLAIMED["landlock"]


@landlock_only
def test_signals_reach_only_what_is_inside(tmp_path: Path) -> None:
    code = """
import os, signal, subprocess, sys, threading, time
def tried(act, *arguments):
    try:
        act(*arguments)
        return "done"
    except OSError as error:
        return type(error).__name__
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(tried(os.kill, int(sys.argv[1]), 0), tried(os.kill, -1, 0), tried(os.kill, os.getppid(), 0))
print(tried(os.kill, os.getpid(), 0), tried(os.killpg, child.pid, signal.SIGTERM), child.wait())
signal.signal(signal.SIGUSR1, lambda *_: print("heard", flush=True))
thread = threading.Thread(target=time.sleep, args=(0.5,))
thread.start()
signal.pthread_kill(thread.ident, signal.SIGUSR1)
thread.join()
sys.stdout.flush()
os.abort()
"""
    argv = [sys.executable, "-c", code, str(os.getpid())]
    made = landlock.command(argv, Walls(tmp_path, env=CLEAN), newest=5)
    done = subprocess.run(made.argv, env=CLEAN, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    first, second, third = done.stdout.splitlines()
    assert first.split() == ["PermissionError"] * 3
    assert second.split() == ["done", "done", "-15"]
    assert third == "heard"
    assert done.returncode == -signal.SIGABRT


@landlock_only
def test_the_brokers_sockets_keep_their_flags(tmp_path: Path) -> None:
    code = """
import fcntl, os, socket
server = socket.socket(socket.AF_UNIX)
server.bind("s")
server.listen()
for blocking in (True, False):
    client = socket.socket(socket.AF_UNIX)
    client.setblocking(blocking)
    client.connect("s")
    peer = server.accept()[0]
    assert os.get_blocking(client.fileno()) == blocking
    assert fcntl.fcntl(client.fileno(), fcntl.F_GETFD) == fcntl.FD_CLOEXEC
    client.sendall(b"x")
    assert peer.recv(1) == b"x"
try:
    socket.socket(socket.AF_UNIX).connect("missing")
except FileNotFoundError:
    print("fine")
"""
    assert run_in("landlock", code, tmp_path).stdout == "fine\n"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with opened(tmp_path_factory.mktemp("locked"), sandbox="landlock") as found:
        found.start_worker()
        yield found


@landlock_only
async def test_a_run_behind_landlock_sees_neither_labels_nor_keys(locked: Yard) -> None:
    look = f"""
sealed = os.environ["TRAINYARD_RUN_DIR"] + "/../../sealed"
for path in ({str(locked.keys)!r}, {str(locked.home)!r}, sealed, "/root", "/etc/shadow"):
    try:
        os.listdir(path) if os.path.isdir(path) else open(path)
        raise AssertionError(path + " can be read")
    except OSError:
        pass
"""
    await locked.launch(locked.order("r-locked1", look + GOOD, sandbox="landlock"))
    outcome = locked.outcome("r-locked1")
    assert outcome.state is RunState.SUCCEEDED, outcome


@landlock_only
async def test_a_stop_reaches_a_run_behind_landlock(locked: Yard) -> None:
    saving = "signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path('saved').touch(), sys.exit(143)))\n"
    await locked.launch(locked.order("r-locked2", saving + ENDLESS, sandbox="landlock"))
    locked.running("r-locked2")
    await locked.stop(StopOrder(run="r-locked2", attempt=1))
    assert locked.outcome("r-locked2").state is RunState.STOPPED
    assert (locked.folder("r-locked2").path / "saved").exists()
    locked.gone("r-locked2")


@landlock_only
async def test_a_killed_supervisor_leaves_nothing_behind_landlock(locked: Yard) -> None:
    await locked.launch(locked.order("r-locked3", "os.fork() or time.sleep(600)\n" + ENDLESS, sandbox="landlock"))
    locked.running("r-locked3")
    os.kill(locked.supervisor_pid("r-locked3"), signal.SIGKILL)
    locked.gone("r-locked3")
    assert locked.outcome("r-locked3").state is RunState.LOST


@landlock_only
async def test_a_run_approved_with_more_is_refused(locked: Yard) -> None:
    await locked.launch(locked.order("r-locked4", GOOD, sandbox="bwrap"))
    outcome = locked.outcome("r-locked4")
    assert outcome.state is RunState.FAILED
    assert "approved with bwrap" in outcome.reason
