"""`python zygote.py SET SOCKET`: loads one set of libraries, then forks a ready process for each request.

Owns the socket, the forks, and the watch over each forked process. Standard library only besides the set, and no module
of ours stays importable here: the code of a bundle must be what runs. Started by `worker.warm.pool`, asked by
`worker.warm.start`; ends when its standard input closes.

Standard output: `{"ready": {…}}` once it answers, or `{"unfit": why}`.
A request is one message: JSON `{"argv", "cwd", "env", "seccomp" (base64), "spaces" [names]}` with open files: output,
status, then one for each namespace. It is read by the fork that serves it, never by the zygote: what a run is told
would stay in memory that later forks share. Answers go to the status pipe, a JSON line each: `pid`, `begins` or
`failed`, `code`. The forked process joins the sandbox's namespaces, gives up all rights, loads the filter and only then
runs code of others. A second process stays outside as its parent: it reports the exit, and kills it when the asker
goes away.
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
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

_KEYS = frozenset({"argv", "cwd", "env", "seccomp", "spaces"})
_FILES, _MOST_FILES = 2, 16
_MOST_WAITING = 16
_FIRST_FREE_FILE = _STATUS = 3
_NICE = 10


class _Own(NamedTuple):
    """Our modules that a fork needs: they stand in no list of modules."""

    asking: ModuleType
    joining: ModuleType
    running: ModuleType


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
    name, path, *locked = sys.argv[1:]
    if not locked:
        _sibling("joining").lock_file(os.path.realpath(sys.executable))
        os.execv(sys.executable, [sys.executable, __file__, name, path, "locked"])  # noqa: S606 - this program again
    asking, joining, running, preload = (_sibling(name) for name in ("asking", "joining", "running", "preload"))
    own_files = frozenset({__file__, running.__file__ or ""})
    usual = os.nice(0)
    _be_nice()
    missing = preload.load(name)
    preload.forget_devices()
    why = preload.is_fit() or _forks_well(preload)
    os.setpriority(os.PRIO_PROCESS, 0, usual)
    importlib.invalidate_caches()  # once for all: in each fork it would touch, and so copy, memory of every folder
    gc.collect()
    gc.freeze()
    if why:
        _say({"unfit": why, "missing": missing})
        sys.exit(3)
    listener = asking.listen(path, waiting=_MOST_WAITING)
    _say({"ready": {"missing": missing, "modules": len(sys.modules)}})
    task = _serve(listener, _Own(asking, joining, running))
    if task is None:
        os._exit(0)  # nothing of the libraries' ends needs to run here
    code: int | None = None
    try:
        running.run(task["argv"])
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - what a fresh interpreter prints, and ends with 1
        code = running.report(error, own_files=own_files)
    sys.exit(code)


def _say(word: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, json.dumps(word).encode() + b"\n")


def _be_nice() -> None:
    """Load at low priority where it can be taken back: a forked process inherits it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NICE)
    if os.geteuid() == 0 or soft >= 20:
        os.nice(_NICE)


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


def _serve(listener: socket.socket, own: _Own) -> dict[str, Any] | None:
    """Answer requests until the pool goes away (None). In a forked process: what it has to run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the watching processes
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    waiting.register(listener, select.POLLIN)
    while True:
        ready = {fd for fd, _ in waiting.poll()}
        if 0 in ready and not os.read(0, 4096):
            return None
        if listener.fileno() in ready:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                return _attend(connection, own)
            connection.close()


def _attend(connection: socket.socket, own: _Own) -> dict[str, Any]:
    """In the forked process: join, fork once more, and watch. Returns in the second one only: what to run."""
    request: dict[str, Any] | None
    request, files = own.asking.receive(connection, keys=_KEYS, most_files=_MOST_FILES)
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if request is None or not isinstance(request["spaces"], list) or len(files) != _FILES + len(request["spaces"]):
        os._exit(1)
    output, status, *spaces = files
    try:
        own.joining.join(dict(zip(request["spaces"], spaces, strict=True)))
        pid = os.fork()
    except OSError as error:
        _tell(status, {"failed": str(error)})
        os._exit(1)
    if pid == 0:
        connection.detach()  # closed below with everything else, by number
        _settle(request, output, status, own)
        return request
    for fd in (output, *spaces):
        os.close(fd)
    _watch(pid, connection, status)
    os._exit(0)


def _watch(pid: int, connection: socket.socket, status: int) -> None:
    """Until both the process and the asker are gone. The process stays a zombie, so that its id is not given away."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of a shutdown: the process, which dies with this one, may save
    handle = os.pidfd_open(pid)
    _tell(status, {"pid": pid})
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    waiting.register(handle, select.POLLIN)
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


def _settle(request: dict[str, Any], output: int, status: int, own: _Own) -> None:
    """In the sandbox's pid namespace: take the streams, give up the rights, become the program."""
    try:
        os.setsid()
        _take_places(output, status)
        own.joining.give_up_rights()
        own.joining.filter_calls(base64.b64decode(request["seccomp"]))
        os.chdir(request["cwd"])
        own.running.become(request["argv"], request["env"])
    except OSError as error:
        _tell(_STATUS, {"failed": str(error)})
        os._exit(1)
    _tell(_STATUS, {"begins": True})
    os.close(_STATUS)
    if faulthandler.is_enabled():
        faulthandler.enable()


def _take_places(output: int, status: int) -> None:
    """Files get the numbers that a program knows them by, and all others are closed."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    for place in (1, 2):
        os.dup2(output, place)
    os.dup2(status, _STATUS)
    os.closerange(_STATUS + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _tell(fd: int, word: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(fd, json.dumps(word).encode() + b"\n")


if __name__ == "__main__":
    main()
