"""What of ours stands in a thread of Slack: messages by the mark that names their key, files by name and size.

Reads only. Used by `Outbound` to find a post whose outcome is unknown, and by `Files` to post no file twice.
"""

from collections.abc import AsyncIterator, Collection
from typing import Any

from agent.domain.inbound import Thread
from agent.ports import MessageRef
from bot.slack.api import SlackApi

EVENT_TYPE = "trainyard_outbox"
PAGES = 10


def marked(key: str, number: int = 0, parts: int = 1) -> dict[str, object]:
    """Metadata that names a message as ours."""
    return {"event_type": EVENT_TYPE, "event_payload": {"key": key, "part": number, "parts": parts}}


class Standing:
    """Looks into threads and channels, at most `PAGES` pages of 200 messages."""

    def __init__(self, api: SlackApi) -> None:
        self._api = api

    async def parts(self, thread: Thread, key: str) -> dict[int, str]:
        """Addresses of what was posted with `key` by number; -1 is the last message of a whole."""
        found: dict[int, str] = {}
        async for ts, payload in self._ours(thread):
            if payload is not None and payload.get("key") == key:
                number = int(payload.get("part", 0))
                found[number] = ts
                if number == int(payload.get("parts", 1)) - 1:
                    found[-1] = ts
        return found

    async def key_of(self, thread: Thread, ref: MessageRef) -> str | None:
        """The key that a message of ours bears; None for a stream that was never finished."""
        async for ts, payload in self._ours(thread):
            if ts == ref.id and payload is not None:
                return str(payload.get("key"))
        return None

    async def cut_off(self, thread: Thread, *, taken: Collection[str]) -> str | None:
        """Our newest message in a thread that is not `taken`, if it bears no mark."""
        newest = None
        async for ts, payload in self._ours(thread):
            if ts not in taken:
                newest = ts if payload is None else None
        return newest if thread.thread_id else None

    async def files(self, thread: Thread, key: str) -> set[tuple[str, int]]:
        """Names and sizes of our files that stand behind the last message of ours with another key than `key`."""
        since, files = 0.0, list[tuple[float, str, int]]()
        async for message in self._all(thread):
            at, mark = float(message["ts"]), _mark(message)
            if mark is not None and mark.get("key") != key:
                since = max(since, at)
            elif self._is_ours(message):
                files.extend((at, str(file.get("name")), int(file.get("size", 0))) for file in _files(message))
        return {(name, size_bytes) for at, name, size_bytes in files if at > since}

    async def _ours(self, thread: Thread) -> AsyncIterator[tuple[str, dict[str, Any] | None]]:
        """Our messages in the thread, by address and mark; a shared file is none of them."""
        async for message in self._all(thread):
            mark = _mark(message)
            if mark is not None or (self._is_ours(message) and not _files(message)):
                yield str(message["ts"]), mark

    def _is_ours(self, message: dict[str, Any]) -> bool:
        by_bot = message.get("bot_id") == self._api.bot_id != ""
        return by_bot or message.get("user") == self._api.bot_user != ""

    async def _all(self, thread: Thread) -> AsyncIterator[dict[str, Any]]:
        """Everything in the thread; a thread oldest first, a channel newest first."""
        method = "conversations.replies" if thread.thread_id else "conversations.history"
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self._api.call(
                method,
                channel=thread.channel,
                ts=thread.thread_id or None,
                include_all_metadata=True,
                limit=200,
                cursor=cursor,
            )
            for message in page.get("messages", ()):
                yield message
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                return


def _mark(message: dict[str, Any]) -> dict[str, Any] | None:
    metadata = message.get("metadata") or {}
    return (metadata.get("event_payload") or {}) if metadata.get("event_type") == EVENT_TYPE else None


def _files(message: dict[str, Any]) -> list[dict[str, Any]]:
    return list(message.get("files") or ())
