"""Tools about budgets: what is left of them here, and, for admins, what they are."""

from collections.abc import Sequence

from pydantic import Field, JsonValue

from agent.cards import counted
from agent.domain.budgets import EACH, Scope, Standing, Unit, amount_of, holder_of, keys_of, shown
from agent.domain.content import Card, Table
from agent.domain.errors import BadRequest, NotAllowed
from agent.domain.policy import Effect, Right
from agent.runs.budgets import BudgetService
from agent.tools.members import Members
from agent.tools.tool import Arguments, Caller, Result, Tool

NONE = (
    "No budget holds here. An admin sets one: `budget channel usd=50 gpu_hours=100` (this month and every one after)."
)
ADMINS_ONLY = "Admins set budgets: {}. Who runs me grants that (`TRAINYARD_ADMINS`)."
TITLES = {
    Scope.PERSON: "You, this month",
    Scope.CHANNEL: "This channel, this month",
    Scope.THREAD: "This thread",
    Scope.EVERYWHERE: "Everybody, this month",
}


class SetArguments(Arguments):
    """What is unsaid stays as it is."""

    scope: Scope
    who: str = Field("", description="A person's id; unsaid: each person has it.")
    usd: str | None = Field(None, description="US dollars, or none.")
    tokens: str | None = Field(None, description="Tokens of language models, or none.")
    gpu_hours: str | None = Field(None, description="Hours of GPUs, or none.")


class Budgeting:
    """The tools of this family."""

    def __init__(self, budgets: BudgetService, members: Members) -> None:
        """`members` says who may set one."""
        self._budgets = budgets
        self._members = members

    def tools(self) -> Sequence[Tool]:
        """Their declarations."""
        return (
            Tool("show_budget", "What is left of the budgets that hold here.", Arguments, Effect.READ, run=self.show),
            Tool("set_budget", "Set a budget.", SetArguments, Effect.WRITE, run=self.set, offered=False),
        )

    async def show(self, caller: Caller, _asked: Arguments) -> Result:
        """A row for each budget."""
        found = await self._budgets.standings(caller.person.key, caller.thread, caller.session_id)
        if not found:
            return Result(NONE)
        rows = tuple(_row(standing) for standing in found)
        table = Table(columns=("budget", "used", "of", "left"), rows=rows)
        data: list[JsonValue] = [dict(zip(table.columns, row, strict=True)) for row in rows]
        footer = "Used counts what is set aside for runs that are not over."
        card = Card(kind="notice", title="Budgets", table=table, footer=footer)
        return Result(f"{counted(len(rows), 'budget')}.", {"budgets": data}, card=card)

    async def set(self, caller: Caller, asked: SetArguments) -> Result:
        """Set what is named, and show what holds then."""
        if Right.ADMIN not in await self._members.rights(caller.person, caller.thread):
            raise NotAllowed(ADMINS_ONLY.format(self._members.who(Right.ADMIN)))
        amounts = {Unit.USD: asked.usd, Unit.TOKENS: asked.tokens, Unit.GPU_HOURS: asked.gpu_hours}
        new = {unit: amount_of(text) for unit, text in amounts.items() if text is not None}
        if not new:
            raise BadRequest("Say how much: `budget channel usd=50 gpu_hours=100 tokens=2M`, or `usd=none`.")
        key = self._key(caller, asked)
        for unit, amount in new.items():
            await self._budgets.set(asked.scope, key, unit, amount, by=caller.person.key)
        said = ", ".join("none" if amount is None else shown(unit, amount) for unit, amount in new.items())
        whose = asked.who or ("each person" if asked.scope is Scope.PERSON else TITLES[asked.scope].lower())
        return Result(f"The budget of {whose.removesuffix(', this month')} is now: {said}.")

    def _key(self, caller: Caller, asked: SetArguments) -> str:
        if asked.scope is Scope.PERSON:
            return holder_of(asked.who, caller.person) if asked.who else EACH
        if asked.who:
            raise BadRequest("`who` goes with `budget person`.")
        if asked.scope is Scope.THREAD and not caller.session_id:
            raise BadRequest("A thread's budget is set in one with me: `@trainyard budget thread usd=5`.")
        return keys_of("", caller.thread, caller.session_id)[asked.scope]


def _row(standing: Standing) -> tuple[str, ...]:
    budget = standing.budget
    amounts = (shown(budget.unit, amount, bare=True) for amount in (standing.used, budget.amount, standing.left))
    name = TITLES[budget.scope]
    unit = {Unit.USD: "", Unit.TOKENS: ", tokens"}.get(budget.unit, ", GPU-hours")
    return (f"{name}{unit}", *amounts)
