"""Finding and ending processes by what the kernel says of them.

Owns /proc reading. Never trusts a remembered pid alone: a process is ours by its parent, its group or its environment.
Used by the supervisor and by the sweep.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_PROC = Path("/proc")
_PR_SET_CHILD_SUBREAPER = 36


def children_of(pid: int) -> list[int]:
    """The direct children of a process, whichever of its threads started them."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end while we look
        for thread in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [int(word) for word in (thread / "children").read_text().split()]
    return found


def descendants_of(pid: int) -> list[int]:
    """Children, their children and so on, parents first."""
    found = children_of(pid)
    for child in found:
        found += descendants_of(child)
    return found


def kill_tree(pid: int) -> None:
    """SIGKILL to a group, and to every process below its leader."""
    below = descendants_of(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    for child in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def adopt_orphans() -> None:
    """From now on what our descendants leave behind becomes our child (PR_SET_CHILD_SUBREAPER)."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@contextlib.contextmanager
def term_blocked() -> Iterator[None]:
    """What this thread starts meanwhile is deaf to SIGTERM.

    A host that shuts down sends one to all processes, and a sandbox that ended by it would end the step that saves.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kill_children(*, limit_s: float = 5.0) -> None:
    """SIGKILL to all descendants of this process, until there are none."""
    end, pause_s = time.monotonic() + limit_s, 0.0005
    while (left := children_of(os.getpid())) and time.monotonic() < end:
        for pid in descendants_of(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.01)


def with_environment(*entries: str) -> list[int]:
    """The living processes that were started with each `NAME=value` in their environment."""
    wanted = {entry.encode() for entry in entries}
    found = []
    for folder in _PROC.glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted.issubset((folder / "environ").read_bytes().split(b"\0")):
                found.append(int(folder.name))
    return found


def end_with_environment(*entries: str, grace_s: float = 2.0) -> int:
    """SIGTERM, then SIGKILL to all that `with_environment` finds; how many there were."""
    found = with_environment(*entries)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + grace_s
    while (left := with_environment(*entries)) and time.monotonic() < end:
        time.sleep(0.05)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


def boot_id() -> str:
    """Changes when the machine starts anew."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def oom_kills() -> int:
    """How many processes the kernel has killed for memory since it started."""
    for line in (_PROC / "vmstat").read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal; false when it is gone."""
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except OSError:
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def moved_bytes(pids: Iterable[int]) -> dict[int, int]:
    """How many bytes each process has read and written so far, by any means; without those that are gone."""
    found: dict[int, int] = {}
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, KeyError):
            lines = (_PROC / str(pid) / "io").read_text().splitlines()
            numbers = dict(line.split(": ", 1) for line in lines)
            found[pid] = int(numbers["rchar"]) + int(numbers["wchar"])
    return found
