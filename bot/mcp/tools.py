"""Makes tools of what a server lists: its schema and limits, the question before what may change something, its answer.

Nothing that a server says about itself is believed: what only reads stands in the file, and its answers quote others.
"""

import base64
import binascii
import json
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import best_match
from jsonschema.validators import create
from mcp.types import CallToolResult, ContentBlock, ImageContent, TextContent
from mcp.types import Tool as Listed
from pydantic import ConfigDict, JsonValue

from agent.cards import counted, shows_all
from agent.conversation.context import BYTES_A_TOKEN
from agent.domain.content import Card, Document, Fact
from agent.domain.errors import BadRequest, Conflict
from agent.domain.policy import ROLES, Effect
from agent.domain.redaction import hidden
from agent.tools.dispatch import WHOLE_CHARS
from agent.tools.tool import Arguments, Caller, Plan, Result, Tool
from bot.mcp.config import ServerConfig

log = logging.getLogger(__name__)
DESCRIPTION_CHARS, NAME_CHARS, ERROR_CHARS = 400, 64, 1_000
MOST_TOKENS = 900  # of what servers offer from the start; with ours under 6,000 of what a model reads
LONGEST_SCHEMA = 6_000  # characters; a tool with a longer one is left out
FACTS, FACTS_CHARS = 12, 2_500  # arguments that every platform shows on one card
TOOLS, PICTURES, PICTURE_BYTES = 100, 4, 8_000_000
ENDINGS = {b"\x89PNG\r\n": "png", b"\xff\xd8\xff": "jpg"}  # by how a file begins
TERMS = "The server does this with rights of its own. It cannot be undone here, and is not repeated by itself."
HIDDEN = (
    "One of these arguments looks like a secret. No card shows it, so nobody could decide about it: leave it out, and "
    "give it to the server in the file of TRAINYARD_MCP."
)
NOT_SENT = frozenset({"$schema", "title", "anyOf", "oneOf", "allOf"})  # providers refuse these beside the properties
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")  # and other names of arguments
# Without references, patterns and combinations: checking those takes as long as whoever wrote the schema likes.
CHECKED = ("type", "enum", "const", "required", "properties", "items", "minimum", "maximum", "maxLength", "maxItems")
CHECKS = create(
    meta_schema=Draft202012Validator.META_SCHEMA,
    validators={key: Draft202012Validator.VALIDATORS[key] for key in CHECKED},
    type_checker=Draft202012Validator.TYPE_CHECKER,
)

Call = Callable[[str, dict[str, JsonValue]], Awaitable[CallToolResult]]
Keep = Callable[[bytes, str], Awaitable[Document]]


class Anything(Arguments):
    """Arguments that the server's own schema names."""

    model_config = ConfigDict(extra="allow")


class Offer(NamedTuple):
    """The tools of a server, and about how many tokens those take that are offered from the start."""

    tools: tuple[Tool, ...] = ()
    tokens: int = 0

    @property
    def on_demand(self) -> tuple[Tool, ...]:
        """Those that are looked for first."""
        return tuple(tool for tool in self.tools if tool.on_demand)


def fitting(tools: Sequence[Tool], room: int) -> Offer:
    """The tools, of which those are offered from the start that fit into so many tokens, rather too few."""
    made, used = [], 0
    for tool in tools:
        tokens = len(json.dumps([tool.name, tool.description, tool.parameters]).encode()) // BYTES_A_TOKEN
        fits = used + tokens <= room
        used += tokens if fits else 0
        made.append(tool if fits else replace(tool, on_demand=True))
    return Offer(tuple(made), used)


def tools_of(server: str, config: ServerConfig, listed: Sequence[Listed], call: Call, keep: Keep) -> tuple[Tool, ...]:
    """The tools of a server that are offered, each name once; what has no usable schema is not."""
    made: dict[str, Tool] = {}
    wanted = [one for one in listed if config.tools is None or one.name in config.tools]
    for one in wanted[:TOOLS]:
        whole = one.name if one.name.startswith(f"{server}_") else f"{server}_{one.name}"
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", whole)[:NAME_CHARS]
        schema = _schema(one.input_schema)
        if schema is None or name in made:
            log.warning("tool left out: its schema or its name cannot be used", extra={"tool": name})
            continue
        made[name] = _Remote(server, name, one, schema, call, keep).tool(config)
    return tuple(made.values())


def _schema(given: dict[str, Any]) -> dict[str, Any] | None:
    """The schema as every provider of models takes it; None where that cannot be."""
    schema = {"properties": {}} | {key: _untitled(value) for key, value in given.items() if key not in NOT_SENT}
    try:
        if len(json.dumps(schema)) > LONGEST_SCHEMA:
            return None
        Draft202012Validator.check_schema(schema)
    except (SchemaError, RecursionError):
        return None
    named = schema["properties"]
    fits = schema.get("type") == "object" and isinstance(named, dict) and all(map(PROPERTY.fullmatch, named))
    return schema if fits else None


