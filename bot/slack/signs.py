"""The sign that the bot is at work: its status in the thread; where Slack refuses that, a reaction on the question."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator

from agent.domain.errors import AppError, TransientError
from agent.domain.inbound import Inbound, Thread
from bot.slack.api import SlackApi
from bot.slack.errors import code_of

log = logging.getLogger(__name__)

STATUS, REACTION = "agents.sessions.setStatus", "eyes"
THERE, GONE = "already_reacted", "no_reaction"
TRIES, AGAIN_S = 5, 30.0  # to take a sign away
FOR_GOOD = {
    "missing_scope",
    "unknown_method",
    "no_permission",
    "not_allowed",
    "access_denied",
    "team_access_not_granted",
}


class Signs:
    """Of one workspace. What it does not allow is not tried again."""

    def __init__(self, api: SlackApi) -> None:
        """`api` carries the bot's token."""
        self._api = api
        self._refused: set[str] = set()  # methods
        self._at_work: Counter[str] = Counter()  # requests by thread, of those that have a status

    @contextlib.asynccontextmanager
    async def busy(self, thread: Thread, asked: Inbound | None) -> AsyncIterator[None]:
        """Show it while the block lasts. A status belongs to a thread, a reaction to a message."""
        message = asked.twin.rpartition(":")[2] if asked is not None else ""
        if thread.thread_id and await self._call(STATUS, **_status(thread, "processing")):
            self._at_work[thread.key] += 1
            yield
            self._at_work[thread.key] -= 1
            if not self._at_work[thread.key]:
                del self._at_work[thread.key]
                await self._surely(STATUS, **_status(thread, "active"))
        elif message and await self._call("reactions.add", **_reaction(thread, message)):
            yield
            await self._surely("reactions.remove", **_reaction(thread, message))
        else:
            yield

    async def _surely(self, method: str, **arguments: object) -> None:
        """Remove a sign, later if Slack cannot now: a sign that stays would be wrong."""
        for _ in range(TRIES):
            try:
                await self._call(method, **arguments)
            except TransientError as error:
                await asyncio.sleep(error.retry_after_s or AGAIN_S)
            else:
                return

    async def _call(self, method: str, **arguments: object) -> bool:
        """Whether Slack took it. Raises `TransientError`."""
        if method in self._refused:
            return False
        try:
            await self._api.call(method, **arguments)
        except TransientError:
            raise
        except AppError as error:
            if code_of(error) in {THERE, GONE}:
                return True
            if code_of(error) in FOR_GOOD:
                self._refused.add(method)
            log.warning("slack.sign_refused", extra={"method": method, "reason": error.text})
            return False
        return True


def _status(thread: Thread, status: str) -> dict[str, str]:
    return {"channel_id": thread.channel, "thread_ts": thread.thread_id, "status": status}


def _reaction(thread: Thread, message: str) -> dict[str, str]:
    return {"channel": thread.channel, "timestamp": message, "name": REACTION}
