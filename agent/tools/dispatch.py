"""Calls tools by name. Applies argument models, roles, time limits and output caps to every caller."""

import asyncio
import contextlib
import difflib
import json
import logging
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from pydantic import JsonValue, ValidationError

from agent.cards import counted, duration, shows_all
from agent.domain.content import Card, Fact
from agent.domain.errors import AppError, BadRequest, NotAllowed, TransientError, Unavailable
from agent.domain.ids import new_ulid
from agent.domain.policy import Effect, Role, role_of
from agent.domain.redaction import hidden, without_secrets
from agent.ports import ModelMessage, ToolCall, ToolSchema
from agent.tools.auditing import Acts
from agent.tools.tool import USUAL_CAP_CHARS, USUAL_LIMIT_S, Arguments, Caller, Plan, Result, Tool, Toolset

log = logging.getLogger(__name__)
T = TypeVar("T")
MOST_ON_DEMAND = 8  # tools that a model is offered beside the usual ones
WHOLE_CHARS = 400_000  # of a result that is kept to be read on
REST = "\n[What came after this was too long to be kept. Ask for less at a time.]"
OUTCOME_UNKNOWN = {"outcome": "unknown"}  # beside the error of a call that may have changed something
UNKNOWN_OUTCOME = (
    '{"error": "This call was begun before a restart and its outcome is unknown. '
    'Check the state before you repeat it.", "outcome": "unknown"}'
)
AWAY = "`{}` is a tool of the server `{}`, which is not connected now. Nothing was done; it may be back later."
GONE = "`{}` cannot be called: the server that has it is not connected now."
TAINTED = (
    "I ask first: files, logs, pages or other people's words that I have read may be behind this, and not the request."
)
REFUSED = {
    Role.GUEST: "Guests of another organisation may look, but not start or stop anything here.",
    Role.MONITOR: "The monitor began this turn, so nothing is changed in it. Propose it in words; who wants it says so "
    "after your answer.",
    Role.MEMBER: "`{}` is not for members of the team.",
}


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """The call waits for people; `plan` is what they are asked."""

    tool: Tool
    plan: Plan


