"""What stands ready on this host, what is asked for, and which of it a step may begin from.

Owns `ready.json` and the requests in the warm folder, and the rules of fitness. Starts nothing. Written by
`worker.warm.pool`, read by supervisors and by the host's word about itself.
"""

import contextlib
import hashlib
import json
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.domain.tasks import TASKS
from worker.folders import write_atomically
from worker.supervisor.steps import basic_environment
from worker.warm.preload import SETS

# Where the zygote believes its home to be. Each sandbox has a link there to its run's folder, because libraries compute
# their caches' places once, when they are imported.
HOME = Path("/trainyard-home")
READY = "ready.json"
_ASKED = ".asked"
AUTO = "auto"

_STEPS = ("data",)
_ANY = ("torch", "transformers")  # for a script of somebody: the smaller one first
# Read by libraries when they are imported: a step with other values than the zygote's must start cold.
_EARLY = (
    "ACCELERATE_", "BLIS_", "GLIBC_", "GOMP_", "GOTO_", "HF_", "HUGGINGFACE_", "JE_", "KMP_", "LANG", "LC_", "LD_",
    "MALLOC_", "MKL_", "NUMEXPR_", "OMP_", "OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH", "TRANSFORMERS_", "XDG_",
)  # fmt: skip
# Read whenever they are needed, or handed on by the zygote.
_LATE = frozenset({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "PYTORCH_NVML_BASED_CUDA_CHECK"})
_DRIVER = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class ReadySet:
    """A process that answers. `state` is what `environment_state` was when it loaded its libraries."""

    name: str
    socket: str
    pid: int
    state: str


@dataclass(frozen=True, slots=True)
class WarmStart:
    """How a step may begin warm: `folder` is the host's warm folder, `sets` in the order of preference.

    Where none of them stands, the last one is asked for.
    """

    folder: Path
    argv: tuple[str, ...]
    sets: tuple[str, ...]

    def ready(self) -> ReadySet | None:
        """The first of the sets that stands ready."""
        standing = {ready.name: ready for ready in read_ready(self.folder)}
        return next((standing[name] for name in self.sets if name in standing), None)


def warm_start(folder: Path, recipe: str, argv: Sequence[str], *, trains: bool = True) -> WarmStart:
    """For a step that executes `argv`, of a run with this recipe.

    The steps beside the training begin from a small process: one with all libraries takes longer to end than they run.
    """
    return WarmStart(folder, tuple(argv), _training_sets(recipe) if trains else _STEPS)


def _training_sets(recipe: str) -> tuple[str, ...]:
    task = TASKS.get(recipe)
    return (task.warm if task else ()) or _ANY


def expect_run(folder: Path, recipe: str) -> None:
    """Ask for what a run of this recipe begins from: people are about to be asked about one."""
    for name in (_training_sets(recipe)[-1], *_STEPS):
        ask_for(folder, name)


def ask_for(folder: Path, name: str) -> None:
    """Let a set be loaded, or stay. A full disk costs no more than a warm start."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / f"{name}{_ASKED}").touch()


def asked_within(folder: Path, name: str, seconds: float) -> bool:
    """Whether somebody asked for a set not longer ago."""
    try:
        return time.time() - (folder / f"{name}{_ASKED}").stat().st_mtime < seconds
    except FileNotFoundError:
        return False


def sets_of(setting: str) -> tuple[str, ...]:
    """The sets that `warm = auto | off | comma list` lets stand; with auto, when somebody asks.

    Raises:
        ValueError: a name is not a set.
    """
    if setting.strip().lower() in {"off", "none", ""}:
        return ()
    if setting.strip().lower() == AUTO:
        return tuple(SETS)
    names = tuple(dict.fromkeys(word.strip() for word in setting.split(",") if word.strip()))
    unknown = [name for name in names if name not in SETS]
    if unknown:
        raise ValueError(
            f"TRAINYARD_WARM names {', '.join(unknown)}, which is no set of libraries. "
            f"Use auto, off, or some of: {', '.join(SETS)}."
        )
    return names


def zygote_environment() -> dict[str, str]:
    """The zygote's whole environment: a step's, without anything of a run."""
    return {
        **basic_environment(HOME),
        "HF_HUB_OFFLINE": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # libraries that ask for devices when imported must not touch CUDA
    }


def why_cold(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Why this step cannot begin from a zygote, empty when it can."""
    if len(argv) < 2 or argv[0] != sys.executable or (argv[1].startswith("-") and argv[1] != "-m"):
        return "it is not a plain start of this interpreter"
    if argv[1] == "-m" and len(argv) > 2 and argv[2].split(".")[0] == "torch":
        return "torchrun starts its own interpreters"
    own = zygote_environment()
    changed = [
        name
        for name in sorted(own.keys() | env.keys())
        if name.startswith(_EARLY) and name not in _LATE and own.get(name) != env.get(name)
    ]
    return f"libraries read {', '.join(changed)} when they are loaded" if changed else ""


def environment_state() -> str:
    """Changes when the interpreter, an installed package or the GPU driver changes.

    Installers put a folder for a package's version in the place of another, which changes the time of the folder above.
    """
    digest = hashlib.sha256(sys.version.encode())
    places = {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"]}
    for file in (Path(sys.executable), *(Path(place) for place in sorted(places))):
        digest.update(_stamp(file))
    if _DRIVER.exists():
        digest.update(_DRIVER.read_bytes())
    return digest.hexdigest()[:16]


def write_ready(folder: Path, ready: Sequence[ReadySet]) -> None:
    """Tell supervisors and the host's beat what stands."""
    rows = [{field: getattr(one, field) for field in ReadySet.__slots__} for one in ready]
    write_atomically(folder / READY, json.dumps({"sets": rows}).encode(), mode=0o600)


def read_ready(folder: Path) -> list[ReadySet]:
    """What stands ready now; nothing when no pool writes there. A zygote that is gone is left out."""
    try:
        rows = json.loads((folder / READY).read_bytes())["sets"]
        found = [ReadySet(**row) for row in rows]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []
    return [one for one in found if Path(one.socket).exists() and Path(f"/proc/{one.pid}").exists()]


def ready_sets(folder: Path) -> tuple[str, ...]:
    """The names of the sets that stand ready: `HostInfo.warm`."""
    return tuple(one.name for one in read_ready(folder) if one.name in SETS)


def _stamp(path: Path) -> bytes:
    try:
        found = path.stat()
    except FileNotFoundError:
        return f"{path.name} is gone".encode()
    return f"{path.name} {found.st_mtime_ns} {found.st_ino}".encode()
