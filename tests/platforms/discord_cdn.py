"""The CDN of the local Discord: files at signed addresses that expire."""

import hashlib
import time
from collections.abc import Callable
from urllib.parse import urlencode

from aiohttp import web

from tests.platforms.discord_world import Json, Message, World


class Cdn:
    """All files that were ever attached."""

    def __init__(self, world: World, base: Callable[[], str]) -> None:
        self._world = world
        self._base = base
        self.fetched: list[str] = []  # paths, in order

    def store(self, channel_id: int, name: str, data: bytes, alt: str = "", media_type: str = "") -> Json:
        """Put a file on the CDN; the attachment object, its address signed."""
        file_id = self._world.ids.new()
        known = {"png": "image/png", "csv": "text/csv", "html": "text/html"}
        kind = media_type or known.get(name.rpartition(".")[2], "application/octet-stream")
        path = f"/attachments/{channel_id}/{file_id}/{name}"
        self._world.files[path] = (data, kind)
        url = self.signed(path)
        return {
            "id": str(file_id),
            "filename": name,
            "size": len(data),
            "url": url,
            "proxy_url": url,
            "content_type": kind,
            "description": alt or None,
        }

    def signed(self, path: str) -> str:
        """An address that works for `cdn_life_s`."""
        expires = f"{time.time() + self._world.limits.cdn_life_s:.3f}"
        return f"{self._base()}{path}?{urlencode({'ex': expires, 'hm': _signature(path, expires)})}"

    def sign(self, message: Message) -> None:
        """Fresh addresses for the files of a message."""
        for file in message.attachments:
            path = "/attachments/" + file["url"].partition("/attachments/")[2].partition("?")[0]
            file["url"] = file["proxy_url"] = self.signed(path)

    async def handle(self, request: web.Request) -> web.Response:
        """A file, as long as its address is signed and fresh."""
        expires = request.query.get("ex", "0")
        if request.query.get("hm") != _signature(request.path, expires) or float(expires) < time.time():
            return web.Response(status=404, text="This content is no longer available.")
        found = self._world.files.get(request.path)
        if found is None:
            return web.Response(status=404)
        self.fetched.append(request.path)
        return web.Response(body=found[0], content_type=found[1])


def _signature(path: str, expires: str) -> str:
    return hashlib.sha256(f"{path}{expires}".encode()).hexdigest()[:32]
