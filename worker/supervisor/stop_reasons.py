"""Who wants this attempt to end, and why: people, the host, its time limit, a newer attempt, what the guards saw.

Owns the reasons, their order and the outcome of each. Sends no signals. Asked by `worker.supervisor.stage` in its loop.
"""

import errno
import os
import time
from enum import Enum
from types import FrameType

from agent.domain.orders import StopOrder
from agent.domain.runs import ExitClass, Outcome, RunState
from agent.wire import Malformed, decode
from worker.folders import RunFolder, read_fence, read_plain
from worker.supervisor.exits import failed

DIVERGED_AFTER = 3
_BY_HOST = "Its host asked it to end (SIGTERM), as at a shutdown; nobody here did."
_REMOVED = (
    "Its folder on the host was removed or moved while it ran, with its checkpoints, so it was ended. "
    "Nothing of it can go on; start it anew."
)
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
_CLEAN_EXITS = (0, 75, 143, -15)


class Why(Enum):
    """The first reason counts; but an order to stop outranks an earlier one to pause, and a folder that is gone all."""

    PAUSE = "pause"
    STOP = "stop"
    TIME = "time"
    HOST = "host"
    NEWER = "newer"
    DIVERGED = "diverged"
    HANG = "hang"
    FENCED = "fenced"
    DISK = "disk"
    MEMORY = "memory"
    PROCESSES = "processes"
    REMOVED = "removed"


_CLASSES = {
    Why.TIME: ExitClass.KILLED,
    Why.REMOVED: ExitClass.KILLED,
    Why.FENCED: ExitClass.PREEMPTED,
    Why.HOST: ExitClass.PREEMPTED,
    Why.DISK: ExitClass.DISK_FULL,
    Why.MEMORY: ExitClass.HOST_OOM,
    Why.PROCESSES: ExitClass.USER_ERROR,
}


def read_stop(folder: RunFolder) -> StopOrder | None:
    """The stop order that lies in a run's folder, None for none that can be read."""
    try:
        return decode(StopOrder, read_plain(folder.stop))
    except (OSError, Malformed):
        return None


class StopReasons:
    """Collects reasons to end. `ending` is the one that counts; `at_once` says that no grace is given."""

    def __init__(self, folder: RunFolder, attempt: int, *, max_s: float, lock: int) -> None:
        """Call `look` for the first reasons: a stop order that came before the launch counts.

        `max_s` is how many seconds its approval still covers; `lock` is the folder's lock, held open by this process.
        """
        self._folder, self._attempt, self._lock = folder, attempt, lock
        self._max_s = max_s
        self._end = time.monotonic() + max_s
        self._term_seen = False
        self._trained = False
        self._text = ""
        self.ending: Why | None = None
        self.at_once = False

    def on_term(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """SIGTERM to the supervisor; what it means stands in stop.json. Without one it is the host that goes down."""
        self._term_seen = True

    def look(self) -> None:
        """Ask the folder and the clock. Cheap: a few times a second is fine."""
        if self.removed:
            self.ending, self._text, self.at_once = Why.REMOVED, _REMOVED, True
            return
        order = read_stop(self._folder)
        if order is not None and order.attempt >= self._attempt:
            self._obey(order)
        elif self._term_seen:
            self._ask(Why.HOST, _BY_HOST)
        if read_fence(self._folder) > self._attempt:
            self._ask(Why.NEWER)
            self.at_once = True
        if time.monotonic() > self._end:
            self._ask(Why.TIME, f"It reached its limit of {self._max_s / 3600:.3g} hours and was ended.")

    @property
    def left_s(self) -> float:
        """The seconds that its approval still covers."""
        return max(0.0, self._end - time.monotonic())

    @property
    def removed(self) -> bool:
        """Whether the run's folder is gone, or is another one than that whose lock is held."""
        try:
            return not os.path.samestat(self._folder.lock.stat(), os.fstat(self._lock))
        except OSError as error:  # a file system that does not answer is no reason to end a training
            return error.errno in _GONE

    def trained(self) -> None:
        """Training is done: an order to pause has nothing left to do, and what is left takes moments."""
        self._trained = True
        if self.ending is Why.PAUSE:
            self.ending = None

    def diverged(self) -> None:
        """Its loss is no number any more."""
        self._ask(Why.DIVERGED)

    def hang(self, quiet_s: float) -> None:
        """Nothing happened for so long."""
        minutes = f"{quiet_s / 60:.0f} minutes" if quiet_s >= 120 else f"{quiet_s:.0f} s"
        self._ask(Why.HANG, f"Nothing happened for {minutes}, so it was ended. The log shows where it stood.")

    def fenced(self, silent_s: float) -> None:
        """Redis did not answer for so long that others may believe this host dead, and start the run elsewhere."""
        text = (
            f"Its host was cut off from Redis for {silent_s:.0f} s, so it saved and ended: the run may go on elsewhere."
        )
        self._ask(Why.FENCED, text)

    def no_space(self, text: str) -> None:
        """The disk is full, or the run takes too much of it."""
        self._ask(Why.DISK, text)

    def no_memory(self, text: str) -> None:
        """It used more memory than it may. There is no time to save."""
        self._ask(Why.MEMORY, text)
        self.at_once = True

    def too_many(self, text: str) -> None:
        """It started more processes than it may. There is no time to save."""
        self._ask(Why.PROCESSES, text)
        self.at_once = True

    def outcome(self, *, code: int | None = None, traceback: tuple[str, ...] = ()) -> Outcome:
        """How the attempt ends for the reason in `ending`."""
        match self.ending:
            case Why.PAUSE:
                return _paused(code, traceback)
            case None | Why.STOP:
                return Outcome(state=RunState.STOPPED, exit_code=code, reason="Stopped on request.")
            case Why.NEWER:
                return failed(ExitClass.LOST, "A newer attempt of this run took over.", code=code)
            case Why.DIVERGED:
                text = f"Its loss was no number {DIVERGED_AFTER} times running, so it was ended. A lower rate may help."
                return failed(ExitClass.DIVERGED, text, code=code)
            case Why.HANG:
                return failed(ExitClass.HANG, self._text, code=code, traceback=traceback)
            case _:
                return failed(_CLASSES[self.ending], self._text, code=code)

    def _obey(self, order: StopOrder) -> None:
        if order.how == "pause":
            if not self._trained:
                self._ask(Why.PAUSE)
            return
        if self.ending is Why.PAUSE:
            self.ending = Why.STOP
        self._ask(Why.STOP)
        self.at_once = self.at_once or order.how == "kill"

    def _ask(self, why: Why, text: str = "") -> None:
        if self.ending is None:
            self.ending, self._text = why, text


def _paused(code: int | None, traceback: tuple[str, ...]) -> Outcome:
    """The number of the checkpoint is added where the outcome is finished."""
    if code is None or code in _CLEAN_EXITS:
        return Outcome(state=RunState.PAUSED, exit_code=code, reason="Paused on request.")
    reason = f"Paused on request, but the program ended with code {code} instead of saving."
    return Outcome(state=RunState.PAUSED, exit_code=code, reason=reason, traceback=traceback)
