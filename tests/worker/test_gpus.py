"""GPUs through a stand-in for NVML: a real `pynvml` module on the path of the real child process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.domain.orders import GpuInfo, HostInfo
from agent.wire import decode
from worker.client.connect import connect
from worker.client.redis_server import EmbeddedRedis
from worker.host.gpus import ERRORS, WELL, GpuWatch, Look, look
from worker.host.hostbeat import HostBeat
from worker.host.nvml import hardware_xids
from worker.host.secrets import names

GIB = 2**30
# Reads what to answer from world.json beside it; as much of the module's surface as worker.host.nvml uses.
FAKE = """
import json, time
from pathlib import Path
from types import SimpleNamespace as Thing

class NVMLError(Exception): pass
class NVMLError_LibraryNotFound(NVMLError): pass

WORLD = json.loads((Path(__file__).parent / "world.json").read_text())
NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 1, 0

def _of(handle, name, otherwise=None):
    if handle.get("lost"): raise NVMLError("GPU is lost")
    if name not in handle and otherwise is None: raise NVMLError("Not Supported")
    return handle.get(name, otherwise)

def nvmlInit():
    if "hang" in WORLD: time.sleep(WORLD["hang"])
    if "absent" in WORLD: raise NVMLError_LibraryNotFound("NVML Shared Library Not Found")
    if "dead" in WORLD: raise NVMLError("Driver Not Loaded")
def nvmlDeviceGetCount(): return len(WORLD["gpus"])
def nvmlDeviceGetHandleByIndex(n): return WORLD["gpus"][n]
def nvmlDeviceGetUUID(h): return _of(h, "uuid").encode()
def nvmlDeviceGetName(h): return _of(h, "name", "NVIDIA H100")
def nvmlDeviceGetMemoryInfo(h): return Thing(total=_of(h, "total", 80 * 2**30), used=_of(h, "used", 0))
def nvmlDeviceGetMinorNumber(h): return _of(h, "minor")
def nvmlDeviceGetUtilizationRates(h): return Thing(gpu=_of(h, "busy"))
def nvmlDeviceGetTotalEccErrors(h, kind, counter): return _of(h, "ecc")
def nvmlDeviceGetRetiredPagesPendingStatus(h): return _of(h, "retiring")
def nvmlDeviceGetRemappedRows(h): return _of(h, "remapped")
def nvmlDeviceGetPciInfo(h): return Thing(busId=_of(h, "bus", "00000000:3B:00.0"))
def nvmlDeviceGetMigMode(h): return [1, 1] if "mig" in h else [0, 0]
def nvmlDeviceGetMaxMigDeviceCount(h): return 7
def nvmlDeviceGetMigDeviceHandleByIndex(h, n):
    if n >= len(h["mig"]): raise NVMLError("Not Found")
    return h["mig"][n]
def _processes(h): return [Thing(pid=pid, usedGpuMemory=held) for pid, held in _of(h, "processes", [])]
nvmlDeviceGetComputeRunningProcesses = nvmlDeviceGetGraphicsRunningProcesses = _processes
"""


class World:
    """What the stand-in answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "pynvml.py").write_text(FAKE)
        self.command = ("env", f"PYTHONPATH={folder}", sys.executable, "-m", "worker.host.nvml")

    def is_(self, *gpus: dict[str, Any], **more: Any) -> None:
        (self.folder / "world.json").write_text(json.dumps({"gpus": gpus, **more}))

    def look(self, *, limit_s: float = 20.0, smi: str = "no-such-smi") -> Look:
        return look(self.command, limit_s=limit_s, smi=smi)


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "nvml").mkdir()
    return World(tmp_path / "nvml")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Any]:
    started: list[subprocess.Popen[bytes]] = []

    def start(argv: Sequence[str] = ("sleep", "600"), **environment: str) -> int:
        started.append(subprocess.Popen(argv, env={**os.environ, **environment}))
        return started[-1].pid

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_what_nvml_says_arrives_whole(world: World) -> None:
    world.is_(
        {"uuid": "GPU-a", "used": 3 * GIB, "busy": 42, "minor": 3},
        {"uuid": "GPU-b", "name": "NVIDIA L4", "total": 24 * GIB},
    )
    first, second = world.look().gpus
    assert first == GpuInfo(
        uuid="GPU-a", index=0, name="NVIDIA H100", memory_bytes=80 * GIB, used_bytes=3 * GIB, busy=0.42, minor=3
    )
    assert (second.name, second.index, second.minor, second.busy, second.sick) == ("NVIDIA L4", 1, -1, 0.0, "")


def test_a_divided_card_is_its_parts(world: World) -> None:
    world.is_({"uuid": "GPU-a", "minor": 0, "mig": [{"uuid": "MIG-1", "total": 10 * GIB}, {"uuid": "MIG-2"}]})
    found = world.look().gpus
    assert [(gpu.uuid, gpu.index, gpu.minor) for gpu in found] == [("MIG-1", 0, 0), ("MIG-2", 0, 0)]
    assert found[0].memory_bytes == 10 * GIB


