"""Tools about budgets: what was used and what is left here, and, for admins, setting them."""

from collections.abc import Sequence

from pydantic import Field, JsonValue

from agent.cards import counted, usd
from agent.domain.budgets import EACH, TITLES, Scope, Standing, Unit, Used, amount_of, holder_of, keys_of, shown
from agent.domain.content import Card, Table
from agent.domain.errors import BadRequest, NotAllowed
from agent.domain.inbound import Thread
from agent.domain.policy import Effect, Right
from agent.runs.budgets import BudgetService
from agent.stores import Conversations
from agent.tools.members import Members
from agent.tools.tool import Arguments, Caller, Result, Tool

NONE = (
    "No budget holds here. An admin sets one: `budget channel usd=50 gpu_hours=100` (this month and every one after)."
)
SET_ASIDE = "Used counts what is set aside for runs that are not over."
UNPRICED = "- {}: {} without a known price, which the budget of money does not count; one of tokens does."
UNPRICED_RUNS = (
    "- {}: {} without a known price, which the budget of money does not count; one of GPU-hours counts those on GPUs."
)
IN_CHANNEL = frozenset({Scope.CHANNEL, Scope.THREAD})
ADMINS_ONLY = "Admins set budgets: {}. Who runs me grants that (`TRAINYARD_ADMINS`)."
CHANNEL_ONLY = (
    "You are an admin of this channel alone: you set its budget and those of its threads. One of people or of "
    "everybody holds everywhere. Who runs me grants that (`TRAINYARD_ADMINS` without an @)."
)


class SetArguments(Arguments):
    """What is left out stays as it is."""

    scope: Scope
    who: str = Field("", description="A person: a mention, an id or a name; unsaid: each person has it.")
    usd: str | None = Field(None, description="US dollars, or none.")
    tokens: str | None = Field(None, description="Tokens of language models, or none.")
    gpu_hours: str | None = Field(None, description="Hours of GPUs, or none.")


class Budgeting:
    """The tools of this family."""

    def __init__(self, budgets: BudgetService, members: Members, conversations: Conversations) -> None:
        """`members` says who may set one, `conversations` who is known by which name."""
        self._budgets = budgets
        self._members = members
        self._conversations = conversations

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool(
                "show_budget",
                "What was used here, this month and in this thread, and what is left of the budgets.",
                Arguments,
                Effect.READ,
                run=self.show,
            ),
            Tool("set_budget", "Set a budget.", SetArguments, Effect.WRITE, run=self.set, offered=False),
        )

    async def show(self, caller: Caller, _asked: Arguments) -> Result:
        """What was used, and a row for each budget."""
        key = caller.person.key
        used = await self._budgets.used(key, caller.thread, caller.session_id)
        found = await self._budgets.standings(key, caller.thread, caller.session_id)
        lines = [f"- {TITLES[scope]}: {_used_words(of)}" for scope, of in used.items()]
        for title, of in ((TITLES[standing.budget.scope], standing) for standing in found):
            lines += [UNPRICED.format(title, counted(of.unpriced, "call"))] if of.unpriced else []
            lines += [UNPRICED_RUNS.format(title, counted(of.unpriced_runs, "run"))] if of.unpriced_runs else []
        rows = tuple(_row(standing) for standing in found)
        table = Table(columns=("budget", "used", "of", "left"), rows=rows) if rows else None
        data: list[JsonValue] = [dict(zip(table.columns, row, strict=True)) for row in rows] if table else []
        body = "\n".join(lines if rows else [*lines, "", NONE])
        card = Card(kind="notice", title="Use and budgets", body=body, table=table, footer=SET_ASIDE)
        text = f"What was used, and {counted(len(rows), 'budget')}." if rows else "What was used; no budget holds here."
        return Result(text, {"used": [*lines], "budgets": data}, card)

    async def set(self, caller: Caller, asked: SetArguments) -> Result:
        """Set the amounts that are named, and say them."""
        if not await self._is_admin(caller, caller.thread):
            raise NotAllowed(ADMINS_ONLY.format(self._members.who(Right.ADMIN)))
        everywhere = caller.thread.model_copy(update={"channel": ""})
        if asked.scope not in IN_CHANNEL and not await self._is_admin(caller, everywhere):
            raise NotAllowed(CHANNEL_ONLY)
        amounts = {Unit.USD: asked.usd, Unit.TOKENS: asked.tokens, Unit.GPU_HOURS: asked.gpu_hours}
        new = {unit: amount_of(text) for unit, text in amounts.items() if text is not None}
        if not new:
            raise BadRequest("Say how much: `budget channel usd=50 gpu_hours=100 tokens=2M`, or `usd=none`.")
        key = await self._key(caller, asked)
        for unit, amount in new.items():
            await self._budgets.set(asked.scope, key, unit, amount, by=caller.person.key)
        said = ", ".join("none" if amount is None else shown(unit, amount) for unit, amount in new.items())
        named = f"{asked.who} (`{key.rpartition('/')[2]}`)" if asked.who else ""
        whose = named or ("each person" if asked.scope is Scope.PERSON else TITLES[asked.scope].lower())
        return Result(f"The budget of {whose.removesuffix(', this month')} is now: {said}.")

    async def _is_admin(self, caller: Caller, where: Thread) -> bool:
        return Right.ADMIN in await self._members.rights(caller.person, where)

    async def _key(self, caller: Caller, asked: SetArguments) -> str:
        if asked.scope is Scope.PERSON and asked.who:
            spoke = await self._conversations.people(caller.person.platform, caller.person.tenant)
            return holder_of(asked.who, caller.person, spoke)
        if asked.scope is Scope.PERSON:
            return EACH
        if asked.who:
            raise BadRequest("`who` goes with `budget person`.")
        if asked.scope is Scope.THREAD and not caller.session_id:
            raise BadRequest("A thread's budget is set in one with me: `@trainyard budget thread usd=5`.")
        return keys_of("", caller.thread, caller.session_id)[asked.scope]


def _used_words(used: Used) -> str:
    """Money, and of whom, then tokens and hours."""
    runs_usd = used.runs.usd + used.set_aside.usd
    money = f"{usd(used.usd)} (language models {usd(used.models_usd)}, runs {usd(runs_usd)})"
    return f"{money}, {shown(Unit.TOKENS, used.tokens)}, {shown(Unit.GPU_HOURS, used.gpu_hours)}"


def _row(standing: Standing) -> tuple[str, ...]:
    budget = standing.budget
    amounts = (shown(budget.unit, amount, bare=True) for amount in (standing.used, budget.amount, standing.left))
    name = TITLES[budget.scope]
    unit = {Unit.USD: "", Unit.TOKENS: ", tokens"}.get(budget.unit, ", GPU-hours")
    return (f"{name}{unit}", *amounts)
