"""Posts, edits, finds and whispers: from `Content` to calls, with the marks that let a lost post be found again.

A content of several messages carries the key on each, with its number; it counts as posted when the last one stands.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import aiohttp
from yarl import URL

from agent.domain.content import Content
from agent.domain.errors import AppError, BadRequest, TransientError
from agent.domain.inbound import Thread
from agent.ports import MessageRef, Whisper
from bot.slack.api import SlackApi
from bot.slack.blocks import MESSAGE_CHARS, WHISPER_CHARS, Message, messages, single, without_pictures
from bot.slack.downloads import Downloads
from bot.slack.errors import code_of
from bot.slack.handover import Files
from bot.slack.standing import Standing, marked
from bot.slack.uploaded import Pictures

PICTURE_WAITS_S: Sequence[float] = (0.3, 0.7, 1.5, 3.0)  # Slack needs a moment before a block may show a new file
MANY_MESSAGES = 3  # beyond these, the whole text comes as a file
FILE_CHARS = (MANY_MESSAGES + 1) * MESSAGE_CHARS
REMEMBERED = 1_000
FROZEN = {"edit_window_closed", "cant_update_message"}
STREAMING = "cant_update_message"  # what chat.update answers for a stream that still runs

log = logging.getLogger(__name__)


class Outbound:
    """What the adapter and its streams write with."""

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
        self._standing = Standing(api)
        self._files = Files(api, self._standing)
        self._further: OrderedDict[str, list[str]] = OrderedDict()  # of posts in several messages, by the first
        self._adopted: dict[str, dict[str, object]] = {}  # marks for cut-off answers that will be put right

    async def post(self, thread: Thread, content: Content, *, key: str) -> MessageRef:
        """Post all of `content`, its files first; what of it stands there already is not posted again."""
        content = await self.hand_over(thread, content, key=key)
        files = await self._pictures.ids(content)
        shown = messages(content, files) if len(content.text) <= FILE_CHARS else []
        if not 1 <= len(shown) <= MANY_MESSAGES:
            await self._pictures.share_text(content.text, "answer.md", thread)
            shown = [single(content, files)]
        standing = await self._standing.parts(thread, key) if len(shown) > 1 else {}
        for number, message in enumerate(shown):
            if number not in standing:
                metadata = marked(key, number, len(shown))
                standing[number] = await self.send(thread, message, metadata=metadata, content=content)
        self.handed_over(standing[0])
        self._remember(standing, len(shown))
        await self._pictures.note(thread.channel, standing[0], files)
        return MessageRef(channel=thread.channel, id=standing[0], thread_id=thread.thread_id)

    async def hand_over(self, thread: Thread, content: Content, *, key: str) -> Content:
        """Post the files of `content`; the content with what is to be said about them."""
        return await self._files.hand_over(thread, content, key=key)

    def handed_over(self, ts: str) -> None:
        """The message at `ts` bears its mark, so its files stand."""
        self._files.finished(ts)

    async def send(self, thread: Thread, message: Message, *, metadata: object, content: Content) -> str:
        """Post one message; its address."""
        answer, lost = await self._with_pictures(
            "chat.postMessage",
            message,
            channel=thread.channel,
            thread_ts=thread.thread_id or None,
            metadata=metadata,
            unfurl_links=False,
            unfurl_media=False,
        )
        if lost and content.card and content.card.picture:
            self._pictures.forget(content.card.picture.sha256)
            try:
                await self._pictures.share(content.card.picture, thread)
            except AppError as error:  # the message itself stands
                log.warning("slack.share_failed", extra={"channel": thread.channel, "reason": error.text})
        return str(answer["ts"])

    async def change(self, thread: Thread, ref: MessageRef, content: Content) -> MessageRef:
        """Show `content` in a message of ours and its further parts, or in a new one where Slack forbids it."""
        if content.files:
            content = await self._with_files(thread, ref, content)
        files = await self._pictures.ids(content)
        shown = messages(content, files) if len(content.text) <= FILE_CHARS else []
        key = await self._standing.key_of(thread, ref) if 1 < len(shown) <= MANY_MESSAGES else None
        try:
            if key is None:
                mark = self._adopted.get(ref.id)
                await self.update(ref.channel, ref.id, single(content, files), metadata=mark)
                self._adopted.pop(ref.id, None)
                self.handed_over(ref.id)
                await self.delete(ref.channel, self._further.pop(ref.id, ()))
            else:
                await self._change_parts(thread, content, shown, key)
        except AppError as error:
            if code_of(error) == STREAMING and await self._stopped(ref):
                return await self.change(thread, ref, content)
            if code_of(error) not in FROZEN:
                raise
            return await self.post(thread, content, key=f"instead-of:{ref.channel}:{ref.id}")
        await self._pictures.note(ref.channel, ref.id, files)
        return ref

    async def _with_files(self, thread: Thread, ref: MessageRef, content: Content) -> Content:
        """Files come once: an edit hands them over only for an answer that a dead process had begun and not marked."""
        if self._files.is_finished(ref.id):
            return self._files.noted(content)
        key = None if ref.id in self._adopted else await self._standing.key_of(thread, ref)
        if key is not None:
            return self._files.noted(content)
        mark = self._adopted.setdefault(ref.id, marked(f"begun:{ref.channel}:{ref.id}"))
        return await self._files.hand_over(thread, content, key=_key_in(mark))

    async def _stopped(self, ref: MessageRef) -> bool:
        """End a stream that a dead process left open; whether that was possible."""
        try:
            await self._api.call("chat.stopStream", channel=ref.channel, ts=ref.id)
        except TransientError:
            raise
        except AppError:
            return False
        return True

    async def _change_parts(self, thread: Thread, content: Content, shown: list[Message], key: str) -> None:
        standing = await self._standing.parts(thread, key)
        for number, message in enumerate(shown):
            metadata = marked(key, number, len(shown))
            if number in standing:
                await self.update(thread.channel, standing[number], message, metadata=metadata)
            else:
                standing[number] = await self.send(thread, message, metadata=metadata, content=content)
        await self.delete(thread.channel, [ts for number, ts in standing.items() if number >= len(shown)])
        self._remember(standing, len(shown))

    def _remember(self, standing: Mapping[int, str], parts: int) -> None:
        """Where the further parts of a post stand, for an edit that needs fewer."""
        if parts > 1:
            self._further[standing[0]] = [standing[number] for number in range(1, parts)]
        while len(self._further) > REMEMBERED:
            self._further.popitem(last=False)

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

    async def whisper(self, thread: Thread, content: Content, to: Whisper, *, key: str) -> MessageRef:
        """Show to one person only: by the handle while it lives, else as an ephemeral message."""
        content = await self._files.privately(thread, content, person=to.person, key=key)
        files = await self._pictures.ids(content)
        message = single(content, files, limit=WHISPER_CHARS)
        self._pictures.keep(files)
        if to.handle and await self._by_handle(to.handle, message, thread):
            return MessageRef(channel=thread.channel, id="", thread_id=thread.thread_id)
        answer, _ = await self._with_pictures(
            "chat.postEphemeral",
            message,
            channel=thread.channel,
            user=to.person,
            thread_ts=thread.thread_id or None,
        )
        return MessageRef(channel=thread.channel, id=str(answer.get("message_ts", "")), thread_id=thread.thread_id)

    async def find(
        self, thread: Thread, key: str, *, growing: bool = False, taken: Collection[str] = ()
    ) -> MessageRef | None:
        """The first message of what was posted with `key`, if all of it stands there.

        A stream gets its mark when it is finished, so a message of ours without one is an answer that was cut off
        before its address could be stored: it is taken for one that was begun `growing`. What is `taken` belongs to
        other streams of this process.
        """
        standing = await self._standing.parts(thread, key)
        if standing:
            first = standing[0] if 0 in standing and -1 in standing else None
        else:
            first = await self._standing.cut_off(thread, taken=taken) if growing else None
            if first:
                self._adopted[first] = marked(key, 0, 1)
        return MessageRef(channel=thread.channel, id=first, thread_id=thread.thread_id) if first else None

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

    async def _by_handle(self, handle: str, message: Message, thread: Thread) -> bool:
        """False when the handle is used up, expired or not Slack's. Pictures come as words: it serves five calls."""
        if not self._downloads.allowed(URL(handle)):
            return False
        body = {
            "response_type": "ephemeral",
            "replace_original": False,
            "text": message.text,
            "blocks": without_pictures(message.blocks),
            **({"thread_ts": thread.thread_id} if thread.thread_id else {}),
        }
        try:
            async with self._api.session.post(handle, json=body) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False


def _key_in(mark: dict[str, object]) -> str:
    payload = mark.get("event_payload")
    return str(payload.get("key", "")) if isinstance(payload, dict) else ""
