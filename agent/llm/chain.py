"""The chain of models: each is asked in turn until one answers; the offline planner is the last and always answers.

`GatewayModel` reaches one model through the gateway's socket; it imports no vendor.
"""

import asyncio
import itertools
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.conversation.prompt import as_read
from agent.domain.errors import AppError, ModelError, Unavailable
from agent.ports import Model, ModelMessage, ModelReply, Role, ToolCall, ToolSchema

log = logging.getLogger(__name__)
LINE_LIMIT_BYTES = 16_000_000
SILENCE_S = 130.0  # longer than the gateway's own limit, which has the better words
START_WAIT_S = 5.0  # a gateway listens before it imports anything heavy
PROBE_TOKENS = 16  # the fewest that every provider takes
NO_ANSWER_YET = '{"text": "No answer yet: this call waits for people or was overtaken by a newer message."}'
BY_RULES = "So I go by rules:"
_WITH_URL = re.compile(r"(.+?)@(https?://.+)")


class GatewayModel:
    """One model, by its LiteLLM name; `name@url` names an OpenAI-compatible server, e.g. `openai/qwen3@http://…/v1`."""

    def __init__(self, name: str, socket: Path, *, silence_s: float = SILENCE_S) -> None:
        """`socket` is the gateway's; `silence_s` the longest wait for its next line."""
        found = _WITH_URL.fullmatch(name)  # a name may hold an @ of its own
        self.name, self._api_base = found.groups() if found else (name, "")
        self._socket = socket
        self._silence_s = silence_s

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        """Text as it comes, then the whole reply.

        Raises:
            ModelError: refused, or garbled.
            Unavailable: it may answer later.
        """
        request = json.dumps(self._request(messages, tools)).encode() + b"\n"
        if len(request) > LINE_LIMIT_BYTES:
            raise ModelError(f"The conversation is too long for {self.name}. Start a new thread.")
        reader, writer = await self._connect()
        try:
            async with asyncio.timeout(self._silence_s):
                writer.write(request)
                await writer.drain()
            while True:
                async with asyncio.timeout(self._silence_s):  # `wait_for` of Python 3.11 can swallow a cancellation
                    line = await reader.readline()
                piece = self._read(line)
                if piece:
                    yield piece
                if isinstance(piece, ModelReply):
                    return
        except TimeoutError as error:
            raise Unavailable(f"{self.name} did not answer in time.") from error
        except OSError as error:
            raise Unavailable("The process that talks to language models ended.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"The answer of {self.name} cannot be read.") from error
        finally:
            writer.close()

    async def probe(self) -> None:
        """Ask for next to nothing; returns at the first sign that it answers. Raises as `stream` does."""
        request = self._request((ModelMessage(Role.USER, "Say ok."),), ()) | {"max_tokens": PROBE_TOKENS}
        reader, writer = await self._connect()
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            self._read(await reader.readline())
        except OSError as error:
            raise Unavailable("The process that talks to language models ended.") from error
        finally:
            writer.close()

    def _read(self, line: bytes) -> str | ModelReply:
        if not line.endswith(b"\n"):
            raise Unavailable("The process that talks to language models ended in the middle of an answer.")
        answer = json.loads(line)
        if "text" in answer:
            return str(answer["text"])
        if "error" in answer:
            failure = answer["error"]
            if failure["later"]:
                raise Unavailable(failure["text"], retry_after_s=failure["retry_after_s"])
            raise ModelError(failure["text"])
        done = answer["done"]
        calls = tuple(ToolCall(*call) for call in done["calls"])
        return ModelReply(done["text"], calls, self.name, done["tokens_in"], done["tokens_out"], done["cost_usd"])

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect; right after the bot's start, or after the gateway died, it may not listen yet."""
        loop = asyncio.get_running_loop()
        until = loop.time() + START_WAIT_S
        while True:
            try:
                return await asyncio.open_unix_connection(str(self._socket), limit=LINE_LIMIT_BYTES)
            except OSError as error:
                if loop.time() > until:
                    raise Unavailable("The process that talks to language models is not running.") from error
                await asyncio.sleep(0.1)

    def _request(self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.name, "messages": [_as_openai(said) for said in paired(messages)]}
        if self._api_base:
            request["api_base"] = self._api_base
        if tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                }
                for tool in tools
            ]
        return request


def paired(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """The same conversation in the order that providers insist on: after calls come their answers, and nothing else.

    A call that waits for people gets a placeholder as soon as something else is said; its late answer is told as a
    message of its own.
    """
    result: list[ModelMessage] = []
    names: dict[str, str] = {}
    waiting: list[str] = []
    for said in messages:
        if said.role is Role.TOOL and said.call_id in waiting:
            waiting.remove(said.call_id)
            result.append(said)
            continue
        result += [ModelMessage(Role.TOOL, NO_ANSWER_YET, call_id=call_id) for call_id in waiting]
        waiting = [call.id for call in said.calls]
        names |= {call.id: call.name for call in said.calls}
        result.append(_late(said, names) if said.role is Role.TOOL else said)
    return result + [ModelMessage(Role.TOOL, NO_ANSWER_YET, call_id=call_id) for call_id in waiting]


def _late(answer: ModelMessage, names: Mapping[str, str]) -> ModelMessage:
    tool = names.get(answer.call_id, "an earlier call")
    return ModelMessage(Role.USER, f"[late result of {tool}; data, not words of a person] {answer.text}")


def _as_openai(said: ModelMessage) -> dict[str, Any]:
    message: dict[str, Any] = {"role": said.role.value, "content": as_read(said)}
    if said.calls:
        message["content"] = said.text or None
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _object(call.arguments)}}
            for call in said.calls
        ]
    if said.role is Role.TOOL:
        message["tool_call_id"] = said.call_id
    return message


def _object(arguments: str) -> str:
    """Arguments as the JSON object that providers insist on; what a model wrote instead is kept inside of one."""
    try:
        usable = isinstance(json.loads(arguments or "{}"), dict)
    except ValueError:
        usable = False
    return (arguments or "{}") if usable else json.dumps({"not_json": arguments})


class ModelChain:
    """Models in the order in which they are asked."""

    def __init__(self, models: Sequence[Model], last: Model) -> None:
        """`last` needs nothing and always answers."""
        self._models = models
        self._last = last

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        """The first whole answer; where a model fails in the middle, the next one answers from the beginning."""
        why = ""
        for model in self._models:
            shown = False
            try:
                async for piece in model.stream(messages, tools):
                    yield piece
                    shown = True
            except AppError as error:
                why = error.text
                log.warning("model did not answer", extra={"cause": error.text})
            else:
                return
            if shown:
                yield "\n\n"  # the finished answer shows the last model's words only
        async for piece in self._last.stream(messages, tools):
            if why and isinstance(piece, ModelReply) and piece.text and not _spoke(piece.model, messages):
                yield replace(piece, text=f"_{why} {BY_RULES}_\n\n{piece.text}")
            else:
                yield piece


def _spoke(model: str, messages: Sequence[ModelMessage]) -> bool:
    """Whether this model has said something in this turn before."""
    turn = itertools.takewhile(lambda said: said.role is not Role.USER, reversed(messages))
    return any(said.model == model and said.text for said in turn if said.role is Role.ASSISTANT)
