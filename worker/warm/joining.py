"""Joins a sandbox that stands already, brings a run's files into it, and gives up every right to leave it.

Owns the system calls: setns, mounts, capabilities, no_new_privs, seccomp. Standard library only, and loaded by its
path: the zygote must hold no module of ours. Called by `worker.warm.zygote` in a forked process that has one thread.
The sandbox is bubblewrap's: a user namespace that owns mounts, net, ipc, uts, pid, and inside of it a second one, in
which no further one can be made.
"""

import ctypes
import fcntl
import os
import stat

WAITS, ATTENDS = "trainyard-waits", "python"  # names of the process outside
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
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NAME, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 1, 4, 15, 22, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_MOST_CAPABILITIES = 64
_SIGKILL = 9
_FILTER_BYTES = 8  # struct sock_filter
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same numbers on every architecture of Linux 5.12
_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW, _AT_EMPTY_PATH, _AT_RECURSIVE = 0x100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH = 0x4
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 0x1, 0x2, 0x4
_MNT_DETACH = 2
_MS_REC, _MS_SLAVE = 0x4000, 0x80000

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class _Attributes(ctypes.Structure):
    """struct mount_attr."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns"))


def lock_file(path: str) -> None:
    """Lay a read-only mount of a file over itself, for this process and what it starts, where a process may: root.

    What executes it then can be changed by nobody through `/proc/<id>/exe`, which leads past all other mounts.
    Elsewhere nothing happens: a file of another owner is safe, and one of this user's own is not.
    """
    if os.geteuid() != 0:
        return
    try:
        _call_libc("unshare", _CLONE["mnt"])
        _call_libc("mount", None, b"/", None, _MS_REC | _MS_SLAVE, None)
        copy = _copy_of(path)
        try:
            _set_attributes(copy, "", _MOUNT_ATTR_RDONLY)
            _call("move_mount", _MOVE_MOUNT, copy, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_F_EMPTY_PATH)
        finally:
            os.close(copy)
    except OSError as error:  # in a container that has no right to mount
        os.write(2, f"not locked: {error}\n".encode())


def enter(spaces: dict[str, int]) -> None:
    """Join the namespaces that `spaces` (name to open file) hold; the pid namespace holds for children only.

    All but the inner user namespace: until `go_in` this process may still arrange the sandbox.
    Works for root and for the user who made the sandbox: the owner of a user namespace has every capability in it.
    Raises: OSError from the kernel.
    """
    own = {name: _same_as(f"/proc/self/ns/{name}") for name in spaces}
    owner = fcntl.ioctl(spaces["mnt"], _NS_GET_USERNS)
    if _identity(owner) != own["user"]:
        _setns(owner, "user")
    for name in SPACES[1:]:
        if name in spaces and _identity(spaces[name]) != own[name]:
            _setns(spaces[name], name)
    os.close(owner)


def go_in(spaces: dict[str, int]) -> None:
    """The last step: the user namespace in which nothing of the sandbox can be changed. Raises: OSError."""
    owner = fcntl.ioctl(spaces["mnt"], _NS_GET_USERNS)
    if _identity(spaces["user"]) != _identity(owner):
        _setns(spaces["user"], "user")
    os.close(owner)


def can_furnish(stage: str) -> None:
    """Whether this kernel lets `furnish` do what it does. Raises: OSError."""
    _set_attributes(_AT_FDCWD, stage, _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV)  # as bubblewrap mounted it
    os.close(_copy_of(stage))


def furnish(stage: str, top: str, binds: list[tuple[str, bool]], links: dict[str, str]) -> None:
    """Mount a run's files where they lie on the host, and take away everything that is not of this run.

    `stage` is where the host's folder `top` lies in this sandbox; of each of `binds`, a path below `top` and whether it
    may be written to, all parents on the host are ours, and no link is followed at its end. `links` are made, name to
    target. Afterwards `stage` is gone, and the root is read-only. To be called between `enter` and `go_in`.
    Raises: OSError, after which nothing may run here.
    """
    for path, writable in binds:
        copy = _copy_of(stage + path.removeprefix(top))
        try:
            # nosuid and nodev has all that bubblewrap mounted, and not what came to the stage since
            attributes = _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV | (0 if writable else _MOUNT_ATTR_RDONLY)
            _set_attributes(copy, "", attributes)
            _make_place(path, folder=stat.S_ISDIR(os.fstat(copy).st_mode))
            _call("move_mount", _MOVE_MOUNT, copy, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_F_EMPTY_PATH)
        finally:
            os.close(copy)
    for name, target in links.items():
        os.symlink(target, name)  # noqa: PTH211 - plain strings, as in all of this file
    if _libc.umount2(os.fsencode(stage), _MNT_DETACH) != 0:
        _fail(f"umount {stage}")
    os.rmdir(stage)  # noqa: PTH106
    _set_attributes(_AT_FDCWD, "/", _MOUNT_ATTR_RDONLY, recursive=False)


def rename(name: str) -> None:
    """Give this process another name, of at most 15 bytes, for `ps` and for whoever counts what waits."""
    _libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


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


def _copy_of(path: str) -> int:
    """An open file that holds a mount of `path` and all that is mounted below it, attached nowhere yet."""
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE | _AT_SYMLINK_NOFOLLOW
    return _call("open_tree", _OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)


def _set_attributes(at: int, path: str, attributes: int, *, recursive: bool = True) -> None:
    """Of the mount at `path`, or of the one that the file `at` holds where `path` is empty."""
    wanted = _Attributes(set=attributes)
    flags = (_AT_RECURSIVE if recursive else 0) | (0 if path else _AT_EMPTY_PATH)
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    _call("mount_setattr", _MOUNT_SETATTR, at, os.fsencode(path), flags, ctypes.byref(wanted), size)


def _make_place(path: str, *, folder: bool) -> None:
    """Something that a mount can lie on."""
    if os.path.lexists(path):
        return
    os.makedirs(path if folder else os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - no pathlib for this
    if not folder:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _call(name: str, number: int, *arguments: object) -> int:
    """A system call that the C library may not know."""
    found: int = _libc.syscall(ctypes.c_long(number), *arguments)
    if found < 0:
        _fail(name)
    return found


def _call_libc(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        _fail(name)


def _setns(fd: int, name: str) -> None:
    if _libc.setns(fd, _CLONE[name]) != 0:
        _fail(f"setns {name}")


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        _fail(f"prctl {option}")


def _fail(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")
