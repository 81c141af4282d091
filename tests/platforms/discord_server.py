"""A local Discord that the real discord.py talks to: gateway and REST v10 on 127.0.0.1, with Discord's real limits.

    async with DiscordServer() as server:
        door = DiscordAdapter(server.token, api_base=server.api_base, gateway_url=server.gateway_url)
        running = asyncio.create_task(door.run(accept))
        await server.connected()
        alice = server.user("alice")
        asked = await alice.mention(server.general, "fine-tune on this", files=[("t.csv", b"a,b\\n1,2\\n")])
        thread = await server.thread_of(asked)                     # the thread of the answer, once it exists
        answer = await server.wait_for(lambda: server.last(thread, contains="rows"))
        await alice.say(thread, "yes")                             # in a thread, without a mention
        await alice.direct("hello")                                # to the bot alone
        click = await alice.click(answer, "Approve")               # by the label; acknowledged when it returns
        chose = await alice.choose(answer, "Metrics", "loss")      # in the menu with that placeholder, by the labels
        used = await alice.slash("train status", run="r-abc123")   # in server.general, or channel=…
        shown = await alice.proposed("train status", "run", "chu") # below an option while it is typed, by the labels
        await server.wait_for(lambda: used.replies)                # private answers; `click.replies` as well

What to look at: `server.messages(thread)` (a channel, thread or id; in order, deleted ones left out), a message's
`.text` (all words that it shows), `.content .embed .buttons .attachments .edits .pinged .nonce`, `server.requests`
("POST /channels/1/messages 200"), `server.too_many` (429s that the client caused or was given), `server.file(message)`,
`server.cdn.fetched`.

What to set: `server.limits` (scale times: `interaction_deadline_s`, `interaction_life_s`, `old_message_s`,
`cdn_life_s`, `nonce_window_s`, `bucket_window_s`), `server.forbid("create_public_threads")` and `allow`,
`server.world.message_content = False`, `server.archive(thread, locked=…)`, `alice.person.takes_dms = False`.

What to break: `server.limit("POST .*messages", retry_after_s=0.2, everywhere=False)`, `server.fail("PATCH", 500)`,
`server.lose_answer("POST .*messages")` (done, but the bot never hears), `hold = server.hold("PATCH")` … `hold.set()`,
`async with server.gateway_down(): …` (what happens inside is replayed by RESUME), `server.forget_sessions()` (the next
resume becomes "invalid session"), `await server.reconnect()`.

Enforced: sizes of messages, embeds, components and files; 3 s for acknowledgements (10062) and no second one (40060);
15 min for interaction tokens (50027); 30046; 50083; 160004, 160006; enforce_nonce; rate limits per route and channel
and global, with headers; permissions (50013, 50001); 50007; 50006; 401; signed and expiring CDN addresses; content
hidden without the Message Content intent; 4004 and 4014. Not there: voice, reactions, modals, components v2, forum
channels, slow mode, several shards.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from aiohttp import web

from tests.platforms.discord_cdn import Cdn
from tests.platforms.discord_gateway import RECONNECT, Gateway
from tests.platforms.discord_rest import Rest, Trouble
from tests.platforms.discord_world import (
    BUTTON,
    STRING_SELECT,
    Channel,
    Interaction,
    Json,
    Limits,
    Message,
    Person,
    World,
)

T = TypeVar("T")
HANG_S = 20.0
File = tuple[str, bytes]


_TYPES: dict[int, tuple[type, ...]] = {3: (str,), 4: (int,), 5: (bool,), 10: (int, float)}


def _inmost(data: Json) -> Json:
    """The command within the groups that an interaction names."""
    while data["options"] and "options" in data["options"][0]:
        data = data["options"][0]
    return data


class DiscordServer:
    """The server; a context manager."""

    def __init__(self, *, limits: Limits | None = None) -> None:
        self.world = World(limits=limits or Limits())
        self.cdn = Cdn(self.world, lambda: self.base)
        self.rest = Rest(self.world, self.cdn)
        self.gateway = Gateway(self.world, lambda: self.gateway_url)
        self.base = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "DiscordServer":
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.add_routes(self.rest.routes())
        app.add_routes([web.get("/attachments/{tail:.*}", self.cdn.handle), web.get("/gateway/", self.gateway.handle)])
        self._runner = web.AppRunner(app, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.base = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self.gateway.open.set()
        if self._runner is not None:
            await self._runner.cleanup()

    # Addresses and settings

    @property
    def token(self) -> str:
        """The only good bot token."""
        return self.world.token

    @property
    def api_base(self) -> str:
        """For `discord.http.Route.BASE`."""
        return f"{self.base}/api/v10"

    @property
    def gateway_url(self) -> str:
        """For `DiscordWebSocket.DEFAULT_GATEWAY`."""
        return self.base.replace("http://", "ws://") + "/gateway/"

    @property
    def limits(self) -> Limits:
        """The numbers that are enforced."""
        return self.world.limits

    @property
    def guild_id(self) -> int:
        """The one server (guild) there is."""
        return self.world.guild_id

    @property
    def general(self) -> Channel:
        """Its first text channel."""
        return self.world.general

    def forbid(self, *permissions: str) -> None:
        """Take permissions from the bot's role."""
        self.world.granted -= set(permissions)
        self._tell_role()

    def allow(self, *permissions: str) -> None:
        """Give permissions to the bot's role."""
        self.world.granted |= set(permissions)
        self._tell_role()

    def _tell_role(self) -> None:
        self.world.tell("GUILD_ROLE_UPDATE", {"guild_id": str(self.guild_id), "role": self.world.roles()[1]})

    def archive(self, thread: Channel, *, locked: bool = False) -> None:
        """Archive a thread, as time does."""
        thread.archived, thread.locked = True, locked
        self.world.tell("THREAD_UPDATE", thread.payload())

    # Trouble

    def limit(self, pattern: str, *, retry_after_s: float, times: int = 1, everywhere: bool = False) -> None:
        """Answer the next matching requests ("METHOD /path", a regular expression) with 429."""
        self.rest.troubles.append(Trouble(pattern, times, retry_after_s=retry_after_s, everywhere=everywhere))

    def fail(self, pattern: str, status: int, *, code: int = 0, message: str = "", times: int = 1) -> None:
        """Answer the next matching requests with an error."""
        body: Json = {"code": code, "message": message or str(status)}
        self.rest.troubles.append(Trouble(pattern, times, status=status, body=body))

    def lose_answer(self, pattern: str, *, times: int = 1) -> None:
        """Do what the next matching requests ask, but cut the connection instead of answering."""
        self.rest.troubles.append(Trouble(pattern, times, lose_answer=True))

    def hold(self, pattern: str, *, times: int = 1) -> asyncio.Event:
        """Let the next matching requests wait until the event is set."""
        held = asyncio.Event()
        self.rest.troubles.append(Trouble(pattern, times, held=held))
        return held

    @asynccontextmanager
    async def gateway_down(self) -> AsyncIterator[None]:
        """Cut the gateway; new connections hang until the end of the block."""
        self.gateway.open.clear()
        await self.gateway.drop()
        try:
            yield
        finally:
            self.gateway.open.set()

    def forget_sessions(self) -> None:
        """The next resume is answered with "invalid session"."""
        self.gateway.forget()

    async def reconnect(self) -> None:
        """Ask the bot to reconnect (op 7), as Discord does when it deploys."""
        for session in self.gateway.sessions.values():
            if session.socket is not None:
                await session.socket.send_str(json.dumps({"op": RECONNECT, "d": None}))

    # Looking

    @property
    def requests(self) -> list[str]:
        """All REST requests so far: "METHOD /path status"."""
        return self.rest.requests

    @property
    def too_many(self) -> int:
        """How many requests were answered with 429."""
        return self.rest.too_many

    def messages(self, place: Channel | int | str) -> list[Message]:
        """What stands in a channel, thread or direct conversation, in order."""
        channel = place if isinstance(place, Channel) else self.world.channels.get(int(place))
        found = channel.messages.values() if channel is not None else ()
        return sorted((message for message in found if not message.deleted), key=lambda message: message.id)

    def from_bot(self, place: Channel | int | str) -> list[Message]:
        """The bot's messages in a place."""
        return [message for message in self.messages(place) if message.author is self.world.bot]

    def last(self, place: Channel | int | str, *, contains: str = "") -> Message | None:
        """The bot's newest message in a place that shows these words."""
        return next((m for m in reversed(self.from_bot(place)) if contains in m.text), None)

    def file(self, message: Message, n: int = 0) -> bytes:
        """The bytes of an attachment."""
        path = "/attachments/" + message.attachments[n]["url"].partition("/attachments/")[2].partition("?")[0]
        return self.world.files[path][0]

    async def wait_for(self, predicate: Callable[[], T | None], *, within_s: float = HANG_S) -> T:
        """Wait until `predicate` gives something true, and return it; checked at every change."""
        try:
            async with asyncio.timeout(within_s):
                while not (found := predicate()):
                    changed = self.world.changed
                    try:
                        await asyncio.wait_for(changed.wait(), 0.05)
                    except TimeoutError:
                        continue
                return found
        except TimeoutError:
            shown = {c.name or c.id: [m.text for m in self.messages(c)] for c in self.world.channels.values()}
            text = f"waited {within_s} s in vain; messages {shown}; requests {self.requests[-20:]}"
            raise AssertionError(text) from None

    async def connected(self) -> None:
        """Wait until the bot listens."""
        await self.wait_for(lambda: self.gateway.connected)

    async def thread_of(self, message: Message) -> Channel:
        """The thread that begins at a message, once it exists."""
        return await self.wait_for(lambda: message.thread)

    # People

    def user(self, name: str) -> "User":
        """A member of the server; the same one for the same name."""
        person = self.world.people.get(name)
        if person is None:
            person = self.world.people[name] = Person(self.world.ids.new(), name)
        return User(self, person)


