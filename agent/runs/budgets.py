"""Holds people to their budgets: before a language model is asked, and before a run is approved."""

from collections.abc import Mapping, Sequence

from agent.clock import month_began
from agent.domain.budgets import EACH, Budget, Scope, Standing, Unit, Used, keys_of, shown
from agent.domain.errors import OverBudget
from agent.domain.inbound import Thread
from agent.domain.runs import RunSpec
from agent.ports import Clock
from agent.stores import Budgets

OF_MODELS = frozenset({Unit.USD, Unit.TOKENS})
OF_RUNS = frozenset({Unit.USD, Unit.GPU_HOURS})
NO_MODEL = "I ask no language model here: {} are used up. Commands still work (`help`); an admin raises it: `{}`."
TOO_MUCH = "This may take {}, and {} has {} left of {}. Ask for less, or an admin raises it: `{}`."
RAISED = "budget {} {}=…"


class BudgetService:
    """Compares what was used with the budgets."""

    def __init__(self, budgets: Budgets, clock: Clock, *, charged: bool = True) -> None:
        """The budgets themselves are kept in memory: nobody else sets them.

        Not `charged`: rules answer, which costs nothing.
        """
        self._budgets = budgets
        self._clock = clock
        self.charged = charged
        self._known: Sequence[Budget] | None = None

    async def set(self, scope: Scope, key: str, unit: Unit, amount: float | None, *, by: str) -> None:
        """Set one, or take it away where the amount is None."""
        if amount is None:
            await self._budgets.remove(scope, key, unit)
        else:
            now = self._clock.now()
            await self._budgets.set(Budget(scope=scope, key=key, unit=unit, amount=amount, by=by, at=now))
        self._known = None

    async def standings(
        self, person: str, thread: Thread, session_id: str, units: frozenset[Unit] = frozenset(Unit)
    ) -> Sequence[Standing]:
        """Every budget that holds for this person here, with what was used of it; `person` is a `Person.key`."""
        found, month = [], month_began(self._clock.now())
        for scope, key in keys_of(person, thread, session_id).items():
            if held := [budget for budget in await self._of(scope, key) if budget.unit in units]:
                used = await self._budgets.used(scope, key, None if scope is Scope.THREAD else month)
                for budget in held:
                    calls, runs = (used.unpriced, used.unpriced_runs) if budget.unit is Unit.USD else (0, 0)
                    standing = Standing(budget=budget, used=used.of(budget.unit), unpriced=calls, unpriced_runs=runs)
                    found.append(standing)
        return found

    async def used(self, person: str, thread: Thread, session_id: str) -> Mapping[Scope, Used]:
        """What was used, whether or not a budget holds: in this thread, and this month here and by this person."""
        month, found = month_began(self._clock.now()), {}
        keys = keys_of(person, thread, session_id)
        for scope in (Scope.THREAD, Scope.CHANNEL, Scope.PERSON):
            if keys[scope]:
                found[scope] = await self._budgets.used(scope, keys[scope], None if scope is Scope.THREAD else month)
        return found

    async def refusal(self, person: str, thread: Thread, session_id: str) -> str:
        """Why no language model may be asked; empty where one may."""
        if not self.charged:
            return ""
        for standing in await self.standings(person, thread, session_id, OF_MODELS):
            if standing.left <= 0:
                return NO_MODEL.format(standing.used_words, _raised(standing))
        return ""

    async def admit(self, spec: RunSpec, person: str, thread: Thread, session_id: str) -> None:
        """Raises `OverBudget` for a run that may take more than is left."""
        takes = {
            Unit.GPU_HOURS: spec.max_hours * spec.gpus,
            Unit.USD: spec.max_hours * float(spec.price_usd or 0),
        }
        for standing in await self.standings(person, thread, session_id, OF_RUNS):
            unit = standing.budget.unit
            if takes[unit] > standing.left:
                raise OverBudget(
                    TOO_MUCH.format(
                        shown(unit, takes[unit]),
                        standing.name,
                        shown(unit, standing.left, bare=True),
                        shown(unit, standing.budget.amount),
                        _raised(standing),
                    )
                )

    async def _of(self, scope: Scope, key: str) -> Sequence[Budget]:
        """The budgets of one key. A person without a budget in a unit has the one that is set for each person."""
        if self._known is None:
            self._known = await self._budgets.all()
        of_scope = [budget for budget in self._known if budget.scope is scope]
        own = {budget.unit: budget for budget in of_scope if budget.key == key}
        each = {budget.unit: budget for budget in of_scope if budget.key == EACH}
        return [*(each | own).values()]


def _raised(standing: Standing) -> str:
    return RAISED.format(standing.budget.scope.value, standing.budget.unit.value)
