"""`python -I -S probes.py BAIT`: tries to get out of a sandbox, and prints what it managed as JSON.

BAIT is JSON: `mark` (stands in a file, in an environment), `secret`, `precious`, `outside`, `work` (paths), `pid` (of
a process of the host), `tcp`, `udp` (ports), `abstract`, `socket` (names of unix sockets). Each probe returns "" when
it was stopped, or what it managed; the `works_…` probes the other way round: what a training script needs and did not
get. Standard library only, because it runs inside. Started by `worker.sandbox.selftest`.
"""

import ctypes
import errno
import json
import mmap
import os
import platform
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17
_CLONE_NEWUSER = 0x10000000
_CALLS = {  # x86_64, aarch64
    "process_vm_readv": (310, 270),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
}
_ABSENT = (errno.EPERM, errno.ENOSYS, errno.EACCES)


def _call(name: str, *arguments: Any) -> int:
    """The error number, 0 when the call went through."""
    number = _CALLS[name][platform.machine() == "aarch64"]
    ctypes.set_errno(0)
    result = _LIBC.syscall(number, *arguments)
    return 0 if result >= 0 else ctypes.get_errno()


def secret_file(bait: dict[str, Any]) -> str:
    return "a file of the host was read" if bait["mark"] in Path(bait["secret"]).read_text() else ""


def host_environment(bait: dict[str, Any]) -> str:
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            if bait["mark"].encode() in (folder / "environ").read_bytes():
                return "the environment of a process of the host was read"
        except OSError:
            continue
    return ""


def host_processes(bait: dict[str, Any]) -> str:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if bait["mark"][::-1].encode() in (folder / "cmdline").read_bytes():  # as it is, it stands in our own
                return "processes of the host are visible"
        except OSError:
            continue
    return ""


def signal_process(bait: dict[str, Any]) -> str:
    if bait["pid"] == os.getpid():
        return ""
    os.kill(bait["pid"], 0)
    return "a process of the host can be signalled"


def trace_process(bait: dict[str, Any]) -> str:
    if _LIBC.ptrace(_PTRACE_ATTACH, bait["pid"], None, None) == 0:
        os.waitpid(bait["pid"], 0x40000000)  # __WALL
        _LIBC.ptrace(_PTRACE_DETACH, bait["pid"], None, None)
        return "a process of the host can be traced"
    if _call("process_vm_readv", bait["pid"], None, 0, None, 0, 0) not in (*_ABSENT, errno.ESRCH):
        return "the memory of a process of the host can be read"
    return ""


def process_memory(bait: dict[str, Any]) -> str:
    with open(f"/proc/{bait['pid']}/mem", "rb"):  # noqa: PTH123 - only whether it opens
        return "" if bait["pid"] == os.getpid() else "the memory of a process of the host was opened"


def write_system(_bait: dict[str, Any]) -> str:
    for place in ("/usr", "/etc", "/"):
        path = Path(place) / f".trainyard-probe-{os.getpid()}"
        try:
            path.write_text("x")
        except OSError:
            continue
        path.unlink()
        return f"{place} can be written to"
    return ""


def write_outside(bait: dict[str, Any]) -> str:
    (Path(bait["outside"]) / "written").write_text("x")
    return "a folder of the host can be written to"


def truncate_outside(bait: dict[str, Any]) -> str:
    os.truncate(bait["precious"], 0)
    return "a file of the host was cut short"


def list_outside(bait: dict[str, Any]) -> str:
    return "a folder of the host can be listed" if os.listdir(bait["outside"]) else ""  # noqa: PTH208 - stands alone


def tcp(bait: dict[str, Any]) -> str:
    with socket.create_connection(("127.0.0.1", bait["tcp"]), timeout=1):
        return "a TCP port of the host was reached"


def udp(bait: dict[str, Any]) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(1)
        sender.connect(("127.0.0.1", bait["udp"]))
        sender.send(b"x")
        sender.recv(16)
    return "a UDP port of the host answered"


def abstract_socket(bait: dict[str, Any]) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.connect("\0" + bait["abstract"])
    return "an abstract socket of the host was reached"


def unix_socket(bait: dict[str, Any]) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.connect(bait["socket"])
    return "a unix socket of the host was reached"


def raw_socket(_bait: dict[str, Any]) -> str:
    for family, kind in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW)):
        try:
            socket.socket(family, kind, socket.IPPROTO_ICMP).close()
        except OSError:
            continue
        return "a raw socket was opened"
    return ""


def rare_socket(_bait: dict[str, Any]) -> str:
    try:
        socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0).close()
    except OSError as error:
        return "" if error.errno == errno.EPERM else "sockets of every family may be asked for"
    return "a socket of the kernel's cryptography was opened"


def mount(bait: dict[str, Any]) -> str:
    if _LIBC.mount(b"none", os.fsencode(bait["work"]), b"tmpfs", 0, None) == 0:
        _LIBC.umount2(os.fsencode(bait["work"]), 2)
        return "a file system was mounted"
    return ""


def user_namespace(_bait: dict[str, Any]) -> str:
    child = os.fork()
    if child == 0:
        os._exit(0 if _LIBC.unshare(_CLONE_NEWUSER) == 0 else 1)
    return "a user namespace was made" if os.waitpid(child, 0)[1] == 0 else ""


