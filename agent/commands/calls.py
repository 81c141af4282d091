"""Commands as calls of tools: the dispatcher applies the same rules to them as to a model's calls.

What people must approve first is called within a turn (`call_in`), so that its question is asked and answered like any
other.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent.commands.help import help_content
from agent.commands.registry import COMMANDS, GROUPS, command_of, meant
from agent.commands.typed import words_of
from agent.commands.words import split
from agent.domain.content import Content
from agent.domain.errors import BadRequest
from agent.domain.ids import new_ulid
from agent.domain.policy import Effect
from agent.ports import ModelMessage, ToolCall
from agent.tools.dispatch import Dispatcher, NeedsApproval
from agent.tools.tool import Caller
from agent.tools.training.programs import REQUIREMENTS


def asks_people(words: Sequence[str], dispatcher: Dispatcher) -> bool:
    """Whether a command is one that people always approve first. Raises `BadRequest` where it cannot be read."""
    try:
        command, rest = meant(words)
    except BadRequest:
        return False  # `carry_out` says so
    if dispatcher.effect(command.tool) not in {Effect.SPEND, Effect.DESTROY}:
        return False
    command.arguments(rest)
    return True


def may_take_long(words: Sequence[str], dispatcher: Dispatcher) -> bool:
    """Whether a command may hold up others: it plans what people are asked about, or waits for a host or a model."""
    tool = _tool_of(words)
    return bool(tool) and dispatcher.takes_long(tool)


def changes(words: Sequence[str], dispatcher: Dispatcher) -> bool:
    """Whether a command changes something, so that it is waited for whatever people say."""
    return dispatcher.effect(_tool_of(words)) is not Effect.READ


def _tool_of(words: Sequence[str]) -> str:
    """The tool of a command; empty where there is none, which `carry_out` says."""
    try:
        command, rest = meant(words)
    except BadRequest:
        return ""
    return command.meant(rest).tool


def command_call_id(turn_id: str) -> str:
    """The id of the call that a turn's request makes as a command."""
    return f"command-{turn_id}"


def call_in(asked: ModelMessage, turn_id: str, dispatcher: Dispatcher) -> ToolCall | None:
    """The call that a turn's request makes as a command, without a model; None where it is for the model.

    It is made of what is stored, so that a turn that was cut off makes the same call again. A file that came with it is
    the one that is meant.

    Raises:
        BadRequest: the command cannot be read.
    """
    words = words_of(asked.text)
    if not words or (command_of(words[0]) is None and words[0].lower() not in GROUPS):
        return None
    command, rest = meant(words)
    if not dispatcher.asks(command.tool):
        return None
    files = [file.name for file in asked.files]
    if command.other is not None and command.meant(rest) is command:
        rest = (*[file.name for file in asked.files if file.is_program][:1], *rest)
    arguments = command.arguments(rest)
    tool = command.meant(rest).tool
    if tool == "start_script":
        beside = [name for name in files if name != arguments["file"]]
        arguments.setdefault("data", [name for name in beside if name != REQUIREMENTS])
        if REQUIREMENTS in beside:
            arguments.setdefault("requirements", REQUIREMENTS)
    elif command.name in {"update", "start"} and files:
        arguments.setdefault("file", files[0])
    return ToolCall(command_call_id(turn_id), tool, json.dumps(arguments))


def typed(call: ToolCall) -> str:
    """How people type what a call does, such as `budget thread usd=30`; empty where no command does it."""
    commands = (one for command in COMMANDS.values() for one in (command, command.other) if one is not None)
    command = next((one for one in commands if one.tool == call.name), None)
    if command is None:
        return ""
    try:
        given = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        given = {}
    said = given if isinstance(given, Mapping) else {}
    values = [(option, said.get(option.target)) for option in command.options]
    words = [word for option, value in values if value for word in option.written_as(_shown(value), split)]
    return " ".join((command.name, *words))


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def command_answer(answer: str) -> str:
    """What people are told of the answer to a command's call."""
    result: dict[str, Any] = json.loads(answer)
    return str(result.get("error") or result.get("text") or "Done.")


async def carry_out(words: Sequence[str], caller: Caller, dispatcher: Dispatcher) -> Content | None:
    """What a command answers; None where people have to be asked about it, in a turn.

    Raises:
        AppError: it cannot be done; the text says why.
    """
    if not words or words[0].lower() == "help":
        return help_content(*words[1:])
    if len(words) == 1 and words[0].lower() in GROUPS:
        return help_content(words[0])
    result = await dispatcher.call(caller, _call_of(words))
    if isinstance(result, NeedsApproval):
        return None
    return Content(text="" if result.card else result.text, card=result.card, files=result.files)


async def write_down(words: Sequence[str], caller: Caller, dispatcher: Dispatcher) -> None:
    """Have a command that was done before a restart in the audit log, where it may stand already."""
    await dispatcher.write_down(caller, _call_of(words))


def _call_of(words: Sequence[str]) -> ToolCall:
    command, rest = meant(words)
    arguments = command.arguments(rest)
    return ToolCall(new_ulid(), command.meant(rest).tool, json.dumps(arguments))
