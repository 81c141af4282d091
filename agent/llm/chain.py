"""The chain of models: those that the gateway asks, then the planner of rules, which always answers.

`GatewayModel` reaches the gateway's process through its socket; it imports no vendor. Who is asked when, and again, is
decided there (`agent.llm.asking`).
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
from agent.domain.errors import AppError, ModelError, TooLong, Unavailable
from agent.domain.models import Effort, ModelFacts, Preference, split_name
from agent.ports import OFFLINE, Model, ModelMessage, ModelNotice, ModelReply, Piece, Role, ToolCall, ToolSchema, Unused

log = logging.getLogger(__name__)
LINE_LIMIT_BYTES = 16_000_000
SILENCE_S = 130.0  # longer than the gateway's own limit, which has the better words
START_WAIT_S = 5.0  # a gateway listens before it imports anything heavy
BYTES_A_TOKEN = 4  # in an estimate
START_S = 60.0  # until it has loaded LiteLLM, on a slow machine
ASK_S = 10.0
COUNT_S = 5.0
NOTHING = {"tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0}
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")  # OpenAI takes these signs in the name of a tool, and 64 of them at most
NAME_CHARS = 64
NO_ANSWER_YET = '{"text": "No answer yet: this call waits for people or was overtaken by a newer message."}'
BY_RULES = "So I go by rules:"
CUTS = {  # by the reason that an answer ended for
    "length": "This answer was cut off at the model's limit; say `go on` for the rest.",
    "content_filter": "The provider ended this answer because of its content.",
}


class GatewayModel:
    """The models that the gateway asks, in their order, by LiteLLM's names.

    `name@url` names an OpenAI-compatible server, e.g. `openai/qwen3@http://…/v1`.
    """

    def __init__(
        self,
        names: Sequence[str],
        socket: Path,
        *,
        effort: Effort = "",
        patience_s: float = 0.0,
        silence_s: float = SILENCE_S,
        unused: Unused | None = None,
    ) -> None:
        """`socket` is the gateway's; `silence_s` the longest wait for its next line.

        Where all of them failed they are asked again until `patience_s` after that. A model without levels of `effort`
        answers in its own way. `unused` hears of what was paid for and answered nothing; of an answer that is given up,
        tokens and cost are estimated.
        """
        self._names = list(names)
        self.name = split_name(names[0])[0]
        self._socket = socket
        self._effort = effort
        self._patience_s = patience_s
        self._silence_s = silence_s
        self._unused = unused or (lambda _: None)

    async def stream(self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]) -> AsyncIterator[Piece]:
        """Text as it comes, then the whole reply.

        Raises:
            ModelError: refused, or garbled.
            Unavailable: it may answer later.
        """
        request = json.dumps(self._request(messages, tools)).encode() + b"\n"
        if len(request) > LINE_LIMIT_BYTES:
            raise TooLong(f"The conversation is too long for {self.name}. Start a new thread.")
        reader, writer = await _connect(self._socket)
        owed = _Owed(self.name, len(request) // BYTES_A_TOKEN)
        try:
            async with asyncio.timeout(self._silence_s):
                writer.write(request)
                await writer.drain()
            while True:
                async with asyncio.timeout(self._silence_s):  # `wait_for` of Python 3.11 can swallow a cancellation
                    line = await reader.readline()
                said = _said(line)
                owed.hear(said)
                piece = _piece(said)
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
            if owed.tokens_in or owed.tokens_out:
                self._unused(ModelReply("", (), owed.model, owed.tokens_in, owed.tokens_out, owed.cost_usd))

    def _request(self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]) -> dict[str, Any]:
        request: dict[str, Any] = {
            "models": self._names,
            "messages": [_as_openai(said) for said in paired(messages)],
            "effort": self._effort,
            "patience_s": self._patience_s,
        }
        if messages and messages[-1].facts:
            request["facts"] = f"[note of Trainyard: {messages[-1].facts}]"
        if tools:
            request["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
                }
                for tool in tools
            ]
        return request


class _Owed:
    """What was paid for and answered nothing: what the gateway counted, and an estimate of what has not ended."""

    def __init__(self, model: str, reads: int) -> None:
        """`reads` is about how many tokens a model has to read."""
        self.model, self._reads = model, reads
        self.tokens_in, self.tokens_out = 0, 0
        self.cost_usd: float | None = 0.0
        self._price: Sequence[float] | None = None  # of a token in, and of one out

    def hear(self, said: Mapping[str, Any]) -> None:
        """Take what the gateway says next."""
        if "text" in said:
            self._add(0, 1)  # about a token each
            return
        bill = NOTHING if "done" in said else said.get("error", said)
        self.tokens_in, self.tokens_out, self.cost_usd = _bill(bill)
        if "asked" in said:
            self.model, self._price = said["asked"], said["price"]
            self._add(self._reads, 0)

    def _add(self, tokens_in: int, tokens_out: int) -> None:
        self.tokens_in, self.tokens_out = self.tokens_in + tokens_in, self.tokens_out + tokens_out
        if self.cost_usd is None or self._price is None:
            self.cost_usd = None
        else:
            self.cost_usd += tokens_in * self._price[0] + tokens_out * self._price[1]


def _said(line: bytes) -> dict[str, Any]:
    """One line of the gateway. Raises `ValueError` or `TypeError` where it is none of its."""
    if not line.endswith(b"\n"):
        raise Unavailable("The process that talks to language models ended in the middle of an answer.")
    said = json.loads(line)
    if not isinstance(said, dict):
        raise TypeError("a line that is no object")
    return said


def _piece(said: Mapping[str, Any]) -> Piece:
    if "text" in said:
        return _whole(str(said["text"]))
    if "notice" in said:
        return ModelNotice(said["notice"])
    if "error" in said:
        raise _failure(said["error"])
    if "asked" in said:
        return ""
    done = said["done"]
    calls = tuple(ToolCall(*call) for call in done["calls"])
    told = [f"{done['instead']} So {done['model']} answers:"] if done["instead"] else []
    told += [CUTS[done["finish"]]] if done["finish"] in CUTS and not calls else []
    return ModelReply(
        _whole(done["text"]),
        calls,
        done["model"],
        *_bill(done),
        failed_tokens=done["failed_tokens"],
        window=done["window"],
        note=" ".join(told),
    )


def _bill(said: Mapping[str, Any]) -> tuple[int, int, float | None]:
    return said["tokens_in"], said["tokens_out"], said["cost_usd"]


def _whole(text: str) -> str:
    """A text without halves of characters, which nothing can store; a model's limit leaves some."""
    return text.encode(errors="ignore").decode()


