"""Arguments of bubblewrap, the tier `bwrap`.

Owns which folders, devices and namespaces a step gets there. Executes nothing. Called by `worker.sandbox.tiers`.
It does not protect from a full disk, from the kernel's own bugs, or the CPU of others; an open network is the host's
own.
"""

import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from worker.egress import FORWARDER_INSIDE, PORT, SOCKET_INSIDE, forward, proxy_environment
from worker.sandbox import seccomp
from worker.sandbox.walls import Command, NoSandbox, Walls

_TMP_BYTES = 2 * 1024**3
_SHM_BYTES = 8 * 1024**3
SYSTEM = ("/usr",)
_LINKS = {"/bin": "usr/bin", "/lib": "usr/lib", "/lib64": "usr/lib64", "/sbin": "usr/sbin"}
# The types of files are asked for by whatever opens a workbook or answers over HTTP.
SYSTEM_FILES = ("/etc/ssl", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/etc/mime.types")
NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")
GPU_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset", "/dev/nvidia-caps")
_OWN_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
# Of bubblewrap's own process, which is the host's program: a root that may not write to it may still change its mode.
_HIDDEN = ("--tmpfs", "/proc/1", "--remount-ro", "/proc/1")


def command(argv: Sequence[str], walls: Walls) -> Command:
    """The command that runs `argv` behind `walls`. Raises: NoSandbox."""
    inside = dict(walls.env)
    options = _bare(network=walls.reach == "open") + _gpus(walls.minors)
    if walls.reach == "hub":
        options += _way_out(walls)
        argv = [sys.executable, "-I", "-S", FORWARDER_INSIDE, SOCKET_INSIDE, str(PORT), "--", *argv]
        inside |= proxy_environment()
    for folder in (walls.folder, *walls.writable):
        options += ["--bind", str(folder), str(folder)]
    for path in walls.readable:
        options += ["--ro-bind", str(path), str(path)]
    options += ["--chdir", str(walls.folder), "--remount-ro", "/"]
    return Command(
        (_program(), *options, "--", *argv),
        has_info_fd=True,
        passes=(("--args", _environment(inside)), ("--seccomp", seccomp.program())),
        env=_OWN_ENVIRONMENT,  # /proc/1/environ inside is bubblewrap's own
        inside=inside,
        attendants=1 if walls.reach == "hub" else 0,
    )


def _program() -> str:
    return shutil.which("bwrap") or "bwrap"


def _bare(*, network: bool) -> list[str]:
    """Everything that is the same for all runs."""
    options = [*_namespaces(network=network), *_system(network=network)]
    options += ["--proc", "/proc", *_quiet_proc(), *_HIDDEN, "--dev", "/dev"]
    options += ["--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108 - the sandbox's own
    options += ["--size", str(_TMP_BYTES), "--tmpfs", "/tmp"]  # noqa: S108 - the sandbox's own
    for path in python_folders():  # after /tmp, where they may lie
        options += ["--ro-bind", path, path]
    return options


def python_folders() -> list[str]:
    """Where this interpreter and its libraries lie, unless that is inside the system's folders."""
    found = dict.fromkeys((sys.base_prefix, sys.prefix))
    return [path for path in found if not path.startswith(SYSTEM)]


def _environment(env: Mapping[str, str]) -> bytes:
    """As options in a file, so that no list of processes shows a secret."""
    words = ["--clearenv"]
    for name, value in env.items():
        words += ["--setenv", name, value]
    return b"".join(word.encode() + b"\0" for word in words)


def _namespaces(*, network: bool) -> list[str]:
    options = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += [] if network else ["--unshare-net"]
    return [*options, "--disable-userns", "--die-with-parent", "--cap-drop", "ALL"]


def _system(*, network: bool) -> list[str]:
    options = []
    for path in SYSTEM:
        options += ["--ro-bind", path, path]
    for link, target in _LINKS.items():
        options += ["--symlink", target, link] if Path(link).is_symlink() else ["--ro-bind-try", link, link]
    for path in (*SYSTEM_FILES, *(NETWORK_FILES if network else ())):
        options += ["--ro-bind-try", path, path]
    return options


def _quiet_proc() -> list[str]:
    """The kernel's settings read-only: a worker that runs as root owns these files, inside of a user namespace too."""
    options = []
    for path in ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"):
        options += ["--ro-bind-try", path, path]
    return options


def _gpus(minors: Sequence[int]) -> list[str]:
    """The devices with these minor numbers and what all of them share; /sys, because CUDA finds its devices there."""
    if not minors:
        return []
    options = ["--ro-bind", "/sys", "/sys"]
    for path in (*GPU_FILES, *(f"/dev/nvidia{minor}" for minor in minors)):
        options += ["--dev-bind-try", path, path]
    return options


def _way_out(walls: Walls) -> list[str]:
    if walls.egress is None:
        raise NoSandbox("The network policy hub needs the proxy, and none was started. This is a fault of the worker.")
    forwarder = str(Path(forward.__file__))
    return ["--ro-bind", str(walls.egress), SOCKET_INSIDE, "--ro-bind", forwarder, FORWARDER_INSIDE]
