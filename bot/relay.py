"""Carries worker events from the streams into the database: stored first, acknowledged after."""

import logging

from agent.domain.errors import TransientError
from agent.ports import EventFeed
from agent.runs.service import RunService

log = logging.getLogger(__name__)


async def relay(feed: EventFeed, service: RunService) -> None:
    """Run until cancelled. An event that was stored and not acknowledged comes again and changes nothing."""
    while True:
        try:
            batch = await feed.read()
            if batch:
                await service.take([event for _, event in batch])
                await feed.ack([entry for entry, _ in batch])
        except TransientError as error:
            log.warning("events wait", extra={"cause": str(error)})
