"""The declaration of a tool: name, argument model, effect, time limit, output cap."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from agent.domain.content import Card, Document
from agent.domain.inbound import Person, Thread
from agent.domain.policy import Effect
from agent.ports import ToolSchema

OUTPUT_CAP_CHARS = 12_000


class Arguments(BaseModel):
    """What a tool takes. Unknown names are refused, so that a misspelt one is not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a tool runs. `turn_id` is empty for commands and buttons.

    `unattended` says that nobody asked: the monitor noticed something, and may propose but change nothing. `workspace`
    says that runs are open to all channels of the workspace.
    """

    person: Person
    session_id: str
    thread: Thread
    turn_id: str = ""
    unattended: bool = False
    workspace: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """`text` is fit for people; `data` has what a model needs beyond it; a `card` and `files` are shown."""

    text: str
    data: dict[str, JsonValue] = field(default_factory=dict)
    card: Card | None = None
    files: tuple[Document, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The exact arguments that an approval stores, and the card (with what is too long for it) that shows them.

    `owner` is the key of the person whose run it is about, who decides then; empty: the person who asked.
    """

    exact: dict[str, JsonValue]
    card: Card
    files: tuple[Document, ...] = ()
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing the bot can do.

    A tool that is asked about first has `plan` (loose arguments to exact ones, nothing done yet) and `execute` (the
    exact ones, once; `token` makes a repetition harmless). A plan that finds nothing to ask about does it, and gives
    the result. Every other tool has `run`.
    """

    name: str
    description: str
    arguments: type[Arguments]
    effect: Effect
    run: Callable[[Caller, Any], Awaitable[Result]] | None = None
    plan: Callable[[Caller, Any], Awaitable[Plan | Result]] | None = None
    execute: Callable[[Caller, dict[str, JsonValue], str], Awaitable[Result]] | None = None
    timeout_s: float = 30.0

    def schema(self) -> ToolSchema:
        """The tool as a model sees it."""
        return ToolSchema(self.name, self.description, _schema_of(self.arguments))


@cache
def _schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """As JSON schema; made once a process, which takes a millisecond a tool."""
    return arguments.model_json_schema()
