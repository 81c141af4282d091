"""Joins a sandbox that stands already, and gives up every right to leave it.

Owns the system calls: setns, capabilities, no_new_privs, seccomp, and the mount that locks the interpreter. Standard
library only, and loaded by its path: the zygote must hold no module of ours. Called by `worker.warm.zygote`, to join in
a forked process that has one thread.
The sandbox is bubblewrap's: a user namespace that owns mounts, net, ipc, uts, pid, and inside of it a second one, in
which no further one can be made.
"""

import ctypes
import fcntl
import os

SPACES = ("user", "mnt", "net", "ipc", "uts", "cgroup", "pid")

_CLONE = {
    "mnt": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
}
_NS_GET_USERNS = 0xB701  # linux/nsfs.h
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 4, 22, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64
_SIGKILL = 9
_FILTER_BYTES = 8  # struct sock_filter
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 0x1, 0x20, 0x1000, 0x4000, 0x80000
_MS_KEPT = 0xE  # nosuid, nodev, noexec: what a mount has of them, a user namespace may not take away

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def lock_file(path: str) -> None:
    """Lay a read-only mount of a file over itself, for this process and what it starts, where a process may: root.

    What executes it then can be changed by nobody through `/proc/<id>/exe`, which leads past all other mounts.
    Elsewhere nothing happens: a file of another owner is safe, and one of this user's own is not.
    """
    if os.geteuid() != 0:
        return
    try:
        flags = _MS_BIND | _MS_REMOUNT | _MS_RDONLY | os.statvfs(path).f_flag & _MS_KEPT
        file = os.fsencode(path)
        if _libc.unshare(_CLONE["mnt"]) != 0:
            _fail("unshare")
        _mount(None, b"/", _MS_REC | _MS_SLAVE)
        _mount(file, file, _MS_BIND)
        _mount(None, file, flags)
    except OSError as error:  # in a container that has no right to mount
        os.write(2, f"not locked: {error}\n".encode())


def join(spaces: dict[str, int]) -> None:
    """Join the namespaces that `spaces` (name to open file) hold; the pid namespace holds for children only.

    Works for root and for the user who made the sandbox: the owner of a user namespace has every capability in it.
    The inner user namespace, in which nothing of the sandbox can be changed, comes last. Raises: OSError.
    """
    own = {name: _same_as(f"/proc/self/ns/{name}") for name in spaces}
    owner = fcntl.ioctl(spaces["mnt"], _NS_GET_USERNS)
    if _identity(owner) != own["user"]:
        _setns(owner, "user")
    for name in SPACES[1:]:
        if name in spaces and _identity(spaces[name]) != own[name]:
            _setns(spaces[name], name)
    if _identity(spaces["user"]) != _identity(owner):
        _setns(spaces["user"], "user")
    os.close(owner)


def give_up_rights() -> None:
    """No capability is left, none can come back by executing something, and the process dies with its parent.

    Raises: OSError from the kernel.
    """
    for capability in range(_MOST_CAPABILITIES):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # past the last one that this kernel knows
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        _fail("capset")
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_DUMPABLE, 1)  # as after an exec: the process may read its own /proc entries
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)  # after the rights: changing them clears it


def filter_calls(program: bytes) -> None:
    """Load a seccomp filter (an array of struct sock_filter). Raises: OSError."""
    if not program:
        return
    buffer = ctypes.create_string_buffer(program, len(program))
    loaded = _Program(len(program) // _FILTER_BYTES, ctypes.cast(buffer, ctypes.c_void_p))
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(loaded), 0, 0) != 0:
        _fail("seccomp")


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _same_as(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - pathlib is no smaller here
    return found.st_dev, found.st_ino


def _mount(source: bytes | None, target: bytes, flags: int) -> None:
    if _libc.mount(source, target, None, ctypes.c_ulong(flags), None) != 0:
        _fail("mount")


def _setns(fd: int, name: str) -> None:
    if _libc.setns(fd, _CLONE[name]) != 0:
        _fail(f"setns {name}")


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        _fail(f"prctl {option}")


def _fail(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")