async def _connect(socket: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect; right after the bot's start, or after the gateway died, it may not listen yet."""
    loop = asyncio.get_running_loop()
    until = loop.time() + START_WAIT_S
    while True:
        try:
            return await asyncio.open_unix_connection(str(socket), limit=LINE_LIMIT_BYTES)
        except OSError as error:
            if loop.time() > until:
                raise Unavailable("The process that talks to language models is not running.") from error
            await asyncio.sleep(0.1)


async def facts_of(names: Sequence[str], socket: Path, *, ask_s: float) -> Sequence[ModelFacts]:
    """What the gateway knows of models; each is asked for a word, all at once, for `ask_s` (0: nobody is asked).

    Raises:
        Unavailable: the gateway does not answer.
    """
    facts = await _told(socket, {"about": list(names), "ask_s": ask_s}, "facts", limit_s=ask_s + START_S)
    return [ModelFacts(**each) for each in facts]


async def _told(socket: Path, request: Mapping[str, Any], key: str, *, limit_s: float) -> Any:
    """What the gateway answers in one line. Raises `Unavailable`: it does not."""
    reader, writer = await _connect(socket)
    try:
        async with asyncio.timeout(limit_s):
            writer.write(json.dumps(request).encode() + b"\n")
            return json.loads(await reader.readline())[key]
    except (TimeoutError, OSError, ValueError, KeyError) as error:
        raise Unavailable("The process that talks to language models does not answer.") from error
    finally:
        writer.close()


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
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _named(call.name), "arguments": _object(call.arguments)},
            }
            for call in said.calls
        ]
    if said.role is Role.TOOL:
        message["tool_call_id"] = said.call_id
    return message


def _named(tool: str) -> str:
    """A name that a model has called as providers take it: they refuse a conversation for ever with another in it."""
    return _NO_NAME.sub("_", tool.strip())[:NAME_CHARS] or "unknown"


