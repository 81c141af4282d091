"""What a tool declares (arguments, effect, roles, limits, cost), and what a family of tools is."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator

from agent.domain.content import Card, Document
from agent.domain.inbound import Person, Thread
from agent.domain.policy import ROLES, Effect, Role, may_read
from agent.ports import ToolSchema

USUAL_LIMIT_S = 30.0
USUAL_CAP_CHARS = 12_000
BUTTONS_ONLY = "x-buttons-only"  # of an argument's schema: people's buttons carry it, models are not told of it
_SAID = frozenset({"type", "description", "enum", "const", "items", "prefixItems", "required", "allOf", "oneOf"})


class Arguments(BaseModel):
    """What a tool takes. Unknown names are refused, so that a misspelt one is not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        """Models write `null` for an option that they leave out, also where it has a usual value."""
        return {k: v for k, v in given.items() if v is not None} if isinstance(given, Mapping) else given


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a tool runs. `turn_id` is empty for commands and buttons.

    `unattended` says that nobody asked: the monitor noticed something, and may propose but change nothing. `shared`
    says that others' words may be behind a call (of people, or in files and logs that a model read), so that nothing is
    done on this person's name alone but what their own `words` of this turn ask for. `workspace` says that runs are
    open to all channels of the workspace. `act` is the outbox key of a command's word in the thread; what is stored
    together with that word is not done once more when the command is repeated after a restart.
    """

    person: Person
    session_id: str
    thread: Thread
    turn_id: str = ""
    unattended: bool = False
    shared: bool = False
    words: tuple[str, ...] = ()
    workspace: bool = False
    act: str = ""

    def may_read(self, home: Thread) -> bool:
        """Whether this person may hear here of what belongs to the thread `home`."""
        return may_read(self.person, here=self.thread, home=home, workspace=self.workspace)


@dataclass(frozen=True, slots=True)
class Result:
    """`text` is fit for people; `data` has what a model needs beyond it; a `card` and `files` are shown.

    A card with a `post` replaces the one of that name that its turn has shown before. With `choices` the text is a
    question: the turn waits until people answer it, and what they answer is the result. `tokens` and `cost_usd` are
    what language models took for it.
    """

    text: str
    data: dict[str, JsonValue] = field(default_factory=dict)
    card: Card | None = None
    files: tuple[Document, ...] = ()
    post: str = ""
    choices: tuple[str, ...] = ()
    tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The exact arguments that an approval stores, and the card (with what is too long for it) that shows them.

    `owner` is the key of the person whose run it is about, who decides then; empty: the person who asked. `instead`
    says that it takes the place of what this tool asked last and waits, if that asked the same person.
    """

    exact: dict[str, JsonValue]
    card: Card
    files: tuple[Document, ...] = ()
    owner: str = ""
    instead: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """One thing the bot can do.

    A tool that is asked about first has `plan` (loose arguments to exact ones, nothing done yet) and `execute` (the
    exact ones, once; `token` makes a repetition harmless). A plan that finds nothing to ask about does it, and gives
    the result. Every other tool has `run`.

    `limit_s` ends a call, plan or execution that takes longer. `cap_chars` is the most of an answer that a model reads.
    `beside` says that it may run at the same time as others of one reply, `roles` who may call it; where these are
    unsaid, its effect decides. `cost` says what exact arguments cost, which their card shows; what spends has one.
    What is not `offered` is for commands, not for models. `quotes` says that answers and errors may hold what neither
    the person nor we wrote (rows, logs, names, pages); a tool that answers in our own words alone says that it does
    not. `polls` says that it looks at what goes on: unless a result names a `state` that has ended, the same call
    counts as a circle much later.

    `cut` says that people who stop its turn may end a call before it is through. Where it is unsaid, that is so for
    what reads, and for what spends, as its plan changes nothing.

    A caller behind whom others' words may be is asked about what `run` changes, unless that is `harmless`, or the
    person's own words ask for just these arguments (`own`). `exact` fills in what was left out, for the card.

    `spends_again` says that it lets a run that is over take what is left of its hours, so that its card shows budgets.

    What is `on_demand` is offered to models once it was called, or found by a tool that `finds`: one whose results name
    such tools as `tools`.

    `parameters` is the JSON schema of a tool of somebody else's server, which knows no token: its `execute` is begun
    once, and where it is cut off its outcome is unknown.
    """

    name: str
    description: str
    arguments: type[Arguments]
    effect: Effect
    run: Callable[[Caller, Any], Awaitable[Result]] | None = None
    plan: Callable[[Caller, Any], Awaitable[Plan | Result]] | None = None
    execute: Callable[[Caller, dict[str, JsonValue], str], Awaitable[Result]] | None = None
    limit_s: float = USUAL_LIMIT_S
    cap_chars: int = USUAL_CAP_CHARS
    beside: bool | None = None
    roles: frozenset[Role] | None = None
    cost: Callable[[Mapping[str, JsonValue]], str] | None = None
    offered: bool = True
    quotes: bool = True
    polls: bool = False
    harmless: bool = False
    own: Callable[[Caller, Any], Awaitable[bool]] | None = None
    exact: Callable[[Caller, Any], Awaitable[Arguments]] | None = None
    parameters: dict[str, Any] | None = None
    on_demand: bool = False
    spends_again: bool = False
    cut: bool | None = None
    finds: bool = False

    def __post_init__(self) -> None:
        """Refuse a declaration that could not be carried out."""
        if (self.run is None) == (self.plan is None) or (self.plan is None) != (self.execute is None):
            raise ValueError(f"{self.name} has either `run`, or `plan` and `execute`")
        if self.effect is Effect.SPEND and self.cost is None:
            raise ValueError(f"{self.name} spends, so it has to say what it costs")

    def allows(self, role: Role) -> bool:
        """Whether somebody in this role may call it."""
        return role in (ROLES[self.effect] if self.roles is None else self.roles)

    @property
    def needs_run(self) -> bool:
        """Whether it is about runs, so that it is of use once one is known."""
        return not {"run", "runs"}.isdisjoint(self.arguments.model_fields)

    @property
    def may_be_cut(self) -> bool:
        """Whether people may end a call of it before it is through."""
        return self.effect in {Effect.READ, Effect.SPEND} if self.cut is None else self.cut

    @property
    def runs_beside(self) -> bool:
        """Whether it may run at the same time as other calls of one reply."""
        return self.effect is Effect.READ if self.beside is None else self.beside

    def schema(self) -> ToolSchema:
        """The tool as a model sees it."""
        parameters = _schema_of(self.arguments) if self.parameters is None else self.parameters
        return ToolSchema(self.name, self.description, parameters)


