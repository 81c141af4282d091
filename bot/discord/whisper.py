"""Private answers: through the interaction that asked, else as a direct message, else a sentence in the thread.

The sentence never contains the answer itself: what is meant for one person is not shown to all.
"""

import asyncio
import logging

import discord
from discord.http import handle_message_parameters
from discord.webhook.async_ import async_context

from agent.domain.content import Content
from agent.domain.errors import NotAllowed, NotFound
from agent.domain.inbound import Thread
from agent.ports import MessageRef, Whisper
from bot.discord.addresses import DIRECT, Handle, handle_from, whisper_ref
from bot.discord.client import Shared
from bot.discord.embeds import Piece, pieces
from bot.discord.failures import speaking
from bot.discord.outbound import Outbound
from bot.discord.recent import Recent
from bot.discord.sessions import Sessions

log = logging.getLogger(__name__)

DEFER_WAIT_S = 3.0
LOADING = 1 << 7  # message flag: a deferred answer that has not come yet
CLOSED = (
    "I have an answer for <@{person}> alone, but may not write to them directly. "
    "Allow direct messages from this server's members, or ask with `/train`."
)


class Whispers:
    """Answers that one person sees."""

    def __init__(self, outbound: Outbound, shared: Shared, session: Sessions) -> None:
        self._outbound = outbound
        self._shared = shared
        self._session = session
        self._answered: Recent[str, str] = Recent()  # the key of the first answer, by interaction token

    async def post(self, thread: Thread, content: Content, *, key: str, whisper: Whisper) -> MessageRef:
        """Show `content` to one person only."""
        if thread.tenant == DIRECT and not whisper.handle:
            return await self._outbound.post(thread, content, key=key)
        handle = handle_from(whisper.handle)
        if handle is not None:
            try:
                return await self._through(handle, thread, content, key)
            except NotFound as error:
                log.info("discord_interaction_over", extra={"address": thread.key, "reason": error.text})
        try:
            return await self._outbound.direct(content, person=whisper.person, key=key)
        except NotAllowed:
            notice = Piece(CLOSED.format(person=whisper.person))
            ref, _ = await self._outbound.send(thread, notice, key=f"closed:{key}")
            return ref

    async def edit(self, ref: MessageRef, handle: Handle, content: Content) -> MessageRef:
        """Change a private answer, as long as its interaction lives."""
        piece = pieces(content, most=1)[-1]
        async with speaking("edit", limit_s=self._outbound.link.call_s):
            with handle_message_parameters(**await piece.changes()) as params:
                await async_context.get().edit_webhook_message(
                    handle.application,
                    handle.token,
                    int(ref.id),
                    session=self._session.open(),
                    payload=params.payload,
                    multipart=params.multipart,
                    files=params.files,
                )
        return ref

    async def _through(self, handle: Handle, thread: Thread, content: Content, key: str) -> MessageRef:
        await self._deferred(handle)
        message_id = 0
        async with speaking("send", limit_s=self._outbound.link.call_s):
            for n, piece in enumerate(pieces(content)):
                if n == 0 and handle.kind == "slash" and await self._is_first(handle, key):
                    self._answered.put(handle.token, key)
                    message_id = await self._fill(handle, piece)
                else:
                    message_id = await self._follow(handle, piece)
        return whisper_ref(handle, message_id, thread)

    async def _deferred(self, handle: Handle) -> None:
        """An answer must not overtake the acknowledgement that makes room for it."""
        done = self._shared.deferred.get(handle.token)
        if done is not None:
            try:
                async with asyncio.timeout(DEFER_WAIT_S):
                    await done.wait()
            except TimeoutError:
                log.warning("discord_defer_slow")

    async def _is_first(self, handle: Handle, key: str) -> bool:
        """Whether the place of the deferred answer is free, or holds the answer with this very key."""
        if (known := self._answered.get(handle.token)) is not None:
            return known == key
        original = await async_context.get().get_original_interaction_response(
            handle.application,
            handle.token,
            session=self._session.open(),
        )
        return bool(original.get("flags", 0) & LOADING)

    async def _fill(self, handle: Handle, piece: Piece) -> int:
        with handle_message_parameters(**await piece.changes()) as params:
            data = await async_context.get().edit_original_interaction_response(
                handle.application,
                handle.token,
                session=self._session.open(),
                payload=params.payload,
                multipart=params.multipart,
                files=params.files,
            )
        return int(data["id"])

    async def _follow(self, handle: Handle, piece: Piece) -> int:
        fields = await piece.fields()
        view = fields.pop("view") or discord.utils.MISSING
        with handle_message_parameters(**fields, view=view, flags=discord.MessageFlags(ephemeral=True)) as params:
            data = await async_context.get().execute_webhook(
                handle.application,
                handle.token,
                session=self._session.open(),
                wait=True,
                payload=params.payload,
                multipart=params.multipart,
                files=params.files,
            )
        return int(data["id"]) if data else 0
