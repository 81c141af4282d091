"""A feed of events for an engine that can only be asked: what each live attempt has behind the last stored number.

The database is the position, so nothing is lost or taken twice when the bot stops in between, and an event that could
not be stored is asked for again. Built by the composition root for the relay.
"""

import asyncio
import logging
from collections.abc import Sequence

from agent.domain.errors import TransientError
from agent.domain.events import WorkerEvent
from agent.domain.orders import AttemptLabel
from agent.ports import EngineParts, EventFeed, EventLog
from agent.run_store import Runs

log = logging.getLogger(__name__)
PAUSE_S = 0.5


class PolledFeed:
    """`agent.ports.EventFeed` over an `EventLog`."""

    def __init__(self, engine: str, events: EventLog, runs: Runs, *, pause_s: float = PAUSE_S) -> None:
        """`engine` is whose attempts are asked for; where nothing is new it is asked again after `pause_s`."""
        self._engine, self._events, self._runs, self._pause_s = engine, events, runs, pause_s
        self._away = False

    @property
    def away(self) -> bool:
        """Whether the engine did not answer the last time."""
        return self._away

    async def read(self) -> Sequence[tuple[str, WorkerEvent]]:
        """The next events of every live attempt; waits a moment where there are none."""
        found: list[WorkerEvent] = []
        away = False
        for run, attempt in await self._runs.live():
            if run.spec.engine != self._engine:
                continue
            try:
                label = AttemptLabel(run=run.id, attempt=attempt.number, host=attempt.host)
                found += await self._events.events(label, attempt.seen_to)
            except TransientError as error:
                log.warning("events wait", extra={"run": run.id, "cause": str(error)})
                away = True
        self._away = away
        if not found:
            await asyncio.sleep(self._pause_s)
        return [("", event) for event in found]

    async def ack(self, ids: Sequence[str]) -> None:
        """Nothing to do: what is stored is not asked for again."""


def feed_of(parts: EngineParts, runs: Runs) -> EventFeed:
    """The feed of an engine: its own, or one that asks."""
    if isinstance(parts.events, EventLog):
        return PolledFeed(parts.engine.name, parts.events, runs)
    return parts.events
