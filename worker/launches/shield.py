"""`python -I -S shield.py PARENT_PID MEMORY_BYTES -- ARGV…`: becomes ARGV, and dies with its parent.

Sets PR_SET_PDEATHSIG to SIGKILL (kept through exec), checks that the parent still is PARENT_PID, limits core dumps,
file sizes and, if MEMORY_BYTES is not 0, the address space. A process of its own, because code between fork
and exec is not safe in a program with threads. To be started by the parent's main thread: the signal comes when the
starting thread ends.
Does not protect from grandchildren that outlive ARGV: the sweep finds those by their environment.
"""

import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_FILE_BYTES = 200 * 1024**3


def main() -> None:
    """Never returns."""
    parent, memory = int(sys.argv[1]), int(sys.argv[2])
    argv = sys.argv[sys.argv.index("--") + 1 :]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the signal was set
        sys.exit(1)
    _limit(resource.RLIMIT_CORE, 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)  # as the host says
    _limit(resource.RLIMIT_FSIZE, _FILE_BYTES)
    if memory:
        _limit(resource.RLIMIT_AS, memory)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.execvp(argv[0], argv)  # noqa: S606 - no shell: argv is a list


def _limit(what: int, amount: int) -> None:
    hard = resource.getrlimit(what)[1]
    capped = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    resource.setrlimit(what, (capped, capped))


if __name__ == "__main__":
    main()
