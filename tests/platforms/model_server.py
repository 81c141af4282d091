"""A scripted model server for tests: OpenAI's chat completions, streamed, over a real socket.

    async with ModelServer() as server:
        server.script(Reply("Hello there"), Fail(401), Cut(after=3), Hang(after=2))
        server.script(Reply(calls=[Call("run_status", {"run": "r-1"})]), model="second")
        ...                                    # models by `openai/NAME@{server.url}`
        server.requests[0].body, server.requests[0].key, await server.requests[0].gone.wait()

Each request takes the next act of its model's script, or of the common one. A request beyond the script is answered
with 418, so that a test sees it.
"""

import asyncio
import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

HANG_S = 30.0


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` as text is sent as it is, JSON or not. It is streamed in `pieces`."""

    name: str
    arguments: dict[str, Any] | str
    id: str | None = ""  # "": the server makes one; None: none is sent
    pieces: int = 4


@dataclass(frozen=True)
class Reply:
    """An answer in words, each a chunk of its own. `wait_for` holds it back after its first `hold_after` words."""

    text: str = ""
    calls: Sequence[Call] = ()
    usage: tuple[int, int] | None = (11, 7)
    pause_s: float = 0.0
    wait_for: asyncio.Event | None = None
    hold_after: int = 1
    thoughts: int = 0  # chunks of reasoning before the text
    finish: str = ""  # the reason of its end; unsaid, the usual one


@dataclass(frozen=True)
class Fail:
    """An HTTP error, with a body as OpenAI sends it."""

    status: int
    message: str = ""
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hang:
    """Say `after` words, then nothing more. `after=-1`: not even headers."""

    after: int = -1


@dataclass(frozen=True)
class Cut:
    """Say `after` words, then drop the connection; `clean` ends the body as if it were whole."""

    after: int = 3
    clean: bool = False
    call: Call | None = None  # instead of words: this call, in the middle of its arguments


@dataclass(frozen=True)
class Garbled:
    """Say `after` words, then bytes that are no JSON."""

    after: int = 0


@dataclass(frozen=True)
class Drip:
    """Say a word every `every_s` for ever; `empty` sends keep-alives, chunks without anything, instead."""

    every_s: float
    empty: bool = False


@dataclass(frozen=True)
class Page:
    """Success with a page of the web, as a wrong address gives."""


Act = Reply | Page | Fail | Hang | Cut | Garbled | Drip


@dataclass
class Request:
    """What a client sent. `gone` is set when it left before the answer was whole, `ended` in any case."""

    body: dict[str, Any]
    key: str
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body["messages"])


class ModelServer:
    """One provider with any model."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.origin = ""
        self._port = port
        self._scripts: dict[str, deque[Act | Callable[[Request], Act]]] = {}
        self._numbers = itertools.count(1)
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/chat/completions", self._answer)
        app.router.add_post("/v1/messages", self._answer)  # Anthropic's, for acts that fail
        app.router.add_post("/api/chat", self._ollama)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self.origin = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """The base that clients are given."""
        return f"{self.origin}/v1"

    def script(self, *acts: Act | Callable[[Request], Act], model: str = "") -> None:
        """Add acts to the script of a model, or to the common one."""
        self._scripts.setdefault(model, deque()).extend(acts)

    def reset(self) -> None:
        """Forget scripts and requests."""
        self._scripts.clear()
        self.requests.clear()

    async def asked(self, count: int = 1, *, timeout: float = HANG_S) -> Request:
        """Wait for the request of that number."""
        async with asyncio.timeout(timeout):
            while len(self.requests) < count:
                await asyncio.sleep(0.01)
        return self.requests[count - 1]

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        key = http.headers.get("Authorization", "").removeprefix("Bearer ")
        request = Request(await http.json(), key)
        self.requests.append(request)
        try:
            response = await self._play(http, request, self._next(request))
        except (asyncio.CancelledError, ConnectionError):
            request.gone.set()
            raise
        finally:
            request.ended.set()
        return response

    def _next(self, request: Request) -> Act:
        for name in (request.body["model"], ""):
            script = self._scripts.get(name)
            if script:
                act = script.popleft()
                return act(request) if callable(act) else act
        return Fail(418, "the script says nothing more")

    async def _ollama(self, http: web.Request) -> web.StreamResponse:
        """Ollama's own protocol, for replies."""
        request = Request(await http.json(), "")
        self.requests.append(request)
        act = self._next(request)
        assert isinstance(act, Reply)
        said = [{"content": piece} for piece in re.findall(r"\S+\s*", act.text)]
        called = [{"function": {"name": call.name, "arguments": call.arguments}} for call in act.calls]
        said += [{"content": "", "tool_calls": [one]} for one in called]
        tokens_in, tokens_out = act.usage or (0, 0)
        end = {"done": True, "done_reason": "stop", "prompt_eval_count": tokens_in, "eval_count": tokens_out}
        lines = [{"message": {"role": "assistant", **part}, "done": False} for part in said]
        lines.append({"message": {"role": "assistant", "content": ""}, **end})
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(http)
        for line in lines:
            whole = {"model": request.body["model"], "created_at": "2026-01-01T00:00:00Z", **line}
            await response.write(json.dumps(whole).encode() + b"\n")
        await response.write_eof()
        return response

    async def _play(self, http: web.Request, request: Request, act: Act) -> web.StreamResponse:
        if isinstance(act, Fail):
            error = {"message": act.message or f"status {act.status}", "type": "error", "code": act.code or None}
            return web.json_response({"error": error}, status=act.status, headers=act.headers)
        if isinstance(act, Page):
            return web.Response(text="<h1>Welcome</h1>", content_type="text/html")
        if act == Hang(-1):
            await asyncio.Event().wait()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        if isinstance(act, Cut) and act.clean:
            response.force_close()
        await response.prepare(http)
        stream = _Stream(response, str(request.body["model"]), f"chatcmpl-{next(self._numbers)}")
        match act:
            case Reply():
                await stream.reply(act, self._numbers)
            case Hang(after):
                await stream.say(words(after))
                await asyncio.Event().wait()
            case Cut(after, clean, call):
                await stream.say(words(after) if call is None else ())
                if call is not None:
                    await stream.call(0, call, self._numbers, upto=2)
                if not clean:
                    assert http.transport is not None
                    http.transport.abort()
                    return response
            case Drip(every_s, empty):
                for word in itertools.count():
                    await stream.chunk({"content": "" if empty else f"word{word} "})
                    await asyncio.sleep(every_s)
            case Garbled(after):
                await stream.say(words(after))
                await response.write(b"data: {this is no JSON]\n\n")
        await response.write_eof()
        return response


class _Stream:
    """Writes one streamed answer."""

    def __init__(self, response: web.StreamResponse, model: str, number: str) -> None:
        self._response = response
        self._head = {"id": number, "object": "chat.completion.chunk", "created": 1, "model": model}

    async def chunk(self, delta: dict[str, Any], finish: str | None = None) -> None:
        await self._send({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    async def _send(self, value: dict[str, Any]) -> None:
        await self._response.write(f"data: {json.dumps(self._head | value)}\n\n".encode())

    async def say(self, pieces: Sequence[str]) -> None:
        for piece in pieces:
            await self.chunk({"content": piece})

    async def call(self, index: int, call: Call, numbers: Iterator[int], *, upto: int | None = None) -> None:
        arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        head: dict[str, Any] = {"index": index, "type": "function", "function": {"name": call.name, "arguments": ""}}
        if call.id is not None:
            head["id"] = call.id or f"call_{next(numbers)}"
        await self.chunk({"tool_calls": [head]})
        size = max(1, -(-len(arguments) // call.pieces))
        parts = [arguments[start : start + size] for start in range(0, len(arguments), size)]
        for part in parts[:upto]:
            await self.chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})

    async def reply(self, act: Reply, numbers: Iterator[int]) -> None:
        for number in range(act.thoughts):
            await self.chunk({"reasoning_content": f"thought {number} "})
            await asyncio.sleep(act.pause_s)
        for number, piece in enumerate(re.findall(r"\S+\s*", act.text)):
            if act.wait_for is not None and number == act.hold_after:
                await act.wait_for.wait()
            await self.chunk({"content": piece})
            await asyncio.sleep(act.pause_s)
        for index, call in enumerate(act.calls):
            await self.call(index, call, numbers)
        await self.chunk({}, act.finish or ("tool_calls" if act.calls else "stop"))
        if act.usage is not None:
            prompt, completion = act.usage
            usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
            await self._send({"choices": [], "usage": usage})
        await self._response.write(b"data: [DONE]\n\n")


def words(count: int) -> tuple[str, ...]:
    """That many different words."""
    return tuple(f"word{number} " for number in range(count))
