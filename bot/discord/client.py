"""The gateway connection: what people do becomes an `Inbound`, is accepted, and only then acknowledged.

discord.py resumes dropped connections itself; Discord then replays what was missed, with the same ids.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import discord
from typing_extensions import override

from agent.commands.command import Command
from agent.commands.options import Option
from agent.domain.content import Choice
from agent.domain.errors import AppError, TransientError
from agent.domain.inbound import Clicked, Inbound, Thread
from agent.domain.redaction import without_secrets
from agent.ports import Accept, Complete, HalfTyped, MessageRef
from bot.connection import Connection
from bot.discord import inbound
from bot.discord.addresses import DIRECT
from bot.discord.commands import Interaction, command_tree, sync_commands
from bot.discord.dialogs import modal_of
from bot.discord.inbound import Where
from bot.discord.recent import Recent

log = logging.getLogger(__name__)

OLD_BUTTON = "This button or menu is of an older version of me. Ask me for the status to get a fresh card."
RATELIMIT_WAIT_S = 30.0  # discord.py's least; a longer wait is raised, not slept through
TITLE_CHARS = 80
MOST_MISSED = 200  # messages of one channel that are read back


@dataclass(slots=True)
class Shared:
    """What the way in knows and the way out can use. Lost on a restart, and nothing depends on it."""

    titles: Recent[int, str] = field(default_factory=Recent)  # threads that do not exist yet, by their id
    posted: Recent[str, MessageRef] = field(default_factory=Recent)  # by nonce
    deferred: Recent[str, asyncio.Event] = field(default_factory=Recent)  # by the token of an interaction


class GatewayClient(discord.Client):
    """discord.py's client with our events."""

    def __init__(  # noqa: PLR0913 - what an adapter hands to its connection
        self,
        *,
        accept: Accept,
        complete: Complete | None,
        shared: Shared,
        message_content: bool,
        guild_ids: tuple[int, ...],
        logged_in: asyncio.Event,
        connection: Connection,
        identify_pause_s: float,
    ) -> None:
        """`logged_in` is set once calls to the REST interface are possible; `connection` hears of the gateway."""
        intents = discord.Intents(
            guilds=True,
            guild_messages=True,
            dm_messages=True,
            message_content=message_content,
        )
        super().__init__(
            intents=intents,
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            max_ratelimit_timeout=RATELIMIT_WAIT_S,
            allowed_mentions=discord.AllowedMentions.none(),
        )
        self._accept = accept
        self._complete = complete
        self._shared = shared
        self._guild_ids = guild_ids
        self._logged_in = logged_in
        self._gateway = connection
        self._identify_pause_s = identify_pause_s
        self._places: Recent[int, Where] = Recent()
        self._tree = command_tree(self, self._on_command, self._propose)
        self._syncing: asyncio.Task[None] | None = None

    @override
    async def setup_hook(self) -> None:
        self._logged_in.set()
        self._syncing = asyncio.create_task(sync_commands(self._tree, self._guild_ids))

    @override
    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        if not initial:
            await asyncio.sleep(self._identify_pause_s)

    @override
    async def close(self) -> None:
        if self._syncing is not None:
            self._syncing.cancel()
        await super().close()

    async def on_ready(self) -> None:
        """The gateway has a session of ours; what was said before it does not come."""
        self._gateway.established()

    async def on_disconnect(self) -> None:
        """The gateway is gone, or was never reached; discord.py tries again."""
        self._gateway.lost()

    async def on_resumed(self) -> None:
        """The session goes on, and what was missed came."""
        self._gateway.resumed()

    async def on_message(self, message: discord.Message) -> None:
        """A message anywhere; our own ones tell their nonce, which is how an uncertain post is found again."""
        if self.user is None or message.author.id == self.user.id:
            self._remember_own(message)
            return
        if message.author.bot:
            return
        came = await self._said(message, self.user)
        if came is not None:
            await self._accept_message(came)

    async def _said(self, message: discord.Message, me: discord.ClientUser) -> Inbound | None:
        """What a person's message says to the bot, or None."""
        where = await self._where(message.channel, message.guild)
        if not inbound.is_for_the_bot(message, me, where):
            return None
        if not where.is_direct and not where.thread_id:
            title, _ = without_secrets(inbound.without_mention(message, me) or message.author.display_name)
            self._shared.titles.put(message.id, _shortened(" ".join(title.split())))
        return inbound.said(message, me, where)

    async def missed(self, since: datetime, threads: Sequence[Thread]) -> AsyncIterator[Inbound]:
        """What people said since then that may be for the bot, in each place oldest first."""
        for place in self._readable(threads):
            last = getattr(place, "last_message_id", None)
            if last and discord.utils.snowflake_time(last) < since:
                continue
            try:
                async for message in place.history(after=since, limit=MOST_MISSED, oldest_first=True):
                    ours = self.user is None or message.author.id == self.user.id
                    came = None if ours or self.user is None else await self._said(message, self.user)
                    if came is not None:
                        yield came
            except (discord.Forbidden, discord.NotFound) as error:
                log.warning("discord_cannot_be_read_back", extra={"place": str(place), "code": error.code})

    def _readable(
        self, threads: Sequence[Thread]
    ) -> "list[discord.TextChannel | discord.Thread | discord.PartialMessageable]":
        """Channels and threads that the bot may read, and of `threads` direct messages and threads that are archived.

        Discord lists no direct messages to bots (discord-api-docs issue 184), so a person's first ones are not found.
        """
        found: dict[int, discord.TextChannel | discord.Thread | discord.PartialMessageable] = {}
        for guild in self.guilds:
            places: list[discord.TextChannel | discord.Thread] = [*guild.text_channels, *guild.threads]
            for place in places:
                may = place.permissions_for(guild.me)
                if may.read_messages and may.read_message_history:
                    found[place.id] = place
        for thread in threads:
            at = int(thread.thread_id or thread.channel)
            if at not in found and self.get_channel(at) is None:
                guild_id = None if thread.tenant == DIRECT else int(thread.tenant)
                found[at] = self.get_partial_messageable(at, guild_id=guild_id)
        return list(found.values())

    def _remember_own(self, message: discord.Message) -> None:
        thread_id = message.channel.id if isinstance(message.channel, discord.Thread) else ""
        if message.nonce:
            ref = MessageRef(channel=str(message.channel.id), id=str(message.id), thread_id=str(thread_id))
            self._shared.posted.put(str(message.nonce), ref)

    async def _accept_message(self, came: Inbound) -> None:
        """Discord delivers a message once; `accept` keeps what cannot be stored now."""
        try:
            await self._accept(came)
        except TransientError as error:
            log.warning("discord_accept_delayed", extra={"event_id": came.event_id, "reason": error.text})

    async def on_interaction(self, interaction: Interaction) -> None:
        """A click, a choice in a menu or a dialog that is sent off; slash commands come through the tree."""
        if interaction.type not in {discord.InteractionType.component, discord.InteractionType.modal_submit}:
            return
        where = await self._where(interaction.channel, interaction.guild)
        came = inbound.clicked(interaction, where)
        if came is None:
            await self._answer(interaction, OLD_BUTTON)
            return
        modal = modal_of(came.act) if isinstance(came.act, Clicked) and not _is_sent_off(interaction) else None
        if modal is not None:
            await self._open(interaction, modal)
            return
        await self._accept_interaction(interaction, came)

    async def _open(self, interaction: Interaction, modal: discord.ui.Modal) -> None:
        """Show a dialog, which has to be the first answer to a click."""
        try:
            await interaction.response.send_modal(modal)
        except discord.HTTPException as error:
            log.warning("discord_no_dialog", extra={"event_id": str(interaction.id), "code": error.code})

    async def _on_command(self, interaction: Interaction, words: tuple[str, ...]) -> None:
        where = await self._where(interaction.channel, interaction.guild)
        await self._accept_interaction(interaction, inbound.commanded(interaction, where, words))

    async def _propose(self, interaction: Interaction, command: Command, option: Option, text: str) -> Sequence[Choice]:
        """What Discord shows below an option while somebody types it."""
        if self._complete is None:
            return ()
        where = await self._where(interaction.channel, interaction.guild)
        run = getattr(interaction.namespace, "run", None) if option.name != "run" else None
        return await self._complete(
            HalfTyped(
                where.thread,
                inbound.person_of(interaction.user, where),
                command.name,
                option.name,
                text,
                str(run or ""),
            )
        )

    async def _accept_interaction(self, interaction: Interaction, came: Inbound) -> None:
        """Store, then acknowledge: silently for a click, with a private "thinking…" for a command."""
        done = asyncio.Event()
        self._shared.deferred.put(interaction.token, done)
        try:
            await self._accept(came)
            await interaction.response.defer(ephemeral=True)
        except AppError as error:
            await self._answer(interaction, error.text)
        except discord.HTTPException as error:
            # It is stored, so it is done; only its private answer will have to take another way.
            log.warning("discord_defer_failed", extra={"event_id": came.event_id, "code": error.code})
        finally:
            done.set()

    async def _answer(self, interaction: Interaction, text: str) -> None:
        try:
            await interaction.response.send_message(text, ephemeral=True)
        except discord.HTTPException as error:
            log.warning("discord_answer_failed", extra={"event_id": str(interaction.id), "code": error.code})

    async def _where(self, channel: object, guild: discord.Guild | None) -> Where:
        """The address of a channel; one that is not in the cache (an old thread) is asked for once."""
        tenant = str(guild.id) if guild is not None else DIRECT
        if isinstance(channel, discord.Thread):
            return Where(tenant, str(channel.parent_id), str(channel.id))
        if isinstance(channel, discord.PartialMessageable) and guild is not None:
            return await self._unknown_place(channel.id, guild)
        return Where(tenant, str(getattr(channel, "id", "")))

    async def _unknown_place(self, channel_id: int, guild: discord.Guild) -> Where:
        if found := self._places.get(channel_id):
            return found
        try:
            fetched = await self.fetch_channel(channel_id)
        except discord.HTTPException as error:
            log.warning("discord_channel_unknown", extra={"channel": channel_id, "code": error.code})
            return Where(str(guild.id), str(channel_id))
        where = Where(str(guild.id), str(channel_id))
        if isinstance(fetched, discord.Thread):
            where = await self._where(fetched, guild)
        self._places.put(channel_id, where)
        return where


def _is_sent_off(interaction: Interaction) -> bool:
    return interaction.type is discord.InteractionType.modal_submit


def _shortened(title: str) -> str:
    """Its first words, as many as fit."""
    if len(title) <= TITLE_CHARS:
        return title
    words = title[: TITLE_CHARS - 1].rpartition(" ")[0]
    return f"{words} …" if words else f"{title[: TITLE_CHARS - 2]}…"
