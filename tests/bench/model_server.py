"""A language model's server as a process of its own: OpenAI's chat completions, streamed. It prints its port first.

Answers 24 words, one a chunk, no two answers alike. A request whose last message says "add" is answered with a call of
the tool `add`; a tool's result is answered with words, or with one more call until "add 9 times" has got its nine. One
that says "slowly" gets 50 words a second for as long as somebody listens. `GET /arrivals` has the moment of each
request by the last words of its person, `GET /slow` how many slow words were written so far.
"""

import asyncio
import itertools
import json
import re
import time
from typing import Any

from aiohttp import web

WORDS = 24
PACE_S, MOST_SLOW_WORDS = 1 / 50, 3_000
SLOW = web.AppKey("slow", list)
ARRIVALS = web.AppKey("arrivals", dict)
_numbers = itertools.count(1)


def pieces_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The deltas of one answer."""
    number = next(_numbers)
    if _adds_again(request["messages"]) and request.get("tools"):
        return _call(number)
    words = [{"content": f"word{number * 31 + at * 7} "} for at in range(WORDS)]
    return [{"role": "assistant", "content": ""}, *words]


def _adds_again(messages: list[dict[str, Any]]) -> bool:
    """Whether the last of its person's words ask for one more call than they have got."""
    asked = max(number for number, said in enumerate(messages) if said["role"] == "user")
    words, called = str(messages[asked]["content"]), sum(said["role"] == "tool" for said in messages[asked:])
    wanted = re.search(r"add (\d+) times", words)
    return called < (int(wanted.group(1)) if wanted else 1) and "add" in words


def _call(number: int) -> list[dict[str, Any]]:
    head = {"index": 0, "id": f"call_{number}", "type": "function", "function": {"name": "add", "arguments": ""}}
    parts = ['{"a": ', "2", ', "b": ', str(number), "}"]
    deltas: list[dict[str, Any]] = [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in parts]
    return [{"role": "assistant", "content": None, "tool_calls": [head]}, *deltas]


def _chunk(delta: dict[str, Any] | None, number: int, finish: str | None = None, **more: object) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]
    chunk = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": "local"}
    return b"data: " + json.dumps({**chunk, "choices": choices, **more}).encode() + b"\n\n"


async def complete(request: web.Request) -> web.StreamResponse:
    """POST /v1/chat/completions with `stream: true`."""
    arrived, asked = time.time(), await request.json()
    said = [str(one["content"]) for one in asked["messages"] if one["role"] == "user"]
    request.app[ARRIVALS][said[-1] if said else ""] = arrived
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    deltas = pieces_of(asked)
    number = next(_numbers)
    if said and "slowly" in said[-1]:
        deltas = [{"content": f"word{number * 31 + at * 7} "} for at in range(MOST_SLOW_WORDS)]
    began = asyncio.get_running_loop().time()
    for at, delta in enumerate(deltas):
        await response.write(_chunk(delta, number))
        if len(deltas) == MOST_SLOW_WORDS:
            request.app[SLOW][0] += 1
            await asyncio.sleep(began + (at + 1) * PACE_S - asyncio.get_running_loop().time())
    await response.write(_chunk({}, number, "tool_calls" if "tool_calls" in deltas[0] else "stop"))
    if (asked.get("stream_options") or {}).get("include_usage"):
        usage = {"prompt_tokens": 50, "completion_tokens": WORDS, "total_tokens": 50 + WORDS}
        await response.write(_chunk(None, number, usage=usage))
    await response.write(b"data: [DONE]\n\n")
    return response


async def arrivals(request: web.Request) -> web.Response:
    """GET /arrivals."""
    return web.json_response(request.app[ARRIVALS])


async def slow(request: web.Request) -> web.Response:
    """GET /slow."""
    return web.json_response(request.app[SLOW][0])


async def _serve() -> None:
    app = web.Application(client_max_size=16_000_000)
    app[ARRIVALS] = {}
    app[SLOW] = [0]
    app.router.add_get("/arrivals", arrivals)
    app.router.add_get("/slow", slow)
    app.router.add_post("/v1/chat/completions", complete)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
