"""`python zygote.py`: loads one set of libraries, then forks a ready process for each request.

Owns the socket, the forks, and the watch over each forked process. Standard library only besides the set, and no module
of ours stays importable here: the code of a bundle must be what runs. Started by `worker.warm.pool`, asked by
`worker.warm.start`; ends when its standard input closes.

One fork is made before there is a request for it and waits at the socket, because to copy what is loaded takes longer
than all that it has to do then. The next one is made a while after it was taken, when its step has begun.

First line of standard input: `{"set": …, "socket": path, "bundled": [paths]}`, the last being what bundles bring of
this host's own. Standard output: `{"ready": {…}}`.
A request is one message: JSON `{"seccomp" (base64), "spaces" [names], "stage"}` with open files: output, status, gate,
then one for each namespace. It is read by the fork that serves it, never by the zygote. Answers go to the status pipe,
a JSON line each: `pid`, `stands`, `furnished`, `ready` or `failed`, `code`. The forked process enters the sandbox's
namespaces, gives up all rights and loads the filter. Two messages come through the gate: what it is to be, JSON
`{"argv", "cwd", "env"}`, and the word to begin; only then it runs code of others. Where the gate is shut it ends.
A second process stays outside as its parent: it reports the exit, and kills it when the asker goes away.
With a `stage` the sandbox has no run yet (`worker.sandbox.bubblewrap.waiting_command`). The forked process computes a
little meanwhile, and the one outside gets a message where the request came from before the two through the gate, JSON
`{"top", "binds", "links"}`: what to bring in.
"""

import base64
import contextlib
import faulthandler
import gc
import importlib
import importlib.util
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_KEYS = frozenset({"seccomp", "spaces", "stage"})
_FILES, _MOST_FILES = 3, 16
_MOST_WAITING = 16
_FIRST_FREE_FILE = _STATUS = 3
_GATE = 4
_OUTPUT = 5  # until the process becomes the step
_MESSAGE_BYTES = 200_000
_NICE = 10
_REFILL_S = 1.0  # a step that has just begun needs the processors more


class _Own(NamedTuple):
    """The name of the set, what its steps will load of a bundle, and our modules: they stand in no list of modules."""

    name: str
    bytecode: list[bytes]
    asking: ModuleType
    joining: ModuleType
    running: ModuleType
    preload: ModuleType


def _sibling(name: str) -> ModuleType:
    """A module of this folder, without a name that a bundle's import could find."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"_trainyard_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Never returns in the zygote; in a forked process it returns into the end of the interpreter."""
    sys.path.pop(0)  # this file's folder
    if len(sys.argv) == 1:
        _sibling("joining").lock_file(os.path.realpath(sys.executable))
        os.execv(sys.executable, [sys.executable, __file__, "locked"])  # noqa: S606 - this program again
    asked = json.loads(_first_line())
    asking, joining, running, preload = (_sibling(name) for name in ("asking", "joining", "running", "preload"))
    own_files = frozenset({__file__, running.__file__ or ""})
    nice = _be_nice()
    own = _Own(asked["set"], preload.bytecode_of(asked["bundled"]), asking, joining, running, preload)
    missing = preload.load(asked["set"])
    preload.rehearse(asked["set"])
    preload.touch(asked["set"])
    preload.forget_devices()
    gc.collect()
    preload.join_pages()
    why = preload.is_fit() or _forks_well(preload)
    if nice:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    importlib.invalidate_caches()  # once for all: in each fork it would touch, and so copy, memory of every folder
    gc.collect()
    gc.freeze()
    if why:
        _say({"unfit": why, "missing": missing})
        sys.exit(3)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(asked["socket"])  # noqa: PTH108 - no pathlib needed for one call
    listener = asking.listen(asked["socket"], waiting=_MOST_WAITING)
    _say({"ready": {"missing": missing, "modules": len(sys.modules)}})
    task = _serve(listener, own)
    if task is None:
        os._exit(0)  # nothing of the libraries' ends needs to run here
    code: int | None = None
    try:
        running.run(task)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - what a fresh interpreter prints, and ends with 1
        code = running.report(error, own_files=own_files)
    sys.exit(code)


