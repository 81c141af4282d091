"""From exit codes and last words to a class and a sentence. Pure: opens nothing, knows no process.

Called by `worker.supervisor.attempt` when a step ended badly. The sentence is shown to people as it is.
"""

import re
import signal
from dataclasses import dataclass

from agent.domain.runs import ExitClass, Outcome, RunState

BAD_DATA_EXIT = 65
PREEMPTED_EXITS = (75, 143, -signal.SIGTERM)
TRACEBACK_LINES = 15

_PATTERNS: tuple[tuple[ExitClass, re.Pattern[str], str], ...] = (
    (
        ExitClass.CUDA_OOM,
        re.compile(r"OutOfMemoryError|CUDA out of memory|CUBLAS_STATUS_ALLOC_FAILED"),
        "The GPU ran out of memory. A smaller batch or a smaller model needs less.",
    ),
    (
        ExitClass.NCCL,
        re.compile(r"Watchdog caught collective operation timeout|ncclSystemError|ncclInternalError"),
        "The GPUs lost contact with each other (NCCL).",
    ),
    (
        ExitClass.DISK_FULL,
        re.compile(r"No space left on device|Errno 28"),
        "The host's disk is full. Free some space, then start again.",
    ),
    (
        ExitClass.HOST_OOM,
        re.compile(r"^(?:[\w.]*\.)?MemoryError\b", re.MULTILINE),
        "The host ran out of memory. A smaller batch or less data needs less.",
    ),
)
_DEVICE_FAULT = re.compile(r"device-side assert|illegal memory access")


@dataclass(frozen=True, slots=True)
class Death:
    """How a step ended: `code` is negative for a signal; `oom` whether the kernel killed for memory meanwhile."""

    step: str
    code: int
    tail: str
    oom: bool = False


def failed(exit_class: ExitClass, reason: str, *, code: int | None = None, traceback: tuple[str, ...] = ()) -> Outcome:
    """A failure in one line."""
    return Outcome(state=RunState.FAILED, exit_class=exit_class, exit_code=code, reason=reason, traceback=traceback)


def classify(death: Death) -> Outcome:
    """The outcome of a step that ended with `code` other than 0 though nobody asked it to end."""
    traceback = traceback_tail(death.tail)
    exit_class, reason = _from_signal(death) or _from_words(death, traceback)
    return failed(exit_class, reason, code=death.code, traceback=traceback)


def _from_signal(death: Death) -> tuple[ExitClass, str] | None:
    if death.code in (-signal.SIGKILL, 137):
        if death.oom:
            return (
                ExitClass.HOST_OOM,
                f"The host ran out of memory and ended {death.step}. A smaller batch or less data needs less.",
            )
        return ExitClass.KILLED, f"Somebody or something on the host killed {death.step} (SIGKILL)."
    if death.code in PREEMPTED_EXITS:
        return ExitClass.PREEMPTED, f"The host ended {death.step} (SIGTERM); it was not asked for here."
    if death.code < 0 and not _DEVICE_FAULT.search(death.tail):
        name = signal.Signals(-death.code).name if -death.code in set(signal.Signals) else f"signal {-death.code}"
        return ExitClass.USER_ERROR, f"{death.step} crashed inside native code ({name})."
    return None


def _from_words(death: Death, traceback: tuple[str, ...]) -> tuple[ExitClass, str]:
    words = "\n".join(traceback)
    for exit_class, pattern, sentence in _PATTERNS:
        if pattern.search(words):
            return exit_class, sentence
    if _DEVICE_FAULT.search(words):
        return (
            ExitClass.USER_ERROR,
            "The GPU stopped at a bad index or address (device-side assert), often a label out of range.",
        )
    last = next((line.strip() for line in reversed(traceback) if line.strip()), "")
    said = f": {last[:300]}" if last else " without a word"
    return ExitClass.USER_ERROR, f"{death.step} crashed with exit code {death.code}{said}"


def traceback_tail(text: str) -> tuple[str, ...]:
    """The last lines of the last traceback in `text`, or simply the last lines where there is none."""
    lines = text.rstrip().splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    block = lines[starts[-1] :] if starts else lines
    return tuple(block[-TRACEBACK_LINES:])