class Dispatcher:
    """Tools by name."""

    def __init__(self, toolsets: Sequence[Toolset], *, workspace: bool = False, acts: Acts | None = None) -> None:
        """`workspace` opens runs to all channels of a workspace; `acts` takes what was done without a question."""
        self._tools: dict[str, Tool] = {}
        self._families: dict[str, str] = {}  # of each name; empty for what came with the composition
        self._workspace = workspace
        self._acts = acts
        for toolset in toolsets:
            self.add(toolset)

    def add(self, toolset: Toolset) -> None:
        """Take one more family of tools."""
        for tool in toolset.tools():
            if tool.name in self._tools:
                raise ValueError(f"two tools are called {tool.name}")
            self._tools[tool.name] = tool
            self._families[tool.name] = ""
        self.polls = frozenset(name for name, tool in self._tools.items() if tool.polls)

    def offer(self, family: str, tools: Sequence[Tool]) -> None:
        """Replace the tools of a family that comes and goes. None: it is away, and its names stay its own.

        A name that another family has is refused, with a line in the log.
        """
        for name in [name for name, of in self._families.items() if of == family]:
            self._tools.pop(name, None)
            if tools:
                del self._families[name]
        for tool in tools:
            if self._families.setdefault(tool.name, family) == family:
                self._tools[tool.name] = tool
            else:
                log.warning("tool refused: its name is taken", extra={"tool": tool.name, "family": family})
        for made in ("_schemas", "_usual", "_on_demand"):
            self.__dict__.pop(made, None)

    def schemas(self, said: Sequence[ModelMessage] = (), *, runs: bool = True) -> tuple[ToolSchema, ...]:
        """What a model is offered: of what is `on_demand`, the newest that were called or found in what was `said`.

        Without `runs` only what is of use where no run is known.
        """
        usual = self._schemas if runs else self._usual
        if not self._on_demand or not said:
            return usual
        wanted = self._wanted(said)
        return (*usual, *(schema for schema in self._on_demand if schema.name in wanted))

    def _wanted(self, said: Sequence[ModelMessage]) -> Collection[str]:
        """The names of tools on demand that were called or found, the newest `MOST_ON_DEMAND`."""
        there = {schema.name for schema in self._on_demand}
        called = {call.id: call.name for one in said for call in one.calls}
        wanted: list[str] = []
        for one in reversed(said):
            tool = self._tools.get(called.get(one.call_id, ""))
            found = _found(one.text) if tool is not None and tool.finds else ()
            names = dict.fromkeys((*(call.name for call in one.calls), *found))
            wanted += [name for name in names if name in there and name not in wanted]
        return wanted[:MOST_ON_DEMAND]

    @cached_property
    def _schemas(self) -> tuple[ToolSchema, ...]:
        return tuple(tool.schema() for tool in self._tools.values() if tool.offered and not tool.on_demand)

    @cached_property
    def _on_demand(self) -> tuple[ToolSchema, ...]:
        return tuple(tool.schema() for tool in self._tools.values() if tool.on_demand)

    @cached_property
    def _usual(self) -> tuple[ToolSchema, ...]:
        return tuple(schema for schema in self._schemas if not self._tools[schema.name].needs_run)

    def effect(self, name: str) -> Effect:
        """The effect of a tool; READ for an unknown one, whose call only answers that it is unknown."""
        tool = self._tools.get(name)
        return tool.effect if tool else Effect.READ

    def offered(self, name: str) -> bool:
        """Whether a model may call it; an unknown one is answered like any wrong call."""
        return name not in self._tools or self._tools[name].offered

    def runs_beside(self, name: str) -> bool:
        """Whether a call of this tool may run at the same time as others of the same reply."""
        return name in self._tools and self._tools[name].runs_beside

    def reads_alone(self, name: str) -> bool:
        """Whether this tool only reads, and needs nobody's answer for it."""
        return name in self._tools and self._tools[name].effect is Effect.READ and self._tools[name].runs_beside

    def may_be_cut(self, name: str) -> bool:
        """Whether people may end a call of this tool before it is through."""
        return name not in self._tools or self._tools[name].may_be_cut

    def takes_long(self, name: str) -> bool:
        """Whether a call of this tool may take so long that it should not hold up others."""
        return name in self._tools and self._tools[name].limit_s > USUAL_LIMIT_S

    def quotes(self, name: str) -> bool:
        """Whether its answers hold what others wrote: rows, logs, names, pages. Those of a tool that is gone may."""
        return self._tools[name].quotes if name in self._tools else bool(name)

    def spends_again(self, name: str) -> bool:
        """Whether a tool lets a run take what is left of its hours, which somebody approved before."""
        return name in self._tools and self._tools[name].spends_again

    def knows(self, name: str) -> bool:
        """Whether there is such a tool now."""
        return name in self._tools

    def begins_once(self, name: str) -> bool:
        """Whether what was approved is begun once, because a repetition would do it again."""
        return name in self._tools and self._tools[name].parameters is not None

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
            family = self._families.get(call.name)
            raise BadRequest(AWAY.format(call.name, family) if family else self._unknown(call.name))
        arguments = _parsed(tool, call.arguments)
        role = role_of(caller.person, unattended=caller.unattended)
        if not tool.allows(role):
            raise NotAllowed(REFUSED[role].format(tool.name))
        if tool.run is not None:
            question = await self._limited(tool, _question(tool, caller, arguments))
            if question is not None:
                return question
            return await self._done(tool, caller, arguments, await self._limited(tool, tool.run(caller, arguments)))
        if tool.plan is None:
            raise BadRequest(f"`{tool.name}` cannot be called.")
        planned = await self._limited(tool, tool.plan(caller, arguments))
        if isinstance(planned, Result):
            return await self._done(tool, caller, arguments, planned)
        return NeedsApproval(tool, _priced(tool, replace(planned, card=_safe_card(planned.card))))

    def _unknown(self, name: str) -> str:
        """That there is no such tool, and which there are, as far as a model is offered them from the start."""
        near = difflib.get_close_matches(name.lower(), self._tools, n=1)
        meant = f" Did you mean `{near[0]}`?" if near else ""
        finder = next((tool.name for tool in self._tools.values() if tool.finds), "")
        more = f" `{finder}` finds {counted(len(self._on_demand), 'more tool')}." if finder else ""
        names = ", ".join(schema.name for schema in self._schemas)
        return f"There is no tool `{name[:60]}`.{meant} Tools: {names}.{more}"

    async def _done(self, tool: Tool, caller: Caller, arguments: Arguments, result: Result) -> Result:
        """The result, without secrets, of a call that nobody was asked about; what it changed is written down."""
        await self._write_down(tool, caller, arguments, result)
        return _safe(result)

    async def write_down(self, caller: Caller, call: ToolCall, *, unsure: bool = False) -> None:
        """Write a call down that was carried out before a restart, which may have come in between.

        `unsure` where it may have come before the act.
        """
        tool = self._tools[call.name]
        with contextlib.suppress(BadRequest):  # with such arguments nothing was done
            await self._write_down(tool, caller, _parsed(tool, call.arguments), Result(""), unsure=unsure)

    async def _write_down(
        self, tool: Tool, caller: Caller, arguments: Arguments, result: Result, *, unsure: bool = False
    ) -> None:
        if self._acts is not None and tool.effect is not Effect.READ and not tool.harmless:
            run = {"run": result.data["run"]} if "run" in result.data else {}
            exact = arguments.model_dump(mode="json", exclude_none=True) | run
            await self._acts.done(caller, tool.name, exact, unsure=unsure)

    async def execute(self, name: str, caller: Caller, exact: dict[str, JsonValue], token: str) -> Result:
        """Do what was approved; a repetition with the same token does nothing new.

        Raises:
            AppError: it cannot be done; the text says why. `Unavailable`: its server is away.
        """
        caller = replace(caller, workspace=self._workspace)
        tool = self._tools.get(name)
        if tool is None:
            raise Unavailable(GONE.format(name))  # before a restart it may have been begun
        if tool.run is not None and tool.parameters is None:
            return _safe(await self._limited(tool, tool.run(caller, tool.arguments.model_validate(exact))))
        if tool.execute is None:
            raise BadRequest(f"`{name}` needs no approval.")
        return _safe(await self._limited(tool, tool.execute(caller, exact, token)))

    def answer(self, name: str, result: Result) -> str:
        """A result as a model reads it: JSON of at most the tool's `cap_chars`.

        The longest parts are left out first, and named; a text that is too long by itself is cut.
        """
        cap = self._tools[name].cap_chars if name in self._tools else USUAL_CAP_CHARS
        text = result.text if len(result.text) <= cap // 2 else f"{result.text[: cap // 2]}…"
        sizes = {part: len(_json(value)) for part, value in result.data.items()}
        while sizes and len(text) + sum(sizes.values()) > cap:
            del sizes[max(sizes, key=sizes.__getitem__)]
        left_out = [part for part in result.data if part not in sizes]
        said: dict[str, JsonValue] = {"text": text, **{part: result.data[part] for part in sizes}}
        if left_out or text != result.text:
            said["cut"] = _cut(cap, left_out)
        return _json(said)

    def whole(self, name: str, result: Result) -> str:
        """A result as JSON, where `answer` leaves something of it out; else empty. At most `WHOLE_CHARS`."""
        whole = _json({"text": result.text, **result.data})
        if whole == self.answer(name, result):
            return ""
        return whole if len(whole) <= WHOLE_CHARS else whole[: WHOLE_CHARS - len(REST)] + REST

    async def _limited(self, tool: Tool, work: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(tool.limit_s):
                return await work
        except TimeoutError:
            raise TransientError(f"`{tool.name}` took longer than {duration(tool.limit_s)} and was given up.") from None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuntimeError(f"{tool.name} ended itself") from error  # else it would end its whole turn, unanswered


async def _question(tool: Tool, caller: Caller, arguments: Arguments) -> NeedsApproval | None:
    """What people are asked first where others' words may be behind a call that changes something."""
    if not caller.shared or tool.effect is Effect.READ or tool.harmless:
        return None
    if tool.own is not None and await tool.own(caller, arguments):
        return None
    exact = await tool.exact(caller, arguments) if tool.exact else arguments
    said = exact.model_dump(mode="json", exclude_none=True)
    facts = tuple(Fact(name=name.capitalize(), value=_shown(value)) for name, value in said.items())
    act = tool.name.removesuffix("_run").replace("_", " ").capitalize()
    title = " ".join((act, *([str(said["run"])] if "run" in said else [])))
    card = Card(kind="approval", title=f"{title}?", tone="warn", body=TAINTED, facts=facts)
    if not shows_all(card):
        raise BadRequest("This is too long for a card that people can decide about; they have to say it themselves.")
    return NeedsApproval(tool, Plan(said, card))


def _shown(value: JsonValue) -> str:
    return value if isinstance(value, str) else _json(value)


def _safe(result: Result) -> Result:
    """A result without what looks like a secret: files of people may hold some, and it is stored and sent."""
    data = {name: hidden(part) for name, part in result.data.items()}
    card = _safe_card(result.card) if result.card else None
    text, *choices = (without_secrets(words)[0] for words in (result.text, *result.choices))
    return replace(result, text=text, choices=tuple(dict.fromkeys(choices)), data=data, card=card)


def _safe_card(card: Card) -> Card:
    """The words of a card without secrets; the lines of a log are read as one text, since a key goes over many."""
    words = card.model_dump(mode="json", include={"title", "body", "facts", "table", "footer"})
    log = without_secrets("\n".join(card.log))[0]
    clean = {name: hidden(part) for name, part in words.items()}
    if clean == words and log == "\n".join(card.log):
        return card
    return Card.model_validate({**card.model_dump(), **clean, "log": tuple(log.split("\n")) if card.log else ()})


def _priced(tool: Tool, plan: Plan) -> Plan:
    """The plan with what it costs on its card, said from what is executed."""
    if tool.cost is None:
        return plan
    facts = (Fact(name="Cost", value=tool.cost(plan.exact)), *plan.card.facts)
    return replace(plan, card=plan.card.model_copy(update={"facts": facts}))


def _cut(cap: int, left_out: Sequence[str]) -> str:
    what = f" and is without {', '.join(left_out)}" if left_out else ""
    return f"This answer was too long{what}: it may have {cap:,} characters. Ask for less at a time."


def _parsed(tool: Tool, raw: str) -> Arguments:
    try:
        return tool.arguments.model_validate_json(raw or "{}")
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'arguments'}: {item['msg']}" for item in error.errors()[:5]
        )
        raise BadRequest(f"`{tool.name}` cannot use these arguments ({wrong}). {_takes(tool)}") from error


