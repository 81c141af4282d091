"""`SlackAdapter`: Slack as an `agent.ports.Adapter`.

What people do is stored by `accept` before it is acknowledged to Slack. Bolt acknowledges events before a listener
runs, so we stand in front: its middleware for "before authorisation", right after the signature was checked. If
`accept` fails there is no acknowledgement, and Slack delivers again; `accept` knows repeated deliveries.
"""

import asyncio
import logging
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp, AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from agent.domain.content import Content
from agent.domain.errors import AppError, TransientError
from agent.domain.inbound import Attachment, Inbound, Person, Platform, Thread
from agent.ports import Accept, Complete, MessageRef, ReplyStream, Whisper
from bot.connection import Connection
from bot.slack.api import SlackApi
from bot.slack.dialogs import view_of
from bot.slack.downloads import Downloads
from bot.slack.errors import code_of
from bot.slack.groups import UserGroups
from bot.slack.inbound import Self, interpret, posted_at, sender_of
from bot.slack.limiter import RATES, Rate
from bot.slack.missed import missed
from bot.slack.names import Names
from bot.slack.outbound import PICTURE_WAITS_S, Outbound
from bot.slack.signs import Signs
from bot.slack.stream import Pace, SlackStream, StreamContext
from bot.slack.uploaded import Pictures

log = logging.getLogger(__name__)

SLACK = "https://slack.com/api/"
EVENTS_PATH = "/slack/events"
RECONNECT_S = (1.0, 2.0, 5.0, 10.0, 30.0)
PING_S = 5.0
LOOK_S = 1.0  # between two looks at the connection
ASKERS = 5_000  # threads whose last speaker we remember
Next = Callable[[], Awaitable[BoltResponse]]


@dataclass(frozen=True, slots=True)
class Tuning:
    """What tests and odd workspaces change: rates, the pace of growing answers, waits for pictures, file hosts."""

    rates: Mapping[str, Rate] | None = None
    pace: Pace = field(default_factory=Pace)
    picture_waits_s: Sequence[float] = PICTURE_WAITS_S
    download_hosts: Iterable[str] = ()


