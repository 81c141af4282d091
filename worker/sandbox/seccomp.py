"""The filter of system calls, as a program of classic BPF for x86_64 and aarch64.

Owns which calls the code inside of a sandbox cannot make, whatever else the sandbox allows. Knows nothing of tiers: it
assembles bytes. Called by `worker.sandbox.tiers`, and by whatever installs the filter itself.
Denied are calls that reach other processes, namespaces, mounts, the kernel's own programs and rarely used sockets; they
fail with EPERM. Threads, processes, shared memory, inotify, GPU ioctls and signals stay as they are.
Numbers: `man 2 seccomp`, linux/audit.h, asm/unistd_64.h and asm-generic/unistd.h of Linux 6.12.
"""

import errno
import platform
import struct
from dataclasses import dataclass, field
from typing import Literal

from agent.domain.errors import Unavailable

Inet = Literal["any", "tcp", "off"]

_ALLOW, _ASK, _ERRNO = 0x7FFF0000, 0x7FC00000, 0x00050000
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _AT_LEAST, _ANY_BIT, _JUMP = 0x15, 0x35, 0x45, 0x05
_NR, _ARCH, _ARGS = 0, 4, 16  # offsets in struct seccomp_data
_X32 = 0x40000000
_ARCHS = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NEW_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 5, 0xF
_IPPROTO_TCP, _NETLINK_ROUTE = 6, 0
_MSG_FASTOPEN = 0x20000000
_S_ISUID, _O_CREAT, _O_TMPFILE, _O_WRITING = 0o4000, 0o100, 0o20000000, 0b11
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

# name: (x86_64, aarch64); None where the machine has no such call
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "fanotify_init": (300, 262),
    "open_by_handle_at": (304, 265),
    "nfsservctl": (180, 42),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "create_module": (174, None),
    "query_module": (178, None),
}
_LOOKED_AT: dict[str, tuple[int, int]] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "openat2": (437, 437),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "listen": (50, 201),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "ioctl": (16, 29),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
}
# Which argument is a mode. A step of root would leave a setuid program of root on the host: nosuid holds inside alone.
_MODES: dict[str, tuple[int | None, int | None, int]] = {
    "chmod": (90, None, 1),
    "fchmod": (91, 52, 1),
    "fchmodat": (268, 53, 2),
    "fchmodat2": (452, 452, 2),
    "open": (2, None, 2),
    "openat": (257, 56, 3),
    "creat": (85, None, 1),
    "mknod": (133, None, 1),
    "mknodat": (259, 33, 2),
}
_SIGNALS = ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")


def listen_call(machine: str = "") -> int:
    """The number of `listen`, which is asked for too where only plain TCP is open. Raises: Unavailable."""
    return _LOOKED_AT["listen"][list(_ARCHS).index(_known(machine))]


def signal_calls(machine: str = "") -> dict[int, str]:
    """The calls that send signals and name the receiver as their first argument, by number. Raises: Unavailable."""
    column = list(_ARCHS).index(_known(machine))
    return {_LOOKED_AT[name][column]: name for name in _SIGNALS}


def _known(machine: str) -> str:
    machine = machine or platform.machine()
    if machine not in _ARCHS:
        raise Unavailable(f"There is no filter of system calls for {machine}, only for {' and '.join(_ARCHS)}.")
    return machine


def open_call(machine: str = "") -> int:
    """The number of `openat`, which is asked for where it writes, if at all. Raises: Unavailable."""
    column = list(_ARCHS).index(_known(machine))
    return int(_MODES["openat"][column] or 0)


def program(
    *,
    inet: Inet = "any",
    ask_connect: bool = False,
    ask_signals: bool = False,
    ask_writing: bool = False,
    machine: str = "",
) -> bytes:
    """The filter as an array of `struct sock_filter`, eight bytes an instruction.

    `inet`: sockets of IPv4 and IPv6 of any kind, of plain TCP only, or none at all. `ask_connect`: `connect` is left to
    the listener of the filter (SECCOMP_RET_USER_NOTIF), and unix sockets have to be connected, so that no other call
    names an address. `ask_signals`: so are the calls that send signals to others. `ask_writing`: so is each `openat`
    that opens for writing. `machine` is this one unless given.

    Raises:
        Unavailable: the filter is not known for this kind of machine.
    """
    machine = _known(machine)
    column = list(_ARCHS).index(machine)
    numbers = {name: pair[column] for name, pair in _LOOKED_AT.items()}
    code = _Assembler()
    code.put(_LOAD, _ARCH)
    code.jump(_EQUAL, _ARCHS[machine], no="deny")
    code.put(_LOAD, _NR)
    if machine == "x86_64":
        code.jump(_AT_LEAST, _X32, yes="deny")
    for pair in _DENIED.values():
        number = pair[column]
        if number is not None:
            code.jump(_EQUAL, number, yes="deny")
    for name in ("clone3", "openat2"):  # their flags lie in memory; libraries fall back to clone and openat
        code.jump(_EQUAL, numbers[name], yes="absent")
    if ask_connect:
        code.jump(_EQUAL, numbers["connect"], yes="ask")
        if inet == "tcp":  # a stream of TCP may be one that listens, and Landlock does not stop that
            code.jump(_EQUAL, numbers["listen"], yes="ask")
    if ask_signals:
        for name in _SIGNALS:
            code.jump(_EQUAL, numbers[name], yes="ask")
        code.jump(_EQUAL, numbers["pidfd_send_signal"], yes="deny")  # its receiver is an open file of the caller
    _look_at_modes(code, column, ask_writing=ask_writing)
    _look_at_arguments(code, numbers, inet=inet, connected_only=ask_connect)
    code.put(_RETURN, _ALLOW)
    code.label("deny")
    code.put(_RETURN, _ERRNO | errno.EPERM)
    code.label("absent")
    code.put(_RETURN, _ERRNO | errno.ENOSYS)
    code.label("ask")
    code.put(_RETURN, _ASK)
    return code.assembled()


