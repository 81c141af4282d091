"""`python -I -S confine.py RULES -- ARGV…`: runs ARGV behind Landlock and a filter of system calls.

RULES is JSON: `read`, `write`, `devices` (paths), `folder`, `seccomp` (the filter, base64), `newest` (version of
Landlock), `signals` (calls that the filter stops beside `connect`, number to name), `listen`, `open` (numbers of calls
that it stops too, where it does), `network` (none, hub, open) and `egress` (the proxy's unix socket, for hub). Needs no
rights, no user namespaces and no program of the system.
This process stays outside as the parent of ARGV, hands signals on (ARGV hears one to the whole group twice) and ends
as it ends. It makes ARGV's connections in its place: the filter stops each `connect`, and only a unix socket of the
run's own folders, or the way to the proxy, is connected here and put in place of the caller's socket. With a GPU it
also opens the files in which a process names its own threads: CUDA does not start where it cannot (since driver 570),
and no rule of Landlock names those of a process to come. So no memory of the caller is trusted after it was read.
Does not know runs. Uses `worker.egress.forward`, standard library otherwise. Written by hand because no library for
Landlock is in the lock; the numbers are those of linux/landlock.h, linux/seccomp.h and linux/prctl.h of Linux 6.12.
"""

import base64
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import re
import signal
import socket
import stat
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # -I leaves it out

from worker.egress import proxy_environment
from worker.egress.forward import attend, end_like, execute, listen, serve

_LIBC = ctypes.CDLL(None, use_errno=True)
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _OPENAT2, _PIDFD_GETFD = 444, 445, 446, 437, 438
_OLDEST = 3  # Linux 6.2: older ones cannot keep a script from cutting files short
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_FILE_RIGHTS = {3: 15, 4: 15}  # Landlock's version: how many rights it knows; 16 from the fifth on
_NET_FROM, _NET = 4, 0b11  # bind and connect of TCP
SCOPE_FROM, _SCOPE = 6, 0b11  # abstract unix sockets and signals

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT = 1, 38, 24, 47
_PR_CAP_AMBIENT_CLEAR_ALL, _CAPABILITY_VERSION = 4, 0x20080522
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8

_NOTIF_RECV, _NOTIF_SEND, _NOTIF_VALID, _NOTIF_ADDFD = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_CONTINUE, _SET_FD = 1, 1
_PATH_BYTES = 64  # of a path that may be a thread's name
_OF_A_THREAD = re.compile(rb"/proc/(self|[0-9]+)/task/([0-9]+)/comm\0")
_ADDRESS_BYTES = 110  # of a unix socket, the longest that is answered
_NO_SYMLINKS = 0x04 | 0x02


def main() -> None:
    """Ends with ARGV's exit code, or by its signal."""
    rules = json.loads(sys.argv[1])
    argv = sys.argv[sys.argv.index("--") + 1 :]
    port, listener = 0, None
    env = dict(os.environ)  # noqa: TID251 - a launcher hands on the environment that it got
    if rules["network"] == "hub":
        listener = listen(0)
        port = listener.getsockname()[1]
        env |= proxy_environment(port)
    with _temporary(Path(rules["folder"]), env):
        status = attend(lambda: _start(rules, argv, env, listener, port))
    end_like(status)


@contextlib.contextmanager
def _temporary(folder: Path, env: dict[str, str]) -> Any:
    """A private folder for temporary files, by the name of a short link, because unix sockets have short names."""
    inside = folder / ".tmp"
    inside.mkdir(mode=0o700, exist_ok=True)
    link = Path("/tmp") / f"trainyard-{os.urandom(8).hex()}"  # noqa: S108 - a link to a folder of our own
    link.symlink_to(inside)
    env["TMPDIR"] = str(link)
    try:
        yield
    finally:
        link.unlink(missing_ok=True)