class SlackAdapter:
    """One workspace. With an `app_token` it listens by Socket Mode, else by signed HTTP on `http_host:http_port`."""

    platform: Platform = "slack"

    def __init__(  # noqa: PLR0913 - what the settings say of a workspace
        self,
        *,
        bot_token: str,
        app_token: str | None = None,
        signing_secret: str | None = None,
        http_host: str = "127.0.0.1",
        http_port: int = 3000,
        api_url: str = SLACK,
        memory: Path | None = None,
        tuning: Tuning | None = None,
    ) -> None:
        """Opens nothing yet; `memory` is a folder for what outlives a restart.

        Raises `AppError` where there is neither an app token nor a signing secret.
        """
        if not app_token and not signing_secret:
            raise AppError("Slack needs an app token (xapp-…, Socket Mode) or a signing secret (HTTP).")
        tuning = tuning or Tuning()
        self._bot_token, self._app_token, self._signing_secret = bot_token, app_token, signing_secret
        self._http = (http_host, http_port)
        self._api = SlackApi(token=bot_token, base_url=api_url, rates=tuning.rates or RATES)
        self._downloads = Downloads(self._api, hosts=tuning.download_hosts)
        self._signs = Signs(self._api)
        self._pictures = Pictures(self._api, memory / "slack-pictures.json" if memory else None)
        self._names = Names(self._api)
        self._groups = UserGroups(self._api)
        self._outbound = Outbound(
            self._api,
            self._pictures,
            self._downloads,
            picture_waits_s=tuning.picture_waits_s,
        )
        self._context = StreamContext(self._api, self._outbound, self._pictures, tuning.pace)
        self._streams: weakref.WeakSet[SlackStream] = weakref.WeakSet()
        self._askers: OrderedDict[str, str | None] = OrderedDict()
        self._me: Self | None = None
        self._accept: Accept | None = None
        self.connection = Connection(self.platform)
        self.address = ("", 0)  # where HTTP mode listens, once it does

    async def run(self, accept: Accept, complete: Complete | None = None) -> None:
        """Connect and deliver until cancelled. Raises `AppError` when Slack refuses our tokens."""
        del complete  # Slack proposes nothing while people type
        self._accept = accept
        try:
            self._me = await self._identify()
            app = AsyncApp(
                name="trainyard",
                token=self._bot_token,  # not our client: Bolt would warn of the token that it finds in the environment
                signing_secret=self._signing_secret or "",
                before_authorize=self._receive,
                logger=logging.getLogger("bot.slack.bolt"),
            )
            await (self._by_socket(app, self._app_token) if self._app_token else self._by_http(app))
        finally:
            self.connection.closed()
            await self._api.close()

    async def ready(self) -> None:
        """Return once Slack can reach us."""
        await self.connection.wait()

    async def close(self) -> None:
        """Let go of the connections of an adapter that only writes."""
        await self._api.close()

    async def post(self, thread: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        """Post a new message; a whisper by its handle, or as an ephemeral message (neither can be found again).

        Files stand right before the message; those of a whisper come as a direct message. See `bot.slack.handover`.
        """
        if whisper is not None:
            return await self._outbound.whisper(thread, content, whisper, key=key)
        return await self._outbound.post(thread, content, key=key)

    async def edit(self, thread: Thread, ref: MessageRef, content: Content) -> MessageRef:
        """Show `content` in a message of ours; what does not fit in one message is cut, and says so."""
        return await self._outbound.change(thread, ref, content)

    async def find(self, thread: Thread, *, key: str, growing: bool = False) -> MessageRef | None:
        """What was posted with `key`, if all of it arrived."""
        taken = {ts for stream in self._streams if stream.key != key for ts in stream.stamps}
        return await self._outbound.find(thread, key, growing=growing, taken=taken)

    def shown_at(self, ref: MessageRef) -> datetime | None:
        """When it was posted: the address says it."""
        return posted_at(ref.id)

    async def stream(self, thread: Thread, *, key: str) -> ReplyStream:
        """An answer that grows, for the person who spoke last in the thread."""
        stream = SlackStream(self._context, thread, key=key, recipient=self._askers.get(thread.key))
        self._streams.add(stream)
        return stream

    def busy(self, thread: Thread, asked: Inbound | None) -> AbstractAsyncContextManager[None]:
        """Show a status in the thread, or a reaction on the message that asks."""
        return self._signs.busy(thread, asked)

    async def groups_of(self, person: Person, among: frozenset[str]) -> frozenset[str]:
        """Those of these user groups that the person is in."""
        return await self._groups.of(person, among)

    async def fetch(self, attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        """Download to the file `into`, whole or not at all."""
        await self._downloads.fetch(attachment, into, limit_bytes=limit_bytes)

    async def missed(self, since: datetime, threads: Sequence[Thread]) -> AsyncIterator[Inbound]:
        """What people said since then that may be for us; asked once we are connected."""
        assert self._me is not None  # noqa: S101 - `run` knows it before it connects
        async for inbound in missed(self._api, self._me, since, threads):
            yield inbound.model_copy(update={"person": await self._names.named(inbound.person)})

    async def _identify(self) -> Self:
        for wait_s in (*RECONNECT_S, None):
            try:
                answer = await self._api.call("auth.test")
            except TransientError as error:
                if wait_s is None:
                    raise
                await self._pause(error, wait_s)
            else:
                self._api.bot_name = str(answer.get("user", "the bot"))
                self._api.bot_id = str(answer.get("bot_id", ""))
                self._api.bot_user = str(answer["user_id"])
                enterprise = str(answer.get("enterprise_id") or "") if answer.get("is_enterprise_install") else ""
                return Self(str(answer["user_id"]), self._api.bot_id, str(answer["team_id"]), enterprise)
        raise AssertionError("the loop returns or raises")

    async def _pause(self, error: TransientError, wait_s: float) -> None:
        """Say that Slack cannot be reached now, and wait."""
        wait_s = error.retry_after_s or wait_s
        log.warning("slack.not_reachable", extra={"reason": error.text, "retry_s": wait_s})
        self.connection.failed(error.text, retry_s=wait_s)
        await asyncio.sleep(wait_s)

    async def _receive(self, request: AsyncBoltRequest, next_: Next) -> BoltResponse:
        """Store what a person did, then let Bolt acknowledge. Everything else is acknowledged at once."""
        if request.body.get("type") == "url_verification" or "ssl_check" in request.body:
            return await next_()
        if self._accept is None or self._me is None:
            return BoltResponse(status=503, body="")
        if other := sender_of(request.body, self._me):
            log.warning("slack.other_workspace_refused", extra={"team": other, "ours": self._me.team_id})
            return BoltResponse(status=200, body="")
        inbound = interpret(request.body, self._me)
        if inbound is not None:
            self._remember(inbound.thread, None if inbound.person.external else inbound.person.id)
            inbound = inbound.model_copy(update={"person": await self._names.named(inbound.person)})
            if await self._opens_dialog(request.body, inbound):
                return BoltResponse(status=200, body="")
            try:
                await self._accept(inbound)
            except Exception:  # an edge: whatever went wrong, Slack must deliver again
                log.exception("slack.not_accepted", extra={"event_id": inbound.event_id})
                return BoltResponse(status=503, body="")
        return BoltResponse(status=200, body="")

    async def _opens_dialog(self, body: Mapping[str, Any], inbound: Inbound) -> bool:
        """Whether a click opened a dialog; where Slack refuses, the click goes on without text, which is answered."""
        view = view_of(inbound) if body.get("type") == "block_actions" else None
        if view is None:
            return False
        try:
            await self._api.call_once("views.open", trigger_id=str(body.get("trigger_id", "")), view=view)
        except AppError as error:
            log.warning("slack.no_dialog", extra={"event_id": inbound.event_id, "reason": error.text})
            return False
        return True

    def _remember(self, thread: Thread, person: str | None) -> None:
        self._askers[thread.key] = person
        self._askers.move_to_end(thread.key)
        while len(self._askers) > ASKERS:
            self._askers.popitem(last=False)

    async def _by_socket(self, app: AsyncApp, app_token: str) -> None:
        api = SlackApi(token=app_token, base_url=self._api.base_url)
        try:
            url = await self._socket_url(api)
        finally:
            await api.close()
        web_client = AsyncWebClient(token=app_token, base_url=self._api.base_url)
        handler = AsyncSocketModeHandler(app, app_token, web_client=web_client, ping_interval=PING_S)
        handler.client.wss_uri = url
        try:
            await handler.connect_async()  # type: ignore[no-untyped-call]
            await self._watch(handler.client)
        finally:
            await handler.close_async()  # type: ignore[no-untyped-call]

    async def _watch(self, client: SocketModeClient) -> None:
        """Note each connection that the SDK makes, and when one is lost, until cancelled."""
        known = None
        while True:
            if not await client.is_connected():
                self.connection.lost()
            elif client.current_session is not known:
                known = client.current_session
                self.connection.established()
            await asyncio.sleep(LOOK_S)

    async def _socket_url(self, api: SlackApi) -> str:
        """The first endpoint, asked for by ourselves: the SDK would try a wrong token for ever, in silence."""
        for wait_s in (*RECONNECT_S, None):
            try:
                return str((await api.call("apps.connections.open"))["url"])
            except TransientError as error:
                if wait_s is None:
                    raise
                await self._pause(error, wait_s)
            except AppError as error:
                text = f"Slack refuses the app token ({code_of(error)}): use one with connections:write."
                raise AppError(text) from error
        raise AssertionError("the loop returns or raises")

    async def _by_http(self, app: AsyncApp) -> None:
        runner = web.AppRunner(app.web_app(path=EVENTS_PATH), access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, *self._http).start()
            self.address = runner.addresses[0][:2]
            self.connection.established()
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()
