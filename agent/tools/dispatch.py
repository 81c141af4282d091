"""The one way to a tool. Applies argument models, policy, time limits and output caps to every caller."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from agent.domain.errors import AppError, BadRequest, NotAllowed, TransientError
from agent.domain.ids import new_ulid
from agent.domain.policy import Effect, Verdict, judge
from agent.ports import ToolCall, ToolSchema
from agent.tools.tool import OUTPUT_CAP_CHARS, Arguments, Caller, Plan, Result, Tool

log = logging.getLogger(__name__)
T = TypeVar("T")
GUEST = "Guests of another organisation may look, but not start or stop anything here."
UNASKED = "Nobody asked for this, so it is not done. Propose it in words, and leave the decision to people."


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """The call waits for people; `plan` is what they are asked."""

    tool: Tool
    plan: Plan


class Dispatcher:
    """Tools by name."""

    def __init__(self, tools: Mapping[str, Tool], *, workspace: bool = False) -> None:
        """`tools` by their own names. `workspace` opens runs to all channels of a workspace."""
        self._tools = tools
        self._workspace = workspace
        self._schemas = tuple(tool.schema() for tool in tools.values())

    def schemas(self) -> tuple[ToolSchema, ...]:
        """What a model is offered."""
        return self._schemas

    def effect(self, name: str) -> Effect:
        """The effect of a tool; READ for an unknown one, whose call only answers that it is unknown."""
        tool = self._tools.get(name)
        return tool.effect if tool else Effect.READ

    def asks(self, name: str) -> bool:
        """Whether people may be asked about a call of this tool."""
        return name in self._tools and self._tools[name].plan is not None

    async def call(self, caller: Caller, call: ToolCall) -> Result | NeedsApproval:
        """Carry out a call, or say that people have to be asked.

        Raises:
            AppError: it cannot be done; the text says why.
        """
        caller = replace(caller, workspace=self._workspace)
        tool = self._tools.get(call.name)
        if tool is None:
            raise BadRequest(f"There is no tool `{call.name}`. Tools: {', '.join(self._tools)}.")
        arguments = _parsed(tool, call.arguments)
        verdict = judge(tool.effect, person=caller.person, unattended=caller.unattended)
        if verdict is Verdict.DENY:
            raise NotAllowed(UNASKED if caller.unattended else GUEST)
        if tool.run is not None:
            return await self._limited(tool, tool.run(caller, arguments))
        if tool.plan is None:
            raise BadRequest(f"`{tool.name}` cannot be called.")
        planned = await self._limited(tool, tool.plan(caller, arguments))
        return planned if isinstance(planned, Result) else NeedsApproval(tool, planned)

    async def execute(self, name: str, caller: Caller, exact: dict[str, JsonValue], token: str) -> Result:
        """Do what was approved; a repetition with the same token does nothing new."""
        caller = replace(caller, workspace=self._workspace)
        tool = self._tools[name]
        if tool.execute is None:
            raise BadRequest(f"`{name}` needs no approval.")
        return await self._limited(tool, tool.execute(caller, exact, token))

    async def _limited(self, tool: Tool, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(tool.timeout_s):
                return await work
        except TimeoutError:
            raise TransientError(f"`{tool.name}` took longer than {tool.timeout_s:.0f} s and was given up.") from None


def _parsed(tool: Tool, raw: str) -> Arguments:
    try:
        return tool.arguments.model_validate_json(raw or "{}")
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in error.errors()[:5]
        )
        raise BadRequest(f"`{tool.name}` cannot use these arguments ({wrong}).") from error


def answer_of(result: Result) -> str:
    """A result as a model reads it: JSON, capped; the longest parts are left out first, and named."""
    parts = {name: _json(value) for name, value in result.data.items()}
    cut: list[str] = []
    text = result.text[: OUTPUT_CAP_CHARS // 2]
    while parts and len(text) + sum(map(len, parts.values())) > OUTPUT_CAP_CHARS:
        longest = max(parts, key=lambda name: len(parts[name]))
        del parts[longest]
        cut.append(longest)
    kept = {name: value for name, value in result.data.items() if name in parts}
    return _json({"text": text, **kept} | ({"too_long_to_show": cut} if cut else {}))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def failure_of(error: Exception, call: ToolCall) -> str:
    """An error as a model reads it. A bug gets an id that people can report."""
    if isinstance(error, AppError):
        return json.dumps({"error": error.text}, ensure_ascii=False)
    bug = new_ulid()[-8:]
    log.error("tool failed", extra={"bug": bug, "tool": call.name}, exc_info=error)
    return json.dumps({"error": f"`{call.name}` broke (id {bug}); the log has the details."})
