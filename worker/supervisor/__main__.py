"""`python -m worker.supervisor RUN_DIR SEALED_DIR ATTEMPT READY_FD`: takes the lock, says READY, supervises.

`python -m worker.supervisor --wait SOCKET` forks for each attempt that it is told of (`worker.supervisor.waiting`).
Owns the first milliseconds: only the standard library is loaded before READY. Started by `worker.launches.spawning`.
Exits 17 when another supervisor holds the lock. The lock is taken before the fork, so that exit code is seen.
"""

import os
import signal
import sys
from pathlib import Path

from worker.folders import RunFolder, take_lock

BUSY_EXIT = 17


def main() -> None:
    """Never returns."""
    argv = sys.argv[1:]
    if argv[0] == "--wait":
        from worker.supervisor.waiting import wait_for_order  # noqa: PLC0415 - READY comes first

        argv = wait_for_order(argv[1])
    path, sealed, attempt, ready = Path(argv[0]), Path(argv[1]), int(argv[2]), int(argv[3])
    folder = RunFolder(path, sealed)
    lock = take_lock(folder.lock)
    if lock is None:
        os.write(ready, b"BUSY\n")
        sys.exit(BUSY_EXIT)
    if os.fork():
        os._exit(0)  # the child belongs to init now: whoever launched it leaves no zombie behind
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # whoever was to read is gone: an error to handle, not our end
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))  # until the attempt listens itself
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    os.write(ready, b"READY\n")
    os.close(ready)

    from worker.supervisor.attempt import supervise  # noqa: PLC0415 - READY comes first

    sys.exit(supervise(folder, attempt, asked=asked, lock=lock))


if __name__ == "__main__":
    main()
