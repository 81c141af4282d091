"""Rules for `confine.py`, the tier `landlock`: for hosts where bubblewrap is missing or not allowed.

Owns which paths and devices a step gets there, and says what this tier does not stop. Executes nothing. Called by
`worker.sandbox.tiers`.
"""

import base64
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from agent.domain.runs import Network
from worker.sandbox import confine, seccomp
from worker.sandbox.bubblewrap import GPU_FILES, NETWORK_FILES, SYSTEM, SYSTEM_FILES, python_folders
from worker.sandbox.walls import Command, NoSandbox, Walls

_SCRIPT = Path(confine.__file__)
_SYSTEM = (*SYSTEM, "/bin", "/sbin", "/lib", "/lib64", *SYSTEM_FILES)
_SHARED = ("/proc", "/sys/devices/system", "/sys/fs/cgroup")  # of libc, OpenMP, torch, psutil
_GPU_SHARED = ("/sys",)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SHM = "/dev/shm"  # noqa: S108 - semaphores and shared tensors lie there; libc knows no other place
_INET: dict[Network, seccomp.Inet] = {"none": "off", "hub": "tcp", "open": "any"}


def command(argv: Sequence[str], walls: Walls, *, newest: int | None = None) -> Command:
    """The command that runs `argv` behind `walls`. Raises: NoSandbox.

    `newest` is the version of Landlock to use, by default the kernel's own.
    """
    if walls.reach == "hub" and walls.egress is None:
        raise NoSandbox("The network policy hub needs the proxy, and none was started. This is a fault of the worker.")
    minors = walls.minors
    reading = [*_SYSTEM, *python_folders(), *_SHARED, *(_GPU_SHARED if minors else ()), *map(str, walls.readable)]
    reading += NETWORK_FILES if walls.reach == "open" else ()
    gpus = [*GPU_FILES, *(f"/dev/nvidia{minor}" for minor in minors)] if minors else []
    newest = confine.version() if newest is None else newest
    asks = newest < confine.SCOPE_FROM  # the kernel does not limit signals by itself
    filter_ = seccomp.program(inet=_INET[walls.reach], ask_connect=True, ask_signals=asks, ask_writing=bool(minors))
    rules = {
        "newest": newest,
        "listen": seccomp.listen_call(),
        "signals": seccomp.signal_calls() if asks else {},
        "open": seccomp.open_call() if minors else None,
        "read": reading,
        "write": [str(walls.folder), *map(str, walls.writable), _SHM],
        "devices": [*_DEVICES, *gpus],
        "folder": str(walls.folder),
        "network": walls.reach,
        "egress": str(walls.egress or ""),
        "seccomp": base64.b64encode(filter_).decode(),
    }
    head = (sys.executable, "-I", "-S", str(_SCRIPT), json.dumps(rules), "--")
    return Command((*head, *argv), env=dict(walls.env), inside=dict(walls.env), attendants=1)
