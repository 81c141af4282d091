"""What one run may take of this host: memory, disk, processes, open files.

Owns the shares that hold where nobody set a limit. Ends nothing: the kernel does, or `worker.supervisor.guards`. Asked
by the host's word about itself, so that it stands on the approval card, and by each supervisor.
"""

import resource

import psutil

from agent.domain.orders import Limits
from worker.host import cgroup
from worker.host.disk import space
from worker.settings import Settings

_GIB = 1024**3
_LEAST_MEMORY_BYTES = _GIB // 2
_DISK_SHARE = 0.9  # of what is free: the rest is for logs, other programs and the outcome


def limits_of(settings: Settings, *, gpus: int = 0, of_gpus: int = 0) -> Limits:
    """Of a run with `gpus` of the host's GPUs; one without shares with as many others as the host takes at a time.

    Raises `OSError` when the disk of the home cannot be asked.
    """
    share = min(1.0, gpus / max(1, of_gpus)) if gpus else 1 / max(1, settings.slots)
    memory, disk = settings.memory_limit_bytes, settings.run_limit_bytes
    if memory is None:
        memory = max(_LEAST_MEMORY_BYTES, int(_for_runs(_memory_bytes()) * share))
    if disk is None:
        disk = int(space(settings.home).free * _DISK_SHARE * share)
    files = min(settings.open_files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    return Limits(memory_bytes=memory, disk_bytes=disk, processes=settings.process_limit, files=files)


def limit_open_files(most: int) -> None:
    """Of this process and all that it starts from now on."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _memory_bytes() -> int:
    """Of the machine, or of the container around this process."""
    return min(int(psutil.virtual_memory().total), cgroup.limit_around() or 2**63)


def _for_runs(total: int) -> int:
    """Without what the system, the worker and the supervisors need."""
    return total - min(max(_GIB, total // 10), total // 4)


def changed_by(name: str, settings: Settings) -> str:
    """How people raise a limit that ended a run."""
    return f"TRAINYARD_{name.upper()} in the environment of the worker on {settings.host_id} changes that"
