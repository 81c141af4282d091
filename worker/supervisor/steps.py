"""The steps of an attempt: what each executes and what it may see.

Owns argument lists, environments and walls. Executes nothing. Called by `worker.supervisor.attempt`.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.domain.orders import GpuInfo, LaunchOrder
from agent.domain.runs import JobKind, Script
from agent.domain.tasks import TASKS
from worker.folders import RunFolder
from worker.sandbox import Command, Walls, wrap
from worker.settings import libraries
from worker.supervisor.installing import ENVIRONMENT, INSTALL

# What the supervisor owns inside the run's folder: a step may read it and never change it.
_OURS = (
    "order.json", "fence", "lock", "launch.lock", "spool.jsonl", "output.log", "supervisor.log", "sent.json",
    "stop.json", "supervisor.json",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One child process.

    `name` is what people are told; `sealed` whether it may see the sealed labels, and then it runs in the workspace
    and does not see its folder; `installs` whether it may reach the package index; `serves` whether it answers on a
    socket that is opened for it; `ranks` how many processes torchrun starts for it, 0 without torchrun.
    """

    name: str
    argv: tuple[str, ...]
    sealed: bool = False
    trains: bool = False
    installs: bool = False
    serves: bool = False
    ranks: int = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """What an attempt does: at most one step before the training, and at most one after it."""

    first: Step | None
    train: Step
    evaluate: Step | None = None


def steps_for(folder: RunFolder, order: LaunchOrder, *, prepared: bool = False) -> Steps:
    """The steps of this kind of job; without the first where an earlier attempt did it."""
    if order.spec.script is not None:
        return _script_steps(folder, order, order.spec.script, prepared=prepared)
    python = sys.executable
    apply = Step("Predicting (train.py)", (python, "train.py"), trains=True)
    if order.spec.job is JobKind.PREDICTION:
        return Steps(None, apply)
    sealed = ("--run-dir", ".", "--sealed-dir", str(folder.sealed))
    prepare = Step("Preparing the data", (python, "-m", "worker.recipes.prepare", *sealed), sealed=True)
    evaluate = Step("The evaluation", (python, "-m", "worker.recipes.evaluate", *sealed), sealed=True)
    train = apply if order.spec.job is JobKind.EVALUATION else _recipe_step(order, python)
    return Steps(None if prepared else prepare, train, evaluate)


def _script_steps(folder: RunFolder, order: LaunchOrder, script: Script, *, prepared: bool) -> Steps:
    """A program of somebody's own; what it requires and the host lacks is installed first, into the run's folder."""
    program = (script.entry, *script.arguments)
    if order.spec.job is JobKind.SERVING:
        return Steps(None, Step("The server of the model", (sys.executable, *program), trains=True, serves=True))
    if not script.requirements:
        return Steps(None, _training(order, sys.executable, *program))
    install = Step("Installing the requirements", (sys.executable, *INSTALL, *script.requirements), installs=True)
    return Steps(None if prepared else install, _training(order, f"{folder.path}/{ENVIRONMENT}/bin/python", *program))


def _recipe_step(order: LaunchOrder, python: str) -> Step:
    """A recipe that trains no network would do all of it in each process."""
    if (task := TASKS.get(order.spec.recipe)) and task.uses_gpu:
        return _training(order, python, "train.py")
    return Step("Training (train.py)", (python, "train.py"), trains=True)


def _training(order: LaunchOrder, python: str, *program: str) -> Step:
    name, gpus = f"Training ({program[0]})", gpu_count(order)
    if gpus < 2:
        return Step(name, (python, *program), trains=True)
    # Its restarts are off: trying again is decided for the run as a whole.
    torchrun = ("torch.distributed.run", "--standalone", f"--nproc-per-node={gpus}", "--max-restarts=0")
    return Step(name, (python, "-m", *torchrun, *program), trains=True, ranks=gpus)


def place_of(step: Step, folder: RunFolder) -> Path:
    """The working directory of a step, which Python imports from."""
    return folder.workspace if step.sealed else folder.path


