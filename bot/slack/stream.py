"""An answer that grows: Slack's own streaming where it works, edits of a message where it does not.

A stream of Slack's lives about five minutes and only grows, so it is rotated in time, and `finish` puts right by edits
whatever does not show exactly the final content. The key is set by `finish` only: half an answer is never "posted".
"""

import asyncio
import logging
import re
from dataclasses import dataclass

from agent.domain.content import Content
from agent.domain.errors import AppError, RateLimited, TransientError
from agent.domain.inbound import Thread
from agent.ports import MessageRef
from bot.slack.api import SlackApi
from bot.slack.blocks import Message, messages, neutral, single
from bot.slack.errors import code_of
from bot.slack.outbound import Outbound
from bot.slack.standing import marked
from bot.slack.uploaded import Pictures

log = logging.getLogger(__name__)

HALF_A_MENTION = re.compile(r"(?:<[@#!]?[a-z]{0,10}|@[a-z]{0,7})$")


@dataclass(frozen=True, slots=True)
class Pace:
    """How a stream behaves in time and size; Slack's rates are per workspace, so a stream stays well below."""

    append_every_s: float = 0.8
    edit_every_s: float = 3.0
    rotate_after_s: float = 240.0
    rotate_chars: int = 10_000


@dataclass(slots=True)
class _Part:
    ts: str
    start: int  # where it begins in the whole text
    born_s: float


@dataclass(slots=True)
class StreamContext:
    """What all streams share; `streaming` turns False when Slack does not know the method."""

    api: SlackApi
    outbound: Outbound
    pictures: Pictures
    pace: Pace
    streaming: bool = True


