"""Connects to MCP servers, keeps the connections up, and offers what they list. Names the vendor's client."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import INVALID_PARAMS, METHOD_NOT_FOUND, CallToolRequest, CallToolRequestParams, CallToolResult
from mcp.types import Tool as Listed
from pydantic import JsonValue, ValidationError

from agent.cards import counted, duration
from agent.domain.errors import BadRequest, Conflict, Unavailable
from agent.tools.tool import Tool
from bot.mcp.config import ServerConfig
from bot.mcp.finding import finder
from bot.mcp.tools import MOST_TOKENS, Keep, Offer, fitting, tools_of
from bot.platforms import Line

log = logging.getLogger(__name__)
for name, level in {"mcp": logging.CRITICAL, "httpx2": logging.WARNING}.items():
    logging.getLogger(name).setLevel(level)  # they write what a server says and where it is, with its keys
CONNECT_S = 60.0  # from the start of a program, which may be installed first, until it has listed its tools
EXAMINE_S = 15.0
LOOK_EVERY_S = 60.0  # how often the list is asked for: it may have changed, or the server be gone
RETRY_S = (1.0, 60.0)
PAGES = 20
MESSAGE_CHARS = 300
FINDING = "/find"  # the family of the tool that finds others; no server is called so
MOST_NAMED = 8  # tools of a kind, in a line of the doctor


class Server:
    """One server. `tools` are those that it has while it is connected, `trouble` is what keeps it from that."""

    def __init__(self, name: str, config: ServerConfig, keep: Keep, logs: Path, changed: Callable[[], None]) -> None:
        """`keep` stores pictures, `logs` takes what its program prints; `changed` is told when `tools` are others."""
        self.name = name
        self.config = config
        self.tools: tuple[Tool, ...] = ()
        self.listed: frozenset[str] = frozenset()
        self.trouble = "It has not answered yet."
        self.tried = asyncio.Event()
        self._keep = keep
        self._log = logs / f"mcp-{name}.log"
        self._changed = changed
        self._client: Client | None = None
        self._refused = ""  # by the status of its last HTTP answer, if that is one
        self._look = asyncio.Event()  # the connection has ended, or the list has changed

    async def run(self) -> None:
        """Keep it connected until this is cancelled."""
        (pause_s, longest_s), told = RETRY_S, ""
        while True:
            begun = anyio.current_time()
            await self.until_it_ends()
            if anyio.current_time() - begun > longest_s:
                pause_s = RETRY_S[0]  # it was well for a while
            level, told = logging.DEBUG if self.trouble == told else logging.WARNING, self.trouble
            log.log(level, "MCP server away", extra={"server": self.name, "cause": self.trouble, "pause_s": pause_s})
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, longest_s)

    async def until_it_ends(self) -> None:
        """Connect once, and keep that as long as it lasts; `trouble` says why it ended."""
        try:
            await self._connected()
        except Exception as error:  # noqa: BLE001 - whatever a server does, the others and the bot go on
            self.trouble = self._reason(error)
        finally:
            self._client, self.tools = None, ()
            self._changed()
            self.tried.set()

    async def _connected(self) -> None:
        """Connect, and offer what it lists until it ends, which is an error."""
        self._look.clear()
        with anyio.fail_after(CONNECT_S) as starting:
            async with (
                Client(self._transport(), message_handler=self._heard) as client,
                anyio.create_task_group() as tasks,
            ):
                self._client = client
                await self._list(client)
                starting.deadline = float("inf")
                tasks.start_soon(self._listen, client)
                while True:
                    self.tried.set()
                    with anyio.move_on_after(LOOK_EVERY_S):
                        await self._look.wait()
                    self._look.clear()
                    with anyio.fail_after(CONNECT_S):
                        await self._list(client)
                    await asyncio.sleep(RETRY_S[0])  # a server that changes all the time is asked no more often

    async def _list(self, client: Client) -> None:
        """Ask which tools it has, and offer them where they are others than before."""
        found: list[Listed] = []
        cursor = None
        for _ in range(PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            found += page.tools
            if (cursor := page.next_cursor) is None:
                break
        # Off the event loop: to check the schemas of a hundred tools takes a second.
        tools = await asyncio.to_thread(tools_of, self.name, self.config, found, self.call, self._keep)
        self.listed, self.trouble = frozenset(one.name for one in found), ""
        if [tool.schema() for tool in tools] != [tool.schema() for tool in self.tools]:
            self.tools = tools
            self._changed()

    async def call(self, tool: str, arguments: dict[str, JsonValue]) -> CallToolResult:
        """What a tool of the server answers.

        Raises:
            BadRequest, Conflict: nothing was done.
            Unavailable: it may have been done.
        """
        if self._client is None:
            raise Conflict(f"The server `{self.name}` is not connected now, so nothing was done.")
        try:
            asked = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
            # `Client.call_tool` would check the answer with a schema of the server's, which may take for ever.
            return await self._client.session.send_request(asked, CallToolResult)
        except MCPError as error:
            self._look.set()
            said = f"The server `{self.name}` answers with an error: {error.message[:MESSAGE_CHARS]}"
            raise (BadRequest if error.code in {INVALID_PARAMS, METHOD_NOT_FOUND} else Unavailable)(said) from error
        except (OSError, RuntimeError, ValidationError, httpx2.HTTPError) as error:
            raise Unavailable(f"The server `{self.name}` gave no answer that can be read.") from error

    async def _listen(self, client: Client) -> None:
        """Hear of changes of the list from servers of the protocol of 2026; others say it unasked (`_heard`)."""
        with contextlib.suppress(MCPError, RuntimeError, TimeoutError):
            async with client.listen(tools_list_changed=True) as changes:
                self._look.set()  # it may have changed since it was listed
                try:
                    async for _ in changes:
                        self._look.set()
                finally:
                    self._look.set()  # over HTTP this is how the end of a server is heard

    async def _heard(self, message: object) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._look.set()

    @contextlib.asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        """The streams to it. A program gets the variables that its entry names, and of ours PATH, HOME and the like."""
        config = self.config
        async with contextlib.AsyncExitStack() as stack:
            if config.url is not None:
                timeout = httpx2.Timeout(30.0, read=None)  # a call has its own limit
                hooks = {"response": [self._answered]}
                http = httpx2.AsyncClient(headers=config.headers, timeout=timeout, event_hooks=hooks)
                await stack.enter_async_context(http)
                way = streamable_http_client(config.url, http_client=http)
            else:
                self._log.parent.mkdir(parents=True, exist_ok=True)
                printed = stack.enter_context(self._log.open("w"))  # of this start alone
                program = StdioServerParameters(
                    command=config.command, args=list(config.args), env=config.env, cwd=config.cwd
                )
                way = stdio_client(program, printed)
            read, write = await stack.enter_async_context(way)
            yield _Watched(read, self._look), write

    async def _answered(self, response: httpx2.Response) -> None:
        self._refused = f"{response.status_code}: " if response.is_error else ""

    def _reason(self, error: BaseException) -> str:
        """Why it is away, in words that hold no address and no header."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, TimeoutError):
            return f"It did not answer within {duration(CONNECT_S)}."
        if isinstance(error, OSError) and self.config.command:
            return f"`{self.config.command}` cannot be started ({error.strerror})."
        if isinstance(error, httpx2.HTTPError):
            return f"It cannot be reached ({type(error).__name__})."
        said = error.message[:MESSAGE_CHARS] if isinstance(error, MCPError) else type(error).__name__
        printed = self._log.read_text(errors="replace").strip() if self._log.exists() else ""
        last = f" It printed: {printed.splitlines()[-1][:MESSAGE_CHARS]}" if printed else ""
        return f"It cannot be used ({self._refused}{said}).{last}"