def _object(arguments: str) -> str:
    """Arguments as the JSON object that providers insist on; what a model wrote instead is kept inside of one."""
    try:
        usable = isinstance(json.loads(arguments or "{}"), dict)
    except (ValueError, RecursionError):
        usable = False
    return (arguments or "{}") if usable else json.dumps({"not_json": arguments})


def _failure(said: Mapping[str, Any]) -> AppError:
    if said["too_long"]:
        return TooLong(said["text"])
    return Unavailable(said["text"], retry_after_s=said["retry_after_s"]) if said["later"] else ModelError(said["text"])


class GatewayModels:
    """`agent.ports.Models`: those of the settings, behind the gateway, with the planner of rules at the end."""

    def __init__(
        self, names: tuple[str, ...], socket: Path, rules: Model, *, patience_s: float, silence_s: float
    ) -> None:
        """`patience_s` and `silence_s` as of `GatewayModel`."""
        self.names = names
        self._socket = socket
        self._rules = rules
        self._patience_s = patience_s
        self._silence_s = silence_s

    def model(self, preference: Preference, unused: Unused | None = None) -> Model:
        """The chain of them, as people prefer it; `unused` hears of what was paid for and answered nothing."""
        models = GatewayModel(
            preference.order(self.names),
            self._socket,
            effort=preference.effort,
            patience_s=self._patience_s,
            silence_s=self._silence_s,
            unused=unused,
        )
        return ModelChain(models, self._rules)

    async def facts(self, *, ask: bool = True) -> Sequence[ModelFacts]:
        """What is known of each; to `ask` costs a few tokens. Raises `Unavailable` where nothing can be known."""
        return await facts_of(self.names, self._socket, ask_s=ASK_S if ask else 0)

    async def has_efforts(self, name: str) -> bool:
        """Whether this one has levels of effort; nobody is asked. Raises `Unavailable`."""
        (facts,) = await facts_of((name,), self._socket, ask_s=0)
        return facts.efforts

    async def tokens(self, preference: Preference, messages: Sequence[ModelMessage]) -> int:
        """How many tokens these have for the first of the chain; nobody is asked. Raises `Unavailable`."""
        request = {"count": preference.order(self.names)[0], "messages": [_as_openai(said) for said in messages]}
        return int(await _told(self._socket, request, "tokens", limit_s=COUNT_S))


class ModelChain:
    """The models behind the gateway, then the planner of rules."""

    def __init__(self, models: Model | None, rules: Model) -> None:
        """`models` may fail, or be none; `rules` needs nothing and always answers."""
        self._models = models
        self._rules = rules

    async def stream(self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]) -> AsyncIterator[Piece]:
        """The first whole answer. What is told of how it came about is told once a turn.

        Where the rules have answered, they carry the turn on: each step would wait for the same models again.

        Raises:
            TooLong: a shorter conversation may be answered.
        """
        why = ""
        if self._models is not None and not _by_rules(messages):
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
            yield _told_once(_by_rules_since(why, piece) if isinstance(piece, ModelReply) else piece, messages)


def _by_rules_since(why: str, reply: ModelReply) -> ModelReply:
    """A reply of the rules with why it is theirs; of calls without words that is all they say."""
    return replace(reply, text=f"_{why}_") if why and reply.calls and not reply.text else replace(reply, note=why)


def _told_once(piece: Piece, messages: Sequence[ModelMessage]) -> Piece:
    told = isinstance(piece, ModelReply) and piece.note and _spoke(piece.model, messages)
    return replace(piece, note="") if told and isinstance(piece, ModelReply) else piece


def _spoke(model: str, messages: Sequence[ModelMessage]) -> bool:
    """Whether this model has said something in this turn before."""
    return any(said.model == model and said.text for said in _replies(messages))


def _by_rules(messages: Sequence[ModelMessage]) -> bool:
    """Whether the rules have answered in this turn before."""
    return any(said.model == OFFLINE for said in _replies(messages))


def _replies(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """What models have said since the newest words of people."""
    turn = itertools.takewhile(lambda said: said.role is not Role.USER, reversed(messages))
    return [said for said in turn if said.role is Role.ASSISTANT]
