"""The filter of system calls by itself: what it denies by number, and what by argument."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.domain.errors import Unavailable
from worker.sandbox import (
    seccomp,
)


def filtered(code: str, **options: Any) -> str:
    """What a program says behind the filter alone."""
    program = seccomp.program(**options)
    head = f"""
import ctypes, errno, fcntl, os, signal, socket, sys, threading
class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))
libc = ctypes.CDLL(None, use_errno=True)
data = bytes.fromhex({program.hex()!r})
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(data) // 8, data)), 0, 0) == 0
def tried(act, *arguments):
    try:
        made = act(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    if hasattr(made, "close"):
        made.close()
    return "done"
def called(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result == 0 and number == CLONE:
        os._exit(0)
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]
CLONE, CLONE3, OPENAT, OPENAT2 = (56, 435, 257, 437) if os.uname().machine == "x86_64" else (220, 435, 56, 437)
"""
    done = subprocess.run([sys.executable, "-I", "-c", head + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_namespaces_are_refused_and_processes_are_not() -> None:
    spaces = [0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]
    for space in spaces:
        assert filtered(f"print(called(CLONE, {space} | 17, 0, 0, 0, 0))") == "EPERM"
    assert filtered("print(called(CLONE, 17, 0, 0, 0, 0)); os.wait()") == "done"
    assert filtered("print(called(CLONE3, 0, 0))") == "ENOSYS"
    assert filtered("print(tried(fcntl.ioctl, 0, 0x5412, b'x'), tried(fcntl.ioctl, 0, 0x541C, b'x'))") == "EPERM EPERM"
    assert filtered("thread = threading.Thread(target=print, args=('ran',)); thread.start(); thread.join()") == "ran"


def test_no_file_is_made_setuid(tmp_path: Path) -> None:
    """Not where a mode is none: what opens a file that exists may leave anything in its place."""
    path = str(tmp_path / "made")
    for create in ("os.O_CREAT", "os.O_TMPFILE"):
        where = str(tmp_path) if create == "os.O_TMPFILE" else path
        assert filtered(f"print(tried(os.open, {where!r}, {create} | os.O_WRONLY, 0o4755))") == "EPERM"
    assert filtered(f"print(tried(os.open, {path!r}, os.O_CREAT | os.O_WRONLY, 0o2755))") == "done"
    assert filtered(f"print(called(OPENAT, -100, {path.encode()!r}, os.O_RDONLY, 0o4755))") == "done"
    assert filtered(f"print(tried(os.chmod, {path!r}, 0o4755), tried(os.chmod, {path!r}, 0o777))") == "EPERM done"
    assert filtered(f"print(tried(os.mknod, {path + '2'!r}, 0o104755))") == "EPERM"
    assert filtered("print(called(OPENAT2, -100, b'.', 0, 0))") == "ENOSYS"


def test_sockets_are_refused_by_family_kind_and_protocol() -> None:
    plain = (
        "socket.AF_INET, socket.SOCK_STREAM",
        "socket.AF_INET6, socket.SOCK_DGRAM",
        "socket.AF_UNIX, socket.SOCK_DGRAM",
    )
    for family in (*plain, "socket.AF_NETLINK, socket.SOCK_RAW, 0"):
        assert filtered(f"print(tried(socket.socket, {family}))") == "done", family
    for family in ("socket.AF_VSOCK, socket.SOCK_STREAM", "socket.AF_PACKET, socket.SOCK_RAW", "44, socket.SOCK_RAW",
                   "socket.AF_NETLINK, socket.SOCK_RAW, 12", "socket.AF_ALG, socket.SOCK_SEQPACKET"):  # fmt: skip
        assert filtered(f"print(tried(socket.socket, {family}))") == "EPERM", family
    closed = {"inet": "off", "ask_connect": True}
    for family in plain:
        assert filtered(f"print(tried(socket.socket, {family}))", **closed) == "EPERM"
    for kind in ("STREAM", "SEQPACKET"):  # the second is what CUDA makes for itself
        assert filtered(f"print(tried(socket.socket, socket.AF_UNIX, socket.SOCK_{kind}))", **closed) == "done"
    assert filtered("print(tried(socket.socketpair))", **closed) == "done"
    only_tcp = {"inet": "tcp"}
    assert filtered("print(tried(socket.socket, socket.AF_INET, socket.SOCK_STREAM))", **only_tcp) == "done"
    for family in ("socket.AF_INET, socket.SOCK_DGRAM", "socket.AF_INET, socket.SOCK_STREAM, 262",
                   "socket.AF_INET, socket.SOCK_STREAM, 132", "socket.AF_INET6, socket.SOCK_RAW"):  # fmt: skip
        assert filtered(f"print(tried(socket.socket, {family}))", **only_tcp) == "EPERM", family
    early = "made = socket.socket(); print(tried(made.sendto, b'x', 0x20000000, ('127.0.0.1', 9)))"
    assert filtered(early, **only_tcp) == "EPERM"


def test_the_filter_is_known_for_two_machines() -> None:
    sizes = {machine: len(seccomp.program(machine=machine)) for machine in ("x86_64", "aarch64")}
    assert all(size % 8 == 0 and 0 < size <= 4096 * 8 for size in sizes.values())
    with pytest.raises(Unavailable, match="riscv64"):
        seccomp.program(machine="riscv64")
