"""Bodies of requests: JSON or multipart, and how they become a message."""

import json
import re

from aiohttp import BodyPartReader, web

from tests.platforms.discord_cdn import Cdn
from tests.platforms.discord_world import Json, Message

Files = dict[int, tuple[str, bytes]]
UPLOADED = re.compile(r"^attachment://(.+)$")


def fill(message: Message, form: Json, files: Files, cdn: Cdn) -> None:
    """Take over a form, new or as an edit."""
    if "content" in form:
        message.content = form["content"] or ""
    message.pinged = _pinged(message.content, form.get("allowed_mentions"))
    if "components" in form:
        message.components = form["components"]
    if "attachments" in form or files:
        kept = [a for a in message.attachments if any(str(w["id"]) == a["id"] for w in form.get("attachments", ()))]
        named = {int(wish["id"]): wish for wish in form.get("attachments", ()) if int(wish["id"]) in files}
        message.attachments = kept + [
            cdn.store(message.channel.id, name, data, str(named.get(n, {}).get("description") or ""))
            for n, (name, data) in files.items()
        ]
    if "embeds" in form:
        message.embeds = [_with_urls(embed, message) for embed in form["embeds"] or ()]


def _with_urls(embed: Json, message: Message) -> Json:
    found = UPLOADED.match(embed.get("image", {}).get("url") or "")
    if not found:
        return {name: value for name, value in embed.items() if name != "image" or value.get("url")}
    for file in message.attachments:
        if file["filename"] == found[1]:
            return {**embed, "image": {"url": file["url"], "width": 1, "height": 1}}
    return {name: value for name, value in embed.items() if name != "image"}


async def read_form(request: web.Request) -> tuple[Json, Files]:
    """The JSON body, and files by their number."""
    if not request.content_type.startswith("multipart/"):
        return await request.json(), {}
    form: Json = {}
    files: Files = {}
    async for part in await request.multipart():
        assert isinstance(part, BodyPartReader)
        data = bytes(await part.read())
        if part.name == "payload_json":
            form = json.loads(data)
        elif found := re.fullmatch(r"files\[(\d+)\]", part.name or ""):
            files[int(found[1])] = (part.filename or "file", data)
    return form, files


def _pinged(content: str, allowed: Json | None) -> list[str]:
    """Whom a message rings for."""
    parse = {"everyone", "users", "roles"} if allowed is None else set(allowed.get("parse", ()))
    users = set(re.findall(r"<@!?(\d+)>", content))
    named = users if "users" in parse else users & set((allowed or {}).get("users", ()))
    all_of_them = re.findall(r"@(everyone|here)\b", content) if "everyone" in parse else []
    return sorted(named) + all_of_them
