"""A local Slack for tests: the real protocol over real sockets, with Slack's real limits. No Slack account needed.

    async with SlackServer() as slack:
        door = SlackAdapter(bot_token=slack.bot_token, app_token=slack.app_token, api_url=slack.url)
        ...start the bot...
        alice = slack.user("alice")
        question = alice.mention("train a classifier on this", files=[slack.file("a.csv", b"x,y\\n1,2\\n")])
        await slack.wait_for(lambda: len(slack.thread(question.ts)) > 1)
        card = slack.thread(question.ts)[1]
        print(card.shown, card.buttons, card.pictures, card.edits)
        alice.click(card, "Approve")
        alice.slash("status")
        await slack.wait_for(lambda: slack.whispers)

What people do (each returns at once; delivery goes on in the background):
    slack.user(name, external=False) -> person;  slack.channel(name, has_bot=True, shared=False)
    person.mention(text, channel="general", thread="", files=()) -> Message   `app_mention` and its `message` twin
    person.say(text, channel="general", thread="", files=()) -> Message       without naming the bot
    person.dm(text, thread="", files=()) -> Message
    person.click(message, "Label") -> Delivery;  person.slash("words", channel="general") -> Delivery
    person.choose(message, "Menu", "option", …) -> Delivery;  person.stop(thread) -> Delivery   the session's Stop
    slack.deliveries, slack.deliveries_of(message), slack.redeliver(delivery)
What the bot did: slack.thread(ts), slack.messages(channel), slack.whispers, slack.files[id], slack.called(method).
Trouble: slack.fail(method, error=…|status=…|retry_after=…|lose_answer=True|slow_s=…, times=1),
    slack.disabled.add(method), slack.unknown_blocks.add("table"), slack.scopes.discard(scope),
    slack.refresh_sockets(), slack.drop_sockets(),
    slack.file(…, html=True | stub=True | redirect="https://…").
    slack.silent = True (what people write reaches nobody, as when the app was away for long).
Time: `slack.ago_s` dates back what is written; `time_scale` shortens a stream's 5 minutes, `rate_scale` multiplies the
    calls a minute, `ack_deadline_s` and `redeliver_after_s` set when an event that was not acknowledged comes again,
    `file_processing_s` how long an uploaded file cannot be shown.
HTTP mode: slack.deliver_to("http://127.0.0.1:PORT/slack/events"); slack.signed(body) gives the headers.
Assumed, as nobody has written it down: chat.update of a running stream answers `cant_update_message`.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web

from tests.platforms.slack_delivery import Courier, signed
from tests.platforms.slack_limits import SCOPES, Rates, refused_blocks
from tests.platforms.slack_methods import METHODS, Refused
from tests.platforms.slack_world import Channel, Delivery, File, Message

ALL_SCOPES = frozenset(SCOPES.values()) | {"app_mentions:read", "commands", "im:history", "reactions:write"}
HANG_S = 30.0


@dataclass
class Fault:
    method: str
    error: str = ""
    status: int = 200
    retry_after: int = 0
    lose_answer: bool = False
    slow_s: float = 0.0
    times: int = 1


@dataclass
class Person:
    server: "SlackServer"
    id: str
    name: str
    external: bool
    team_id: str

    def mention(self, text: str, *, channel: str = "general", thread: str = "", files: Sequence[File] = ()) -> Message:
        """Write a message that names the bot."""
        return self.server.said(self, f"<@{self.server.bot_user_id}> {text}", channel, thread, files)

    def say(self, text: str, *, channel: str = "general", thread: str = "", files: Sequence[File] = ()) -> Message:
        """Write a message; `text` is in Slack's markup."""
        return self.server.said(self, text, channel, thread, files)

    def dm(self, text: str, *, thread: str = "", files: Sequence[File] = ()) -> Message:
        """Write to the bot alone."""
        return self.server.said(self, text, self.server.direct(self).name, thread, files)

    def click(self, message: Message, label: str) -> Delivery:
        """Press a button by its label."""
        return self.server.clicked(self, message, label)

    def choose(self, message: Message, menu: str, *options: str) -> Delivery:
        """Choose in a menu, both by their labels, in this order; none is a choice too."""
        return self.server.chosen(self, message, menu, options)

    def submit(self, text: str) -> Delivery:
        """Send off the dialog that was opened last, with this in its field."""
        return self.server.sent_off(self, text)

    def stop(self, thread: Message) -> Delivery:
        """Press the button that Slack shows while the app's session in a thread is processing."""
        return self.server.stopped(self, thread)

    def slash(self, text: str, *, channel: str = "general", command: str = "/train") -> Delivery:
        """Type the command."""
        return self.server.commanded(self, text, channel, command)


