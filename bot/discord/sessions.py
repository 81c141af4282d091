"""One HTTP session for what discord.py does not fetch itself: attachments, and interactions that outlive a process."""

import aiohttp


class Sessions:
    """Opened when first used, so that it belongs to the running loop."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> aiohttp.ClientSession:
        """The session."""
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    async def close(self) -> None:
        """End it; `open` makes another."""
        if self._session is not None:
            await self._session.close()