def _takes(tool: Tool) -> str:
    """Which arguments a tool has, for a model that got them wrong."""
    schema: Mapping[str, Any] = tool.schema().parameters
    needed = schema.get("required", ())
    names = [f"`{name}`{' (needed)' if name in needed else ''}" for name in schema.get("properties", ())]
    return f"It takes {', '.join(names)}." if names else "It takes none: {}."


def _found(result: str) -> Sequence[str]:
    """The names of tools in the result of one that finds some; none where it has been put away."""
    try:
        names = json.loads(result).get("tools")
    except (ValueError, AttributeError):
        return ()
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else ()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def failure_of(error: Exception, call: ToolCall, *, reads: bool) -> str:
    """An error as a model reads it, and that something may have been changed, unless the tool only `reads`.

    A bug gets an id that people can report.
    """
    is_sure = reads or (isinstance(error, AppError) and not isinstance(error, TransientError))
    done = {} if is_sure else OUTCOME_UNKNOWN
    if isinstance(error, AppError):
        return _json({"error": hidden(error.text), **done})
    bug = new_ulid()[-8:]
    log.error("tool failed", extra={"bug": bug, "tool": call.name}, exc_info=error)
    return _json({"error": f"`{call.name}` broke (id {bug}); the log has the details.", **done})
