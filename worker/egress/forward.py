"""`python -I -S forward.py SOCKET PORT -- ARGV…`: runs ARGV with a way to the proxy behind a unix socket.

Listens on 127.0.0.1:PORT, passes every connection on to SOCKET, starts ARGV, hands signals on to it and ends as it
ends. Owns bytes and one child. Knows nothing of hosts or HTTP: what may be reached is decided by the proxy outside.
Standard library only, because it runs inside of the sandbox, under the same walls as ARGV.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

_CHUNK = 64 * 1024
_BACKLOG = 64
_HANDED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGABRT,
)


def main() -> None:
    """Ends with ARGV's exit code, or by its signal."""
    place, port = sys.argv[1], int(sys.argv[2])
    argv = sys.argv[sys.argv.index("--") + 1 :]
    listener = listen(port)

    def start() -> int:
        child = os.fork()
        if child == 0:
            execute(argv, os.environ)  # noqa: TID251 - a launcher hands on the environment that it got
        threading.Thread(target=serve, args=(listener, place), daemon=True).start()
        return child

    end_like(attend(start))


def listen(port: int) -> socket.socket:
    """A listening socket on the loopback; port 0 is any free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(_BACKLOG)
    return listener


def serve(listener: socket.socket, place: str) -> None:
    """Pass on connections until the process ends."""
    while True:
        here = listener.accept()[0]
        threading.Thread(target=_pass_on, args=(here, place), daemon=True).start()


def attend(start: Callable[[], int]) -> int:
    """Hand signals on to the process that `start` begins, until it ends; its wait status.

    They are blocked during `start`, so that none is lost and threads begun there leave them to this one.
    """
    child = 0

    def hand_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDED_ON)
    for number in _HANDED_ON:
        signal.signal(number, hand_on)
    child = start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDED_ON)
    return os.waitpid(child, 0)[1]


def execute(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """In a forked child: become ARGV, with signals as a new program expects them. Never returns."""
    try:
        for number in _HANDED_ON:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - no shell: argv is a list
    except OSError as error:
        os.write(2, f"{argv[0]} could not be started: {error}\n".encode())
    finally:
        os._exit(127)


def end_like(status: int) -> None:
    """Exit with the code, or die of the signal, that another process's wait status tells. Never returns."""
    sys.stdout.flush()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _pass_on(here: socket.socket, place: str) -> None:
    with here, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as there:
        try:
            there.connect(place)
        except OSError:  # the proxy is gone: the client sees a closed connection
            return
        with contextlib.suppress(OSError):
            _both_ways(here, there)


def _both_ways(one: socket.socket, other: socket.socket) -> None:
    """Copy until both directions have ended."""
    peers = {one: other, other: one}
    while peers:
        for source in select.select(list(peers), [], [])[0]:
            data = source.recv(_CHUNK)
            if data:
                peers[source].sendall(data)
            else:
                peers.pop(source).shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
