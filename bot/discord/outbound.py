"""Messages out: posts that arrive once, edits also after Discord's limits, private answers.

A post carries a nonce made of its key. Within some minutes Discord answers a repeated nonce with the first message,
so a post is repeated without harm; Discord does not show nonces in a channel's history, so `find` knows only what the
gateway echoed (`Shared.posted`), and None means: post again with the same key. Documents are attachments of the
message, so they come (and, after those minutes, double) with it; an edit keeps those that stand and adds the others.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import discord

from agent.domain.content import Content
from agent.domain.errors import AppError, Conflict, NotFound, TransientError, Unavailable
from agent.domain.inbound import Thread
from agent.ports import MessageRef
from bot.discord import failures
from bot.discord.addresses import DIRECT, Place, link_to, nonce_of, place_of
from bot.discord.client import GatewayClient, Shared
from bot.discord.embeds import Piece, pieces
from bot.discord.failures import Doing, speaking
from bot.discord.recent import Recent

log = logging.getLogger(__name__)

DEFAULT_TITLE = "Trainyard"
MOVED = "-# Continued in a newer message: {link}"


class Link:
    """The present client, as long as it is logged in."""

    def __init__(self, *, wait_s: float, call_s: float) -> None:
        """`wait_s` is how long to wait for a login, `call_s` how long one call may take with all its retries."""
        self.logged_in = asyncio.Event()
        self.client: GatewayClient | None = None
        self.call_s = call_s
        self._wait_s = wait_s

    async def up(self) -> GatewayClient:
        """The client.

        Raises:
            Unavailable: it is not logged in, and does not get there in time.
        """
        try:
            async with asyncio.timeout(self._wait_s):
                await self.logged_in.wait()
        except TimeoutError as error:
            raise Unavailable("I am not connected to Discord at the moment.") from error
        if self.client is None:
            raise Unavailable("I am not connected to Discord at the moment.")
        return self.client


class Outbound:
    """Posts and edits in channels, threads and direct messages."""

    def __init__(self, link: Link, shared: Shared, *, editable_s: float) -> None:
        """A message older than `editable_s` is continued in a new one instead of being edited."""
        self.link = link
        self._shared = shared
        self._editable_s = editable_s
        self._moved: Recent[str, MessageRef] = Recent()
        self._earlier: Recent[str, list[MessageRef]] = Recent()  # of posts in several messages, by the last
        self._attached: Recent[str, list[discord.Attachment]] = Recent()

    async def post(self, thread: Thread, content: Content, *, key: str) -> MessageRef:
        """Post once, long texts as several messages; the address is that of the last, which holds the card."""
        *before, last = pieces(content)
        if known := self._shared.posted.get(nonce_of(key)):
            await self.change(thread, known, last)
            return known
        earlier = [(await self.send(thread, piece, key=f"{key}#{n}"))[0] for n, piece in enumerate(before)]
        ref, shows = await self.send(thread, last, key=key)
        if earlier:
            self._earlier.put(ref.id, earlier)
        if not shows:  # posted before a restart, and another content by now
            await self.change(thread, ref, last)
        return ref

    async def send(self, thread: Thread, piece: Piece, *, key: str) -> tuple[MessageRef, bool]:
        """Post one message; the flag says that it shows `piece` (not so if it had been posted before, and differs)."""
        client, place, nonce = await self.link.up(), place_of(thread), nonce_of(key)
        async with self._speaking("send", client, place):
            message = await self._send(client, place, piece, nonce)
        ref = MessageRef(channel=str(message.channel.id), id=str(message.id), thread_id=thread.thread_id)
        self._shared.posted.put(nonce, ref)
        self._attached.put(ref.id, message.attachments)
        return ref, _shows(message, piece)

    async def _send(self, client: GatewayClient, place: Place, piece: Piece, nonce: str) -> discord.Message:
        if place.thread_id and self._shared.titles.get(place.thread_id):
            await self.open_thread(client, place)
        try:
            return await _create(client, place.target, piece, nonce)
        except discord.HTTPException as error:
            if error.code == failures.UNKNOWN_CHANNEL and place.thread_id:
                await self.open_thread(client, place)
            elif error.code == failures.ARCHIVED:
                await _unarchive(client, place)
            else:
                raise
        return await _create(client, place.target, piece, nonce)

    async def open_thread(self, client: GatewayClient, place: Place) -> None:
        """Make the thread that answers a message; it has the message's id, and may exist already."""
        title = self._shared.titles.get(place.thread_id) or DEFAULT_TITLE
        try:
            async with self._speaking("open a thread", client, place):
                await client.http.start_thread_with_message(
                    place.channel,
                    place.thread_id,
                    name=title,
                    auto_archive_duration=10080,
                )
        except AppError as error:
            if getattr(error.__cause__, "code", 0) != failures.THREAD_EXISTS:
                await self._tell_why(client, place, error)
                raise
        self._shared.titles.pop(place.thread_id)

    async def _tell_why(self, client: GatewayClient, place: Place, error: AppError) -> None:
        """Without a thread nobody would see why there is no answer, so it is said once, under the question."""
        if isinstance(error, TransientError):
            return
        asked = discord.MessageReference(message_id=place.thread_id, channel_id=place.channel, fail_if_not_exists=False)
        try:
            async with self._speaking("send", client, place):
                await client.get_partial_messageable(place.channel).send(
                    error.text,
                    reference=asked,
                    nonce=nonce_of(f"no thread:{place.thread_id}"),
                    allowed_mentions=discord.AllowedMentions.none(),
                )
        except AppError as second:
            reasons = [error.text, second.text]
            log.warning("discord_thread_refused", extra={"channel": place.channel, "reasons": reasons})

    async def edit(self, thread: Thread, ref: MessageRef, content: Content) -> MessageRef:
        """Make a message show `content`; what cannot be edited any more is continued in a new message."""
        ref = self._moved.get(ref.id) or ref
        piece = pieces(content, most=1)[-1]
        created = discord.utils.snowflake_time(int(ref.id))
        if (datetime.now(UTC) - created).total_seconds() > self._editable_s:
            return await self._move(thread, ref, piece, say_so=True)
        try:
            await self.change(thread, ref, piece)
        except Conflict as error:
            if getattr(error.__cause__, "code", 0) != failures.TOO_OLD_TO_EDIT:
                raise
            return await self._move(thread, ref, piece, say_so=False)
        await self._drop_earlier(ref)
        return ref

    async def _drop_earlier(self, ref: MessageRef) -> None:
        """An edit shows everything in the last message of a post, so what stood above it goes."""
        for above in self._earlier.pop(ref.id) or ():
            try:
                await self.delete(above)
            except AppError as error:
                log.warning("discord_orphan_left", extra={"message_id": above.id, "reason": error.text})

    async def change(self, thread: Thread, ref: MessageRef, piece: Piece) -> None:
        """Edit one message in place, waking its thread if Discord has archived it."""
        client, place = await self.link.up(), place_of(thread)
        async with self._speaking("edit", client, place):
            standing = await self._standing(client, ref) if piece.documents else []
            try:
                message = await _change(client, ref, piece, standing)
            except discord.HTTPException as error:
                if error.code != failures.ARCHIVED:
                    raise
                await _unarchive(client, place)
                message = await _change(client, ref, piece, standing)
            self._attached.put(ref.id, message.attachments)

    async def _standing(self, client: GatewayClient, ref: MessageRef) -> list[discord.Attachment]:
        """What is attached to a message of ours: an edit keeps documents that stand, and adds those that do not."""
        known = self._attached.get(ref.id)
        return (await _message(client, ref).fetch()).attachments if known is None else known

    async def typing(self, place: Place) -> None:
        """Show "is typing" for ten seconds."""
        client = await self.link.up()
        async with self._speaking("send", client, place):
            if place.thread_id and self._shared.titles.get(place.thread_id):
                await self.open_thread(client, place)
            await client.http.send_typing(place.target)

    async def delete(self, ref: MessageRef) -> None:
        """Remove a message of ours; fine if it is gone."""
        client = await self.link.up()
        try:
            async with speaking("edit", limit_s=self.link.call_s):
                await _message(client, ref).delete()
        except NotFound:
            log.info("discord_message_gone", extra={"message_id": ref.id})

    async def _move(self, thread: Thread, old: MessageRef, piece: Piece, *, say_so: bool) -> MessageRef:
        new, shows = await self.send(thread, piece, key=f"moved:{old.id}")
        if not shows:
            await self.change(thread, new, piece)
        self._moved.put(old.id, new)
        if not say_so:
            return new
        client = await self.link.up()
        note = MOVED.format(link=link_to(thread, new))
        try:
            async with speaking("edit", limit_s=self.link.call_s):
                await _message(client, old).edit(content=note, view=None)
        except AppError as error:
            log.info("discord_old_card_stays", extra={"message_id": old.id, "reason": error.text})
        return new

    async def find(self, thread: Thread, *, key: str) -> MessageRef | None:
        """The message of `key` if the gateway has reported it; else the post may be repeated safely."""
        place_of(thread)
        return self._shared.posted.get(nonce_of(key))

    async def direct(self, content: Content, *, person: str, key: str) -> MessageRef:
        """A direct message to one person.

        Raises:
            NotAllowed: the person does not take direct messages.
        """
        client = await self.link.up()
        async with speaking("write privately", limit_s=self.link.call_s):
            channel = await client.create_dm(discord.Object(int(person)))
        private = Thread(platform="discord", tenant=DIRECT, channel=str(channel.id))
        return await self.post(private, content, key=key)

    def _speaking(self, doing: Doing, client: GatewayClient, place: Place) -> AbstractAsyncContextManager[None]:
        return speaking(doing, limit_s=self.link.call_s, lacking=lambda: _lacking(doing, client, place))


