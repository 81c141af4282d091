"""Discord as a chat adapter. Joins the gateway client, messages out, private answers, streams, files."""

import asyncio
import itertools
import logging
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from discord.gateway import DiscordWebSocket
from discord.http import Route
from discord.utils import snowflake_time
from yarl import URL

from agent.domain.content import Content
from agent.domain.errors import AppError, TransientError, Unavailable
from agent.domain.inbound import Attachment, Inbound, Person, Platform, Thread
from agent.ports import Accept, Complete, MessageRef, Whisper
from bot.connection import Connection
from bot.discord.addresses import place_of, whispered_by
from bot.discord.client import GatewayClient, Shared
from bot.discord.failures import FOREIGN, translated
from bot.discord.files import Files
from bot.discord.outbound import Link, Outbound
from bot.discord.sessions import Sessions
from bot.discord.stream import DiscordStream
from bot.discord.whisper import Whispers

log = logging.getLogger(__name__)

TYPING_S = 8.0  # Discord shows "is typing" for 10
RECONNECT_S = (1.0, 5.0, 30.0, 120.0)  # Discord allows 1,000 new sessions a day


class DiscordAdapter:
    """One bot account in Discord. Reconnects by itself; after a restart nothing but the token is needed."""

    platform: Platform = "discord"

    def __init__(  # noqa: PLR0913  plain values of the settings, each with a default that suits Discord
        self,
        token: str,
        *,
        message_content: bool = True,
        guild_ids: tuple[int, ...] = (),
        api_base: str | None = None,
        gateway_url: str | None = None,
        edit_pace_s: float = 1.2,
        editable_s: float = 55 * 60.0,
        call_s: float = 60.0,
        login_wait_s: float = 15.0,
        download_s: float = 300.0,
        identify_pause_s: float = 5.0,
    ) -> None:
        """`message_content` False is mention-only mode: in threads, only what names the bot is heard.

        `guild_ids` get the slash commands at once; none means everywhere, after a while. `api_base` (with the version)
        and `gateway_url` point all Discord clients of this process elsewhere, for tests. `editable_s` stays under the
        hour after which Discord limits edits; `call_s` bounds one post or edit with all waiting for rate limits.
        """
        if api_base:
            Route.BASE = api_base
        if gateway_url:
            DiscordWebSocket.DEFAULT_GATEWAY = URL(gateway_url)
        self._token = token
        self._message_content = message_content
        self._guild_ids = guild_ids
        self._identify_pause_s = identify_pause_s
        self._edit_pace_s = edit_pace_s
        self._shared = Shared()
        self._sessions = Sessions()
        self.connection = Connection(self.platform)
        self._link = Link(wait_s=login_wait_s, call_s=call_s)
        self._outbound = Outbound(self._link, self._shared, editable_s=editable_s)
        self._whispers = Whispers(self._outbound, self._shared, self._sessions)
        self._files = Files(self._link, self._sessions, api_base=api_base, timeout_s=download_s)
        self._streams: weakref.WeakSet[DiscordStream] = weakref.WeakSet()

    async def run(self, accept: Accept, complete: Complete | None = None) -> None:
        """Connect and deliver what people do until cancelled; tries again as long as that may help.

        Raises:
            AppError: the token or the intents are refused.
        """
        for wait_s in itertools.chain(RECONNECT_S, itertools.repeat(RECONNECT_S[-1])):
            try:
                await self._connect(accept, complete)
            except TransientError as error:
                log.warning("discord_not_reachable", extra={"reason": error.text, "retry_s": wait_s})
                self.connection.failed(error.text, retry_s=wait_s)
                await asyncio.sleep(wait_s)

    async def _connect(self, accept: Accept, complete: Complete | None) -> None:
        client = GatewayClient(
            accept=accept,
            complete=complete,
            shared=self._shared,
            message_content=self._message_content,
            guild_ids=self._guild_ids,
            logged_in=self._link.logged_in,
            connection=self.connection,
            identify_pause_s=self._identify_pause_s,
        )
        self._link.client = client
        try:
            async with client:
                await client.start(self._token)
        except FOREIGN as error:
            raise translated(error, "read") from error
        finally:
            self._link.logged_in.clear()
            self.connection.closed()
            self._link.client = None
            for stream in self._streams:
                stream.abandon()
            await self._sessions.close()
        raise Unavailable("Discord closed the connection.")

    async def post(self, thread: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        """Post once per `key`; a long text takes several messages, the address is that of the last."""
        if whisper is not None:
            return await self._whispers.post(thread, content, key=key, whisper=whisper)
        return await self._outbound.post(thread, content, key=key)

    async def edit(self, thread: Thread, ref: MessageRef, content: Content) -> MessageRef:
        """Make a message show `content`, in a new message where Discord forbids the edit."""
        if handle := whispered_by(ref):
            return await self._whispers.edit(ref, handle, content)
        return await self._outbound.edit(thread, ref, content)

    async def find(self, thread: Thread, *, key: str, growing: bool = False) -> MessageRef | None:
        """The message that was posted with `key`, if the gateway reported it; else a post may be repeated safely."""
        del growing  # half an answer bears the key too
        return await self._outbound.find(thread, key=key)

    def shown_at(self, ref: MessageRef) -> datetime | None:
        """When it was posted: its id says it."""
        return snowflake_time(int(ref.id)) if ref.id.isdecimal() else None

    async def stream(self, thread: Thread, *, key: str) -> DiscordStream:
        """Open an answer that grows."""
        await self._link.up()
        stream = DiscordStream(self._outbound, thread, key=key, pace_s=self._edit_pace_s)
        self._streams.add(stream)
        return stream

    @asynccontextmanager
    async def busy(self, thread: Thread, asked: Inbound | None) -> AsyncIterator[None]:
        """Show "is typing", in the thread that will have the answer."""
        del asked
        typing = asyncio.create_task(self._keep_typing(thread))
        try:
            yield
        finally:
            typing.cancel()

    async def missed(self, since: datetime, threads: Sequence[Thread]) -> AsyncIterator[Inbound]:
        """What people said since then that may be for us."""
        client = await self._link.up()
        try:
            async for inbound in client.missed(since, threads):
                yield inbound
        except FOREIGN as error:
            raise translated(error, "read") from error

    async def _keep_typing(self, thread: Thread) -> None:
        while True:
            try:
                await self._outbound.typing(place_of(thread))
            except TransientError as error:
                log.info("discord_typing_delayed", extra={"address": thread.key, "reason": error.text})
            except AppError as error:
                log.info("discord_not_typing", extra={"address": thread.key, "reason": error.text})
                return
            await asyncio.sleep(TYPING_S)

    async def groups_of(self, person: Person, among: frozenset[str]) -> frozenset[str]:
        """Those of these roles that the person has on the server; none in a direct message."""
        client = await self._link.up()
        if not person.tenant.isdecimal():
            return frozenset()
        try:
            member = await client.http.get_member(int(person.tenant), int(person.id))
        except FOREIGN as error:
            raise translated(error, "read") from error
        return among.intersection(map(str, member["roles"]))

    async def fetch(self, attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        """Download an attachment to the file `into`."""
        await self._files.fetch(attachment, into, limit_bytes=limit_bytes)
