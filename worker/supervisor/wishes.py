"""Who wants this attempt to end, and why: people, the host, its time limit, a newer attempt, what the metrics show.

Owns the reasons and the outcome of each. Sends no signals. Asked by `worker.supervisor.stage` in its loop.
"""

import time
from enum import Enum
from types import FrameType

from agent.domain.orders import StopOrder
from agent.domain.runs import ExitClass, Outcome, RunState
from agent.wire import Malformed, decode
from worker.folders import RunFolder, read_fence
from worker.supervisor.exits import failed

_DIVERGED_AFTER = 3


class Why(Enum):
    """The first reason counts."""

    STOP = "stop"
    TIME = "time"
    NEWER = "newer"
    DIVERGED = "diverged"
    HANG = "hang"


class Wishes:
    """Collects reasons to end. `ending` is the first; `at_once` says that no grace is given."""

    def __init__(self, folder: RunFolder, attempt: int, *, max_s: float) -> None:
        """Call `look` for the first reasons: a stop order that came before the launch counts."""
        self._folder, self._attempt = folder, attempt
        self._max_s = max_s
        self._end = time.monotonic() + max_s
        self._term_seen = False
        self.ending: Why | None = None
        self.at_once = False
        self._quiet_s = 0.0

    def on_term(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """SIGTERM to the supervisor; what it means stands in stop.json, if somebody wrote one."""
        self._term_seen = True

    def look(self) -> None:
        """Ask the folder and the clock. Cheap: a few times a second is fine."""
        order = self._stop_order()
        if order is not None or self._term_seen:
            self._wish(Why.STOP)
            self.at_once = self.at_once or (order is not None and order.how == "kill")
        if read_fence(self._folder) > self._attempt:
            self._wish(Why.NEWER)
            self.at_once = True
        if time.monotonic() > self._end:
            self._wish(Why.TIME)

    def judge(self, *, bad_losses: int, quiet_s: float, limit_s: float) -> None:
        """What the metrics and the silence say."""
        if bad_losses >= _DIVERGED_AFTER:
            self._wish(Why.DIVERGED)
        if quiet_s > limit_s:
            self._quiet_s = quiet_s
            self._wish(Why.HANG)

    def outcome(self, *, code: int | None = None, traceback: tuple[str, ...] = ()) -> Outcome:
        """How the attempt ends for the reason in `ending`."""
        match self.ending:
            case None | Why.STOP:
                return Outcome(state=RunState.STOPPED, exit_code=code, reason="Stopped on request.")
            case Why.NEWER:
                return failed(ExitClass.LOST, "A newer attempt of this run took over.", code=code)
            case Why.TIME:
                hours = self._max_s / 3600
                return failed(ExitClass.KILLED, f"It reached its limit of {hours:g} hours and was ended.", code=code)
            case Why.DIVERGED:
                text = (
                    f"Its loss was no number {_DIVERGED_AFTER} times running, so it was ended. A lower rate may help."
                )
                return failed(ExitClass.DIVERGED, text, code=code)
            case Why.HANG:
                minutes = f"{self._quiet_s / 60:.0f}"
                text = f"Nothing happened for {minutes} minutes, so it was ended. The log shows where it stood."
                return failed(ExitClass.HANG, text, code=code, traceback=traceback)

    def _wish(self, why: Why) -> None:
        self.ending = self.ending or why

    def _stop_order(self) -> StopOrder | None:
        try:
            order = decode(StopOrder, self._folder.stop.read_bytes())
        except (FileNotFoundError, Malformed):
            return None
        return order if order.attempt >= self._attempt else None