async def _create(client: GatewayClient, target: int, piece: Piece, nonce: str) -> discord.Message:
    fields = await piece.fields()
    if fields["view"] is None:
        del fields["view"]
    return await client.get_partial_messageable(target).send(**fields, nonce=nonce)


async def _change(
    client: GatewayClient, ref: MessageRef, piece: Piece, standing: Sequence[discord.Attachment]
) -> discord.Message:
    return await _message(client, ref).edit(**await piece.changes(standing))


def _message(client: GatewayClient, ref: MessageRef) -> discord.PartialMessage:
    return client.get_partial_messageable(int(ref.channel)).get_partial_message(int(ref.id))


async def _unarchive(client: GatewayClient, place: Place) -> None:
    await client.http.edit_channel(place.target, archived=False)


def _shows(message: discord.Message, piece: Piece) -> bool:
    """Whether a message that Discord returned looks like `piece`, as far as texts tell."""
    embed = message.embeds[0] if message.embeds else None
    return _words(message.content) == _words(piece.text) and _texts(embed) == _texts(piece.embed)


def _texts(embed: discord.Embed | None) -> list[str]:
    if embed is None:
        return []
    fields = [text or "" for shown in embed.fields for text in (shown.name, shown.value)]
    return [_words(text) for text in (embed.title or "", embed.description or "", *fields, str(embed.colour))]


def _words(text: str) -> str:
    return " ".join(text.split())  # Discord trims white space


def _lacking(doing: Doing, client: GatewayClient, place: Place) -> Sequence[str]:
    """Which of the needed permissions the bot's roles lack in the channel, as far as the cache knows."""
    channel = client.get_channel(place.channel)
    if not isinstance(channel, discord.abc.GuildChannel):
        return ()
    has = channel.permissions_for(channel.guild.me)
    unneeded = "send_messages" if place.thread_id else "send_messages_in_threads"
    return [name for name in failures.NEEDS[doing] if name != unneeded and not getattr(has, name)]
