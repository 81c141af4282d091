"""Fetches files that people attach: only from Slack's hosts, with a cap, and never a sign-in page instead of a file."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import aiohttp
from yarl import URL

from agent.domain.errors import AppError, BadData, NotFound, Unavailable
from agent.domain.inbound import Attachment
from bot.slack.api import SlackApi

CHUNK_BYTES = 1 << 18
HOPS = 4
TIMEOUT = aiohttp.ClientTimeout(total=600, sock_read=30)
REDIRECTS = {301, 302, 303, 307, 308}


class Downloads:
    """`fetch` one attachment. Hosts: `slack.com` and below, the API's own host, and `hosts`."""

    def __init__(self, api: SlackApi, *, hosts: Iterable[str] = ()) -> None:
        self._api = api
        self._origin = URL(api.base_url).origin()
        self._hosts = frozenset(hosts)

    def allowed(self, url: URL) -> bool:
        """Whether we ask this address at all."""
        if not url.is_absolute() or url.host is None:
            return False
        if url.origin() == self._origin:
            return True
        known = url.host == "slack.com" or url.host.endswith(".slack.com") or url.host in self._hosts
        return known and url.scheme == "https"

    async def fetch(self, attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        """Write the file to `into`, whole or not at all. Raises `BadData`, `NotFound`, `Unavailable`."""
        if attachment.size_bytes > limit_bytes:
            raise _too_large(attachment, limit_bytes)
        url = await self._address(attachment)
        part = into.with_name(into.name + ".part")
        try:
            async with asyncio.timeout(TIMEOUT.total):
                await self._download(url, attachment, part, limit_bytes)
        except (aiohttp.ClientError, TimeoutError) as error:
            text = f"The file {attachment.name} could not be loaded from Slack: {type(error).__name__}."
            raise Unavailable(text) from error
        else:
            part.replace(into)
        finally:
            part.unlink(missing_ok=True)

    async def _address(self, attachment: Attachment) -> URL:
        locator = json.loads(attachment.locator)
        address = locator.get("url")
        if not address:  # a file of another workspace comes as a stub
            answer = await self._api.call("files.info", file=locator["id"])
            address = answer["file"].get("url_private_download")
        if not address:
            raise NotFound(f"Slack gives no download address for {attachment.name}: upload it here again.")
        return URL(str(address))

    async def _download(self, url: URL, attachment: Attachment, part: Path, limit_bytes: int) -> None:
        first = url.origin() if url.is_absolute() else None
        for _ in range(HOPS):
            if not self.allowed(url):
                raise BadData(f"The file {attachment.name} is not on Slack ({url.host}), so I do not load it.")
            # The token belongs to the host that Slack named, and to no other.
            headers = {"Authorization": f"Bearer {self._api.token}"} if url.origin() == first else {}
            async with self._api.session.get(url, headers=headers, allow_redirects=False, timeout=TIMEOUT) as response:
                if response.status in REDIRECTS:
                    url = url.join(URL(response.headers.get("Location", "")))
                    continue
                _check(response, attachment)
                await _write(response, attachment, part, limit_bytes)
                return
        raise Unavailable(f"Slack sends me around in circles for {attachment.name}.")


def _check(response: aiohttp.ClientResponse, attachment: Attachment) -> None:
    if response.status in {404, 410}:
        raise NotFound(f"The file {attachment.name} is gone from Slack: upload it again.")
    if response.status == 429 or response.status >= 500:
        raise Unavailable(f"Slack does not give out {attachment.name} right now (HTTP {response.status}).")
    if response.status != 200:
        raise AppError(
            f"Slack refuses me the file {attachment.name} (HTTP {response.status}): does the app have `files:read`?",
        )
    if response.content_type == "text/html":
        raise BadData(
            f"Slack sent a web page instead of {attachment.name}. If it is not a web page itself, the app lacks the"
            " scope `files:read`: add it under OAuth & Permissions and install the app again.",
        )


async def _write(response: aiohttp.ClientResponse, attachment: Attachment, part: Path, limit_bytes: int) -> None:
    written = 0
    file = await asyncio.to_thread(part.open, "wb")
    try:
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            written += len(chunk)
            if written > limit_bytes:
                raise _too_large(attachment, limit_bytes)
            await asyncio.to_thread(file.write, chunk)
    finally:
        await asyncio.to_thread(file.close)


def _too_large(attachment: Attachment, limit_bytes: int) -> BadData:
    return BadData(f"The file {attachment.name} is larger than the {limit_bytes / 1e6:,.0f} MB that I take.")
