"""Takes what people wrote while the bot could not hear them: after its start, and whenever a connection was made anew.

Platforms keep messages, so they are read back and stored like delivered ones; a message that was stored before is
known by its keys and is not answered twice. Clicks and slash commands cannot be read back; whoever made them saw that
they failed. Nor can a person's first direct message on Discord, which lists none to bots.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from agent.brain import Brain
from agent.domain.errors import AppError, TransientError
from agent.domain.inbound import Away, Inbound, Platform, Thread
from bot.connection import Connection

log = logging.getLogger(__name__)

OLDEST = timedelta(days=1)
THREADS = timedelta(days=7)  # threads in which nothing was said for longer are not looked at
MARGIN = timedelta(minutes=2)  # a connection may be dead for so long before that shows
WORTH_A_WORD = timedelta(minutes=1)
AGAIN_S = 30.0


@runtime_checkable
class History(Protocol):
    """An adapter whose platform keeps what was said."""

    platform: Platform
    connection: Connection

    def missed(self, since: datetime, threads: Sequence[Thread]) -> AsyncIterator[Inbound]:
        """What people said since then that may be for the bot: what names it, and what stands in `threads`."""


async def catch_up(adapter: History, brain: Brain, *, alive: datetime | None = None) -> None:
    """Serve until cancelled. `alive` is when the bot before was last seen alive, where that is known."""
    since = await brain.stores.inbox.last(adapter.platform)
    await adapter.connection.anew()
    if since is not None:  # else nobody has ever spoken to it
        await _take(adapter, brain, since, left=max(since, alive or since))
    while True:
        lost = await adapter.connection.anew() or datetime.now(UTC)
        await _take(adapter, brain, lost, left=lost)


async def _take(adapter: History, brain: Brain, since: datetime, *, left: datetime) -> None:
    """Store what was said since then; the bot was away from `left` until now."""
    now = datetime.now(UTC)
    away = Away(since=left, until=now) if now - left > WORTH_A_WORD else None
    since = max(since, now - OLDEST) - MARGIN
    while True:
        try:
            threads = await brain.stores.conversations.threads(adapter.platform, since=now - THREADS)
            async for said in adapter.missed(since, threads):
                if said.at > now - OLDEST:
                    was_away = away if said.at < now else None
                    await brain.router.accept(said.model_copy(update={"away": was_away}))
        except TransientError as error:
            wait_s = error.retry_after_s or AGAIN_S
            log.warning("missed words are read later", extra={"platform": adapter.platform, "cause": error.text})
            await asyncio.sleep(wait_s)
        except AppError as error:
            log.warning("missed words cannot be read", extra={"platform": adapter.platform, "cause": error.text})
            return
        else:
            return
