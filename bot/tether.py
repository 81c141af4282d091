"""`python -m bot.tether PARENT_PID ARGV…`: becomes `python ARGV…` and gets SIGTERM when its parent dies.

The parent is `TRAINYARD_PARENT` for it: a program that may not end by SIGTERM alone looks after itself.

A process of its own, because code between fork and exec is not safe in a program with threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Never returns."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(sys.argv[1]):  # it died before the signal was set
        raise SystemExit(1)
    environment = {**os.environ, "TRAINYARD_PARENT": sys.argv[1]}  # noqa: TID251 - handed on whole, to a process of ours
    os.execve(sys.executable, [sys.executable, *sys.argv[2:]], environment)  # noqa: S606 - no shell: argv is a list


if __name__ == "__main__":
    main()