def capabilities(_bait: dict[str, Any]) -> str:
    lines = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    held = [name for name in ("CapInh", "CapPrm", "CapEff", "CapAmb") if int(lines[name], 16)]
    if held:
        return f"it has capabilities ({', '.join(held)})"
    return "" if lines["NoNewPrivs"].strip() == "1" else "setuid programs would give it rights"


def change_user(_bait: dict[str, Any]) -> str:
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(54321, 54321, 54321)
        except OSError:
            os._exit(1)
        os._exit(0)
    return "it can become another user" if os.waitpid(child, 0)[1] == 0 else ""


def devices(_bait: dict[str, Any]) -> str:
    candidates = ["/dev/mem", "/dev/kmsg", "/dev/port", "/proc/kcore"]
    for entry in os.scandir("/dev"):
        try:
            if stat.S_ISBLK(entry.stat(follow_symlinks=False).st_mode):
                candidates.append(entry.path)
        except OSError:
            continue
    for path in candidates:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError:
            continue
        return f"{path} was opened"
    return ""


def make_device(bait: dict[str, Any]) -> str:
    path = Path(bait["work"]) / "device"
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 1))
    path.unlink()
    return "a device was made"


def kernel_settings(_bait: dict[str, Any]) -> str:
    for path in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
        "/sys/power/state",
    ):
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        return f"{path} can be written to"
    return ""


def kernel_calls(_bait: dict[str, Any]) -> str:
    arguments = {
        "keyctl": (0, -3, 0),
        "bpf": (0, None, 0),
        "io_uring_setup": (0, None),
        "perf_event_open": (None, 0, -1, -1, 0),
        "userfaultfd": (~0,),
    }
    open_ones = [name for name, given in arguments.items() if _call(name, *given) not in _ABSENT]
    return f"the kernel takes {', '.join(open_ones)}" if open_ones else ""


def filtered(_bait: dict[str, Any]) -> str:
    return "" if "Seccomp:\t2" in Path("/proc/self/status").read_text() else "system calls are not filtered"


def open_files(_bait: dict[str, Any]) -> str:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - stands alone
        if int(name) > 2:
            try:
                target = Path(f"/proc/self/fd/{name}").readlink()
            except OSError:  # the listing's own
                continue
            return f"a file of the host was left open ({target})"
    return ""


def works_write(bait: dict[str, Any]) -> str:
    path = Path(bait["work"]) / "written"
    path.write_text("x")
    path.rename(path.with_suffix(".moved"))
    path.with_suffix(".moved").unlink()
    return ""


def works_memory(_bait: dict[str, Any]) -> str:
    mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    name = f"/dev/shm/trainyard-{os.getpid()}"  # noqa: S108 - where libc puts semaphores
    os.close(os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(name)  # noqa: PTH108 - stands alone
    return ""


def works_processes(_bait: dict[str, Any]) -> str:
    """A child that is ended by a signal, and a thread."""
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    os.kill(child, signal.SIGTERM)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
    seen: list[int] = []
    thread = threading.Thread(target=seen.append, args=(1,))
    thread.start()
    thread.join()
    return "" if ended and seen else "a child or a thread did not work"


def works_sockets(bait: dict[str, Any]) -> str:
    """Unix sockets among its own processes, as data loaders use them."""
    os.chdir(bait["work"])
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("own.sock")
        server.listen()
        client.connect("own.sock")
        with server.accept()[0] as peer:
            socket.send_fds(client, [b"x"], [0])
            said, fds, _, _ = socket.recv_fds(peer, 1, 1)
            os.close(fds[0])
    Path("own.sock").unlink()
    return "" if said == b"x" else "a unix socket lost its data"


def works_inotify(bait: dict[str, Any]) -> str:
    fd = _LIBC.inotify_init1(0)
    if fd < 0 or _LIBC.inotify_add_watch(fd, os.fsencode(bait["work"]), 2) < 0:
        return "inotify does not work"
    os.close(fd)
    return ""


ESCAPES: tuple[Callable[[dict[str, Any]], str], ...] = (
    secret_file, host_environment, host_processes, signal_process, trace_process, process_memory, write_system,
    write_outside, truncate_outside, list_outside, tcp, udp, abstract_socket, unix_socket, raw_socket, rare_socket,
    mount, user_namespace, capabilities, change_user, devices, make_device, kernel_settings, kernel_calls, filtered,
    open_files,
)  # fmt: skip
NEEDS = (works_write, works_memory, works_processes, works_sockets, works_inotify)


def main() -> None:
    """Prints `{"probe": "what it managed"}`; an escape that the system refused is one that was stopped."""
    bait = json.loads(sys.argv[1])
    found: dict[str, str] = {}
    for probe in ESCAPES:
        try:
            found[probe.__name__] = probe(bait)
        except OSError:
            found[probe.__name__] = ""
        except Exception as error:  # noqa: BLE001 - a probe that breaks has shown nothing
            found[probe.__name__] = f"the probe broke: {error!r}"
    for need in NEEDS:
        try:
            found[need.__name__] = need(bait)
        except Exception as error:  # noqa: BLE001 - any reason is one
            found[need.__name__] = f"it does not work: {error!r}"
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
