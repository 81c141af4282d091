"""How people act on a turn while it is carried out: they end it, or say something that its next step reads.

Made by the inbox router for each time that a turn is carried out; lost with the process, as nothing in here is needed
to go on.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import TypeVar

from agent.domain.inbound import Person
from agent.ports import ModelMessage
from agent.stores import Turn

T = TypeVar("T")
Hear = Callable[["TurnControl", Turn], Awaitable[Sequence[ModelMessage]]]


class TurnControl:
    """Lets the router end or steer one turn. `by` is who ended it."""

    def __init__(self, person: Person, hear: Hear) -> None:
        """`person` is whose turn it is; `hear` takes what people have said since and stores it as part of the turn."""
        self.person = person
        self._hear = hear
        self.by: Person | None = None
        self.finishes: list[str] = []  # tools with an effect that are at work now
        self.finished: list[str] = []  # what they did all the same after somebody had ended the turn
        self.ended_by: list[int] = []  # inbox items that ended it; a restart before its end reads them again
        self.ends_s: float | None = None  # on the loop's clock: then its time is used up, and calls are given up
        self.over = asyncio.Event()  # it is carried out no more
        self._limits: set[asyncio.Timeout] = set()

    async def hear(self, turn: Turn) -> Sequence[ModelMessage]:
        """What people have said since, now part of the turn."""
        return await self._hear(self, turn)

    def press(self, by: Person, item_id: int) -> Sequence[str]:
        """End the turn now, as an inbox item says; the names of tools that change something and are waited for."""
        self.by = self.by or by
        self.ended_by.append(item_id)
        for limit in self._limits:
            limit.reschedule(_now_s())
        return tuple(dict.fromkeys(self.finishes))

    async def wait(self, coming: Awaitable[T], *, until_s: float | None = None) -> T:
        """What comes next. Raises `TimeoutError` when somebody ends the turn, and at `until_s` on the loop's clock."""
        if self.by is not None:
            if isinstance(coming, Coroutine):
                coming.close()
            raise TimeoutError
        async with asyncio.timeout_at(until_s) as limit:
            self._limits.add(limit)
            try:
                return await coming
            finally:
                self._limits.discard(limit)

    @contextlib.contextmanager
    def finishing(self, tool: str) -> Iterator[None]:
        """While the block lasts, a tool changes something and is waited for, also where people end the turn."""
        self.finishes.append(tool)
        try:
            yield
        finally:
            self.finishes.remove(tool)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