def _look_at_modes(code: "_Assembler", column: int, *, ask_writing: bool) -> None:
    for name, (*pair, argument) in _MODES.items():
        number = pair[column]
        if number is not None:
            code.block(name, number)
            if name in ("open", "openat"):  # otherwise they take no mode, and anything may stand in its place
                code.put(_LOAD, _argument(argument - 1))
                code.jump(_ANY_BIT, _O_CREAT | _O_TMPFILE, no=f"opened-{name}")
            code.put(_LOAD, _argument(argument))
            code.jump(_ANY_BIT, _S_ISUID, yes="deny")
            code.label(f"opened-{name}")
            if name == "openat" and ask_writing:
                code.put(_LOAD, _argument(argument - 1))
                code.jump(_ANY_BIT, _O_WRITING, yes="ask")
            code.jump_to("allow")
            code.label(f"end-{name}")


def _look_at_arguments(code: "_Assembler", numbers: dict[str, int], *, inet: Inet, connected_only: bool) -> None:
    """The calls that are denied only with some arguments. Each block begins and ends with the call's number loaded."""
    code.block("clone", numbers["clone"])
    code.put(_LOAD, _argument(0))
    code.jump(_ANY_BIT, _NEW_NAMESPACES, yes="deny")
    code.jump_to("allow")
    code.label("end-clone")

    code.block("ioctl", numbers["ioctl"])
    code.put(_LOAD, _argument(1))
    for command in (_TIOCSTI, _TIOCLINUX):  # typing into somebody's terminal
        code.jump(_EQUAL, command, yes="deny")
    code.jump_to("allow")
    code.label("end-ioctl")

    code.block("socketpair", numbers["socketpair"])
    code.put(_LOAD, _argument(0))
    code.jump(_EQUAL, _AF_UNIX, no="deny")
    code.jump_to("allow")
    code.label("end-socketpair")
    if inet == "tcp":  # data sent with the first packet does not pass `connect`
        for name, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
            code.block(name, numbers[name])
            code.put(_LOAD, _argument(flags))
            code.jump(_ANY_BIT, _MSG_FASTOPEN, yes="deny")
            code.jump_to("allow")
            code.label(f"end-{name}")

    code.jump(_EQUAL, numbers["socket"], no="allow")
    _look_at_socket(code, inet=inet, connected_only=connected_only)
    code.label("allow")


def _look_at_socket(code: "_Assembler", *, inet: Inet, connected_only: bool) -> None:
    code.put(_LOAD, _argument(0))
    code.jump(_EQUAL, _AF_UNIX, yes="unix")
    code.jump(_EQUAL, _AF_INET, yes="inet")
    code.jump(_EQUAL, _AF_INET6, yes="inet")
    code.jump(_EQUAL, _AF_NETLINK, no="deny")
    code.put(_LOAD, _argument(2))
    code.jump(_EQUAL, _NETLINK_ROUTE, yes="allow", no="deny")  # how libc and gloo learn the interfaces
    code.label("unix")
    if connected_only:
        code.put(_LOAD, _argument(1))
        code.put(_AND, _SOCK_TYPE)
        code.jump(_EQUAL, _SOCK_STREAM, yes="allow")
        code.jump(_EQUAL, _SOCK_SEQPACKET, no="deny")  # without one no program can use CUDA
    code.jump_to("allow")
    code.label("inet")
    if inet == "off":
        code.jump_to("deny")
    elif inet == "tcp":
        code.put(_LOAD, _argument(1))
        code.put(_AND, _SOCK_TYPE)
        code.jump(_EQUAL, _SOCK_STREAM, no="deny")
        code.put(_LOAD, _argument(2))
        code.jump(_EQUAL, 0, yes="allow")
        code.jump(_EQUAL, _IPPROTO_TCP, no="deny")  # MPTCP and SCTP are streams too


def _argument(number: int) -> int:
    """Where the lower half of an argument lies; all that is looked at are ints of 32 bits."""
    return _ARGS + 8 * number


@dataclass
class _Assembler:
    """Instructions with jumps forward to names."""

    lines: list[tuple[int, int, str, str]] = field(default_factory=list)  # code, k, where to if true, if false
    labels: dict[str, int] = field(default_factory=dict)

    def put(self, code: int, k: int) -> None:
        self.lines.append((code, k, "", ""))

    def jump(self, code: int, k: int, *, yes: str = "", no: str = "") -> None:
        """Go on with the next instruction where no name is given."""
        self.lines.append((code, k, yes, no))

    def jump_to(self, label: str) -> None:
        self.lines.append((_JUMP, 0, label, ""))

    def block(self, name: str, number: int) -> None:
        """What follows is for this call only."""
        self.jump(_EQUAL, number, no=f"end-{name}")

    def label(self, name: str) -> None:
        self.labels[name] = len(self.lines)

    def assembled(self) -> bytes:
        pieces = []
        for at, (code, k, yes, no) in enumerate(self.lines):
            if code == _JUMP:
                pieces.append(struct.pack("=HBBI", code, 0, 0, self._distance(at, yes)))
            else:
                pieces.append(struct.pack("=HBBI", code, self._distance(at, yes), self._distance(at, no), k))
        return b"".join(pieces)

    def _distance(self, at: int, label: str) -> int:
        distance = self.labels[label] - at - 1 if label else 0
        assert 0 <= distance < 256, label  # noqa: S101 - a program that does not fit is a bug of this file
        return distance
