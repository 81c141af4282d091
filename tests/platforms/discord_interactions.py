"""Interactions of the local Discord: acknowledged within their deadline, answered within the life of their token."""

import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from tests.platforms.discord_cdn import Cdn
from tests.platforms.discord_forms import Files, fill, read_form
from tests.platforms.discord_rules import check_message
from tests.platforms.discord_world import EPHEMERAL, LOADING, ApiError, Interaction, Json, Message, World

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Interactions:
    """Callbacks, follow-ups and edits of answers."""

    def __init__(self, world: World, cdn: Cdn) -> None:
        self._world = world
        self._cdn = cdn

    def handlers(self) -> list[tuple[str, str, Handler]]:
        """Method, path, handler."""
        hook = "/webhooks/{app}/{token}"
        return [
            ("POST", "/interactions/{id}/{token}/callback", self._callback),
            ("POST", hook, self._followup),
            ("GET", hook + "/messages/{message}", self._get_reply),
            ("PATCH", hook + "/messages/{message}", self._patch_reply),
        ]

    def _interaction(self, request: web.Request) -> Interaction:
        found = self._world.interactions.get(request.match_info["token"])
        if found is None:
            raise ApiError(404, 10015, "Unknown Webhook")
        if time.monotonic() - found.made > self._world.limits.interaction_life_s:
            raise ApiError(401, 50027, "Invalid Webhook Token")
        return found

    async def _callback(self, request: web.Request) -> web.Response:
        found = self._world.interactions.get(request.match_info["token"])
        late = found is not None and time.monotonic() - found.made > self._world.limits.interaction_deadline_s
        if found is None or (late and not found.callback):
            raise ApiError(404, 10062, "Unknown interaction")
        if found.callback:
            raise ApiError(400, 40060, "Interaction has already been acknowledged.")
        form, files = await read_form(request)
        kind, data = form["type"], form.get("data") or {}
        if (kind == 6 and found.kind == 2) or kind not in (4, 5, 6, 7, 8, 9) or (kind == 8) != (found.kind == 4):
            raise ApiError(400, 50035, "Invalid Form Body")
        if kind == 8:
            found.callback, found.proposed = kind, data["choices"]
            if len(found.proposed) > 25 or any(
                not 1 <= len(part) <= 100 for choice in found.proposed for part in (choice["name"], choice["value"])
            ):
                raise ApiError(400, 50035, "Invalid Form Body")
            return web.json_response(
                {"interaction": {"id": str(found.id), "type": found.kind}, "resource": {"type": 8}}
            )
        if kind == 9:
            fields = [part for row in data["components"] for part in row.get("components") or [row["component"]]]
            fits = 1 <= len(data["title"]) <= 45 and len(data["custom_id"]) <= 100 and 1 <= len(fields) <= 5
            if found.kind != 3 or not fits or any(field["type"] != 4 for field in fields):
                raise ApiError(400, 50035, "Invalid Form Body")
            found.callback, found.dialog = kind, data
            return web.json_response(
                {"interaction": {"id": str(found.id), "type": found.kind}, "resource": {"type": 9}}
            )
        check_message(data, files, self._world.limits, new=kind == 4)
        found.callback, found.ephemeral = kind, bool(data.get("flags", 0) & EPHEMERAL)
        if kind in (4, 5):
            flags = (EPHEMERAL if found.ephemeral else 0) | (LOADING if kind == 5 else 0)
            made = Message(self._world.ids.new(), found.channel, self._world.bot, flags=flags)
            fill(made, data, files, self._cdn)
            made.record()
            found.original = made
        else:
            found.original = found.message
        answer: Json = {"interaction": {"id": str(found.id), "type": found.kind}, "resource": {"type": kind}}
        if found.original is not None:
            answer["interaction"]["response_message_id"] = str(found.original.id)
        if kind == 4 and found.original is not None:
            answer["resource"]["message"] = found.original.payload()
        return web.json_response(answer)

    async def _followup(self, request: web.Request) -> web.Response:
        found = self._interaction(request)
        if not found.callback:
            raise ApiError(404, 10015, "Unknown Webhook")
        form, files = await read_form(request)
        check_message(form, files, self._world.limits, new=True)
        if found.original is not None and found.original.flags & LOADING:  # it takes the place of "thinking…"
            return self._change(found.original, form, files)
        flags = form.get("flags", 0) & EPHEMERAL
        made = Message(self._world.ids.new(), found.channel, self._world.bot, flags=flags)
        fill(made, form, files, self._cdn)
        found.followups.append(made)
        if flags:
            made.record()
        else:
            self._world.add_message(made)
        return web.json_response(made.payload())

    def _reply(self, request: web.Request) -> Message:
        found, wanted = self._interaction(request), request.match_info["message"]
        known = [found.original, *found.followups] if found.callback else []
        for message in known:
            original = wanted == "@original" and message is found.original
            if message is not None and (original or str(message.id) == wanted):
                return message
        raise ApiError(404, 10008, "Unknown Message")

    async def _get_reply(self, request: web.Request) -> web.Response:
        return web.json_response(self._reply(request).payload())

    async def _patch_reply(self, request: web.Request) -> web.Response:
        message = self._reply(request)
        form, files = await read_form(request)
        check_message(form, files, self._world.limits, new=False)
        return self._change(message, form, files)

    def _change(self, message: Message, form: Json, files: Files) -> web.Response:
        fill(message, form, files, self._cdn)
        message.flags &= ~LOADING
        message.edited = True
        message.record()
        if not message.flags & EPHEMERAL:
            self._world.tell_message("MESSAGE_UPDATE", message)
        return web.json_response(message.payload())