def _start(
    rules: Mapping[str, Any], argv: Sequence[str], env: Mapping[str, str], listener: socket.socket | None, port: int
) -> int:
    """Fork, confine the child, execute. The pid."""
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _become(rules, argv, env, theirs, parent)
        except OSError as error:
            os.write(2, f"The sandbox could not be put up around {argv[0]}: {error}\n".encode())
        finally:
            os._exit(126)
    theirs.close()
    with ours:
        fds = socket.recv_fds(ours, 1, 1)[1]
    if fds:
        broker = Broker(fds[0], rules, port, child)
        threading.Thread(target=broker.serve, daemon=True).start()
    if listener is not None:
        threading.Thread(target=serve, args=(listener, rules["egress"]), daemon=True).start()
    return child


def _become(
    rules: Mapping[str, Any], argv: Sequence[str], env: Mapping[str, str], answer: socket.socket, parent: int
) -> None:
    """In the child: give up everything, then execute."""
    _call(_LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl(PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(126)
    with contextlib.suppress(PermissionError):
        os.setgroups([])
    _call(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    restrict_files(rules)
    drop_capabilities()
    listener = filter_calls(base64.b64decode(rules["seccomp"]))
    socket.send_fds(answer, [b"x"], [listener])
    execute(argv, env)


def version() -> int:
    """Landlock's version on this kernel, 0 without it."""
    found: int = _LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(0, found)


def restrict_files(rules: Mapping[str, Any]) -> None:
    """Landlock: files by path, TCP ports unless the network is open, signals and abstract sockets. Raises: OSError."""
    known = min(version(), rules["newest"])
    if known < _OLDEST:
        raise OSError(errno.ENOSYS, "this kernel has no Landlock, or an old one (Linux 6.2 or later is needed)")
    files = (1 << _FILE_RIGHTS.get(known, 16)) - 1
    net = _NET if known >= _NET_FROM and rules["network"] != "open" else 0
    scope = _SCOPE if known >= SCOPE_FROM else 0
    attributes = struct.pack("=QQQ", files, net, scope)
    size = 24 if known >= SCOPE_FROM else 16 if known >= _NET_FROM else 8
    ruleset = _call(_LIBC.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0), "landlock_create_ruleset")
    reading = _READ_FILE | _READ_DIR | _EXECUTE
    for path in rules["read"]:
        _allow(ruleset, path, reading)
    for path in rules["write"]:
        _allow(ruleset, path, files & ~(_MAKE_CHAR | _MAKE_BLOCK))
    for path in rules["devices"]:
        _allow(ruleset, path, files & (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV))
    _call(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    """A path that is not there gets no rule."""
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FOR_FILES
        rule = struct.pack("=Qi", rights, fd)
        _call(_LIBC.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0), f"landlock_add_rule for {path}")
    finally:
        os.close(fd)


def drop_capabilities() -> None:
    """All of them, for good: root without capabilities is only the owner of its files. Raises: OSError."""
    for number in range(64):
        _LIBC.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails without rights, and past the last one
    _LIBC.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header, nothing = struct.pack("=Ii", _CAPABILITY_VERSION, 0), struct.pack("=6I", *[0] * 6)
    _call(_LIBC.capset(header, nothing), "capset")


def filter_calls(program: bytes) -> int:
    """Load the filter; its listener. Raises: OSError."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    given = Program(len(program) // 8, program)
    number = _SECCOMP[os.uname().machine]
    return _call(_LIBC.syscall(number, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(given)), "seccomp")


class Broker:
    """Answers the calls that the filter stopped, for everything behind it."""

    def __init__(self, listener: int, rules: Mapping[str, Any], port: int, child: int) -> None:
        """`port` is the forwarder's, 0 without one; `child` is the first process behind the filter."""
        self._child, self._listen, self._open_call = child, rules["listen"], rules["open"]
        self._signals = {int(number): name for number, name in rules["signals"].items()}
        self._listener, self._port, self._open = listener, port, rules["network"] == "open"
        self._folders = tuple(os.path.realpath(path) for path in rules["write"])

    def serve(self) -> None:
        """Until nobody is left behind the filter."""
        while True:
            asked = bytearray(80)
            try:
                fcntl.ioctl(self._listener, _NOTIF_RECV, asked, True)
            except OSError as error:
                if error.errno in (errno.ENOENT, errno.EINTR):  # the caller died, or a signal came
                    continue
                return
            self._answer(asked)

    def _answer(self, asked: bytearray) -> None:
        mark, pid = struct.unpack_from("=QI", asked)
        number = struct.unpack_from("=i", asked, 16)[0]
        failed = flags = value = 0
        try:
            if number in self._signals:
                self._check_receiver(self._signals[number], struct.unpack_from("=i", asked, 32)[0])
                flags = _CONTINUE  # its arguments are numbers, which nobody can change any more
            elif number == self._listen:
                self._listen_for(mark, pid, *struct.unpack_from("=Q", asked, 32))
            elif number == self._open_call:
                value, flags = self._opened(mark, pid, *struct.unpack_from("=QQ", asked, 40))
            else:
                flags = self._connected(mark, pid, asked)
        except OSError as error:
            failed = error.errno or errno.EACCES
        with contextlib.suppress(OSError):  # the caller may be gone
            fcntl.ioctl(self._listener, _NOTIF_SEND, bytearray(struct.pack("=QqiI", mark, value, -failed, flags)), True)

    def _check_receiver(self, call: str, receiver: int) -> None:
        """Signals go to the child and what is below it, or to the caller's own group. Raises: OSError."""
        if call == "kill" and receiver == 0:
            return
        if call == "kill" and receiver == -1:
            raise OSError(errno.EPERM, "everybody")
        pid = abs(receiver)
        while pid > 1:
            if pid == self._child:
                return
            try:
                lines = Path(f"/proc/{pid}/status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                raise OSError(errno.ESRCH, "nobody") from None
            leader = int(lines.split("\nTgid:")[1].split()[0])  # a thread stands for its process
            pid = leader if leader != pid else int(lines.split("\nPPid:")[1].split()[0])
        raise OSError(errno.EPERM, "a process outside")

    def _opened(self, mark: int, pid: int, address: int, how: int) -> tuple[int, int]:
        """The name of a thread of the caller's own, opened as its newest file; else the call goes on as it is.

        The number of that file, and the flags of the answer. What goes on is judged by Landlock. Raises: OSError.
        """
        path = self._memory(mark, pid, address, _PATH_BYTES)
        named = _OF_A_THREAD.match(path)
        leader = _leader(pid)
        if named is None or named[1] not in (b"self", str(leader).encode()):
            return 0, _CONTINUE
        file = os.open(f"/proc/{leader}/task/{int(named[2])}/comm", how & os.O_ACCMODE | os.O_CLOEXEC)
        try:
            request = bytearray(struct.pack("=QIIII", mark, 0, file, 0, how & os.O_CLOEXEC))
            return fcntl.ioctl(self._listener, _NOTIF_ADDFD, request, True), 0
        finally:
            os.close(file)

    def _listen_for(self, mark: int, pid: int, fd: int) -> None:
        """Let the caller's own socket listen, if it is a unix socket. Raises: OSError."""
        with self._callers_socket(mark, pid, fd) as made:
            if made.family != socket.AF_UNIX:
                raise OSError(errno.EACCES, "it would be reachable from the network")
            made.listen()

    def _callers_socket(self, mark: int, pid: int, fd: int) -> socket.socket:
        """A handle of the caller's own socket. Raises: OSError."""
        process = os.pidfd_open(_leader(pid))
        try:
            fcntl.ioctl(self._listener, _NOTIF_VALID, struct.pack("=Q", mark))
            copy = _call(_LIBC.syscall(_PIDFD_GETFD, process, ctypes.c_int(fd & 0x7FFFFFFF), 0), "pidfd_getfd")
        finally:
            os.close(process)
        return socket.socket(fileno=copy)

    def _connected(self, mark: int, pid: int, asked: bytearray) -> int:
        """Makes the caller's connection; the flags of the answer. Raises: OSError."""
        fd, address, length = struct.unpack_from("=QQQ", asked, 32)
        where = self._address(mark, pid, address, min(length, _ADDRESS_BYTES))
        if self._open and where[0] in (socket.AF_INET, socket.AF_INET6):
            return _CONTINUE
        self._connect(mark, pid, fd & 0xFFFFFFFF, *where)
        return 0

    def _address(self, mark: int, pid: int, address: int, length: int) -> tuple[int, bytes]:
        """Family and the bytes after it, from the caller's memory."""
        data = self._memory(mark, pid, address, length)
        if len(data) < 2:
            raise OSError(errno.EINVAL, "no address")
        return int.from_bytes(data[:2], sys.byteorder), data[2:]

    def _memory(self, mark: int, pid: int, address: int, length: int) -> bytes:
        """What lies there in the caller's memory, less where it ends. Raises: OSError."""
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123 - unbuffered, at an offset
            memory.seek(address)
            data = memory.read(length)
        fcntl.ioctl(self._listener, _NOTIF_VALID, struct.pack("=Q", mark))  # that pid was still the caller's
        return data

    def _connect(self, mark: int, pid: int, fd: int, family: int, rest: bytes) -> None:
        """Connect a new socket to where the caller may go, and put it in place of its own."""
        if not str(Path(f"/proc/{pid}/fd/{fd}").readlink()).startswith("socket:"):
            raise OSError(errno.ENOTSOCK, "no socket")
        flags = int(Path(f"/proc/{pid}/fdinfo/{fd}").read_text().split("flags:")[1].split()[0], 8)
        with self._callers_socket(mark, pid, fd) as theirs:
            kind = theirs.type if family == socket.AF_UNIX else socket.SOCK_STREAM
        with socket.socket(family if family == socket.AF_UNIX else socket.AF_INET, kind) as made:
            made.setblocking(False)
            if family == socket.AF_UNIX:
                self._connect_unix(made, pid, rest)
            else:
                self._connect_forwarder(made, family, rest)
            os.set_blocking(made.fileno(), not flags & os.O_NONBLOCK)
            request = struct.pack("=QIIII", mark, _SET_FD, made.fileno(), fd, flags & os.O_CLOEXEC)
            fcntl.ioctl(self._listener, _NOTIF_ADDFD, request)

    def _connect_unix(self, made: socket.socket, pid: int, rest: bytes) -> None:
        name = os.fsdecode(rest.split(b"\0", 1)[0])
        if not name:
            raise OSError(errno.EACCES, "an abstract socket")
        path = os.path.realpath(Path(f"/proc/{pid}/cwd").readlink() / name)
        if not path.startswith(tuple(f"{folder}/" for folder in self._folders)):
            raise OSError(errno.EACCES, "a socket outside")
        place = _opened_without_links(path)
        try:
            made.connect(f"/proc/self/fd/{place}")
        finally:
            os.close(place)

    def _connect_forwarder(self, made: socket.socket, family: int, rest: bytes) -> None:
        wanted = struct.pack(">H", self._port) + socket.inet_aton("127.0.0.1")
        if not self._port or family != socket.AF_INET or rest[:6] != wanted:
            raise OSError(errno.ENETUNREACH, "another host")
        made.settimeout(5)
        made.connect(("127.0.0.1", self._port))


def _leader(pid: int) -> int:
    """The process that a thread belongs to."""
    return int(Path(f"/proc/{pid}/status").read_text().split("\nTgid:")[1].split()[0])


def _opened_without_links(path: str) -> int:
    """A handle of what lies there now, if no part of the path has become a link since it was resolved."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _NO_SYMLINKS)
    return _call(_LIBC.syscall(_OPENAT2, -100, os.fsencode(path), how, ctypes.c_size_t(len(how))), path)


def _call(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


if __name__ == "__main__":
    main()
