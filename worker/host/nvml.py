"""Asks NVML about this host's GPUs, once, and prints what it says: the only module that loads the driver's library.

Run as `python -m worker.host.nvml`, a process of its own with a time limit (`worker.host.gpus`): a driver that hangs
hangs this process only. Prints one JSON object a line: `{"gpu": <GpuInfo>}`, or `{"broken": {"index": n, "why": …}}`
for a GPU that does not answer. Exits 3 where there is no NVML. Nothing is remembered from one look to the next.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

NO_NVML = 3
MARKER = b"TRAINYARD_RUN_DIR="
_SUPERVISOR = b"worker.supervisor"
_ZYGOTE = b"/worker/warm/zygote.py"  # what a run that began warm keeps of the process that it was forked from
_PROC = Path("/proc")
_MOST_PIDS = 4_194_304  # the kernel's highest pid_max on 64 bits
_LEAST_BYTES = 2**20  # less is no GPU memory of a process: a context alone takes hundreds of MiB
_FIRST_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel: not in a container
# Xids that name the hardware, not the program (NVIDIA's "Xid Errors", r570): double bit errors, page retirement and row
# remapping that failed, NVLink, fallen off the bus, uncontained errors, GSP and firmware timeouts.
_XIDS = frozenset({48, 62, 64, 74, 79, 95, 119, 120, 140})
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),")


def main() -> None:
    """Print them."""
    try:
        import pynvml  # noqa: PLC0415 - only in this process

        pynvml.nvmlInit()
    except ImportError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(NO_NVML)
    except Exception as error:  # noqa: BLE001 - pynvml.NVMLError, which a broken module may lack
        sys.stderr.write(f"{error}\n")
        sys.exit(NO_NVML if "NotFound" in type(error).__name__ or "Not Found" in str(error) else 1)
    xids = hardware_xids(kernel_log())
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            lines = list(_look(pynvml, index, xids))
        except pynvml.NVMLError as error:
            lines = [{"broken": {"index": index, "why": str(error)}}]
        for line in lines:
            sys.stdout.write(f"{json.dumps(line)}\n")


def _look(nvml: Any, index: int, xids: dict[str, int]) -> Iterator[dict[str, Any]]:
    """One card: itself, or its MIG devices when it is divided."""
    card = nvml.nvmlDeviceGetHandleByIndex(index)
    sick = _sickness(nvml, card, xids)
    minor = _else(nvml, -1, lambda: int(nvml.nvmlDeviceGetMinorNumber(card)))
    busy = _else(nvml, 0.0, lambda: min(1.0, max(0.0, nvml.nvmlDeviceGetUtilizationRates(card).gpu / 100)))
    for device in _parts(nvml, card):
        memory = nvml.nvmlDeviceGetMemoryInfo(device)
        uuid = _text(nvml.nvmlDeviceGetUUID(device))
        shown = {
            "uuid": uuid,
            "index": index,
            "name": _text(nvml.nvmlDeviceGetName(device)),
            "memory_bytes": int(memory.total),
            "used_bytes": int(memory.used),
            "foreign_bytes": foreign_bytes(_processes(nvml, device), uuid, total=memory.total, used=memory.used),
            "busy": busy,
            "sick": sick,
            "minor": minor,
        }
        yield {"gpu": shown}


def _parts(nvml: Any, card: Any) -> list[Any]:
    divided = _else(nvml, 0, lambda: nvml.nvmlDeviceGetMigMode(card)[0])
    if not divided:
        return [card]
    found = []
    for number in range(_else(nvml, 0, lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(card))):
        with contextlib.suppress(nvml.NVMLError):  # no device has this number
            found.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, number))
    return found


def _sickness(nvml: Any, card: Any, xids: dict[str, int]) -> str:
    """Why this card should not be used; empty while it is well. What it cannot count is no illness."""
    bad = _else(
        nvml,
        0,
        lambda: nvml.nvmlDeviceGetTotalEccErrors(card, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
    )
    if bad:
        return f"{bad} uncorrected memory errors since it was reset"
    if _else(nvml, 0, lambda: nvml.nvmlDeviceGetRetiredPagesPendingStatus(card)):
        return "memory pages wait to be retired: it needs a reset"
    _, _, pending, failed = _else(nvml, (0, 0, 0, 0), lambda: nvml.nvmlDeviceGetRemappedRows(card))
    if failed:
        return "bad memory rows could not be remapped"
    if pending:
        return "memory rows wait to be remapped: it needs a reset"
    bus = _else(nvml, "", lambda: _bus(_text(nvml.nvmlDeviceGetPciInfo(card).busId)))
    return f"the kernel's log has Xid {xids[bus]} of it" if bus in xids else ""


def _ask(nvml: Any, name: str, device: Any) -> Any:
    return getattr(nvml, name)(device)


def _else(nvml: Any, otherwise: Any, ask: Callable[[], Any]) -> Any:
    """An answer that not every card, driver or stand-in has. A card that is lost is not such a case."""
    try:
        return ask()
    except AttributeError:  # an older module
        return otherwise
    except nvml.NVMLError as error:
        if "lost" in str(error).lower():
            raise
        return otherwise


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _processes(nvml: Any, device: Any) -> list[tuple[int, int | None]]:
    """(pid, bytes or None) of what runs on it. A process that computes and draws counts once."""
    found: dict[int, int | None] = {}
    for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        for process in _else(nvml, (), partial(_ask, nvml, name, device)):
            used = process.usedGpuMemory
            before = found.get(process.pid)
            found[process.pid] = max(used, before) if used is not None and before is not None else used
    return list(found.items())


def foreign_bytes(processes: list[tuple[int, int | None]], uuid: str, *, total: int, used: int) -> int:
    """Memory of a GPU that processes hold which are not of our runs.

    A pid is ours when it, or a process above it, has the marker of a run in its environment, is a supervisor or was
    forked from a warm process (which itself never touches a GPU). Entries
    with swapped fields (a known fault of process lists) are turned around, impossible ones left out. A pid that is not
    there has just ended; only in a container, where NVML speaks of the host's pids, it counts as foreign unless one of
    our runs was given this GPU.
    """
    foreign, ours, unsized, unknown = 0, 0, False, 0
    for pid, held in (_sane(pid, held, total) for pid, held in processes):
        if pid == 0:
            continue
        if not (_PROC / str(pid)).exists():
            unknown += held or 0
        elif is_ours(pid):
            ours += held or 0
        elif held is None:
            unsized = True
        else:
            foreign += held
    if unsized:  # somebody is there, and nobody says how much it holds
        foreign = max(foreign, used - ours)
    if unknown and in_container() and not ours and not given_to_us(uuid):
        foreign += unknown
    return int(min(max(foreign, 0), total))


def _sane(pid: int, held: int | None, total: int) -> tuple[int, int | None]:
    """The entry with its fields where they belong; pid 0 for one that cannot be."""
    if held is not None and not 0 <= held <= total:
        held = None
    if 0 < pid <= _MOST_PIDS and ((_PROC / str(pid)).exists() or held is None or not (_PROC / str(held)).exists()):
        return pid, held
    if held is not None and 0 < held <= _MOST_PIDS and (_PROC / str(held)).exists() and _LEAST_BYTES <= pid <= total:
        return held, pid
    return 0, None


def is_ours(pid: int) -> bool:
    """Whether a process belongs to a run of ours."""
    while pid > 1:
        folder = _PROC / str(pid)
        try:
            if any(entry.startswith(MARKER) for entry in (folder / "environ").read_bytes().split(b"\0")):
                return True
        except OSError:
            pass  # another user's, or one that gave up its rights: what is above it tells
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if _SUPERVISOR in words or any(word.endswith(_ZYGOTE) for word in words):
                return True
            pid = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return False
    return False


def in_container() -> bool:
    """Whether NVML's pids are of another pid namespace than ours."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) != _FIRST_NAMESPACE
    except OSError:
        return True


