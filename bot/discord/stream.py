"""An answer that grows: posted once, edited at a steady pace, continued in a new message when one is full."""

import asyncio
import logging
from dataclasses import replace

from agent.domain.content import END_ANSWER, Content
from agent.domain.errors import AppError, TransientError
from agent.domain.inbound import Thread
from agent.ports import MessageRef
from bot.discord.embeds import Piece, pieces
from bot.discord.outbound import Outbound

log = logging.getLogger(__name__)

STREAM_PIECES = 10  # more than in a post: they are in the thread already
EMPTY = "…"


class DiscordStream:
    """`agent.ports.ReplyStream`. Shows what it has in the background, so that `append` never waits for Discord.

    The messages always show the pieces of the whole text so far, the last with a Stop button: a crash, a repeated post
    or a cut that moves is mended by the next round.
    """

    def __init__(self, outbound: Outbound, thread: Thread, *, key: str, pace_s: float) -> None:
        """`pace_s` is the least time between the end of one edit and the next."""
        self._outbound = outbound
        self._thread = thread
        self._key = key
        self._pace_s = pace_s
        self._text = ""
        self._refs: list[MessageRef] = []
        self._shown: list[Piece | None] = []
        self._grown = asyncio.Event()
        self._lock = asyncio.Lock()
        self._closed = False
        self._showing = asyncio.create_task(self._keep_showing())

    async def append(self, text: str) -> MessageRef | None:
        """Show more text soon; the address of the newest message once there is one."""
        if self._closed:
            return self._refs[-1] if self._refs else None
        self._text += text
        self._grown.set()
        await asyncio.sleep(0)
        return self._refs[-1] if self._refs else None

    async def finish(self, content: Content) -> MessageRef:
        """Show exactly `content`, in as many messages as it takes, and remove those too many."""
        self._closed = True
        async with self._lock:
            self.abandon()
            wanted = (
                pieces(content, most=STREAM_PIECES)
                if content.text.strip() or content.card or content.files
                else [Piece(EMPTY)]
            )
            await self._show(wanted)
            while len(self._refs) > len(wanted):
                await self._outbound.delete(self._refs.pop())
        return self._refs[-1]

    def abandon(self) -> None:
        """Stop working in the background."""
        self._showing.cancel()

    async def _keep_showing(self) -> None:
        while not self._closed:
            await self._grown.wait()
            self._grown.clear()
            pause_s = self._pace_s
            try:
                await self._show_growth()
            except TransientError as error:
                log.info("discord_stream_waits", extra={"address": self._thread.key, "reason": error.text})
                pause_s = max(pause_s, error.retry_after_s or 0.0)
                self._grown.set()
            except AppError as error:
                log.warning("discord_stream_broken", extra={"address": self._thread.key, "reason": error.text})
                return  # `finish` meets the same error and raises it
            await asyncio.sleep(pause_s)

    async def _show_growth(self) -> None:
        async with self._lock:
            if not self._closed and self._text.strip():
                await self._show(self._unfinished())

    def _unfinished(self) -> list[Piece]:
        *before, last = pieces(Content(text=self._text), most=STREAM_PIECES)
        mark = f"\n{EMPTY}" if last.text.endswith("```") else f" {EMPTY}"
        return [*before, replace(last, text=last.text + mark, buttons=(END_ANSWER,))]

    async def _show(self, wanted: list[Piece]) -> None:
        for n, piece in enumerate(wanted):
            if n == len(self._refs):
                key = self._key if n == 0 else f"{self._key}#{n}"
                ref, shows = await self._outbound.send(self._thread, piece, key=key)
                self._refs.append(ref)
                self._shown.append(piece if shows else None)
            if self._shown[n] != piece:
                await self._outbound.change(self._thread, self._refs[n], piece)
                self._shown[n] = piece
