"""A supervisor that is started before there is an attempt for it: everything imported, waiting on a socket.

Owns what such a process is told and how it becomes the one that was asked for. Standard library only until it loads
what an attempt needs. Called by `worker.supervisor.__main__`; started and asked by `worker.standby`.
The request is one message: JSON `{"argv", "cwd", "env"}` with two open files, for its output and for its first word.
Two processes: the one that was started forks the one that loads everything and waits, and stays as its parent until
that has an attempt. Then it ends, so the supervisor is nobody's child. The fork comes first: a later one would share
its pages with the parent, and each of those is copied when the attempt first writes to it.
Each dies with its parent: the first with the thread that started it, the second with the first.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import signal
from typing import Any

from worker.warm.asking import listen, receive

_KEYS = frozenset({"argv", "cwd", "env"})
_FILES = 2
_PR_SET_PDEATHSIG = 1  # Source: linux/prctl.h
_OUT, _FIRST_WORD = 1, 3


def wait_for_order(path: str) -> list[str]:
    """Listen at `path`; once somebody asks, the arguments of the attempt.

    Ends the process when its starter goes away.

    Afterwards standard output and error are the given file, descriptor 3 is the pipe for the first word, and
    environment and folder are those that were asked for.
    """
    _die_with_parent(signal.SIGKILL)
    os.dup2(0, _FIRST_WORD, inheritable=False)  # nothing that is opened from here on may have this number
    word = _stay_behind()
    importlib.import_module("worker.supervisor.attempt")
    gc.collect()
    gc.freeze()  # what is loaded stays: no collection looks at it again
    listener = listen(path, waiting=1)
    _say({"ready": True})
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    waiting.register(listener, select.POLLIN)
    while True:
        ready = {fd for fd, _ in waiting.poll()}
        if 0 in ready and not os.read(0, 4096):
            _leave(path)
        if listener.fileno() not in ready:
            continue
        connection, _ = listener.accept()
        with connection:
            request, files = receive(connection, keys=_KEYS, most_files=_FILES)
            if len(files) != _FILES:
                request = None
            if request is not None:
                os.unlink(path)  # noqa: PTH108 - nobody else may ask
                connection.send(b"taken")
                _say({"used": True})
        if request is not None:
            listener.close()  # before its number is given to another file
            _die_with_parent(0)
            os.write(word, b".")
            os.close(word)
            return _become(request, files)
        for fd in files:
            os.close(fd)


def _stay_behind() -> int:
    """Fork; the parent stays. In the child: a pipe to write to once it has an attempt; the parent ends then."""
    parent = os.getpid()
    taken, word = os.pipe()
    if os.fork():
        os.close(word)
        os._exit(0 if os.read(taken, 1) else 1)
    os.close(taken)
    _die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    return word


def _die_with_parent(number: int) -> None:
    """By this signal; 0 for going on without it."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def _leave(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108 - no pathlib needed for one call
    os._exit(0)


def _say(word: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(_OUT, json.dumps(word).encode() + b"\n")


def _become(request: dict[str, Any], files: list[int]) -> list[str]:
    """What a process that was started for this attempt would find."""
    os.environ.clear()  # noqa: TID251 - becoming another program means having its environment
    os.environ.update(request["env"])  # noqa: TID251
    os.chdir(request["cwd"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    output, word = files  # none of them is where it is to be put: those numbers were taken
    for fd, place in ((nothing, 0), (output, 1), (output, 2), (word, _FIRST_WORD)):
        os.dup2(fd, place, inheritable=place < _FIRST_WORD)
        if fd != output or place == 2:
            os.close(fd)
    argv = [str(part) for part in request["argv"]]
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as name:  # noqa: PTH123 - one word to the kernel
        name.write(os.path.basename(argv[0]))  # noqa: PTH119 - `ps` and `top` show the run
    return argv