def test_a_driver_that_hangs_is_left_behind(world: World) -> None:
    world.is_({"uuid": "GPU-a"}, hang=60)
    began = time.monotonic()
    seen = world.look(limit_s=1.0)
    assert (seen.gpus, seen.answered) == ((), False)
    assert time.monotonic() - began < 6


def test_the_default_question_ends_within_six_seconds_and_needs_no_driver() -> None:
    program = (
        "import sys, time; from worker.host.gpus import gpus; began = time.monotonic(); found = gpus()\n"
        "print(type(found).__name__, time.monotonic() - began < 6.5, 'pynvml' in sys.modules)"
    )  # in a process of its own: torch imports pynvml too
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["tuple", "True", "False"]


def test_a_process_that_cannot_be_killed_is_not_waited_for_and_not_joined_by_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.is_({"uuid": "GPU-a"}, hang=2)
    monkeypatch.setattr(subprocess.Popen, "kill", lambda _self: None)  # as if the kernel held it
    began = time.monotonic()
    assert not world.look(limit_s=0.3).answered
    world.is_({"uuid": "GPU-a"})
    assert not world.look().answered, "a second one was started"
    assert time.monotonic() - began < 2.5
    while not (seen := world.look()).answered:
        assert time.monotonic() - began < 30
        time.sleep(0.1)
    assert [gpu.uuid for gpu in seen.gpus] == ["GPU-a"]


def test_without_nvml_and_smi_there_is_no_gpu_and_that_is_an_answer(world: World) -> None:
    world.is_(absent=True)
    assert world.look() == Look()


def test_nvidia_smi_answers_where_nvml_cannot_be_loaded(world: World, processes: Any) -> None:
    world.is_(absent=True)
    stranger = processes()
    smi = world.folder / "smi"
    smi.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        '*query-gpu*) echo "GPU-a, 0, NVIDIA L4, 23034, 1000, 17"; echo "GPU-b, 1, NVIDIA L4, 23034, [N/A], [N/A]";;\n'
        f'*) echo "GPU-a, {stranger}, 900";;\n'
        "esac\n"
    )
    smi.chmod(0o755)
    first, second = world.look(smi=str(smi)).gpus
    assert (first.uuid, first.memory_bytes, first.busy) == ("GPU-a", 23034 * 2**20, 0.17)
    assert first.foreign_bytes == 900 * 2**20
    assert (second.used_bytes, second.busy, second.foreign_bytes) == (0, 0.0, 0)


def test_only_memory_of_others_is_foreign(world: World, processes: Any) -> None:
    mine = processes(TRAINYARD_RUN_DIR="/runs/r-1")
    below = processes(("sh", "-c", "env -u TRAINYARD_RUN_DIR sleep 600 & wait"), TRAINYARD_RUN_DIR="/runs/r-1")
    while not (children := Path(f"/proc/{below}/task/{below}/children").read_text().split()):
        time.sleep(0.01)
    supervisor = processes((sys.executable, "-c", "import time; time.sleep(600)", "worker.supervisor"))
    warm = processes((sys.executable, "-c", "import time; time.sleep(600)", "/opt/site/worker/warm/zygote.py"))
    stranger = processes()
    held = [[mine, 10 * GIB], [int(children[0]), 5 * GIB], [supervisor, GIB], [warm, GIB], [stranger, 2 * GIB]]
    world.is_({"uuid": "GPU-a", "used": 18 * GIB, "processes": held})
    (gpu,) = world.look().gpus
    assert gpu.foreign_bytes == 2 * GIB
    os.kill(int(children[0]), 9)


def test_a_stranger_whose_memory_nobody_tells_holds_what_is_left(world: World, processes: Any) -> None:
    mine, stranger = processes(TRAINYARD_RUN_DIR="/runs/r-1"), processes()
    world.is_({"uuid": "GPU-a", "used": 18 * GIB, "processes": [[mine, 10 * GIB], [stranger, None]]})
    assert world.look().gpus[0].foreign_bytes == 8 * GIB


def test_swapped_and_impossible_entries_of_the_process_list(world: World, processes: Any) -> None:
    stranger = processes()
    world.is_(
        {"uuid": "GPU-a", "used": 3 * GIB, "processes": [[2 * GIB, stranger]]},  # fields swapped
        {"uuid": "GPU-b", "used": 3 * GIB, "processes": [[2**40, 2**50], [0, 5], [-1, 7]]},
    )
    first, second = world.look().gpus
    assert first.foreign_bytes == 2 * GIB
    assert second.foreign_bytes == 0


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ({"ecc": 3}, "3 uncorrected memory errors"),
        ({"retiring": 1}, "wait to be retired"),
        ({"remapped": [0, 1, 0, 1]}, "could not be remapped"),
        ({"remapped": [0, 1, 1, 0]}, "needs a reset"),
        ({"ecc": 0, "retiring": 0, "remapped": [2, 0, 0, 0]}, ""),
    ],
)
def test_faults_of_the_hardware(world: World, fault: dict[str, Any], word: str) -> None:
    world.is_({"uuid": "GPU-a", **fault})
    (gpu,) = world.look().gpus
    assert (word in gpu.sick) if word else gpu.sick == ""