class User:
    """Somebody in front of Discord."""

    def __init__(self, server: DiscordServer, person: Person) -> None:
        self._server = server
        self._world = server.world
        self.person = person

    @property
    def id(self) -> str:
        """Their user id."""
        return str(self.person.id)

    async def mention(self, channel: Channel, text: str, *, files: Sequence[File] = ()) -> Message:
        """Write to the bot's name."""
        return self._write(channel, f"<@{self._world.bot.id}> {text}", files, named=True)

    async def say(
        self, place: Channel, text: str, *, files: Sequence[File] = (), answers: Message | None = None
    ) -> Message:
        """Write without naming anybody; `answers` is the message that it replies to, without a ping."""
        return self._write(place, text, files, answers=answers)

    async def direct(self, text: str, *, files: Sequence[File] = ()) -> Message:
        """Write to the bot alone."""
        return self._write(self._world.direct(self.person), text, files)

    async def open_thread(self, message: Message, name: str = "a thread") -> Channel:
        """Open a thread at a message, as a person can."""
        return self._server.rest.make_thread(message, name, self.person.id)

    def _write(
        self,
        channel: Channel,
        text: str,
        files: Sequence[File],
        *,
        named: bool = False,
        answers: Message | None = None,
    ) -> Message:
        message = Message(self._world.ids.new(), channel, self.person, content=text, answers=answers)
        message.mentions = [self._world.bot] if named else []
        message.attachments = [self._server.cdn.store(channel.id, name, data) for name, data in files]
        return self._world.add_message(message)

    async def click(self, message: Message, label: str, *, wait: bool = True) -> Interaction:
        """Press a button; returns when the bot has acknowledged it, unless told not to wait."""
        button = message.buttons[label]
        made = Interaction(self._world.ids.new(), secrets.token_urlsafe(24), 3, message.channel, self.person, message)
        data = {"custom_id": button["custom_id"], "component_type": BUTTON}
        return await self._interact(made, data, wait=wait, message=message.payload())

    async def submit(self, click: Interaction, text: str) -> Interaction:
        """Send off the dialog that a click opened, with this in its field."""
        assert click.dialog, "no dialog was opened"
        made = Interaction(
            self._world.ids.new(), secrets.token_urlsafe(24), 5, click.channel, self.person, click.message
        )
        (row,) = click.dialog["components"]
        (asked,) = row.get("components") or [row["component"]]
        typed = {"type": 4, "custom_id": asked["custom_id"], "value": text}
        data = {"custom_id": click.dialog["custom_id"], "components": [{"type": 1, "components": [typed]}]}
        return await self._interact(made, data, wait=True, message=click.message.payload() if click.message else None)

    async def choose(self, message: Message, menu: str, *labels: str, wait: bool = True) -> Interaction:
        """Choose in a menu by the labels, in this order; returns when the bot has acknowledged it."""
        select = message.menus[menu]
        known = {option["label"]: option["value"] for option in select["options"]}
        assert select["min_values"] <= len(labels) <= select["max_values"], "Discord's clients do not allow that"
        made = Interaction(self._world.ids.new(), secrets.token_urlsafe(24), 3, message.channel, self.person, message)
        data: Json = {"custom_id": select["custom_id"], "component_type": STRING_SELECT, "id": 1}
        data["values"] = [known[label] for label in labels]
        return await self._interact(made, data, wait=wait, message=message.payload())

    async def slash(
        self, words: str, *, channel: Channel | None = None, wait: bool = True, **options: str | int | float | bool
    ) -> Interaction:
        """Use a slash command, by its full name ("train status"), with options of its own types."""
        made, data, known = await self._use(words, 2, channel)
        types = {option["name"]: option for option in known.get("options") or ()}
        _inmost(data)["options"] = [
            {"name": name, "type": types[name]["type"], "value": value} for name, value in options.items()
        ]
        missing = [name for name, option in types.items() if option.get("required") and name not in options]
        assert not missing, f"Discord's clients do not send /{words} without {missing}"
        for name, value in options.items():
            choices = [choice["value"] for choice in types[name].get("choices") or ()]
            assert not choices or value in choices, f"{value} is no choice of {name}"
            assert type(value) in _TYPES[types[name]["type"]], f"{name} takes no {type(value)}"
        return await self._interact(made, data, wait=wait)

    async def proposed(
        self, words: str, option: str, text: str, *, channel: Channel | None = None, **beside: str
    ) -> Json:
        """What is shown below an option of a slash command while it is typed: values by their labels."""
        made, data, known = await self._use(words, 4, channel)
        (kind,) = [one["type"] for one in known["options"] if one["name"] == option and one.get("autocomplete")]
        typed = [{"name": name, "type": 3, "value": value} for name, value in beside.items()]
        _inmost(data)["options"] = [*typed, {"name": option, "type": kind, "value": text, "focused": True}]
        await self._interact(made, data, wait=True)
        return {choice["name"]: choice["value"] for choice in made.proposed}

    async def _use(self, words: str, kind: int, channel: Channel | None) -> tuple[Interaction, Json, Json]:
        """An interaction, its data, and the declaration of the command that it is of."""
        name, *inside = words.split()
        known = await self._server.wait_for(lambda: self._command(name))
        place = channel or self._server.general
        made = Interaction(self._world.ids.new(), secrets.token_urlsafe(24), kind, place, self.person)
        data: Json = {"id": known["id"], "name": name, "type": 1, "options": []}
        if known["guild"]:
            data["guild_id"] = str(known["guild"])
        for part in inside:
            found = [option for option in known["options"] if option["name"] == part]
            assert found, f"no command /{words}"
            known = found[0]
            _inmost(data)["options"] = [{"name": part, "type": known["type"], "options": []}]
        return made, data, known

    def _command(self, name: str) -> Json | None:
        for guild, commands in self._world.commands.items():
            for command in commands:
                if command["name"] == name:
                    return {**command, "guild": guild}
        return None

    async def _interact(
        self,
        made: Interaction,
        data: Json,
        *,
        wait: bool,
        message: Json | None = None,
    ) -> Interaction:
        self._world.interactions[made.token] = made
        payload: Json = {
            "id": str(made.id),
            "application_id": str(self._world.bot.id),
            "type": made.kind,
            "token": made.token,
            "version": 1,
            "data": data,
            "channel_id": str(made.channel.id),
            "channel": made.channel.payload(),
            "attachment_size_limit": 10 * 1024 * 1024,
            "locale": "en-US",
            "app_permissions": self._world.permissions(),
            "entitlements": [],
            "authorizing_integration_owners": {},
        }
        if message is not None:
            payload["message"] = message
        if made.channel.guild_id:
            guild = str(made.channel.guild_id)
            member = {"user": self.person.user(), **self.person.member(), "permissions": "0"}
            payload |= {"guild_id": guild, "guild": {"id": guild, "features": [], "locale": "en-US"}, "member": member}
        else:
            payload["user"] = self.person.user()
        self._world.tell("INTERACTION_CREATE", payload)
        if wait:
            await self._server.wait_for(lambda: made.callback)
        return made
