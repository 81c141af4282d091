"""Keeps words of people in memory while they cannot be stored: the disk is full, or the database does not answer.

Not every platform delivers again what was not acknowledged. What is kept here is lost with the process, so it does not
count as accepted. Called by the inbox router.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from agent.domain.errors import TransientError, Unavailable
from agent.domain.inbound import Inbound, Said

MOST = 10_000  # messages
PAUSES_S = (0.5, 30.0)  # the first and the longest

log = logging.getLogger(__name__)


class Backlog:
    """Stores at once where that works, and what a person said later where it does not; each thread in its order."""

    def __init__(self, store: Callable[[Inbound], Awaitable[bool]]) -> None:
        """`store` says whether it was new; to store something twice is harmless."""
        self._store = store
        self._kept: deque[Inbound] = deque()
        self._task: asyncio.Task[None] | None = None

    async def store(self, inbound: Inbound) -> bool:
        """Whether it was new. Raises `TransientError` where it is not stored yet, though it may be kept."""
        try:
            if any(kept.thread == inbound.thread for kept in self._kept):
                raise Unavailable("What was said before in this thread is not stored yet.")
            return await self._store(inbound)
        except TransientError:
            if isinstance(inbound.act, Said) and len(self._kept) < MOST:
                self._kept.append(inbound)
                if self._task is None or self._task.done():
                    self._task = asyncio.create_task(self._store_later())
            raise

    async def close(self) -> None:
        """Stop trying."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _store_later(self) -> None:
        pause_s, longest_s = PAUSES_S
        while self._kept:
            await asyncio.sleep(pause_s)
            try:
                while self._kept:
                    await self._store(self._kept[0])
                    self._kept.popleft()
            except TransientError as error:
                log.warning("words wait to be stored", extra={"count": len(self._kept), "cause": error.text})
                pause_s = min(pause_s * 2, longest_s)
            except Exception:
                log.exception("words cannot be stored", extra={"event_id": self._kept.popleft().event_id})
