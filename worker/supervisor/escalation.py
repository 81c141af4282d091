"""Ends a step politely: SIGTERM, after the grace SIGTERM again, then SIGKILL to everything. Each rung is told.

Owns the order and the clock of the rungs. Knows no reasons. Climbed by `worker.supervisor.stage` in its loop.
"""

import signal
import time
from collections.abc import Callable
from typing import Protocol

_BY_HOST_S = 1.0  # in which a signal to all processes of a host reaches each


class Target(Protocol):
    """What a escalation ends."""

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
    """One way down. `say` gets a sentence for each rung."""

    def __init__(
        self, target: Target, *, grace_s: float, second_s: float, dump_s: float, say: Callable[[str], None]
    ) -> None:
        """Nothing is sent before `begin` or `dump`. All times are seconds."""
        self._target, self._say = target, say
        self._grace_s, self._second_s, self._dump_s = grace_s, second_s, dump_s
        self.rung = ""
        self._since = 0.0

    def look(self) -> None:
        """To be called now and then until `begin`."""
        if not self.rung:
            self._target.look()

    def begin(self, *, kill: bool = False, by_host: bool = False) -> None:
        """Send the first signal; `kill` skips to the last, from wherever it stands.

        `by_host`: a host that shuts down asks all processes, and a second SIGTERM would end one that saves. So one that
        listens gets a moment, and is not asked again if it has heard.
        """
        if kill and self.rung != "kill":
            self._climb("kill", "It was killed (SIGKILL), with everything that it started.")
            self._target.kill()
        elif not self.rung and by_host and self._target.listened:
            self._climb(
                "host", "Its host asked its supervisor to end (SIGTERM); the program is asked too, if it was not yet."
            )
        elif not self.rung:
            self._ask()

    def dump(self) -> None:
        """Ask it to print where each of its threads stands, before it is asked to end.

        SIGUSR1 where the program listens to it (`faulthandler.register`), which lets it go on and save. Otherwise
        SIGABRT, at which Python prints the same (`PYTHONFAULTHANDLER`) and ends.
        """
        if self.rung:
            return
        if self._target.catches(signal.SIGUSR1):
            self._climb("dump", f"It was asked where it stands (SIGUSR1); in {self._dump_s:g} s it is asked to end.")
            self._target.signal(signal.SIGUSR1)
        else:
            self._climb("again", "It was ended with SIGABRT, so that it shows where it stands.")
            self._target.signal(signal.SIGABRT)

    def tick(self) -> None:
        """Go one rung down when it is time."""
        waited_s = time.monotonic() - self._since
        if self.rung == "dump" and waited_s >= self._dump_s:
            self.rung = ""
            self.begin()
        elif self.rung == "host" and waited_s >= _BY_HOST_S:
            self._ask(send=not self._target.heard)
        elif self.rung == "term" and waited_s >= self._grace_s:
            self._climb("again", f"It did not end within {self._grace_s:g} s, so it was asked again (SIGTERM).")
            self._target.signal(signal.SIGTERM)
        elif self.rung == "again" and waited_s >= self._second_s:
            self.begin(kill=True)

    def _ask(self, *, send: bool = True) -> None:
        self._climb("term", f"It was asked to end (SIGTERM) and has {self._grace_s:g} s to save a checkpoint.")
        if send:
            self._target.signal(signal.SIGTERM)

    def _climb(self, rung: str, text: str) -> None:
        self.rung, self._since = rung, time.monotonic()
        self._say(text)
