"""Attachments in: from Discord's own hosts only, never more than allowed; an expired address is asked for anew."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
from pydantic import ValidationError
from yarl import URL

from agent.domain.errors import BadData, NotFound, Unavailable
from agent.domain.inbound import Attachment
from bot.discord.addresses import Locator
from bot.discord.failures import speaking
from bot.discord.outbound import Link
from bot.discord.sessions import Sessions

HOSTS = frozenset({"cdn.discordapp.com", "media.discordapp.net"})
CHUNK_BYTES = 256 * 1024
PAGES = (".htm", ".html", ".xhtml")
EXPIRED = (401, 403, 404, 410)


class Files:
    """Downloads of what people attach."""

    def __init__(self, link: Link, sessions: Sessions, *, api_base: str | None, timeout_s: float) -> None:
        """`api_base` names one more host to trust, for tests."""
        self._link = link
        self._sessions = sessions
        self._local = URL(api_base).authority if api_base else ""
        self._timeout_s = timeout_s

    async def fetch(self, attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        """Download to the file `into`, which appears only when it is whole.

        Raises:
            BadData: larger than `limit_bytes`, not an address, or a web page instead of the file.
            NotFound: the message or the file was deleted.
        """
        if attachment.size_bytes > limit_bytes:
            raise BadData(f"{attachment.name} has {_mb(attachment.size_bytes)}; I take {_mb(limit_bytes)} at most.")
        try:
            locator = Locator.model_validate_json(attachment.locator)
        except ValidationError as error:
            raise BadData(f"{attachment.name} carries no address that I know. Please attach it again.") from error
        if locator.url and await self._download(locator.url, attachment, into, limit_bytes):
            return
        if not await self._download(await self._fresh_url(locator, attachment), attachment, into, limit_bytes):
            raise NotFound(f"Discord does not hand out {attachment.name} any more. Please attach it again.")

    async def _download(self, url: str, attachment: Attachment, into: Path, limit_bytes: int) -> bool:
        """False if the address has expired."""
        self._check_host(url, attachment)
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        part = into.with_name(into.name + ".part")
        try:
            session, address = self._sessions.open(), URL(url, encoded=True)
            async with session.get(address, timeout=timeout, allow_redirects=False) as answer:
                if answer.status in EXPIRED:
                    return False
                if answer.status != 200:
                    raise Unavailable(f"Discord answered {answer.status} for {attachment.name}.")
                if answer.content_type == "text/html" and not attachment.name.lower().endswith(PAGES):
                    raise BadData(f"{attachment.name} came as a web page instead of a file. Please attach it again.")
                await _write(_capped(answer.content.iter_chunked(CHUNK_BYTES), attachment, limit_bytes), part)
            await asyncio.to_thread(part.replace, into)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unavailable(f"{attachment.name} could not be downloaded from Discord.") from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
        return True

    def _check_host(self, url: str, attachment: Attachment) -> None:
        address = URL(url)
        trusted = address.scheme == "https" and address.host in HOSTS
        if not trusted and not (self._local and address.authority == self._local):
            raise BadData(f"{attachment.name} does not lie with Discord; I do not fetch it from {address.host}.")

    async def _fresh_url(self, locator: Locator, attachment: Attachment) -> str:
        client = await self._link.up()
        async with speaking("read", limit_s=self._link.call_s):
            message = await client.http.get_message(locator.channel, locator.message)
        for file in message["attachments"]:
            if int(file["id"]) == locator.attachment:
                return file["url"]
        raise NotFound(f"{attachment.name} was removed from its message. Please attach it again.")


async def _capped(chunks: AsyncIterator[bytes], attachment: Attachment, limit_bytes: int) -> AsyncIterator[bytes]:
    came = 0
    async for chunk in chunks:
        came += len(chunk)
        if came > limit_bytes:
            raise BadData(f"{attachment.name} is larger than {_mb(limit_bytes)}, the most that I take.")
        yield chunk
    if came < attachment.size_bytes:
        raise Unavailable(f"{attachment.name} arrived only in part.")


async def _write(chunks: AsyncIterator[bytes], path: Path) -> None:
    file = await asyncio.to_thread(path.open, "wb")
    try:
        async for chunk in chunks:
            await asyncio.to_thread(file.write, chunk)
    finally:
        await asyncio.to_thread(file.close)


def _mb(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:.1f} MB"
