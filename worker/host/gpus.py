"""The GPUs of this host: found with a time limit, and watched for illness.

Owns the question (a process of its own, `worker.host.nvml`; where there is no NVML, `nvidia-smi`) and the judgement
over time (`GpuWatch`). The driver's library is never loaded into this process: a driver that hangs must not hang the
worker. Called by `worker.host.hostbeat` and `worker.host.usage`.
"""

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from agent.domain.orders import GpuInfo
from agent.wire import Malformed, decode
from worker.host.nvml import NO_NVML, foreign_bytes

LIMIT_S = 5.0
ERRORS = 2  # looks in a row that a GPU may not answer before it is left alone
WELL = 3  # looks in a row without a fault before it is used again
_COMMAND = (sys.executable, "-I", "-m", "worker.host.nvml")
_SMI = "uuid,index,name,memory.total,memory.used,utilization.gpu"
_MIB = 2**20

_stuck: list[subprocess.Popen[str]] = []  # killed, but held in the kernel by the driver


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found: GPUs, those that did not answer (index to why), and whether there was an answer at all."""

    gpus: tuple[GpuInfo, ...] = ()
    broken: Mapping[int, str] = field(default_factory=dict)
    answered: bool = True


def gpus() -> tuple[GpuInfo, ...]:
    """The GPUs in NVML's order; empty without a driver, or when it does not answer in time (at most 6 s)."""
    return look().gpus


def look(command: Sequence[str] = _COMMAND, *, limit_s: float = LIMIT_S, smi: str = "nvidia-smi") -> Look:
    """Ask once. A host without NVML and without `nvidia-smi` answers that it has no GPU."""
    code, text = _run(command, limit_s)
    if code == NO_NVML:
        return _by_smi(smi, limit_s)
    if code != 0:
        return Look(answered=False)
    found: list[GpuInfo] = []
    broken: dict[int, str] = {}
    for line in text.splitlines():
        try:
            said: dict[str, JsonValue] = json.loads(line)
            if "gpu" in said:
                found.append(decode(GpuInfo, json.dumps(said["gpu"])))
            elif isinstance(trouble := said.get("broken"), dict):
                broken[int(str(trouble["index"]))] = str(trouble["why"])
        except (ValueError, KeyError, Malformed):
            return Look(answered=False)
    return Look(tuple(found), broken)


def _run(command: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    """Exit status and output; None when it did not end in time. Never waits for a process that cannot be killed."""
    _stuck[:] = [process for process in _stuck if process.poll() is None]
    if _stuck:
        return None, ""  # one is enough: each would be held like the first
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except OSError:
        return None, ""
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=0.5)
        if process.poll() is None:
            _stuck.append(process)
        return None, ""
    return process.returncode, output


def _by_smi(smi: str, limit_s: float) -> Look:
    path = shutil.which(smi)
    if path is None:
        return Look()
    code, text = _run((path, f"--query-gpu={_SMI}", "--format=csv,noheader,nounits"), limit_s)
    if code != 0:
        return Look(answered=False)
    _, apps = _run((path, "--query-compute-apps=gpu_uuid,pid,used_memory", "--format=csv,noheader,nounits"), limit_s)
    held: dict[str, list[tuple[int, int | None]]] = {}
    for line in apps.splitlines():
        uuid, pid, used = (*(cell.strip() for cell in line.split(",")), "", "")[:3]
        if pid.isdigit():
            held.setdefault(uuid, []).append((int(pid), int(used) * _MIB if used.isdigit() else None))
    found = [_from_row([cell.strip() for cell in line.split(",")], held) for line in text.splitlines() if line.strip()]
    return Look(tuple(gpu for gpu in found if gpu is not None))


def _from_row(cells: Sequence[str], held: Mapping[str, list[tuple[int, int | None]]]) -> GpuInfo | None:
    if len(cells) != len(_SMI.split(",")) or not cells[1].isdigit():
        return None
    uuid, index, name, total, used, busy = cells
    memory, in_use = (int(text) * _MIB if text.isdigit() else 0 for text in (total, used))
    return GpuInfo(
        uuid=uuid,
        index=int(index),
        name=name,
        memory_bytes=memory,
        used_bytes=in_use,
        foreign_bytes=foreign_bytes(held.get(uuid, []), uuid, total=memory, used=in_use),
        busy=int(busy) / 100 if busy.isdigit() else 0.0,
    )


@dataclass(slots=True)
class _Known:
    """What is remembered of a GPU between looks."""

    info: GpuInfo
    errors: int = 0
    well: int = WELL
    sick: str = ""


class GpuWatch:
    """Judges over time: one bad look proves nothing, and one good look does not heal.

    A GPU that is not well stays in the list with a reason in `sick`, also when the driver no longer shows it, so that
    people see what became of it and no run is placed on it.
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._known: dict[str, _Known] = {}

    def judge(self, seen: Look) -> tuple[GpuInfo, ...]:
        """Take in one look; all GPUs ever seen, by index."""
        shown = {gpu.uuid: gpu for gpu in seen.gpus}
        for uuid, gpu in shown.items():
            known = self._known.setdefault(uuid, _Known(gpu))
            known.info = gpu
            if gpu.sick:
                known.sick, known.errors, known.well = gpu.sick, 0, 0
            else:
                known.errors, known.well = 0, known.well + 1
                if known.well >= WELL:
                    known.sick = ""
        for uuid, known in self._known.items():
            if uuid not in shown:
                self._missed(known, seen)
        listed = sorted(self._known.values(), key=lambda known: (known.info.index, known.info.uuid))
        return tuple(known.info.model_copy(update={"sick": known.sick}) for known in listed)

    def _missed(self, known: _Known, seen: Look) -> None:
        known.errors, known.well = known.errors + 1, 0
        if known.errors < ERRORS:
            return
        if not seen.answered:
            known.sick = f"the driver has not answered {known.errors} times running"
        elif known.info.index in seen.broken:
            known.sick = f"NVML cannot read it: {seen.broken[known.info.index]}"
        else:
            known.sick = "the driver no longer shows it"
