"""From exit codes and last words to a class and a sentence. Pure: opens nothing, knows no process.

Called by `worker.supervisor.attempt` when a step ended badly. The sentence is shown to people as it is.
"""

import re
import signal
from dataclasses import dataclass, replace
from itertools import pairwise

from agent.domain.runs import REFUSED_EXIT, ExitClass, Outcome, RunState

BAD_DATA_EXIT = REFUSED_EXIT
PREEMPTED_EXITS = (75, 143, -signal.SIGTERM)
TRACEBACK_LINES = 15
_PREEMPTED = "The host ended {step} (SIGTERM); it was not asked for here."

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
        re.compile(r"No space left on device|Errno 28\b|Disk quota exceeded|Errno 122\b"),
        "The host's disk is full. Free some space, then start again.",
    ),
    (
        ExitClass.HOST_OOM,
        re.compile(r"^(?:[\w.]*\.)?MemoryError\b", re.MULTILINE),
        "The host ran out of memory. A smaller batch or less data needs less.",
    ),
)
_NO_PROCESS = re.compile(r"Errno 11\b|[Rr]esource temporarily unavailable|can't start new thread|Cannot fork")
_NO_FILE = re.compile(r"Errno 24\b|Too many open files")
# What CUDA and the driver say when the device itself stopped: asserts in kernels, bad addresses, Xid, ECC.
_DEVICE_FAULT = re.compile(
    r"device-side assert|illegal memory access|illegal instruction was encountered|misaligned address"
    r"|unspecified launch failure|uncorrectable ECC|\bXid\b.{0,40}\d|fallen off the bus|GPU is lost"
)
_DEVICE_SENTENCE = "The GPU stopped with a fault ({said}). An index out of range and a sick GPU look like this."
_SUPERVISED_BY = re.compile(r"torch[/.]distributed[/.](?:run|launcher|elastic)|ChildFailedError|SignalException")
_ROOT_CAUSE = re.compile(
    r"Root Cause \(first observed failure\):.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)", re.DOTALL
)
_RANK = re.compile(r"\[rank(\d+)\]:\s?")


@dataclass(frozen=True, slots=True)
class Death:
    """How a step ended: `code` is negative for a signal.

    `oom`: the kernel killed for memory meanwhile, somewhere on the host; `own_oom`: it killed a process of this step.
    `too_large`, `files` and `crowded` are sentences about the limits of memory, of open files and of processes, the
    last only where the kernel refused it one; empty: there is none.
    """

    step: str
    code: int
    tail: str
    oom: bool = False
    own_oom: bool = False
    too_large: str = ""
    files: str = ""
    crowded: str = ""


def failed(exit_class: ExitClass, reason: str, *, code: int | None = None, traceback: tuple[str, ...] = ()) -> Outcome:
    """A failure in one line."""
    return Outcome(state=RunState.FAILED, exit_class=exit_class, exit_code=code, reason=reason, traceback=traceback)


def classify(death: Death) -> Outcome:
    """The outcome of a step that ended with `code` other than 0 though nobody asked it to end."""
    death = replace(death, code=real_code(death.code, death.tail))
    traceback = traceback_tail(death.tail)
    exit_class, reason = _from_signal(death) or _from_words(death, traceback)
    return failed(exit_class, reason, code=death.code, traceback=traceback)


def real_code(code: int, tail: str) -> int:
    """The exit code of the process that failed first, where torchrun stands before it; else `code`."""
    found = _ROOT_CAUSE.search(tail)
    return int(found[2]) if found else code


def preempted(step: str) -> Outcome:
    """A step that saved and ended as if it were asked to, and nobody here had asked."""
    return failed(ExitClass.PREEMPTED, _PREEMPTED.format(step=step), code=0)


def _from_signal(death: Death) -> tuple[ExitClass, str] | None:
    if death.own_oom and death.too_large:
        return ExitClass.HOST_OOM, death.too_large
    if death.own_oom or (death.oom and death.code in (-signal.SIGKILL, 137)):
        return (
            ExitClass.HOST_OOM,
            f"The host ran out of memory and ended {death.step}. A smaller batch or less data needs less.",
        )
    if death.code in (-signal.SIGKILL, 137):
        return ExitClass.KILLED, f"Somebody or something on the host killed {death.step} (SIGKILL)."
    if death.code in PREEMPTED_EXITS:
        return ExitClass.PREEMPTED, _PREEMPTED.format(step=death.step)
    if death.code < 0 and not _DEVICE_FAULT.search(death.tail):
        name = signal.Signals(-death.code).name if -death.code in set(signal.Signals) else f"signal {-death.code}"
        return ExitClass.USER_ERROR, f"{death.step} crashed inside native code ({name})."
    return None


def _from_words(death: Death, traceback: tuple[str, ...]) -> tuple[ExitClass, str]:
    words = "\n".join(traceback)
    for exit_class, pattern, sentence in _PATTERNS:
        if pattern.search(words):
            return exit_class, sentence
    for pattern, said in ((_NO_PROCESS, death.crowded), (_NO_FILE, death.files)):
        if said and pattern.search(words):
            return ExitClass.USER_ERROR, said
    fault = _DEVICE_FAULT.search(words) or (_DEVICE_FAULT.search(death.tail) if death.code < 0 else None)
    if fault:
        return ExitClass.CUDA_FAULT, _DEVICE_SENTENCE.format(said=fault[0])
    last = next((line.strip() for line in reversed(traceback) if line.strip()), "")
    said = f": {last[:300]}" if last else " without a word"
    return ExitClass.USER_ERROR, f"{death.step} crashed with exit code {death.code}{said}"


def traceback_tail(text: str) -> tuple[str, ...]:
    """The last lines of the last traceback in `text`, or simply the last lines where there is none.

    Under torchrun the program's own traceback is meant, of the rank that failed first, not torchrun's about it.
    """
    root = _ROOT_CAUSE.search(text)
    lines = text.rstrip().splitlines()
    if root:
        lines = _of_rank(lines, root[1])
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call last)")]
    blocks = [lines[start:end] for start, end in pairwise([*starts, len(lines)])]
    if root:
        whole = [_trimmed(block) for block in blocks]
        blocks = [block for block in whole if not any(_SUPERVISED_BY.search(line) for line in block)] or blocks
    block = blocks[-1] if blocks else lines
    return tuple(block[-TRACEBACK_LINES:])


def _of_rank(lines: list[str], rank: str) -> list[str]:
    """Without the lines of other ranks, and without the mark that torch puts before those of this one."""
    kept = []
    for line in lines:
        mark = _RANK.match(line)
        if mark is None or mark[1] == rank:
            kept.append(line[mark.end() :] if mark else line)
    return kept


def _trimmed(block: list[str]) -> list[str]:
    """Up to the exception's own line: other output may follow before the next traceback."""
    for number, line in enumerate(block[1:], start=1):
        if line and not line[0].isspace():
            return block[: number + 1]
    return block
