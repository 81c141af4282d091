"""What the monitor can find, from which thresholds on, and how metrics are named. Pure values for the rules."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from agent.domain.runs import ExitClass

_PART = re.compile(r"^(train|training|valid|validation|val|eval|test|dev)[_/](.+)$")
_TRAIN = frozenset({"train", "training"})
_LOWER = frozenset({"loss", "error", "rmse", "mae", "mse", "perplexity", "wer", "cer", "nll"})
_HIGHER = frozenset({"accuracy", "acc", "auc", "f1", "precision", "recall", "r2", "bleu", "rouge", "map", "iou"})


class Kind(StrEnum):
    """What was found."""

    CRASH = "crash"
    NON_FINITE = "non_finite"
    DIVERGENCE = "divergence"
    OVERFITTING = "overfitting"
    PLATEAU = "plateau"
    STALL = "stall"
    GPU_IDLE = "gpu_idle"
    GPU_MEMORY = "gpu_memory"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. `text` has the numbers, `suggestion` what may help; both are whole sentences."""

    kind: Kind
    severity: Literal["info", "warn", "bad"]
    text: str
    suggestion: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on a rule reports, in seconds, shares and counts; tests scale the seconds."""

    plateau_points: int = 60
    plateau_share: float = 0.4  # of all points: the window that has to show nothing new
    plateau_gain: float = 0.01  # of all that was gained so far: less than this in the window is nothing
    plateau_progress: float = 0.8  # of the steps: after that the end is near anyway
    overfit_points: int = 8  # of the held-out metric
    overfit_loss: float = 0.05  # of all that was gained: less worsening than this is not worth a word
    diverged_gain: float = 0.5  # of all that was gained, lost again
    stall_steps: float = 20.0  # usual steps
    stall_gaps: float = 3.0  # longest pauses so far
    stall_s: float = 300.0
    idle_s: float = 300.0
    idle_busy: float = 0.1
    idle_samples: int = 10
    memory_s: float = 600.0
    memory_used: float = 0.3


AFTER: dict[ExitClass, str] = {
    ExitClass.USER_ERROR: "The last lines of its log name the place; correct the program and start it again.",
    ExitClass.BAD_DATA: "Correct the data, or the columns of the plan, and start it again.",
    ExitClass.CUDA_OOM: "Halve the batch size and double gradient accumulation, or shorten the sequences.",
    ExitClass.CUDA_FAULT: "Often a label or token id is out of range (a device-side assert); else the GPU may be ill.",
    ExitClass.HOST_OOM: "Fewer data loader workers, smaller chunks of data, or a host with more memory.",
    ExitClass.DIVERGED: "A lower learning rate, a longer warm-up or clipped gradients may help.",
    ExitClass.HANG: "The stack dump in its log shows where each thread stood.",
    ExitClass.DISK_FULL: "Free space on the host, or keep fewer checkpoints, and resume it.",
    ExitClass.NCCL: "One of its processes was lost or slow; resume it, or use one GPU.",
    ExitClass.PREEMPTED: "Resume it: it goes on from its newest checkpoint.",
    ExitClass.KILLED: "It was ended from outside or by its time limit; resume it if that was not meant.",
    ExitClass.LOST: "Look at the host; resume it there once it is back.",
}


def part_of(name: str) -> tuple[bool, str]:
    """Whether a metric is of the training part (what says nothing is), and its name without the part."""
    found = _PART.match(name.lower())
    return (found.group(1) in _TRAIN, found.group(2)) if found else (True, name.lower())


def sign_of(metric: str) -> int:
    """1 where lower is better, -1 where higher is, 0 where nobody knows."""
    words = set(re.split(r"[^a-z0-9]+", metric))
    return 1 if words & _LOWER else -1 if words & _HIGHER else 0


def number(value: float) -> str:
    """Four digits are enough for a sentence."""
    return f"{value:.4g}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 90:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
