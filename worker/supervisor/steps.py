"""The steps of an attempt: what each executes and what it may see.

Owns argument lists, environments and walls. Executes nothing. Called by `worker.supervisor.attempt`.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.domain.orders import LaunchOrder
from worker.folders import RunFolder
from worker.sandbox import Command, Walls, wrap

# What the supervisor owns inside the run's folder: a step may read it and never change it.
_OURS = ("order.json", "fence", "lock", "launch.lock", "spool.jsonl", "output.log", "supervisor.log", "sent.json")


@dataclass(frozen=True, slots=True)
class Step:
    """One child process. `name` is what people are told; `sealed` whether it may see the sealed labels."""

    name: str
    argv: tuple[str, ...]
    sealed: bool = False
    trains: bool = False


def steps_for(folder: RunFolder) -> tuple[Step, Step, Step]:
    """Prepare, train, evaluate."""
    python = sys.executable
    sealed = ("--run-dir", ".", "--sealed-dir", str(folder.sealed))
    return (
        Step("Preparing the data", (python, "-m", "worker.recipes.prepare", *sealed), sealed=True),
        Step("Training (train.py)", (python, "train.py"), trains=True),
        Step("The evaluation", (python, "-m", "worker.recipes.evaluate", *sealed), sealed=True),
    )


def command_for(step: Step, folder: RunFolder, order: LaunchOrder, *, tier: str) -> tuple[Command, Mapping[str, str]]:
    """What to execute, and its whole environment."""
    env = environment(folder.path, order)
    walls = Walls(
        folder=folder.path,
        writable=(folder.sealed,) if step.sealed else (),
        readable=tuple(path for name in _OURS if (path := folder.path / name).exists()),
        network=step.trains and order.spec.network != "none",
        gpus=step.trains and order.spec.gpus > 0,
        env=env,
    )
    command = wrap(tier, step.argv, walls)
    return command, env


def environment(folder: Path, order: LaunchOrder) -> dict[str, str]:
    """A clean environment: nothing of the worker's own gets in. GPUs are the first `gpus` of the host, none for 0."""
    env = {
        **basic_environment(folder),
        "TRAINYARD_RUN_DIR": str(folder),
        "TRAINYARD_RUN_ID": order.run,
        "TRAINYARD_ATTEMPT": str(order.attempt),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(str(number) for number in range(order.spec.gpus)),
    }
    if order.spec.network == "none":
        env["HF_HUB_OFFLINE"] = "1"
    return env


def basic_environment(folder: Path) -> dict[str, str]:
    """What any script of ours needs."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # SIGABRT and crashes print where each thread stands
        "PYTHONDONTWRITEBYTECODE": "1",
    }
