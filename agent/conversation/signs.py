"""Shows people that the bot is at work: from the first moment of a request until its answer is stored.

A sign is not stored as a message. If it cannot be shown, the work goes on without it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Mapping

from agent.domain.inbound import Inbound, Thread
from agent.ports import ChatAdapter

log = logging.getLogger(__name__)
AFTER_S = 0.3  # what is answered by then needs no sign
LONGEST_S = 3600.0  # of work that is left for the next start


class Signs:
    """One sign for each request that is worked on."""

    def __init__(self, adapters: Mapping[str, ChatAdapter]) -> None:
        """`adapters` by platform name."""
        self._adapters = adapters
        self.left: set[int] = set()  # what a stopped bot had left; it may have shown a sign, which is to go
        self._shown: dict[int, tuple[asyncio.Task[None], asyncio.Event]] = {}

    def begin(self, item_id: int, thread: Thread, asked: Inbound | None) -> None:
        """Show soon that the bot works on an inbox item in `thread`; nothing where it is shown already."""
        if item_id not in self._shown:
            over = asyncio.Event()
            self._shown[item_id] = asyncio.create_task(self._show(item_id, thread, asked, over)), over

    def end(self, item_id: int) -> None:
        """Take the sign away."""
        if item_id in self._shown:
            self._shown[item_id][1].set()

    async def close(self) -> None:
        """Leave the signs as they are: the work goes on after the next start."""
        tasks = [task for task, _ in self._shown.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _show(self, item_id: int, thread: Thread, asked: Inbound | None, over: asyncio.Event) -> None:
        try:
            if item_id in self.left or not await _within(over, AFTER_S):
                async with self._adapters[thread.platform].busy(thread, asked):
                    await _within(over, LONGEST_S)
        except Exception as error:  # noqa: BLE001 - the work itself must not suffer
            log.info("no sign of work", extra={"address": thread.key, "cause": str(error)})
        finally:
            self.left.discard(item_id)
            del self._shown[item_id]


async def _within(over: asyncio.Event, limit_s: float) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await over.wait()
    return over.is_set()
