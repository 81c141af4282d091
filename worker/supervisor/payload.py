"""The process of a step as the stop ladder sees it: whom a signal goes to, and what ends everything.

Owns the difference that torchrun makes. Used by `worker.supervisor.stage`.
"""

import contextlib
import os
from collections.abc import Callable

from worker.processes import catches, children_of
from worker.supervisor.child import Child


class Payload:
    """What a ladder ends. `also_kill` is called with the kill, for what no process tree shows."""

    def __init__(self, child: Child, *, ranks: int, also_kill: Callable[[], None]) -> None:
        """`ranks`: the processes that torchrun started for the step, 0 without torchrun."""
        self._child, self._ranks, self._also_kill = child, ranks, also_kill

    def signal(self, number: int) -> None:
        """Signal the program. Under torchrun that is its ranks: torchrun itself gives them 30 s, then kills."""
        for pid in self._targets():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def catches(self, number: int) -> bool:
        """Whether the program, in all its ranks, has a handler for a signal."""
        return all(catches(pid, number) for pid in self._targets())

    def kill(self) -> None:
        """End the payload, its group and everything it started."""
        self._child.kill()
        self._also_kill()

    def _targets(self) -> list[int]:
        payload = self._child.payload_pid
        return (children_of(payload) if self._ranks else []) or [payload]