def test_xids_of_the_hardware_count_and_those_of_programs_do_not() -> None:
    log = (
        "4,1,1,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
        "4,2,2,-;NVRM: Xid (PCI:0000:5e:00): 13, pid=7, Graphics Exception\n"
        "4,3,3,-;NVRM: Xid (PCI:0000:86:00): 31, pid=8, MMU Fault\n"
    )
    assert hardware_xids(log) == {"0:3b:00": 79}


def test_one_card_that_is_lost_does_not_hide_the_others(world: World) -> None:
    world.is_({"uuid": "GPU-a"}, {"uuid": "GPU-b", "lost": True}, {"uuid": "GPU-c"})
    seen = world.look()
    assert [gpu.uuid for gpu in seen.gpus] == ["GPU-a", "GPU-c"]
    assert seen.broken == {1: "GPU is lost"}


# --- Over time ---------------------------------------------------------------------------------------------------


def test_a_gpu_that_vanishes_is_named_sick_and_healed_only_after_a_while(world: World) -> None:
    watch = GpuWatch()
    world.is_({"uuid": "GPU-a"}, {"uuid": "GPU-b"})
    assert [gpu.sick for gpu in watch.judge(world.look())] == ["", ""]
    world.is_({"uuid": "GPU-a"})
    sick = [watch.judge(world.look())[1].sick for _ in range(ERRORS)]
    assert sick == ["", "the driver no longer shows it"]
    world.is_({"uuid": "GPU-a"}, {"uuid": "GPU-b"})
    again = [[gpu.sick for gpu in watch.judge(world.look())] for _ in range(WELL)]
    assert [second for _, second in again] == ["the driver no longer shows it"] * (WELL - 1) + [""]
    assert all(first == "" for first, _ in again)


def test_one_missed_answer_is_forgiven_two_are_not(world: World) -> None:
    watch = GpuWatch()
    world.is_({"uuid": "GPU-a"})
    watch.judge(world.look())
    world.is_(dead=True)
    assert watch.judge(world.look())[0].sick == ""
    assert "has not answered 2 times running" in watch.judge(world.look())[0].sick
    world.is_({"uuid": "GPU-a", "lost": True})
    assert watch.judge(world.look())[0].sick == "NVML cannot read it: GPU is lost"


def test_a_fault_counts_at_once_and_flapping_does_not_heal() -> None:
    gpu = GpuInfo(uuid="GPU-a", index=0, name="x", memory_bytes=1)
    watch = GpuWatch()
    good, bad = Look((gpu,)), Look((gpu.model_copy(update={"sick": "Xid 79"}),))
    assert watch.judge(good)[0].sick == ""
    for seen in (bad, good, bad, good, good):
        assert watch.judge(seen)[0].sick == "Xid 79"
    assert watch.judge(good)[0].sick == ""


# --- The host's word ---------------------------------------------------------------------------------------------


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    server = EmbeddedRedis(tmp_path / "redis")
    yield server.start()
    server.stop()


def test_the_host_says_what_it_has_and_lives_on_while_the_driver_hangs(
    world: World, tmp_path: Path, redis_url: str
) -> None:
    world.is_({"uuid": "GPU-a", "minor": 0})
    (tmp_path / "secrets").mkdir(mode=0o700)
    (tmp_path / "secrets/HF_TOKEN").write_text("hf-value-of-it")
    beat = HostBeat(
        "gpu-1",
        home=tmp_path,
        redis_url=redis_url,
        tier="bwrap",
        slots=5,
        networks=("none", "hub", "open"),
        disk_low=lambda: True,
        consuming=lambda: False,
        warm=lambda: ("torch",),
        secrets=lambda: names(tmp_path),
        ask_gpus=world.look,
    )
    beat.beat()
    client = connect(redis_url)

    def word() -> HostInfo:
        raw = client.get("trainyard:host:gpu-1")
        assert isinstance(raw, bytes)
        return decode(HostInfo, raw)

    info = word()
    assert [gpu.uuid for gpu in info.gpus] == ["GPU-a"]
    assert (info.slots, info.networks, info.warm) == (5, ("none", "hub", "open"), ("torch",))
    assert (info.consuming, info.disk_low, info.secrets) == (False, True, ("HF_TOKEN",))
    assert b"hf-value-of-it" not in (client.get("trainyard:host:gpu-1") or b"")
    assert len(info.boot_id) == 36
    world.is_({"uuid": "GPU-a"}, hang=60)
    beat._gpus_due = float("-inf")  # the next look is due
    began = time.monotonic()
    beat.beat()
    assert time.monotonic() - began < 5
    assert word().at > info.at
    assert [gpu.uuid for gpu in word().gpus] == ["GPU-a"]
