"""Posts, edits, finds and whispers: from `Content` to calls, with the marks that let a lost post be found again.

A content of several messages carries the key on each, with its number; it counts as posted when the last one stands.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import aiohttp
from yarl import URL

from agent.domain.content import Content
from agent.domain.errors import AppError, BadRequest, TransientError
from agent.domain.rooms import Room
from agent.ports import MessageRef, Whisper
from bot.slack.api import SlackApi
from bot.slack.blocks import MESSAGE_CHARS, WHISPER_CHARS, Message, messages, single, without_pictures
from bot.slack.downloads import Downloads
from bot.slack.errors import code_of
from bot.slack.pictures import Pictures

EVENT_TYPE = "trainyard_outbox"
PICTURE_WAITS_S: Sequence[float] = (0.3, 0.7, 1.5, 3.0)  # Slack needs a moment before a block may show a new file
MANY_MESSAGES = 3  # beyond these, the whole text comes as a file
FILE_CHARS = (MANY_MESSAGES + 1) * MESSAGE_CHARS
PAGES = 10
FROZEN = {"edit_window_closed", "cant_update_message"}
STREAMING = "cant_update_message"  # what chat.update answers for a stream that still runs

log = logging.getLogger(__name__)


class Outbound:
    """What the door and its streams write with."""

    def __init__(
        self,
        api: SlackApi,
        pictures: Pictures,
        downloads: Downloads,
        *,
        picture_waits_s: Sequence[float] = PICTURE_WAITS_S,
    ) -> None:
        self._api = api
        self._picture_waits_s = picture_waits_s
        self._pictures = pictures
        self._downloads = downloads
        self._adopted: dict[str, dict[str, object]] = {}  # marks for cut-off answers that will be put right

    async def post(self, room: Room, content: Content, *, key: str) -> MessageRef:
        """Post all of `content`; parts of it that stand there already are not posted again."""
        files = await self._pictures.ids(content)
        shown = messages(content, files) if len(content.text) <= FILE_CHARS else []
        if not 1 <= len(shown) <= MANY_MESSAGES:
            await self._pictures.share_text(content.text, "answer.md", room)
            shown = [single(content, files)]
        standing = await self._parts(room, key) if len(shown) > 1 else {}
        for number, message in enumerate(shown):
            if number not in standing:
                metadata = marked(key, number, len(shown))
                standing[number] = await self.send(room, message, metadata=metadata, content=content)
        return MessageRef(channel=room.channel, id=standing[0], thread=room.thread)

    async def send(self, room: Room, message: Message, *, metadata: object, content: Content) -> str:
        """Post one message; its address."""
        answer, lost = await self._with_pictures(
            "chat.postMessage",
            message,
            channel=room.channel,
            thread_ts=room.thread or None,
            metadata=metadata,
            unfurl_links=False,
            unfurl_media=False,
        )
        if lost and content.card and content.card.picture:
            self._pictures.forget(content.card.picture.sha256)
            try:
                await self._pictures.share(content.card.picture, room)
            except AppError as error:  # the message itself stands
                log.warning("slack.share_failed", extra={"channel": room.channel, "reason": error.text})
        return str(answer["ts"])

    async def change(self, room: Room, ref: MessageRef, content: Content) -> MessageRef:
        """Show `content` in a message of ours and its further parts, or in a new one where Slack forbids it."""
        files = await self._pictures.ids(content)
        shown = messages(content, files) if len(content.text) <= FILE_CHARS else []
        key = await self._key_of(room, ref) if 1 < len(shown) <= MANY_MESSAGES else None
        try:
            if key is None:
                mark = self._adopted.get(ref.id)
                await self.update(ref.channel, ref.id, single(content, files), metadata=mark)
                self._adopted.pop(ref.id, None)
            else:
                await self._change_parts(room, content, shown, key)
        except AppError as error:
            if code_of(error) == STREAMING and await self._stopped(ref):
                return await self.change(room, ref, content)
            if code_of(error) not in FROZEN:
                raise
            return await self.post(room, content, key=f"instead-of:{ref.channel}:{ref.id}")
        return ref

    async def _stopped(self, ref: MessageRef) -> bool:
        """End a stream that a dead process left open; whether that was possible."""
        try:
            await self._api.call("chat.stopStream", channel=ref.channel, ts=ref.id)
        except TransientError:
            raise
        except AppError:
            return False
        return True

    async def _change_parts(self, room: Room, content: Content, shown: list[Message], key: str) -> None:
        standing = await self._parts(room, key)
        for number, message in enumerate(shown):
            metadata = marked(key, number, len(shown))
            if number in standing:
                await self.update(room.channel, standing[number], message, metadata=metadata)
            else:
                await self.send(room, message, metadata=metadata, content=content)

    async def update(self, channel: str, ts: str, message: Message, *, metadata: object = None) -> None:
        """Replace one message."""
        await self._with_pictures("chat.update", message, channel=channel, ts=ts, metadata=metadata)

    async def delete(self, channel: str, stamps: Iterable[str]) -> None:
        """Take messages away; failing that, leave them."""
        for ts in stamps:
            try:
                await self._api.call("chat.delete", channel=channel, ts=ts)
            except AppError as error:
                log.warning("slack.orphan_left", extra={"channel": channel, "ts": ts, "reason": error.text})

    async def whisper(self, room: Room, content: Content, to: Whisper) -> MessageRef:
        """Show to one person only: by the handle while it lives, else as an ephemeral message."""
        message = single(content, await self._pictures.ids(content), limit=WHISPER_CHARS)
        if to.handle and await self._by_handle(to.handle, message, room):
            return MessageRef(channel=room.channel, id="", thread=room.thread)
        answer, _ = await self._with_pictures(
            "chat.postEphemeral",
            message,
            channel=room.channel,
            user=to.person,
            thread_ts=room.thread or None,
        )
        return MessageRef(channel=room.channel, id=str(answer.get("message_ts", "")), thread=room.thread)

    async def find(self, room: Room, key: str) -> MessageRef | None:
        """The first message of what was posted with `key`, if all of it stands there.

        A stream gets its mark when it is finished, so a message of ours without one is an answer that was cut off
        before its address could be stored: it is taken for the one that is looked for.
        """
        standing = await self._parts(room, key)
        if standing:
            first = standing[0] if 0 in standing and -1 in standing else None
        else:
            first = await self._cut_off(room)
            if first:
                self._adopted[first] = marked(key, 0, 1)
        return MessageRef(channel=room.channel, id=first, thread=room.thread) if first else None

    async def _cut_off(self, room: Room) -> str | None:
        """Our newest message in a thread, if it bears no mark."""
        newest = None
        async for ts, payload in self._ours(room):
            newest = ts if payload is None else None
        return newest if room.thread else None

    async def _parts(self, room: Room, key: str) -> dict[int, str]:
        """Addresses by number; -1 is the last message of a whole."""
        found: dict[int, str] = {}
        async for ts, payload in self._marks(room):
            if payload.get("key") == key:
                number = int(payload.get("part", 0))
                found[number] = ts
                if number == int(payload.get("parts", 1)) - 1:
                    found[-1] = ts
        return found

    async def _key_of(self, room: Room, ref: MessageRef) -> str | None:
        async for ts, payload in self._marks(room):
            if ts == ref.id:
                return str(payload.get("key"))
        return None

    async def _marks(self, room: Room) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Our messages in the room that bear a mark, by address and mark."""
        async for ts, payload in self._ours(room):
            if payload is not None:
                yield ts, payload

    async def _ours(self, room: Room) -> AsyncIterator[tuple[str, dict[str, Any] | None]]:
        """Our messages in the room, by address and mark; a shared file is none of them."""
        method = "conversations.replies" if room.thread else "conversations.history"
        cursor: str | None = None
        for _ in range(PAGES):
            page = await self._api.call(
                method,
                channel=room.channel,
                ts=room.thread or None,
                include_all_metadata=True,
                limit=200,
                cursor=cursor,
            )
            for message in page.get("messages", ()):
                metadata = message.get("metadata") or {}
                if metadata.get("event_type") == EVENT_TYPE:
                    yield str(message["ts"]), metadata.get("event_payload") or {}
                elif message.get("bot_id") == self._api.bot_id != "" and not message.get("files"):
                    yield str(message["ts"]), None
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                return

    async def _with_pictures(self, method: str, message: Message, **where: object) -> tuple[dict[str, Any], bool]:
        """The answer, and whether the pictures had to be left out."""
        pictured = any(block["type"] == "image" for block in message.blocks)
        for wait_s in (*self._picture_waits_s, None):
            try:
                return await self._api.call(method, text=message.text, blocks=message.blocks, **where), False
            except BadRequest as error:
                if not pictured or code_of(error) != "invalid_blocks":
                    raise
                if wait_s is None or "slack file" not in error.text.replace("_", " "):
                    break
            await asyncio.sleep(wait_s)
        blocks = without_pictures(message.blocks)
        return await self._api.call(method, text=message.text, blocks=blocks, **where), True

    async def _by_handle(self, handle: str, message: Message, room: Room) -> bool:
        """False when the handle is used up, expired or not Slack's. Pictures come as words: it serves five calls."""
        if not self._downloads.allowed(URL(handle)):
            return False
        body = {
            "response_type": "ephemeral",
            "replace_original": False,
            "text": message.text,
            "blocks": without_pictures(message.blocks),
            **({"thread_ts": room.thread} if room.thread else {}),
        }
        try:
            async with self._api.session.post(handle, json=body) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


def marked(key: str, number: int = 0, parts: int = 1) -> dict[str, object]:
    """Metadata that names a message as ours."""
    return {"event_type": EVENT_TYPE, "event_payload": {"key": key, "part": number, "parts": parts}}