@dataclass(frozen=True, slots=True)
class _Watched:
    """A stream of messages; an event tells when its reader is through with it."""

    stream: Any
    ended: asyncio.Event

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __aiter__(self) -> Any:
        return aiter(self.stream)

    async def __aenter__(self) -> "_Watched":
        await self.stream.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.ended.set()
        await self.stream.__aexit__(*error)


class Servers:
    """All servers of the file. What does not fit into what a model reads, in the file's order, is found on demand."""

    def __init__(
        self, configs: Mapping[str, ServerConfig], keep: Keep, logs: Path, offer: Callable[[str, Sequence[Tool]], None]
    ) -> None:
        """`offer` takes the tools of a server under its name."""
        self._servers = [Server(name, config, keep, logs, self._changed) for name, config in configs.items()]
        self._offer = offer
        self._offered: dict[str, Offer] = {}
        self._found: tuple[Tool, ...] = ()

    async def run(self) -> None:
        """Keep all connected; when this is cancelled, each ends its connection and its program."""
        async with anyio.create_task_group() as tasks:
            for server in self._servers:
                tasks.start_soon(server.run)

    def _changed(self) -> None:
        room = MOST_TOKENS
        for server in self._servers:
            offer = fitting(server.tools, room)
            room -= offer.tokens
            if self._offered.get(server.name, Offer()) != offer:
                self._offered[server.name] = offer
                self._offer(server.name, offer.tools)
                log.info("MCP tools offered", extra={"server": server.name, "tools": len(offer.tools)})
        servers = [name for name, offer in self._offered.items() if offer.on_demand]
        found = tuple(tool for name in servers for tool in self._offered[name].on_demand)
        if found != self._found:
            self._found = found
            self._offer(FINDING, [finder(found, servers)] if found else ())

    async def examined(self) -> Sequence[Line]:
        """Connect to each for a moment; what the doctor says of it."""
        async with anyio.create_task_group() as tasks:
            for server in self._servers:
                tasks.start_soon(server.until_it_ends)
            with anyio.move_on_after(EXAMINE_S):
                for server in self._servers:
                    await server.tried.wait()
            lines = [_line(server, self._offered.get(server.name, Offer())) for server in self._servers]
            tasks.cancel_scope.cancel()
        return lines


def _line(server: Server, offer: Offer) -> Line:
    label = f"mcp {server.name}"
    if server.trouble:
        return Line(label, False, server.trouble, "Correct its entry in the file of TRAINYARD_MCP, or start it.")
    by_kind = {
        "Read": [tool.name for tool in offer.tools if tool.run is not None],
        "ask first": [tool.name for tool in offer.tools if tool.run is None],
    }
    kinds = "; ".join(f"{kind}: {_listed(names)}" for kind, names in by_kind.items() if names)
    later = f", {len(offer.on_demand)} of them once they are looked for" if offer.on_demand else ""
    text = f"connected, {counted(len(offer.tools), 'tool')}{later}, about {offer.tokens:,} tokens. {kinds}."
    if unknown := server.config.unknown(server.listed):
        return Line(
            label, False, f"{text} It has no {', '.join(unknown)}.", "Correct `reads` and `tools` of its entry."
        )
    return Line(label, True, text)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