def _first_line() -> bytes:
    said = b""
    while not said.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            os._exit(0)
        said += piece
    return said


def _say(word: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(word).encode() + b"\n")


def _be_nice() -> bool:
    """Load at low priority where it can be taken back: a forked process inherits it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NICE)
    if os.geteuid() != 0 and soft < 20:
        return False
    os.nice(_NICE)
    return True


def _forks_well(preload: ModuleType) -> str:
    """Fork once: BLAS libraries end their threads for it. Then ask whether the process is fit to be forked from."""
    pid = os.fork()
    if pid == 0:
        os._exit(1 if preload.is_fit() else 0)
    if os.waitpid(pid, 0)[1] != 0:
        return "CUDA was asked for its devices"
    threads = os.listdir("/proc/self/task")  # noqa: PTH208 - names are enough
    if len(threads) != 1:
        return f"the libraries keep {len(threads) - 1} threads, which a fork would lose"
    extra = [name for name in os.listdir("/proc/self/fd") if int(name) > _FIRST_FREE_FILE]  # noqa: PTH208
    return f"the libraries keep open files ({', '.join(extra)})" if extra else ""


def _serve(listener: socket.socket, own: _Own) -> list[str] | None:
    """Answer requests until the pool goes away (None). In a forked process: what it has to run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the watching processes
    spare: socket.socket | None = None
    refill_at = 0.0
    while True:
        wait_s = refill_at - time.monotonic()
        if spare is None and wait_s <= 0:
            spare, tether = socket.socketpair()
            if os.fork() == 0:
                spare.close()
                return _attend(_wait_for_one(listener, tether), listener, own)
            tether.close()
        waiting = select.poll()
        waiting.register(0, select.POLLIN)
        waiting.register(spare or listener, select.POLLIN)
        ready = {fd for fd, _ in waiting.poll(None if spare else 1000 * wait_s + 1)}
        if 0 in ready and not os.read(0, 4096):
            return None
        if spare is not None and spare.fileno() in ready:
            spare.close()  # it has a request, or was killed
            spare, refill_at = None, time.monotonic() + _REFILL_S
        elif spare is None and listener.fileno() in ready:
            connection, _ = listener.accept()
            if os.fork() == 0:
                return _attend(connection, listener, own)
            connection.close()


def _wait_for_one(listener: socket.socket, tether: socket.socket) -> socket.socket:
    """In the fork that stands ready: the connection of whoever asks first. It ends with the zygote."""
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    waiting.register(tether, select.POLLIN)
    if tether.fileno() in {fd for fd, _ in waiting.poll()}:
        os._exit(0)
    connection, _ = listener.accept()
    tether.close()
    return connection


def _attend(connection: socket.socket, listener: socket.socket, own: _Own) -> list[str]:
    """In the forked process: enter, fork once more, and watch. Returns in the second one only."""
    # read here: what a run is told, its secrets among it, would stay in memory that later forks share
    request, files = own.asking.receive(connection, keys=_KEYS, most_files=_MOST_FILES)
    listener.close()
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if request is None or not isinstance(request["spaces"], list) or len(files) != _FILES + len(request["spaces"]):
        os._exit(1)
    status = files[1]
    spaces = dict(zip(request["spaces"], files[_FILES:], strict=True))
    try:
        own.joining.enter(spaces)
        if request["stage"]:
            own.joining.can_furnish(request["stage"])
        else:
            own.joining.go_in(spaces)
        pid = os.fork()
    except OSError as error:
        _tell(status, {"failed": str(error)})
        os._exit(1)
    if pid == 0:
        connection.detach()  # closed below with everything else, by number
        return _settle(request, files, spaces, own)
    _watch(pid, connection, status, spaces, request["stage"], own.joining)
    os._exit(0)


