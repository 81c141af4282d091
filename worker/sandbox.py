"""Where a step may reach: nothing but its run's folder and the libraries (`bwrap`), or everything (`none`).

Owns the tiers, their self-test and bwrap's arguments. Knows nothing of runs. Used by the worker's composition root, by
supervisors and by inspect and predict. `none` protects from nothing: a script there can read what the worker can read.
`bwrap` does not protect from a full disk, from the kernel's own bugs, or the CPU of others.
"""

import logging
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.domain.errors import AppError

_TMP_BYTES = 2 * 1024**3
_SHM_BYTES = 8 * 1024**3
_SYSTEM = ("/usr",)
_LINKS = {"/bin": "usr/bin", "/lib": "usr/lib", "/lib64": "usr/lib64", "/sbin": "usr/sbin"}
_SYSTEM_FILES = ("/etc/ssl", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives")
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf")
_GPU_FILES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
_PROBE = """
import os, socket, sys
secret, work = sys.argv[1:3]
assert not os.path.exists(secret), "a file outside is visible"
assert os.getpid() < 10, "the host's processes are visible"
open(work + "/written", "w").write("x")
try:
    open("/usr/trainyard-probe", "w")
    sys.exit("the system can be written to")
except OSError:
    pass
try:
    socket.create_connection(("192.0.2.1", 9), timeout=1)
    sys.exit("the network is on")
except TimeoutError:
    sys.exit("the network is on")
except OSError:
    pass
"""

log = logging.getLogger(__name__)


class NoSandbox(AppError):
    """The tier that somebody asked for does not work on this host."""


@dataclass(frozen=True, slots=True)
class Walls:
    """What one process may see: `folder` is its working directory, writable; `network` leaves the net on."""

    folder: Path
    writable: Sequence[Path] = ()
    readable: Sequence[Path] = ()  # laid over the writable ones: what a run may read and not change
    network: bool = False
    gpus: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Command:
    """What to execute; `has_info_fd` when the argument list takes bwrap's `--info-fd N` after its first entry."""

    argv: tuple[str, ...]
    has_info_fd: bool = False


def choose_tier(wanted: str) -> str:
    """`bwrap` where it passes its self-test, else `none`.

    Raises:
        NoSandbox: `wanted` is bwrap and that does not work; it is never replaced by less.
    """
    if wanted == "none":
        return "none"
    why = _bwrap_fails()
    if not why:
        return "bwrap"
    if wanted == "bwrap":
        raise NoSandbox(
            f"TRAINYARD_SANDBOX is bwrap, but bubblewrap does not work on this host: {why}. Install or allow it "
            "(Debian: apt-get install bubblewrap), or set TRAINYARD_SANDBOX=none to run without a sandbox."
        )
    log.warning("sandbox_none why=%s", why)
    return "none"


def wrap(tier: str, argv: Sequence[str], walls: Walls) -> Command:
    """The command that runs `argv` behind `walls`; to be started with the environment `walls.env` in both tiers."""
    if tier == "none":
        return Command(tuple(argv))
    options = [*_namespaces(network=walls.network), *_system(network=walls.network)]
    options += ["--proc", "/proc", "--dev", "/dev", "--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108 - the sandbox's own
    options += ["--size", str(_TMP_BYTES), "--tmpfs", "/tmp"]  # noqa: S108 - the sandbox's own
    for path in _python_folders():  # after /tmp, where they may lie
        options += ["--ro-bind", path, path]
    options += _gpus() if walls.gpus else []
    for folder in (walls.folder, *walls.writable):
        options += ["--bind", str(folder), str(folder)]
    for folder in walls.readable:
        options += ["--ro-bind", str(folder), str(folder)]
    options += ["--chdir", str(walls.folder), "--remount-ro", "/"]
    for name, value in walls.env.items():
        options += ["--setenv", name, value]
    return Command((_bwrap(), *options, "--", *argv), has_info_fd=True)


def _bwrap() -> str:
    return shutil.which("bwrap") or "bwrap"


def _namespaces(*, network: bool) -> list[str]:
    options = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    options += [] if network else ["--unshare-net"]
    return [*options, "--disable-userns", "--die-with-parent", "--cap-drop", "ALL", "--clearenv"]


def _system(*, network: bool) -> list[str]:
    options = []
    for path in _SYSTEM:
        options += ["--ro-bind", path, path]
    for link, target in _LINKS.items():
        options += ["--symlink", target, link] if Path(link).is_symlink() else ["--ro-bind-try", link, link]
    for path in (*_SYSTEM_FILES, *(_NETWORK_FILES if network else ())):
        options += ["--ro-bind-try", path, path]
    return options


def _python_folders() -> list[str]:
    """Where this interpreter and its libraries lie, unless that is inside the system's folders."""
    found = dict.fromkeys((sys.base_prefix, sys.prefix))
    return [path for path in found if not path.startswith(_SYSTEM)]


def _gpus() -> list[str]:
    options = ["--ro-bind", "/sys", "/sys"]
    for path in (*_GPU_FILES, *map(str, Path("/dev").glob("nvidia[0-9]*"))):
        options += ["--dev-bind-try", path, path]
    return options


def _bwrap_fails() -> str:
    """Why bwrap cannot be used here, empty when its self-test passed."""
    if shutil.which("bwrap") is None:
        return "there is no program `bwrap` on the PATH"
    with tempfile.TemporaryDirectory() as outside, tempfile.TemporaryDirectory() as inside:
        secret = Path(outside) / "secret"
        secret.write_text("x")
        command = wrap("bwrap", [sys.executable, "-I", "-c", _PROBE, str(secret), inside], Walls(Path(inside)))
        clean = {"PATH": "/usr/bin:/bin"}
        try:
            done = subprocess.run(command.argv, env=clean, capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it failed without a word"])[-1]
