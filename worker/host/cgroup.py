"""A control group for one attempt, where this process may make one: memory and processes (version 2), or memory (1).

Owns finding the place, the limits, the counter of out-of-memory kills and the end of the group. Knows no runs. Used by
the supervisor; the sweep removes groups that a killed supervisor left. Without one, `worker.supervisor.guards` polls.
"""

import contextlib
import logging
import os
import signal
import time
from pathlib import Path

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_REMOVE_S = 2.0

log = logging.getLogger(__name__)


class Leaf:
    """One group. Its processes share one limit, and their kills for memory are counted apart from the host's."""

    def __init__(self, path: Path, *, second: bool) -> None:
        """`second`: of version 2. Use `make_leaf`."""
        self.path, self._second = path, second

    @property
    def counts_processes(self) -> bool:
        """Whether the kernel holds its processes to the limit."""
        return self._second and (self.path / "pids.max").exists()

    def refused_processes(self) -> int:
        """How many it was refused."""
        return _counter((self.path / "pids.events").read_text(), "max") if self.counts_processes else 0

    def add(self, pids: list[int]) -> None:
        """Move processes in; what they start later is in it too. One that is gone is left out."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (self.path / "cgroup.procs").write_text(str(pid))

    def oom_kills(self) -> int:
        """How many of its processes the kernel killed for memory."""
        name = "memory.events" if self._second else "memory.oom_control"
        return _counter((self.path / name).read_text(), "oom_kill")

    def kill(self) -> None:
        """SIGKILL to all inside."""
        whole = self.path / "cgroup.kill"
        if whole.exists():
            whole.write_text("1")
            return
        for pid in _pids(self.path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def remove(self) -> None:
        """End what is inside, remove the group. A group that will not go is logged and left to the sweep."""
        end = time.monotonic() + _REMOVE_S
        while True:
            try:
                self.kill()
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError as error:
                if time.monotonic() > end:
                    log.warning("cgroup_left path=%s why=%s", self.path, error)
                    return
                time.sleep(0.02)
            else:
                return


def make_leaf(name: str, *, limit_bytes: int, processes: int = 0) -> Leaf | None:
    """A new group below this process's own with limits (0: none); None where that is not allowed, said in the log.

    The kernel refuses version 2 groups below one that holds processes, so there the place beside ours is tried too.
    """
    tried: list[str] = []
    for parent, second in _places():
        try:
            return _make(parent / name, second=second, limit_bytes=limit_bytes, processes=processes)
        except OSError as error:
            tried.append(f"{parent}: {error.strerror}")
    log.warning("no_memory_cgroup tried=%s", "; ".join(tried) or "no memory controller is mounted")
    return None


def find_leaves(name: str) -> list[Leaf]:
    """Groups of that name which an earlier process left."""
    return [Leaf(parent / name, second=second) for parent, second in _places() if (parent / name).is_dir()]


def limit_around() -> int | None:
    """The least memory that a group around this process may use; None for no limit, or where nobody says."""
    found = []
    for own, second in _places():
        for path in (own, *own.parents):
            with contextlib.suppress(OSError, ValueError):  # `max` is none
                found.append(int((path / ("memory.max" if second else "memory.limit_in_bytes")).read_text()))
    return min(found, default=None)


def _make(path: Path, *, second: bool, limit_bytes: int, processes: int) -> Leaf:
    path.mkdir(exist_ok=True)
    leaf = Leaf(path, second=second)
    try:
        leaf.oom_kills()  # a version 2 group without the memory controller has no such file
        if second:
            (path / "memory.oom.group").write_text("1")
        if limit_bytes:
            (path / ("memory.max" if second else "memory.limit_in_bytes")).write_text(str(limit_bytes))
        if processes and leaf.counts_processes:
            (path / "pids.max").write_text(str(processes))
    except OSError:
        leaf.remove()
        raise
    return leaf


def _places() -> list[tuple[Path, bool]]:
    """Where a group may be made: (parent, of version 2), the most fitting first."""
    found: list[tuple[Path, bool]] = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        if "memory" in controllers.split(","):
            found.append((_V1 / own.lstrip("/"), False))
        elif not controllers:
            for root in _V2:
                here = root / own.lstrip("/")
                if (here / "cgroup.controllers").exists():
                    found += [(here, True)] + ([(here.parent, True)] if here != root else [])
    return [(path, second) for path, second in found if path.is_dir()]


def _counter(text: str, name: str) -> int:
    for line in text.splitlines():
        if line.startswith(f"{name} "):
            return int(line.split()[1])
    return 0


def _pids(path: Path) -> list[int]:
    return [int(word) for word in (path / "cgroup.procs").read_text().split()]