class SlackStream:
    """One answer. `recipient` is the person it is for, whom Slack wants to know in channels; None for no streaming."""

    def __init__(self, context: StreamContext, thread: Thread, *, key: str, recipient: str | None) -> None:
        self._context, self._api, self._outbound, self._pace = context, context.api, context.outbound, context.pace
        self._thread, self.key, self._recipient = thread, key, recipient
        self._native = recipient is not None and bool(thread.thread_id) and context.streaming
        self._open = False  # a stream of Slack's that we have not stopped
        self._now = asyncio.get_running_loop().time
        self._text = ""
        self._sent = 0  # characters of the text that have been shown
        self._sure = True  # False while we do not know what a call has done
        self._parts: list[_Part] = []
        self._not_before_s = 0.0
        self._turn = asyncio.Lock()
        self._later: asyncio.Task[None] | None = None

    @property
    def stamps(self) -> list[str]:
        """The addresses of its messages."""
        return [part.ts for part in self._parts]

    async def append(self, text: str) -> MessageRef | None:
        """Show more text, now or as soon as the rate allows; the address once a message exists."""
        self._text += text
        await self._flush()
        return self._ref()

    async def finish(self, content: Content) -> MessageRef:
        """Show exactly `content`. May be called again after a `TransientError`."""
        async with self._turn:
            if self._later is not None:
                self._later.cancel()
            content = await self._outbound.hand_over(self._thread, content, key=self.key)
            if not (self._open and await self._stopped(content)):
                self._native = False
                await self._settle(content)
            ref = self._address()
            self._outbound.handed_over(ref.id)
            return ref

    async def _flush(self) -> None:
        async with self._turn:
            if self._sent >= len(self._text):
                return
            if (delay_s := self._delay_s()) > 0:
                self._show_later(delay_s)
                return
            sure, self._sure = self._sure, False  # a call that is cut off may or may not have added its text
            try:
                await (self._grow() if self._native else self._edit())
                self._sure = sure
            except RateLimited as error:
                self._sure = sure
                self._wait(error.retry_after_s or self._pace.edit_every_s)
            except AppError as error:
                self._context.streaming &= code_of(error) != "unknown_method"
                # What cannot even be edited stays silent until `finish`.
                self._wait(0.0 if self._native else 10 * self._pace.edit_every_s)
                self._native = False

    def _wait(self, seconds: float) -> None:
        self._not_before_s = self._now() + seconds
        self._show_later(seconds)

    def _delay_s(self) -> float:
        method = "chat.appendStream" if self._native else "chat.update"
        return max(self._not_before_s - self._now(), self._api.limiter.delay_s(method, self._thread.channel))

    def _show_later(self, delay_s: float) -> None:
        current = asyncio.current_task()
        if self._later is None or self._later.done() or self._later is current:
            self._later = asyncio.create_task(self._flush_after(delay_s))

    async def _flush_after(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        await self._flush()

    async def _grow(self) -> None:
        """Send what is new to Slack's stream, to a fresh one when the old is nearly over."""
        pending = self._text[self._sent :]
        if cut := HALF_A_MENTION.search(pending):  # the rest of a mention may come with the next piece
            pending = pending[: cut.start()]
        pending = pending[: self._pace.rotate_chars]
        if not pending:
            return
        part = self._parts[-1] if self._parts else None
        if part is not None and self._is_full(part, len(pending)):
            await self._close(part)
            part = None
        if part is None:
            await self._start(pending)
        else:
            await self._api.call_once(
                "chat.appendStream",
                channel=self._thread.channel,
                ts=part.ts,
                markdown_text=neutral(pending),
            )
        self._sent += len(pending)
        self._not_before_s = self._now() + self._pace.append_every_s
        if self._sent < len(self._text):
            self._show_later(self._pace.append_every_s)

    def _is_full(self, part: _Part, more: int) -> bool:
        too_long = self._sent - part.start + more > self._pace.rotate_chars
        return too_long or self._now() - part.born_s >= self._pace.rotate_after_s

    async def _start(self, text: str) -> None:
        answer = await self._api.call_once(
            "chat.startStream",
            channel=self._thread.channel,
            thread_ts=self._thread.thread_id,
            recipient_user_id=self._recipient,
            recipient_team_id=self._thread.tenant,
            markdown_text=neutral(text),
        )
        self._parts.append(_Part(ts=str(answer["ts"]), start=self._sent, born_s=self._now()))
        self._open = True

    async def _close(self, part: _Part) -> None:
        """Stop Slack's stream; one that has ended by itself is as good."""
        try:
            await self._api.call("chat.stopStream", channel=self._thread.channel, ts=part.ts)
        except TransientError:
            raise
        except AppError as error:
            log.info("slack.stream_had_ended", extra={"ts": part.ts, "reason": error.text})
        self._open = False

    async def _edit(self) -> None:
        """Show the text so far by an edit, or post it if nothing stands yet."""
        if self._open:
            await self._close(self._parts[-1])
        start = self._parts[-1].start if self._parts else 0
        content = Content(text=self._text[start:])
        message = single(content, {})
        if self._parts:
            await self._outbound.update(self._thread.channel, self._parts[-1].ts, message)
        else:
            metadata = marked(f"{self.key}:growing")
            ts = await self._outbound.send(self._thread, message, metadata=metadata, content=content)
            self._parts.append(_Part(ts=ts, start=0, born_s=self._now()))
        self._sent = len(self._text)
        self._not_before_s = self._now() + self._pace.edit_every_s

    async def _stopped(self, content: Content) -> bool:
        """Close Slack's stream; True if it then shows the content exactly."""
        rest = content.text[self._sent :]
        part = self._parts[-1]
        exact = (
            self._native
            and self._sure
            and len(self._parts) == 1
            and content.card is None
            and content.text[: self._sent] == self._text[: self._sent]
            and not self._is_full(part, len(rest))
        )
        try:
            await self._api.call(
                "chat.stopStream",
                channel=self._thread.channel,
                ts=part.ts,
                markdown_text=(neutral(rest) or None) if exact else None,
                metadata=marked(self.key) if exact else None,
            )
        except AppError as error:
            log.info("slack.stream_not_stopped", extra={"ts": part.ts, "reason": error.text})
            return False  # edits put it right
        self._open = False
        return exact

    async def _settle(self, content: Content) -> None:
        """Edit, post and delete until the messages show the content; addresses are kept where Slack allows it."""
        shown = messages(content, await self._context.pictures.ids(content))
        old, stamps = [part.ts for part in self._parts], []
        for number, message in enumerate(shown):
            metadata = marked(self.key, number, len(shown))
            if old and await self._updated(old[0], message, metadata):
                stamps.append(old.pop(0))
                continue
            stamps.append(await self._outbound.send(self._thread, message, metadata=metadata, content=content))
            self._parts[number:number] = [_Part(ts=stamps[-1], start=0, born_s=self._now())]
            await self._outbound.delete(self._thread.channel, old)  # never two answers beside each other
            self._drop(old)
            old = []
        await self._outbound.delete(self._thread.channel, old)
        self._drop(old)

    async def _updated(self, ts: str, message: Message, metadata: object) -> bool:
        try:
            await self._outbound.update(self._thread.channel, ts, message, metadata=metadata)
        except TransientError:
            raise
        except AppError:
            return False
        return True

    def _drop(self, stamps: list[str]) -> None:
        self._parts = [part for part in self._parts if part.ts not in stamps]

    def _ref(self) -> MessageRef | None:
        return self._address() if self._parts else None

    def _address(self) -> MessageRef:
        return MessageRef(channel=self._thread.channel, id=self._parts[0].ts, thread_id=self._thread.thread_id)