class Toolset(Protocol):
    """A family of tools that belong together; the composition hands all of them to the dispatcher."""

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""


@cache
def _schema_of(arguments: type[Arguments]) -> dict[str, Any]:
    """As JSON schema; made once a process, which takes a millisecond a tool."""
    schema = arguments.model_json_schema()
    schema.pop("description", None)  # the tool's own says it
    return dict(_short(schema, schema.pop("$defs", {})))


def _short(schema: Any, parts: Mapping[str, Any]) -> Any:
    """The schema without what a model has no use for; `parts` are those that it names.

    Without titles, nulls, bounds and what only a button carries: a wrong call is told what is wrong with it.
    """
    if isinstance(schema, list):
        return [_short(part, parts) for part in schema]
    if not isinstance(schema, dict):
        return schema
    some = [part for part in schema.get("anyOf", ()) if part != {"type": "null"}]
    if len(some) == 1:
        schema = {**some[0], **schema}
    if "$ref" in schema:
        schema = {**parts[schema["$ref"].rpartition("/")[2]], **schema}
    kept = {key: _short(value, parts) for key, value in schema.items() if key in _SAID}
    kept |= {"examples": schema["examples"]} if "examples" in schema else {}
    if "anyOf" in schema and len(some) > 1:
        kept["anyOf"] = _short(some, parts)
    if schema.get("default"):
        kept["default"] = schema["default"]
    if "properties" in schema:
        named = schema["properties"].items()
        kept["properties"] = {name: _short(part, parts) for name, part in named if BUTTONS_ONLY not in part}
    return kept