def _watch(
    pid: int, connection: socket.socket, status: int, spaces: dict[str, int], stage: str, joining: ModuleType
) -> None:
    """Until both the process and the asker are gone. The process stays a zombie, so that its id is not given away."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of a shutdown: the process, which dies with this one, may save
    handle = os.pidfd_open(pid)
    if stage:
        joining.rename(joining.WAITS)
    keep = {connection.fileno(), status, handle, *(spaces.values() if stage else ())}
    for fd in range(_FIRST_FREE_FILE + _MOST_FILES * 2):
        if fd not in keep:
            with contextlib.suppress(OSError):
                os.close(fd)
    _tell(status, {"pid": pid})
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    waiting.register(handle, select.POLLIN)
    ready = {fd for fd, _ in waiting.poll()}
    if stage and ready == {connection.fileno()} and (said := connection.recv(_MESSAGE_BYTES)):
        _furnish(said, status, spaces, stage, joining)
        ready = {fd for fd, _ in waiting.poll()}
    if connection.fileno() in ready:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    code = (
        ended.si_status if ended is not None and ended.si_code == os.CLD_EXITED else -(ended.si_status if ended else 9)
    )
    _tell(status, {"code": code})
    if connection.fileno() not in ready:
        waiting.unregister(handle)
        waiting.poll()
    os.waitpid(pid, 0)  # the sandbox ends when its last zombie is gone, and not every init is quick to take one


def _furnish(said: bytes, status: int, spaces: dict[str, int], stage: str, joining: ModuleType) -> None:
    """Bring in what the sandbox is to hold, and give up the right to do it again. Where that fails, nothing begins."""
    try:
        wanted = json.loads(said)
        joining.furnish(stage, wanted["top"], wanted["binds"], wanted["links"])
        joining.go_in(spaces)
    except (OSError, ValueError, KeyError, TypeError) as error:
        _tell(status, {"failed": f"the run's files could not be brought in: {error}"})
        return
    for fd in spaces.values():
        os.close(fd)
    joining.rename(joining.ATTENDS)
    _tell(status, {"furnished": True})


def _settle(request: dict[str, Any], files: list[int], spaces: dict[str, int], own: _Own) -> list[str]:
    """In the sandbox's pid namespace: give up the rights, take the streams, become the program, wait for the word."""
    try:
        if request["stage"]:
            own.joining.go_in(spaces)
        os.setsid()
        _take_places(*files[:_FILES])
        own.joining.give_up_rights()
        own.joining.filter_calls(base64.b64decode(request["seccomp"]))
        if request["stage"]:
            own.preload.touch(own.name)
            own.preload.touch_names(own.bytecode)
            _tell(_STATUS, {"stands": True})
        said = os.read(_GATE, _MESSAGE_BYTES)
        if not said:
            os._exit(0)
        if request["stage"] and os.path.lexists(request["stage"]):  # whatever the asker believes
            os._exit(1)
        told = json.loads(said)
        argv: list[str] = told["argv"]
        for place in (1, 2):
            os.dup2(_OUTPUT, place)
        os.close(_OUTPUT)
        os.chdir(told["cwd"])
        own.running.become(argv, told["env"])
        _tell(_STATUS, {"ready": True})
        os.close(_STATUS)
        opened = os.read(_GATE, 1)
        os.close(_GATE)
    except OSError as error:
        _tell(_STATUS, {"failed": str(error)})
        os._exit(1)
    if not opened:
        os._exit(0)
    if faulthandler.is_enabled():
        faulthandler.enable()
    return argv


def _take_places(output: int, status: int, gate: int) -> None:
    """Files get the numbers that this process knows them by, and all others are closed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for place in (0, 1, 2):
        os.dup2(nothing, place)
    for fd, place in ((status, _STATUS), (gate, _GATE), (output, _OUTPUT)):  # `output` has the lowest: 5 or more
        os.dup2(fd, place)
    os.closerange(_OUTPUT + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _tell(fd: int, word: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(fd, json.dumps(word).encode() + b"\n")


if __name__ == "__main__":
    main()
