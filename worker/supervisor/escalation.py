"""Ends a step politely: SIGTERM, after the grace SIGTERM again, then SIGKILL to everything. Each phase is told.

Owns the order and the clock of the phases. Knows no reasons. Driven by `worker.supervisor.stage` in its loop.
"""

import signal
import time
from collections.abc import Callable
from typing import Protocol

_BY_HOST_S = 1.0  # in which a signal to all processes of a host reaches each


class Target(Protocol):
    """What an escalation ends."""

    def look(self) -> None:
        """Notice who listens, while nobody was asked yet."""

    @property
    def listened(self) -> bool:
        """Whether that process had a handler for SIGTERM at any time."""

    @property
    def heard(self) -> bool:
        """Whether it had one and has none now, as after a signal."""

    def signal(self, number: int) -> None:
        """Signal the process that does the work."""

    def catches(self, number: int) -> bool:
        """Whether that process has a handler for a signal."""

    def kill(self) -> None:
        """End everything."""


class Escalation:
    """The end of one step. `say` gets a sentence for each phase."""

    def __init__(
        self, target: Target, *, grace_s: float, second_s: float, dump_s: float, say: Callable[[str], None]
    ) -> None:
        """Nothing is sent before `begin` or `dump`. All times are seconds."""
        self._target, self._say = target, say
        self._grace_s, self._second_s, self._dump_s = grace_s, second_s, dump_s
        self.phase = ""
        self._since = 0.0

    def look(self) -> None:
        """To be called now and then until `begin`."""
        if not self.phase:
            self._target.look()

    def begin(self, *, kill: bool = False, by_host: bool = False) -> None:
        """Send the first signal; `kill` skips to the last, from wherever it stands.

        `by_host`: a host that shuts down asks all processes, and a second SIGTERM would end one that saves. So one that
        listens gets a moment, and is not asked again if it has heard.
        """
        if kill and self.phase != "kill":
            self._enter("kill", "It was killed (SIGKILL), with everything that it started.")
            self._target.kill()
        elif not self.phase and by_host and self._target.listened:
            self._enter(
                "host", "Its host asked its supervisor to end (SIGTERM); the program is asked too, if it was not yet."
            )
        elif not self.phase:
            self._ask()

    def dump(self) -> None:
        """Ask it to print where each of its threads stands, before it is asked to end.

        SIGUSR1 where the program listens to it (`faulthandler.register`), which lets it go on and save. Otherwise
        SIGABRT, at which Python prints the same (`PYTHONFAULTHANDLER`) and ends.
        """
        if self.phase:
            return
        if self._target.catches(signal.SIGUSR1):
            self._enter("dump", f"It was asked where it stands (SIGUSR1); in {self._dump_s:g} s it is asked to end.")
            self._target.signal(signal.SIGUSR1)
        else:
            self._enter("again", "It was ended with SIGABRT, so that it shows where it stands.")
            self._target.signal(signal.SIGABRT)

    def tick(self) -> None:
        """Go to the next phase when it is time."""
        waited_s = time.monotonic() - self._since
        if self.phase == "dump" and waited_s >= self._dump_s:
            self.phase = ""
            self.begin()
        elif self.phase == "host" and waited_s >= _BY_HOST_S:
            self._ask(send=not self._target.heard)
        elif self.phase == "term" and waited_s >= self._grace_s:
            self._enter("again", f"It did not end within {self._grace_s:g} s, so it was asked again (SIGTERM).")
            self._target.signal(signal.SIGTERM)
        elif self.phase == "again" and waited_s >= self._second_s:
            self.begin(kill=True)

    def _ask(self, *, send: bool = True) -> None:
        self._enter("term", f"It was asked to end (SIGTERM) and has {self._grace_s:g} s to save a checkpoint.")
        if send:
            self._target.signal(signal.SIGTERM)

    def _enter(self, phase: str, text: str) -> None:
        self.phase, self._since = phase, time.monotonic()
        self._say(text)