class SlackServer:
    """One workspace with one app."""

    def __init__(
        self,
        *,
        time_scale: float = 1.0,
        rate_scale: float = 1.0,
        ack_deadline_s: float = 3.0,
        redeliver_after_s: Sequence[float] = (0.05, 0.1, 0.2),
        file_processing_s: float = 0.0,
        echo: bool = True,
    ) -> None:
        self.time_scale, self.file_processing_s, self.echo = time_scale, file_processing_s, echo
        self.bot_token, self.app_token, self.signing_secret = "xoxb-local-bot", "xapp-local-app", "local-signing-secret"
        self.team_id, self.bot_user_id, self.bot_id = "T0HOME", "U0BOT", "B0BOT"
        self.scopes = set(ALL_SCOPES)
        self.people: dict[str, Person] = {}
        self.groups: dict[str, list[str]] = {}  # names of people by user group
        self.channels: dict[str, Channel] = {}
        self.whispers: list[Message] = []
        self.files: dict[str, File] = {}
        self.uploads: dict[str, int] = {}
        self.statuses: list[tuple[str, str, str]] = []
        self.triggers: dict[str, str] = {}  # of clicks that may open a dialog, by the person
        self.views: list[tuple[str, dict[str, Any]]] = []  # dialogs that were opened, and for whom
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.disabled: set[str] = set()
        self.unknown_blocks: set[str] = set()
        self.silent, self.ago_s = False, 0.0
        self.origin = ""
        self.rates = Rates(self.now, rate_scale)
        self._faults: list[Fault] = []
        self._messages: list[Message] = []
        self._numbers = itertools.count(1)
        self._handles: dict[str, tuple[int, str, str, str]] = {}  # uses left, channel, thread, person
        self.courier = Courier(
            secret=self.signing_secret,
            ack_deadline_s=ack_deadline_s,
            redeliver_after_s=redeliver_after_s,
        )
        self._runner: web.AppRunner | None = None
        self.channel("general")

    # ---- life ----

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/api/{method}", self._api)
        app.router.add_post("/upload/v1/{file}", self._upload)
        app.router.add_get("/files-pri/{file}/download/{name}", self._download)
        app.router.add_post("/hooks/{handle}", self._hook)
        app.router.add_get("/link/{ticket}", self.courier.connect)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.origin = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.courier.close()
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The base of the Web API."""
        return f"{self.origin}/api/"

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    async def wait_for(self, condition: Callable[[], object], *, timeout: float = HANG_S) -> None:
        """Return once `condition` holds; fails with what the channels show."""
        ends = self.now() + timeout
        while not condition():
            if self.now() > ends:
                raise AssertionError("waited in vain; Slack shows:\n" + self.transcript())
            await asyncio.sleep(0.02)

    def transcript(self) -> str:
        """Everything that stands in the channels, for failure messages."""
        standing = [message for message in self._messages if not message.deleted]
        return "\n".join(f"[{m.channel} {m.thread_ts or m.ts}] {m.user}: {m.shown}" for m in standing)

    # ---- people and what they do ----

    def user(self, name: str, *, external: bool = False) -> Person:
        """The person of that name; new on first use."""
        if name not in self.people:
            team = "T0GUEST" if external else self.team_id
            self.people[name] = Person(self, self.next_id("U"), name, external, team)
        return self.people[name]

    def channel(self, name: str, *, has_bot: bool = True, shared: bool = False) -> Channel:
        """The channel of that name; new on first use."""
        if name not in self.channels:
            self.channels[name] = Channel(self.next_id("C"), name, has_bot, shared=shared)
        return self.channels[name]

    def direct(self, person: Person) -> Channel:
        """The direct messages of a person with the bot."""
        name = f"dm-{person.name}"
        if name not in self.channels:
            self.channels[name] = Channel(self.next_id("D"), name, kind="im")
        return self.channels[name]

    def file(self, name: str, data: bytes, mimetype: str = "text/csv", **traits: Any) -> File:
        """A file to attach; traits: stub, html, redirect."""
        file = File(self.next_id("F"), name, data, mimetype, **traits)
        self.files[file.id] = file
        return file

    def said(self, person: Person, text: str, channel: str, thread: str, files: Sequence[File]) -> Message:
        place = self.channel(channel)
        message = Message(place.id, self.next_ts(), person.id, text, thread, files=[file.id for file in files])
        self._messages.append(message)
        if not place.has_bot:
            return message
        event = self.as_event(message) | {"event_ts": message.ts, "channel": place.id, "team": person.team_id}
        if f"<@{self.bot_user_id}>" in text and place.kind != "im":
            self._announce(event | {"type": "app_mention"}, message)
        subtype = {"subtype": "file_share"} if files else {}
        self._announce(event | subtype | {"channel_type": place.kind, "client_msg_id": self.next_id("M")}, message)
        return message

    def clicked(self, person: Person, message: Message, label: str) -> Delivery:
        button = message.buttons[label]
        return self._acted(person, message, {k: button[k] for k in ("type", "text", "action_id", "value")})

    def chosen(self, person: Person, message: Message, menu: str, options: Sequence[str]) -> Delivery:
        """The payload names the block; initial options and placeholder come along: bolt-js, MultiStaticSelectAction."""
        section = message.menus[menu]
        element = section["accessory"]
        known = {option["text"]["text"]: _delivered(option) for option in element["options"]}
        assert len(options) <= element.get("max_selected_items", len(known)), "Slack's clients do not allow that"
        action = {
            "type": element["type"],
            "action_id": element["action_id"],
            "block_id": section["block_id"],
            "selected_options": [known[option] for option in options],
            "placeholder": element["placeholder"] | {"emoji": True},
        }
        if "initial_options" in element:
            action["initial_options"] = [_delivered(option) for option in element["initial_options"]]
        values = {"type": element["type"], "selected_options": action["selected_options"]}
        return self._acted(person, message, action, {section["block_id"]: {element["action_id"]: values}})

    def _acted(
        self, person: Person, message: Message, action: dict[str, Any], values: dict[str, Any] | None = None
    ) -> Delivery:
        handle = self._handle(message.channel, message.thread_ts, person)
        trigger = self.next_id("t")
        self.triggers[trigger] = person.id
        container = {
            "type": "message",
            "message_ts": message.ts,
            "channel_id": message.channel,
            "is_ephemeral": bool(message.only_for),
            **({"thread_ts": message.thread_ts} if message.thread_ts else {}),
        }
        payload = {
            "type": "block_actions",
            "api_app_id": "A0APP",
            "team": {"id": self.team_id, "domain": "home"},
            "user": {"id": person.id, "username": person.name, "name": person.name, "team_id": person.team_id},
            "channel": {"id": message.channel, "name": "general"},
            "container": container,
            "trigger_id": trigger,
            "response_url": handle,
            "enterprise": None,
            "is_enterprise_install": False,
            "state": {"values": values or {}},
            "actions": [action | {"action_ts": self.next_ts()}],
            **({} if message.only_for else {"message": self.as_event(message)}),
        }
        return self.courier.start(Delivery("interactive", payload, message))

    def sent_off(self, person: Person, text: str) -> Delivery:
        """docs.slack.dev/reference/interaction-payloads/view-interactions-payload"""
        opened_by, view = self.views[-1]
        assert opened_by == person.id, "nobody else sees this dialog"
        (field,) = view["blocks"]
        value = {"type": "plain_text_input", "value": text}
        payload = {
            "type": "view_submission",
            "api_app_id": "A0APP",
            "team": {"id": self.team_id, "domain": "home"},
            "user": {"id": person.id, "username": person.name, "name": person.name, "team_id": person.team_id},
            "view": view | {"state": {"values": {field["block_id"]: {field["element"]["action_id"]: value}}}},
            "response_urls": [],
        }
        return self.courier.start(Delivery("interactive", payload))

    def stopped(self, person: Person, thread: Message) -> Delivery:
        """docs.slack.dev/reference/events/agent_session_stopped: Slack has ended the streams, the status stays."""
        assert self.statuses[-1] == (thread.channel, thread.ts, "processing"), "there is no such button now"
        streams = [message for message in self.thread(thread.ts) if message.streaming]
        for message in streams:
            message.streaming = False
        event = {
            "type": "agent_session_stopped",
            "channel": thread.channel,
            "event_ts": self.next_ts(),
            "streaming_message_ts": [message.ts for message in streams],
            "thread_ts": thread.ts,
            "user": person.id,
        }
        return self._deliver(event, thread)

    def commanded(self, person: Person, text: str, channel: str, command: str) -> Delivery:
        place = self.channel(channel)
        payload = {
            "command": command,
            "text": text,
            "user_id": person.id,
            "user_name": person.name,
            "team_id": person.team_id,
            "team_domain": "home",
            "channel_id": place.id,
            "channel_name": place.name,
            "api_app_id": "A0APP",
            "trigger_id": self.next_id("t"),
            "response_url": self._handle(place.id, "", person),
            "is_enterprise_install": "false",
        }
        return self.courier.start(Delivery("slash_commands", payload))

    def redeliver(self, delivery: Delivery) -> None:
        """Slack delivers the same event once more, as it does after a lost acknowledgement."""
        self.courier.once_more(delivery)

    def deliveries_of(self, message: Message) -> list[Delivery]:
        """The events that a message has caused."""
        return [delivery for delivery in self.deliveries if delivery.message is message]

    # ---- what the bot did ----

    def messages(self, channel: str = "general") -> list[Message]:
        """What stands in a channel, threads included, in order."""
        return [m for m in self._messages if m.channel == self.channels[channel].id and not m.deleted]

    def thread(self, ts: str, *, channel: str = "") -> list[Message]:
        """A thread's messages in order, its root first."""
        where = self.channels[channel].id if channel else None
        return [m for m in self._messages if ts in {m.ts, m.thread_ts} and not m.deleted and where in {None, m.channel}]

    def message(self, channel_id: str, ts: str) -> Message | None:
        """One message by its address, deleted ones too."""
        return next((m for m in self._messages if (m.channel, m.ts) == (channel_id, ts)), None)

    def called(self, method: str) -> list[dict[str, Any]]:
        """The parameters of each call of a method, refused ones too."""
        return [params for name, params in self.calls if name == method]

    # ---- trouble ----

    def fail(self, method: str, **how: Any) -> None:
        """Refuse the next calls (error, status, retry_after), or let them happen but lose_answer or be slow_s late."""
        self._faults.append(Fault(method, **how))

    def deliver_to(self, url: str) -> None:
        """HTTP mode."""
        self.courier.url = url

    async def refresh_sockets(self) -> None:
        """Slack asks its clients to connect anew."""
        await self.courier.refresh()

    async def drop_sockets(self) -> None:
        """Connections break without a word."""
        self.courier.drop()

    @property
    def connected(self) -> int:
        """Open sockets."""
        return len(self.courier.sockets)

    def signed(self, body: str, *, timestamp: int | None = None, secret: str | None = None) -> dict[str, str]:
        """The headers of a signed delivery."""
        return signed(body, secret or self.signing_secret, timestamp)

    # ---- used by the Web API ----

    def next_ts(self) -> str:
        return f"{int(time.time() - self.ago_s)}.{next(self._numbers):06d}"

    def next_id(self, prefix: str) -> str:
        return f"{prefix}0{next(self._numbers):08d}"

    def add(self, message: Message) -> None:
        self._messages.append(message)
        if self.echo:
            kind = next(c.kind for c in self.channels.values() if c.id == message.channel)
            self._announce(self.as_event(message) | {"channel_type": kind}, message)

    def announce_change(self, message: Message) -> None:
        if self.echo:
            self._announce(
                {
                    "type": "message",
                    "subtype": "message_changed",
                    "hidden": True,
                    "channel": message.channel,
                    "ts": self.next_ts(),
                    "message": self.as_event(message),
                },
                message,
            )

    def as_event(self, message: Message, *, metadata: bool = False) -> dict[str, Any]:
        own = {"bot_id": self.bot_id, "app_id": "A0APP"} if message.user == self.bot_user_id else {}
        return {
            "type": "message",
            "channel": message.channel,
            "user": message.user,
            "text": message.text,
            "ts": message.ts,
            **({"team": team} if (team := self._team_of(message.user)) else {}),
            **own,
            **({"thread_ts": message.thread_ts} if message.thread_ts else {}),
            **({"blocks": message.blocks} if message.blocks else {}),
            **({"files": [self.file_json(self.files[id_]) for id_ in message.files]} if message.files else {}),
            **({"metadata": message.metadata} if metadata and message.metadata else {}),
        }

    def replies_to(self, message: Message) -> dict[str, Any]:
        """What a listing says of a thread at its first message."""
        replies = [reply for reply in self.thread(message.ts) if reply is not message]
        known = (
            {"thread_ts": message.ts, "reply_count": len(replies), "latest_reply": replies[-1].ts} if replies else {}
        )
        return known if message.thread_ts in {"", message.ts} else {}

    def _team_of(self, user: str) -> str:
        return next((person.team_id for person in self.people.values() if person.id == user), "")

    def file_json(self, file: File, *, whole: bool = False) -> dict[str, Any]:
        if file.stub and not whole:
            return {"id": file.id, "file_access": "check_file_info"}
        url = f"{self.origin}/files-pri/{file.id}/download/{file.name}"
        return {
            "id": file.id,
            "name": file.name,
            "mimetype": file.mimetype if self.file_ready(file.id) else "",
            "size": len(file.data),
            "url_private": url,
            "url_private_download": url,
            "file_access": "visible",
        }

    def file_ready(self, file_id: str) -> bool:
        file = self.files.get(file_id)
        return file is not None and self.now() >= file.ready_at_s

    def refused(self, blocks: list[dict[str, Any]]) -> tuple[str, str] | None:
        """Slack's error code for these blocks and its reason, or None."""
        unknown = [block["type"] for block in blocks if block["type"] in self.unknown_blocks]
        if unknown:
            return "invalid_blocks", f"unsupported type: {unknown[0]}"
        return refused_blocks(blocks, self.file_ready)

    def stream_is_over(self, message: Message) -> bool:
        return self.now() >= message.stream_ends_at_s

    def socket_url(self) -> str:
        if self.courier.url:
            raise Refused("socket_mode_not_enabled")
        return f"{self.origin.replace('http', 'ws')}/link/{self.courier.ticket()}"

    # ---- HTTP ----

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        params: dict[str, Any] = dict(request.query)
        if request.content_type == "application/json":
            params |= await request.json()
        elif request.can_read_body:
            params |= dict(await request.post())
        self.calls.append((method, params))
        fault = next((f for f in self._faults if f.method == method and f.times > 0), None)
        if fault is not None:
            fault.times -= 1
            if not fault.lose_answer and not fault.slow_s:
                return self._faulty(fault)
        response = self._answer(method, params, request)
        if fault is not None:
            await asyncio.sleep(fault.slow_s)
        if fault is not None and fault.lose_answer and request.transport is not None:
            request.transport.abort()
        return response

    def _faulty(self, fault: Fault) -> web.Response:
        if fault.retry_after:
            return _limited(fault.retry_after)
        return web.json_response({"ok": False, "error": fault.error}, status=fault.status)

    def _answer(self, method: str, params: dict[str, Any], request: web.Request) -> web.Response:
        headers = {"x-oauth-scopes": ",".join(sorted(self.scopes))}
        try:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ") or params.get("token", "")
            self._admit(method, token)
            if wait_s := self.rates.retry_after(method, str(params.get("channel", ""))):
                return _limited(wait_s)
            answer = {"ok": True, **METHODS[method](self, params)}
        except Refused as refused:
            answer = refused.answer
        return web.json_response(answer, headers=headers)

    def _admit(self, method: str, token: str) -> None:
        if method not in METHODS or method in self.disabled:
            raise Refused("unknown_method", req_method=method)
        wanted = self.app_token if method == "apps.connections.open" else self.bot_token
        if token != wanted:
            raise Refused("not_allowed_token_type" if token in {self.app_token, self.bot_token} else "invalid_auth")
        scope = SCOPES.get(method)
        if scope and scope not in self.scopes:
            raise Refused("missing_scope", needed=scope, provided=",".join(sorted(self.scopes)))

    async def _upload(self, request: web.Request) -> web.Response:
        file_id = request.match_info["file"]
        length, data = self.uploads.get(file_id), await request.read()
        if length is None or length != len(data):
            return web.Response(status=400, text="the length is not the one that was announced")
        del self.uploads[file_id]
        self.files[file_id].data = data
        return web.Response(text=f"OK - {length}")

    async def _download(self, request: web.Request) -> web.Response:
        file = self.files.get(request.match_info["file"])
        if file is None:
            return web.Response(status=404)
        if file.redirect:
            raise web.HTTPFound(file.redirect)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if file.html or token != self.bot_token or "files:read" not in self.scopes:
            return web.Response(text="<!DOCTYPE html><title>Sign in</title>", content_type="text/html")
        return web.Response(body=file.data, content_type=file.mimetype)

    async def _hook(self, request: web.Request) -> web.Response:
        handle = request.match_info["handle"]
        uses, channel, thread, person = self._handles.get(handle, (0, "", "", ""))
        if uses <= 0:
            return web.json_response({"ok": False, "error": "used_url"}, status=404)
        body = await request.json()
        if self.refused(body.get("blocks", [])):
            return web.json_response({"ok": False, "error": "invalid_blocks"}, status=404)
        self._handles[handle] = (uses - 1, channel, thread, person)
        public = body.get("response_type") == "in_channel"
        message = Message(
            channel,
            self.next_ts(),
            self.bot_user_id,
            body.get("text", ""),
            body.get("thread_ts", ""),
            body.get("blocks", []),
            only_for="" if public else person,
        )
        (self._messages if public else self.whispers).append(message)
        return web.Response(text="ok")

    # ---- deliveries ----

    @property
    def deliveries(self) -> list[Delivery]:
        """Everything that was on its way to the app, in order."""
        return self.courier.deliveries

    def _handle(self, channel: str, thread: str, person: Person) -> str:
        handle = self.next_id("H")
        self._handles[handle] = (5, channel, thread, person.id)
        return f"{self.origin}/hooks/{handle}"

    def _announce(self, event: dict[str, Any], message: Message) -> None:
        if not self.silent:
            self._deliver(event, message)

    def _deliver(self, event: dict[str, Any], message: Message) -> Delivery:
        channel = next(c for c in self.channels.values() if c.id == message.channel)
        installed = {"enterprise_id": None, "team_id": self.team_id, "user_id": self.bot_user_id, "is_bot": True}
        payload = {
            "token": "old",
            "team_id": self.team_id,
            "api_app_id": "A0APP",
            "type": "event_callback",
            "event": event,
            "event_id": self.next_id("Ev"),
            "event_time": int(time.time()),
            "is_ext_shared_channel": channel.shared,
            "authorizations": [installed],
        }
        return self.courier.start(Delivery("events_api", payload, message))


def _delivered(option: dict[str, Any]) -> dict[str, Any]:
    return option | {"text": option["text"] | {"emoji": True}}


def _limited(retry_after: int) -> web.Response:
    headers = {"Retry-After": str(retry_after)}
    return web.json_response({"ok": False, "error": "ratelimited"}, status=429, headers=headers)
