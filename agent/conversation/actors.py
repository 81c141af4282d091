"""Queues of work, one for each thread: a thread's work is done in order, and no thread waits for another.

Filled by the inbox router.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto

from agent.domain.errors import TransientError
from agent.domain.inbound import Thread
from agent.stores import InboxItem, Turn

log = logging.getLogger(__name__)
IDLE_S = 600.0
STORE_AWAY_S = (0.5, 30.0)  # first and longest pause while the database is away
Work = InboxItem | Turn


class Next(Enum):
    """Where a piece of work goes on."""

    DONE = auto()
    ENDED = auto()  # it is done, and stored as that with the end of its turn
    AS_TURN = auto()  # with the thread's turns, one after the other
    SLOWLY = auto()  # with the thread's commands that may take long
    ENDING = auto()  # it ends a turn, and is done once that has ended


class Actor:
    """Handles the work of one thread in order; ends after some time without work."""

    def __init__(self, handle: Callable[[Work], Awaitable[None]], *, ended: Callable[[], object]) -> None:
        """`ended` is called in the moment from which nothing more is taken."""
        self._handle = handle
        self._ended = ended
        self._waiting: deque[Work] = deque()
        self._came, self._quiet = asyncio.Event(), asyncio.Event()
        self._carries = False
        self.task = asyncio.create_task(self._run())

    def put(self, work: Work) -> None:
        self._waiting.append(work)
        self._came.set()
        self._quiet.clear()

    def waits(self, place: int) -> Work | None:
        """The piece of work at this place of the queue, where it stays; the next one is at 0."""
        return self._waiting[place] if place < len(self._waiting) else None

    def take(self, place: int = 0) -> Work:
        """The piece of work at this place, taken out of the queue."""
        work = self._waiting[place]
        del self._waiting[place]
        return work

    @property
    def busy(self) -> bool:
        return self._carries or bool(self._waiting)

    async def idle(self) -> None:
        await self._quiet.wait()

    async def _run(self) -> None:
        try:
            while await self._comes():
                self._carries = True
                await self._carry(self.take())
                self._carries = False
                if not self._waiting:
                    self._quiet.set()
        finally:
            self._ended()

    async def _comes(self) -> bool:
        """Wait for work; False after some time without any."""
        while not self._waiting:
            self._came.clear()
            try:
                async with asyncio.timeout(IDLE_S):
                    await self._came.wait()
            except TimeoutError:
                return bool(self._waiting)  # it may have come in this moment
        return True

    async def _carry(self, work: Work) -> None:
        """Handle it; while not even an error can be stored, try again, so that nothing behind it overtakes it."""
        pause_s, longest_s = STORE_AWAY_S
        while True:
            try:
                await self._handle(work)
            except TransientError as error:
                log.warning("work waits", extra={"work": work.id, "pause_s": pause_s, "cause": str(error)})
            except Exception:
                log.exception("work is left for the next start", extra={"work": work.id})
                return
            else:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, longest_s)


class Actors:
    """The actors of one kind of work, by thread. A thread has one from its first piece of work to a quiet time."""

    def __init__(self, handle: Callable[[Work], Awaitable[None]]) -> None:
        """`handle` carries one piece of work to its end."""
        self._handle = handle
        self._by_thread: dict[str, Actor] = {}

    def put(self, thread: Thread, work: Work) -> None:
        """Add a piece of work behind what the thread has already."""
        key = thread.key
        if key not in self._by_thread:
            self._by_thread[key] = Actor(self._handle, ended=lambda: self._by_thread.pop(key, None))
        self._by_thread[key].put(work)

    def of(self, thread: Thread) -> Actor | None:
        """The thread's, where it has one."""
        return self._by_thread.get(thread.key)

    def busy(self, thread: Thread) -> bool:
        """Whether the thread has work of this kind."""
        return (actor := self.of(thread)) is not None and actor.busy

    def all(self) -> Sequence[Actor]:
        """Those of every thread."""
        return tuple(self._by_thread.values())
