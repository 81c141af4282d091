"""The REST side of the local Discord (v10): what discord.py calls, with its errors, rate limits and permissions."""

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiohttp import web

from tests.platforms.discord_cdn import Cdn
from tests.platforms.discord_forms import fill, read_form
from tests.platforms.discord_interactions import Interactions
from tests.platforms.discord_rules import check_commands, check_message
from tests.platforms.discord_world import (
    EPHEMERAL,
    HAS_THREAD,
    PUBLIC_THREAD,
    ApiError,
    Channel,
    Json,
    Message,
    World,
    time_of,
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Trouble:
    """A failure to play on the next requests that match."""

    pattern: str  # a regular expression over "METHOD /path"
    times: int = 1
    status: int = 0
    body: Json = field(default_factory=dict)
    retry_after_s: float = 0.0
    everywhere: bool = False  # a global rate limit
    lose_answer: bool = False  # do it, then cut the connection
    held: asyncio.Event | None = None  # wait for this first


class Rest:
    """Routes and their common rules."""

    def __init__(self, world: World, cdn: Cdn) -> None:
        self._world = world
        self._cdn = cdn
        self.troubles: list[Trouble] = []
        self.requests: list[str] = []  # "METHOD /path status", in order
        self.too_many = 0  # answers with status 429
        self._buckets: dict[str, tuple[float, int]] = {}

    def routes(self) -> list[web.RouteDef]:
        """Everything under /api/v10."""
        channel, message = "/channels/{channel}", "/channels/{channel}/messages/{message}"
        made: list[tuple[str, str, Handler]] = [
            ("GET", "/users/@me", self._me),
            ("GET", "/oauth2/applications/@me", self._application),
            ("GET", "/users/@me/guilds", self._guilds),
            ("POST", "/users/@me/channels", self._open_direct),
            ("GET", "/guilds/{guild}", self._guild),
            ("GET", "/guilds/{guild}/members/{user}", self._member),
            ("GET", channel, self._get_channel),
            ("PATCH", channel, self._patch_channel),
            ("POST", channel + "/typing", self._typing),
            ("GET", channel + "/messages", self._history),
            ("POST", channel + "/messages", self._post),
            ("GET", message, self._get_message),
            ("PATCH", message, self._patch),
            ("DELETE", message, self._delete),
            ("POST", message + "/threads", self._open_thread),
            ("GET", "/applications/{app}/commands", self._commands),
            ("PUT", "/applications/{app}/commands", self._set_commands),
            ("GET", "/applications/{app}/guilds/{guild}/commands", self._commands),
            ("PUT", "/applications/{app}/guilds/{guild}/commands", self._set_commands),
            *Interactions(self._world, self._cdn).handlers(),
        ]
        return [web.route(method, "/api/v10" + path, self._guarded(path, handler)) for method, path, handler in made]

    def _guarded(self, path: str, handler: Handler) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            line = f"{request.method} {request.path.removeprefix('/api/v10')}"
            interactive = path.startswith(("/webhooks", "/interactions"))
            try:
                trouble = self._trouble(line)
                if trouble is not None:
                    await self._play(trouble)
                headers = {} if interactive else self._count(request, path)
                if not interactive:
                    self._check_token(request)
                response = await handler(request)
            except ApiError as error:
                headers = {"Via": "1.1 local"} if error.status == 429 else {}
                headers |= {"X-RateLimit-Scope": "user"} if error.status == 429 else {}
                self.too_many += error.status == 429
                response, trouble = web.json_response(error.body, status=error.status), None
            self.requests.append(f"{line} {response.status}")
            response.headers.update(headers)
            if response.content_type == "application/json":
                response.headers["Content-Type"] = "application/json"  # discord.py parses nothing else
            if trouble is not None and trouble.lose_answer and request.transport is not None:
                request.transport.abort()
            self._world.touch()
            return response

        return answer

    def _check_token(self, request: web.Request) -> None:
        if request.headers.get("Authorization") != f"Bot {self._world.token}":
            raise ApiError(401, 0, "401: Unauthorized")

    def _trouble(self, line: str) -> Trouble | None:
        for trouble in self.troubles:
            if trouble.times > 0 and re.search(trouble.pattern, line):
                trouble.times -= 1
                return trouble
        return None

    async def _play(self, trouble: Trouble) -> None:
        if trouble.held is not None:
            await trouble.held.wait()
        if trouble.retry_after_s:
            body = {"retry_after": trouble.retry_after_s, "global": trouble.everywhere}
            raise ApiError(429, 0, "You are being rate limited.", **body)
        if trouble.status:
            raise ApiError(trouble.status, **trouble.body)

    def _count(self, request: web.Request, path: str) -> dict[str, str]:
        """Count against the bucket of this route and channel; its headers, or 429."""
        limits, now = self._world.limits, time.monotonic()
        match = request.match_info
        major = match.get("channel") or match.get("guild") or ""
        bucket = hashlib.md5(f"{request.method} {path}".encode(), usedforsecurity=False).hexdigest()
        key = f"{bucket}:{major}"
        began, used = self._buckets.get(key, (now, 0))
        if now - began >= limits.bucket_window_s:
            began, used = now, 0
        everything = self._buckets.get("global", (now, 0))
        everything = (now, 1) if now - everything[0] >= 1.0 else (everything[0], everything[1] + 1)
        self._buckets["global"] = everything
        left_s = began + limits.bucket_window_s - now
        if everything[1] > limits.global_per_s:
            wait_s = everything[0] + 1.0 - now
            raise ApiError(429, 0, "You are being rate limited.", retry_after=wait_s, **{"global": True})
        if used >= limits.bucket:
            raise ApiError(429, 0, "You are being rate limited.", retry_after=left_s, **{"global": False})
        self._buckets[key] = (began, used + 1)
        return {
            "X-RateLimit-Limit": str(limits.bucket),
            "X-RateLimit-Remaining": str(limits.bucket - used - 1),
            "X-RateLimit-Reset-After": f"{left_s:.3f}",
            "X-RateLimit-Reset": f"{time.time() + left_s:.3f}",
            "X-RateLimit-Bucket": bucket,
        }

    # Lookups

    def _channel(self, request: web.Request) -> Channel:
        channel = self._world.channels.get(int(request.match_info["channel"]))
        if channel is None:
            raise ApiError(404, 10003, "Unknown Channel")
        if channel.guild_id:
            self._need("view_channel", code=50001)
        return channel

    def _message(self, request: web.Request) -> Message:
        message = self._channel(request).messages.get(int(request.match_info["message"]))
        if message is None or message.deleted:
            raise ApiError(404, 10008, "Unknown Message")
        return message

    def _need(self, *permissions: str, code: int = 50013) -> None:
        if any(name not in self._world.granted for name in permissions):
            raise ApiError(403, code, "Missing Permissions" if code == 50013 else "Missing Access")

    # Who am I

    async def _me(self, request: web.Request) -> web.Response:
        return web.json_response({**self._world.bot.user(), "verified": True, "mfa_enabled": False, "locale": "en-US"})

    async def _application(self, request: web.Request) -> web.Response:
        flags = (1 << 19) if self._world.message_content else 0
        return web.json_response(
            {
                "id": str(self._world.bot.id),
                "name": "trainyard",
                "description": "",
                "icon": None,
                "bot_public": False,
                "bot_require_code_grant": False,
                "owner": self._world.bot.user(),
                "verify_key": "00",
                "flags": flags,
            }
        )

    async def _guilds(self, request: web.Request) -> web.Response:
        return web.json_response([{**self._world.guild(), "owner": False, "permissions": self._world.permissions()}])

    async def _guild(self, request: web.Request) -> web.Response:
        if request.match_info["guild"] != str(self._world.guild_id):
            raise ApiError(403, 50001, "Missing Access")
        return web.json_response(self._world.guild())

    async def _member(self, request: web.Request) -> web.Response:
        everybody = (self._world.bot, *self._world.people.values())
        person = next((one for one in everybody if str(one.id) == request.match_info["user"]), None)
        if person is None:
            raise ApiError(404, 10007, "Unknown Member")
        roles = [self._world.role_id] if person is self._world.bot else person.roles
        return web.json_response({"user": person.user(), **person.member(roles)})

    # Channels and messages

    async def _open_direct(self, request: web.Request) -> web.Response:
        recipient = (await request.json())["recipient_id"]
        for person in self._world.people.values():
            if str(person.id) == str(recipient):
                return web.json_response(self._world.direct(person).payload())
        raise ApiError(400, 50033, "Invalid Recipient(s)")

    async def _get_channel(self, request: web.Request) -> web.Response:
        return web.json_response(self._channel(request).payload())

    async def _patch_channel(self, request: web.Request) -> web.Response:
        channel, form = self._channel(request), await request.json()
        if channel.locked and form.get("archived") is False:
            raise ApiError(403, 50013, "Missing Permissions")
        channel.archived = form.get("archived", channel.archived)
        channel.name = form.get("name", channel.name)
        self._world.tell("THREAD_UPDATE", channel.payload())
        return web.json_response(channel.payload())

    async def _typing(self, request: web.Request) -> web.Response:
        self._need_to_write(self._channel(request))
        return web.Response(status=204)

    async def _history(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        self._need("read_message_history")
        after, limit = int(request.query.get("after", 0)), int(request.query.get("limit", 50))
        shown = [m for m in channel.messages.values() if not m.deleted and not m.flags & EPHEMERAL and m.id > after]
        oldest_first = sorted(shown, key=lambda message: message.id)
        page = oldest_first[:limit] if after else oldest_first[-limit:]
        return web.json_response([message.payload() for message in reversed(page)])

    async def _get_message(self, request: web.Request) -> web.Response:
        message = self._message(request)
        if message.channel.guild_id:
            self._need("read_message_history")
        self._cdn.sign(message)
        return web.json_response(message.payload())

    def _need_to_write(self, channel: Channel) -> None:
        if channel.guild_id:
            self._need("send_messages_in_threads" if channel.kind == PUBLIC_THREAD else "send_messages")
        if channel.archived and channel.locked:
            raise ApiError(400, 50083, "Thread is archived")

    async def _post(self, request: web.Request) -> web.Response:
        channel = self._channel(request)
        form, files = await read_form(request)
        self._need_to_write(channel)
        self._need_for(channel, form, files)
        check_message(form, files, self._world.limits, new=True)
        if channel.recipient is not None and not channel.recipient.takes_dms:
            raise ApiError(403, 50007, "Cannot send messages to this user")
        nonce = str(form.get("nonce") or "")
        if nonce and form.get("enforce_nonce") and (old := self._by_nonce(channel, nonce)):
            return web.json_response(old.payload(with_nonce=True))
        message = Message(self._world.ids.new(), channel, self._world.bot, nonce=nonce)
        if reference := form.get("message_reference"):
            message.reference = {name: str(value) for name, value in reference.items() if name.endswith("_id")}
        fill(message, form, files, self._cdn)
        self._world.add_message(message)
        return web.json_response(message.payload(with_nonce=True))

    def _need_for(self, channel: Channel, form: Json, files: dict[int, tuple[str, bytes]]) -> None:
        if channel.guild_id and form.get("embeds"):
            self._need("embed_links")
        if channel.guild_id and files:
            self._need("attach_files")

    def _by_nonce(self, channel: Channel, nonce: str) -> Message | None:
        window_s = self._world.limits.nonce_window_s
        for message in channel.messages.values():
            age_s = (datetime.now(UTC) - time_of(message.id)).total_seconds()
            if message.nonce == nonce and message.author is self._world.bot and age_s < window_s:
                return message
        return None

    async def _patch(self, request: web.Request) -> web.Response:
        message, limits = self._message(request), self._world.limits
        form, files = await read_form(request)
        if message.author is not self._world.bot:
            raise ApiError(403, 50005, "Cannot edit a message authored by another user")
        if message.channel.archived:
            raise ApiError(400, 50083, "Thread is archived")
        self._need_for(message.channel, form, files)  # assumed: the documentation names them for posts only
        check_message(form, files, limits, new=False)
        if (datetime.now(UTC) - time_of(message.id)).total_seconds() > limits.old_message_s:
            if message.old_edits >= limits.old_edits:
                text = "Maximum number of edits to messages older than 1 hour reached. Try again later"
                raise ApiError(429, 30046, text, retry_after=0.02, **{"global": False})
            message.old_edits += 1
        fill(message, form, files, self._cdn)
        message.edited = True
        message.record()
        self._world.tell_message("MESSAGE_UPDATE", message)
        return web.json_response(message.payload())

    async def _delete(self, request: web.Request) -> web.Response:
        message = self._message(request)
        message.deleted = True
        ids = {"id": str(message.id), "channel_id": str(message.channel.id)}
        self._world.tell("MESSAGE_DELETE", {**ids, "guild_id": str(message.channel.guild_id)})
        return web.Response(status=204)

    async def _open_thread(self, request: web.Request) -> web.Response:
        message, form = self._message(request), await request.json()
        self._need("create_public_threads")
        if message.thread is not None:
            raise ApiError(400, 160004, "A thread has already been created for this message")
        active = sum(c.kind == PUBLIC_THREAD and not c.archived for c in self._world.channels.values())
        if active >= self._world.limits.active_threads:
            raise ApiError(400, 160006, "Maximum number of active threads reached")
        if not 1 <= len(form["name"]) <= self._world.limits.thread_name:
            raise ApiError(400, 50035, "Invalid Form Body")
        thread = self.make_thread(message, form["name"], self._world.bot.id)
        return web.json_response(thread.payload(), status=201)

    def make_thread(self, message: Message, name: str, owner_id: int) -> Channel:
        """A thread that begins at a message, and has its id."""
        parent = message.channel
        thread = Channel(message.id, PUBLIC_THREAD, name, parent.guild_id, parent.id, owner_id)
        message.thread, message.flags = thread, message.flags | HAS_THREAD
        self._world.channels[thread.id] = thread
        self._world.tell("THREAD_CREATE", {**thread.payload(), "newly_created": True})
        return thread

    # Application commands

    async def _commands(self, request: web.Request) -> web.Response:
        return web.json_response(self._world.commands.get(int(request.match_info.get("guild", 0)), []))

    async def _set_commands(self, request: web.Request) -> web.Response:
        sent = await request.json()
        check_commands(sent, self._world.limits)
        ours = {
            "application_id": str(self._world.bot.id),
            "version": "1",
            "nsfw": False,
            "default_member_permissions": None,
        }
        said = [{name: value for name, value in command.items() if value is not None} for command in sent]
        kept = [{"id": str(self._world.ids.new()), **ours, **command} for command in said]
        self._world.commands[int(request.match_info.get("guild", 0))] = kept
        return web.json_response(kept)
