"""The chain of models: each is asked in turn until one answers; the offline planner is the last and always answers.

`GatewayModel` reaches one model through the gateway's socket; it imports no vendor.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.domain.errors import AppError, ModelError, Unavailable
from agent.ports import Model, ModelMessage, ModelReply, ToolCall, ToolSchema

log = logging.getLogger(__name__)
LINE_LIMIT_BYTES = 16_000_000
SILENCE_S = 130.0
START_WAIT_S = 20.0


class GatewayModel:
    """One model, by its LiteLLM name; `name@url` names an OpenAI-compatible server, e.g. `openai/qwen3@http://…/v1`."""

    def __init__(self, name: str, socket: Path) -> None:
        """`socket` is the gateway's."""
        self.name, _, self._api_base = name.partition("@")
        self._socket = socket

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        """Text as it comes, then the whole reply.

        Raises:
            ModelError: refused, or garbled.
            Unavailable: it may answer later.
        """
        reader, writer = await self._connect()
        try:
            writer.write(json.dumps(self._request(messages, tools)).encode() + b"\n")
            await writer.drain()
            while True:
                line = await asyncio.wait_for(reader.readline(), SILENCE_S)
                piece = self._read(line)
                yield piece
                if isinstance(piece, ModelReply):
                    return
        except (TimeoutError, ConnectionError) as error:
            raise Unavailable(f"{self.name} did not answer in time.") from error
        finally:
            writer.close()

    def _read(self, line: bytes) -> str | ModelReply:
        if not line:
            raise Unavailable("The process that talks to language models ended.")
        answer = json.loads(line)
        if "text" in answer:
            return str(answer["text"])
        if "error" in answer:
            failure = answer["error"]
            raise (Unavailable if failure["later"] else ModelError)(failure["text"])
        done = answer["done"]
        calls = tuple(ToolCall(*call) for call in done["calls"])
        return ModelReply(done["text"], calls, self.name, done["tokens_in"], done["tokens_out"], done["cost_usd"])

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect; right after the bot's start the gateway may still be importing."""
        loop = asyncio.get_running_loop()
        until = loop.time() + START_WAIT_S
        while True:
            try:
                return await asyncio.open_unix_connection(str(self._socket), limit=LINE_LIMIT_BYTES)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                if loop.time() > until:
                    raise Unavailable("The process that talks to language models is not running.") from error
                await asyncio.sleep(0.1)

    def _request(self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": self.name, "messages": [_as_openai(said) for said in messages]}
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


def _as_openai(said: ModelMessage) -> dict[str, Any]:
    message: dict[str, Any] = {"role": said.role, "content": said.text}
    if said.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in said.calls
        ]
    if said.role == "tool":
        message["tool_call_id"] = said.call_id
    return message


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
            try:
                async for piece in model.stream(messages, tools):
                    yield piece
            except AppError as error:
                why = error.text
                log.warning("model did not answer", extra={"cause": error.text})
            else:
                return
        async for piece in self._last.stream(messages, tools):
            if why and isinstance(piece, ModelReply) and piece.text and not piece.calls:
                yield replace(piece, text=f"_{why} So I go by rules:_\n\n{piece.text}")
            else:
                yield piece
