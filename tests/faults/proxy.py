"""A TCP proxy in front of Redis that can go bad: half-open, cut, held or slow, per direction, switched while it runs.

Runs an event loop in a thread of its own. Knows no protocol. A connection that was blackholed never comes back, as with
a firewall that forgot it: nothing is forwarded and nothing is closed; new connections follow the mode of the moment.
What is held arrives later, in order, as after a partition that TCP outlived.
"""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Literal

Mode = Literal["pass", "blackhole", "refuse"]
_CHUNK = 65_536


class Proxy:
    """Listens on a loopback port, forwards to a unix socket or to `host:port`."""

    def __init__(self, target: str) -> None:
        """`target` is a path, or `host:port`."""
        self.target = target
        self.port = 0
        self.mode: Mode = "pass"  # of new connections
        self.delay_s = {"up": 0.0, "down": 0.0}  # of each chunk to and from the server
        self.held: set[str] = set()  # directions in which nothing moves, as in a partition that will heal
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    @property
    def url(self) -> str:
        """For Redis clients."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> "Proxy":
        """Listen."""
        self._thread.start()
        if not self._ready.wait(10):
            raise TimeoutError("the proxy did not start to listen within 10 s")
        return self

    def stop(self) -> None:
        """Close everything."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def half_open(self, direction: Literal["both", "up", "down"] = "both") -> int:
        """Every connection of now forwards nothing any more in `direction`, for ever; how many there were."""
        links = [link for link in tuple(self._links) if not link.over]
        for link in links:
            link.dead |= {"up", "down"} if direction == "both" else {direction}
        return len(links)

    def cut(self) -> int:
        """Close every connection of now, at both ends; how many there were."""
        links = tuple(self._links)
        for link in links:
            self._loop.call_soon_threadsafe(link.close)
        return len(links)

    @property
    def connections(self) -> int:
        """Open ones that forward."""
        return sum(not link.over and not link.dead for link in tuple(self._links))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            for link in tuple(self._links):
                link.close()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self, reader, writer)
        self._links.add(link)
        try:
            await link.serve()
        finally:
            self._links.discard(link)


class _Link:
    """One client's connection and ours to the server."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy, self._reader, self._writer = proxy, reader, writer
        self._server: asyncio.StreamWriter | None = None
        self.dead: set[str] = set()
        self.over = False

    async def serve(self) -> None:
        if self._proxy.mode == "refuse":
            self.close()
            return
        if self._proxy.mode == "blackhole":
            self.dead |= {"up", "down"}
        try:
            reader, self._server = await self._connect()
        except OSError:
            self.close()
            return
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await asyncio.gather(self._pump("up", self._reader, self._server), self._pump("down", reader, self._writer))
        self.close()

    def close(self) -> None:
        self.over = True
        for writer in (self._writer, self._server):
            if writer is not None:
                writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, _, port = self._proxy.target.rpartition(":")
        if host:
            return await asyncio.open_connection(host, int(port))
        return await asyncio.open_unix_connection(self._proxy.target)

    async def _pump(self, direction: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if direction in self.dead:
                continue
            if delay_s := self._proxy.delay_s[direction]:
                await asyncio.sleep(delay_s)
            while direction in self._proxy.held:
                await asyncio.sleep(0.02)
            writer.write(data)
            await writer.drain()
        if not self.dead:  # of a half-open connection neither end hears that the other is gone
            self.close()


@contextlib.contextmanager
def proxied(target: str) -> Iterator[Proxy]:
    """A proxy for one test."""
    proxy = Proxy(target).start()
    try:
        yield proxy
    finally:
        proxy.stop()
