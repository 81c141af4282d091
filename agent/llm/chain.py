"""The chain of models: those that the gateway asks, then the planner of rules, which always answers.

`GatewayModel` reaches the gateway's process through its socket; it imports no vendor. Who is asked when, and again, is
decided there (`agent.llm.asking`).
"""

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.conversation.prompt import as_read
from agent.domain.errors import AppError, ModelError, TooLong, Unavailable
from agent.llm.names import split_name
from agent.ports import Model, ModelMessage, ModelNotice, ModelReply, Piece, Role, ToolCall, ToolSchema

log = logging.getLogger(__name__)
LINE_LIMIT_BYTES = 16_000_000
SILENCE_S = 130.0  # longer than the gateway's own limit, which has the better words
START_WAIT_S = 5.0  # a gateway listens before it imports anything heavy
PROBE_TOKENS = 16  # the fewest that every provider takes
NO_ANSWER_YET = '{"text": "No answer yet: this call waits for people or was overtaken by a newer message."}'
BY_RULES = "So I go by rules:"
CUT = "This answer was cut off at the model's limit; say `go on` for the rest."


class GatewayModel:
    """The models that the gateway asks, in their order, by LiteLLM's names.

    `name@url` names an OpenAI-compatible server, e.g. `openai/qwen3@http://…/v1`.
    """

    def __init__(
        self, names: Sequence[str], socket: Path, *, patience_s: float = 0.0, silence_s: float = SILENCE_S
    ) -> None:
        """`socket` is the gateway's; `silence_s` the longest wait for its next line.

        Where all of them failed they are asked again until `patience_s` after that.
        """
        self._names = list(names)
        self.name = split_name(names[0])[0]
        self._socket = socket
        self._patience_s = patience_s
        self._silence_s = silence_s

    async def stream(self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]) -> AsyncIterator[Piece]:
        """Text as it comes, then the whole reply.

        Raises:
            ModelError: refused, or garbled.
            Unavailable: it may answer later.
        """
        request = json.dumps(self._request(messages, tools)).encode() + b"\n"
        if len(request) > LINE_LIMIT_BYTES:
            raise TooLong(f"The conversation is too long for {self.name}. Start a new thread.")
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
        asked = self._request((ModelMessage(Role.USER, "Say ok."),), ())
        request = asked | {"max_tokens": PROBE_TOKENS, "patience_s": 0.0}
        reader, writer = await self._connect()
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            self._read(await reader.readline())
        except OSError as error:
            raise Unavailable("The process that talks to language models ended.") from error
        finally:
            writer.close()

    def _read(self, line: bytes) -> Piece:
        if not line.endswith(b"\n"):
            raise Unavailable("The process that talks to language models ended in the middle of an answer.")
        answer = json.loads(line)
        if "text" in answer:
            return str(answer["text"])
        if "notice" in answer:
            return ModelNotice(answer["notice"])
        if "error" in answer:
            raise _failure(answer["error"])
        done = answer["done"]
        calls = tuple(ToolCall(*call) for call in done["calls"])
        told = [f"{done['instead']} So {done['model']} answers:"] if done["instead"] else []
        told += [CUT] if done["cut"] and not calls else []
        bill = (done["tokens_in"], done["tokens_out"], done["cost_usd"])
        return ModelReply(done["text"], calls, done["model"], *bill, window=done["window"], note=" ".join(told))

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
        request: dict[str, Any] = {
            "models": self._names,
            "messages": [_as_openai(said) for said in paired(messages)],
            "patience_s": self._patience_s,
        }
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


def _failure(said: Mapping[str, Any]) -> AppError:
    if said["too_long"]:
        return TooLong(said["text"])
    return Unavailable(said["text"], retry_after_s=said["retry_after_s"]) if said["later"] else ModelError(said["text"])


class ModelChain:
    """The models behind the gateway, then the planner of rules."""

    def __init__(self, models: Model | None, rules: Model) -> None:
        """`models` may fail, or be none; `rules` needs nothing and always answers."""
        self._models = models
        self._rules = rules

    async def stream(self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]) -> AsyncIterator[Piece]:
        """The first whole answer. What is told of how it came about is told once a turn.

        Raises:
            TooLong: a shorter conversation may be answered.
        """
        why = ""
        if self._models is not None:
            try:
                async for piece in self._models.stream(messages, tools):
                    yield _told_once(piece, messages)
            except TooLong:
                raise  # of no use to rules either: they would answer the end of a conversation that goes on
            except AppError as error:
                why = f"{error.text} {BY_RULES}"
                log.warning("no model answered", extra={"cause": error.text})
            else:
                return
        async for piece in self._rules.stream(messages, tools):
            yield _told_once(replace(piece, note=why) if isinstance(piece, ModelReply) else piece, messages)


def _told_once(piece: Piece, messages: Sequence[ModelMessage]) -> Piece:
    told = isinstance(piece, ModelReply) and piece.note and _spoke(piece.model, messages)
    return replace(piece, note="") if told and isinstance(piece, ModelReply) else piece


def _spoke(model: str, messages: Sequence[ModelMessage]) -> bool:
    """Whether this model has said something in this turn before."""
    turn = itertools.takewhile(lambda said: said.role is not Role.USER, reversed(messages))
    return any(said.model == model and said.text for said in turn if said.role is Role.ASSISTANT)
