"""Carries worker events from the streams into the database: stored first, acknowledged after."""

import asyncio
import logging
from collections.abc import Sequence

from agent.domain.errors import TransientError
from agent.domain.events import WorkerEvent, stand_in
from agent.ports import EventFeed
from agent.runs.life.service import RunService

log = logging.getLogger(__name__)
PAUSE_S = 0.5
BATCH = 200  # events in one transaction, so that no write waits long for another
LINGER_S = 0.05  # a batch that is not full waits this long for company: a transaction costs more than its events do


async def relay(feed: EventFeed, service: RunService) -> None:
    """Run until cancelled. An event that was stored and not acknowledged comes again and changes nothing."""
    while True:
        read = await feed.read()
        for start in range(0, len(read), BATCH):
            batch = read[start : start + BATCH]
            await _store(service, [event for _, event in batch])
            await feed.ack([entry for entry, _ in batch])
        if 0 < len(read) < BATCH:
            await asyncio.sleep(LINGER_S)


async def _store(service: RunService, events: Sequence[WorkerEvent]) -> None:
    """Try until they are stored, as a feed gives an event once; one that raises an error does not stop the others."""
    while True:
        try:
            await service.take(events)
        except TransientError as error:
            log.warning("events wait", extra={"cause": str(error)})
            await asyncio.sleep(PAUSE_S)
        except Exception:
            if len(events) > 1:
                half = len(events) // 2
                await _store(service, events[:half])
                await _store(service, events[half:])
                return
            (event,) = events
            log.exception("event dropped", extra={"run": event.run, "seq": event.seq})
            instead = event.model_copy(update={"body": stand_in(event.body.kind)})
            if instead == event:
                return
            events = [instead]  # its number is stored: a gap would stay for ever
        else:
            return
