"""A supervisor that waits for attempts with everything imported: it forks for each.

Owns what a fork is told and how it becomes the supervisor that was asked for. Called by `worker.supervisor.__main__`;
kept alive by `worker.warm.pool`, asked by `worker.launches.spawning`.
The request is one message: JSON `{"argv"}` with two open files, for its output and for its first word.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
from pathlib import Path

from worker.warm.asking import listen, receive

_KEYS = frozenset({"argv"})
_FILES = 2
_MOST_WAITING = 16


def wait_for_order(path: str) -> list[str]:
    """Listen at `path` until standard input closes. Returns in a fork only: the arguments of its attempt.

    There, standard output and error are the given file, and home and folder are those of the run.
    """
    importlib.import_module("worker.supervisor.attempt")
    gc.collect()
    gc.freeze()  # what is loaded stays: no collection looks at it again
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the forks
    listener = listen(path, waiting=_MOST_WAITING)
    os.write(1, json.dumps({"ready": {}}).encode() + b"\n")
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    waiting.register(listener, select.POLLIN)
    while True:
        ready = {fd for fd, _ in waiting.poll()}
        if 0 in ready and not os.read(0, 4096):
            os._exit(0)
        if listener.fileno() not in ready:
            continue
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                request, files = receive(connection, keys=_KEYS, most_files=_FILES)
                if request is None or len(files) != _FILES:
                    os._exit(1)
                with contextlib.suppress(OSError):
                    connection.send(b"taken")
                    return _become([str(part) for part in request["argv"]], *files)
                os._exit(1)  # whoever asked has given up


def _become(argv: list[str], output: int, word: int) -> list[str]:
    """What a process that was started for this attempt would find; its arguments."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, place in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(fd, place)
    os.close(nothing)
    os.close(output)
    run = Path(argv[0])
    os.chdir(run)
    os.environ["HOME"] = str(run)  # noqa: TID251 - the rest is that of every supervisor
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(run.name)  # `ps` and `top` show the run
    return [*argv, str(word)]
