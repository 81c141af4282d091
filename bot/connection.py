"""Whether people can reach the bot through one platform, and what is in the way.

Adapters report to it, the command line prints what it says.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from agent.ports import ChatAdapter


class Failed(Protocol):
    """Called with the reason why a service broke, and the seconds until it is started again."""

    def __call__(self, reason: str, *, retry_s: float) -> None: ...


class Connection:
    """The state of one platform's connection."""

    def __init__(self, platform: str) -> None:
        """Not connected yet; nobody listens."""
        self.report: Callable[[str], None] = lambda _: None
        self._platform = platform
        self._up = asyncio.Event()
        self._trouble = ""
        self._new = asyncio.Event()
        self._lost_at: datetime | None = None

    def established(self) -> None:
        """People can reach the bot, by a connection that does not bring what was said before it."""
        self._new.set()
        if not self._up.is_set():
            self._up.set()
            self._trouble = ""
            self.report(f"serving {self._platform}")

    def lost(self) -> None:
        """The connection broke; the platform's library makes another."""
        self._lost_at = self._lost_at or datetime.now(UTC)

    def resumed(self) -> None:
        """The connection is there again, and what was said meanwhile was delivered."""
        self._lost_at = None

    async def anew(self) -> datetime | None:
        """Return once there is a connection that was not there before; when the one before was lost, if that showed."""
        await self._new.wait()
        self._new.clear()
        lost_at, self._lost_at = self._lost_at, None
        return lost_at

    def failed(self, reason: str, *, retry_s: float) -> None:
        """It cannot be reached, and is tried again in `retry_s` seconds. The same reason is reported once."""
        self._up.clear()
        self.lost()
        if reason != self._trouble:
            self._trouble = reason
            self.report(f"{self._platform} is not connected: {reason.rstrip('.')}. Trying again in {retry_s:.0f} s.")

    def closed(self) -> None:
        """The connection is gone; nothing is known about why."""
        self._up.clear()
        self.lost()

    async def wait(self) -> None:
        """Return once people can reach the bot."""
        await self._up.wait()


class Adapter(ChatAdapter, Protocol):
    """A chat platform that says whether it is connected."""

    connection: Connection