def _untitled(part: Any) -> Any:
    """A part of a schema without its titles, which repeat the names."""
    if isinstance(part, list):
        return [_untitled(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {key: _untitled(one) for key, one in part.items() if key != "title" or not isinstance(one, str)}


@dataclass(frozen=True, slots=True)
class _Remote:
    """One tool of a server. `call` asks the server, `keep` stores a picture for the thread."""

    server: str
    name: str
    listed: Listed
    schema: dict[str, Any]
    call: Call
    keep: Keep

    def tool(self, config: ServerConfig) -> Tool:
        """Its declaration. Guests of other organisations do not see what the team's servers have."""
        reads = config.only_reads(self.listed.name)
        text = " ".join((self.listed.description or "").split())
        return Tool(
            self.name,
            text if len(text) <= DESCRIPTION_CHARS else f"{text[: DESCRIPTION_CHARS - 1]}…",
            Anything,
            Effect.READ if reads else Effect.SPEND,
            run=self.run if reads else None,
            plan=None if reads else self.plan,
            execute=None if reads else self.execute,
            cost=None if reads else lambda _exact: "unknown: the server names no price",
            limit_s=config.limit_s,
            roles=ROLES[Effect.SPEND],
            parameters=self.schema,
        )

    async def run(self, _caller: Caller, asked: Anything) -> Result:
        """What the server answers to a call that only reads."""
        return await self._result(await self.call(self.listed.name, self._checked(asked)), keep=self.keep)

    async def plan(self, _caller: Caller, asked: Anything) -> Plan:
        """The exact call and its card; the server is not asked. Raises `BadRequest` where the card hides some of it."""
        arguments = self._checked(asked)
        facts = tuple(Fact(name=f"Argument {_plain(name)}", value=_plain(value)) for name, value in arguments.items())
        whole = (Fact(name="Server", value=self.server), Fact(name="Tool", value=_plain(self.listed.name)), *facts)
        card = Card(kind="approval", title=f"Call {self.name}?", tone="warn", body=TERMS, facts=whole)
        long = sum(len(fact.name) + len(fact.value) for fact in facts) > FACTS_CHARS or len(facts) > FACTS
        if long or not shows_all(card) or any(len(fact.name) > NAME_CHARS for fact in facts):
            raise BadRequest("These arguments are too long for a card that people can decide about. Use shorter ones.")
        if any(hidden(words) != words for fact in facts for words in (fact.name, fact.value)):
            raise BadRequest(HIDDEN)
        return Plan({"server": self.server, "tool": self.listed.name, "arguments": arguments}, card)

    async def execute(self, _caller: Caller, exact: dict[str, JsonValue], _token: str) -> Result:
        """Call it as it was approved. Raises `Conflict` where the name is another server's by now."""
        tool, arguments = exact.get("tool"), exact.get("arguments")
        if exact.get("server") != self.server or not isinstance(tool, str) or not isinstance(arguments, dict):
            raise Conflict(f"`{self.name}` is not what was approved any more, so nothing was done. Ask again.")
        return await self._result(await self.call(tool, arguments))

    def _checked(self, asked: Anything) -> dict[str, JsonValue]:
        """The arguments. Raises `BadRequest` where they are not what the server's schema says."""
        arguments: dict[str, JsonValue] = asked.model_dump(mode="json")
        wrong = best_match(CHECKS(self.schema).iter_errors(arguments))
        if wrong is not None:
            where = ".".join(map(str, wrong.absolute_path)) or "arguments"
            raise BadRequest(f"`{self.name}` cannot use these arguments ({where}: {wrong.message[:ERROR_CHARS]}).")
        return arguments

    async def _result(self, answer: CallToolResult, keep: Keep | None = None) -> Result:
        """What a model reads of an answer, and its pictures. Raises `BadRequest` for an error of the tool."""
        parts: list[str] = []
        files: list[Document] = []
        for block in answer.content:
            file = await self._picture(block, len(files), keep) if isinstance(block, ImageContent) else None
            if file is not None:
                files.append(file)
            else:
                parts.append(_words(block))
        text = "\n".join(parts)[:WHOLE_CHARS]
        if answer.is_error:
            raise BadRequest(f"`{self.name}` answers with an error: {text[:ERROR_CHARS] or 'it says no more'}")
        data: dict[str, JsonValue] = {}
        structured = answer.structured_content
        if structured is not None and not _says(text, structured):
            data["structured"] = structured if len(json.dumps(structured)) <= WHOLE_CHARS else "too long to be read"
        if not files:
            return Result(text or ("" if data else "It answered nothing."), data)
        shown = f"`{self.name}` gave {counted(len(files), 'picture')}, which the thread shows."
        return Result(shown, {"said": text, **data} if text else data, files=tuple(files))

    async def _picture(self, block: ImageContent, number: int, keep: Keep | None) -> Document | None:
        """The file of a picture; None where it is none that the thread can show."""
        if keep is None or number == PICTURES or len(block.data) > PICTURE_BYTES * 4 // 3 + 4:
            return None
        try:
            data = base64.b64decode(block.data, validate=True)
        except (binascii.Error, ValueError):
            return None
        ending = next((ending for begins, ending in ENDINGS.items() if data.startswith(begins)), "")
        return await keep(data, f"{self.name}-{number + 1}.{ending}") if ending else None


def _plain(value: JsonValue) -> str:
    """A value on one line, as it is: nothing in it breaks the line, is unseen or turns letters round."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        value = json.dumps(value, ensure_ascii=False)
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in value)


def _words(block: ContentBlock) -> str:
    """The text of a part of an answer, or what it is."""
    if isinstance(block, TextContent):
        return block.text
    kind = {"image": "A picture", "audio": "A sound"}.get(block.type, "A resource")
    return f"({kind} is not shown.)"


def _says(text: str, structured: Any) -> bool:
    """Whether a text says the same: servers repeat what is structured as JSON, and wrap a plain answer as `result`."""
    if isinstance(structured, dict) and structured == {"result": text}:
        return True
    try:
        return bool(json.loads(text) == structured)
    except ValueError:
        return False