def device_numbers(order: LaunchOrder, there: Sequence[GpuInfo]) -> tuple[int, ...] | bool:
    """The device files of the order's GPUs; True, all of the host's, where it names none or they are not `there`."""
    if not order.gpu_uuids:
        return order.spec.gpus > 0
    numbers = {gpu.uuid: gpu.minor for gpu in there}
    found = tuple(numbers.get(uuid, -1) for uuid in order.gpu_uuids)
    return True if -1 in found else found


def gpu_count(order: LaunchOrder) -> int:
    """How many GPUs the attempt has."""
    return len(order.gpu_uuids) or order.spec.gpus


@dataclass(frozen=True, slots=True)
class Granted:
    """What the training gets and no other step does: secrets by name, the socket of the way out.

    `minors` are the numbers of the GPUs' device files (True is all that this host has); what comes after the training
    gets them too, as it may run the model. `index` is the address of the package index, where it is not the usual one.
    `serving` is what the server of a model is told, as environment.
    """

    secrets: Mapping[str, str] = field(default_factory=dict)
    minors: tuple[int, ...] | bool = ()
    egress: Path | None = None
    index: str = ""
    serving: Mapping[str, str] = field(default_factory=dict)


def command_for(
    step: Step, folder: RunFolder, order: LaunchOrder, *, tier: str, granted: Granted
) -> tuple[Command, Mapping[str, str]]:
    """What to execute, and its whole environment."""
    env = environment(folder.path, order)
    if step.trains:
        env |= {**(order.spec.script.environment if order.spec.script else {}), **granted.secrets}
    env |= granted.serving if step.serves else {}
    if step.installs and granted.index:
        env["PIP_INDEX_URL"] = granted.index
    at = place_of(step, folder)
    env["HOME"] = str(at)  # Python may import what lies in a home
    walls = Walls(
        folder=at,
        writable=(folder.sealed,) if step.sealed else (),
        readable=(
            *(path for name in _OURS if (path := at / name).exists()),
            *(path for path in folder.spools() if path.parent == at and path.name not in _OURS),  # of earlier attempts
        ),
        network=order.spec.network if step.trains else "open" if step.installs else "none",
        gpus=granted.minors if step.trains or step.sealed else (),
        env=env,
        egress=granted.egress if step.trains else None,
    )
    command = wrap(tier, step.argv, walls)
    return command, env


def environment(folder: Path, order: LaunchOrder) -> dict[str, str]:
    """A clean environment: nothing of the worker's own gets in, but where libraries lie.

    GPUs are those of the order by uuid. Where it names none they are the first `gpus` of the host, none for 0.
    """
    numbered = [str(number) for number in range(order.spec.gpus)]
    env = {
        **basic_environment(folder),
        "TRAINYARD_RUN_DIR": str(folder),
        "TRAINYARD_RUN_ID": order.run,
        "TRAINYARD_ATTEMPT": str(order.attempt),
        "TRAINYARD_SUPERVISED": "2",  # 1: of runtimes whose rows a supervisor had to convert; they do so themselves now
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(order.gpu_uuids or numbered),
    }
    if order.spec.network == "none":
        env["HF_HUB_OFFLINE"] = "1"
    return env


def basic_environment(folder: Path) -> dict[str, str]:
    """What any script of ours needs."""
    return {
        **libraries(),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "USER": "trainyard",  # no account is known inside, and `getpass.getuser` fails without a name
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # SIGABRT and crashes print where each thread stands
        "PYTHONDONTWRITEBYTECODE": "1",
        "LOKY_MAX_CPU_COUNT": str(os.cpu_count() or 1),  # joblib fails to count them in a sandbox, and warns at length
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",  # of transformers too; a log would get a line for each move of a bar
        # Large tensors in pages of 2 MB, where the kernel gives them to those who ask: at 4 KB each, a small encoder's
        # first forward pass spends a third of its time on page faults. An older C library, or another, ignores it.
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        # pandas imports pyarrow where it is there, whose allocator would start a thread; a zygote must have none.
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
    }