def given_to_us(uuid: str) -> bool:
    """Whether a living process of a run was started with this GPU."""
    for folder in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            entries = (folder / "environ").read_bytes().split(b"\0")
            visible = [entry for entry in entries if entry.startswith(b"CUDA_VISIBLE_DEVICES=")]
            if visible and uuid.encode() in visible[0] and any(entry.startswith(MARKER) for entry in entries):
                return True
    return False


def kernel_log() -> str:
    """What the kernel's ring buffer holds now; empty for those who may not read it."""
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    records: list[bytes] = []
    try:
        while True:
            try:
                records.append(os.read(log, 8192))
            except BrokenPipeError:
                continue  # overtaken by newer records
            except OSError:
                return b"".join(records).decode(errors="replace")
    finally:
        os.close(log)


def hardware_xids(text: str) -> dict[str, int]:
    """The newest Xid that names the hardware, by PCI address."""
    return {_bus(bus): int(number) for bus, number in _XID.findall(text) if int(number) in _XIDS}


def _bus(address: str) -> str:
    """`00000000:3B:00.0` and `0000:3b:00` mean the same card."""
    domain, _, rest = address.lower().partition(":")
    return f"{int(domain or '0', 16):x}:{rest.partition('.')[0]}"


if __name__ == "__main__":
    main()
