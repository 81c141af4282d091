"""Whether a run that is over may take the rest of its hours: its budgets, and the cap of `auto`, may be used up now."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.domain.errors import OverBudget
from agent.domain.runs import Run
from agent.runs.allowances import AllowanceService
from agent.runs.budgets import BudgetService
from agent.runs.life.ending import hours_left_s
from agent.stores import Runs

OVER_CAP = (
    "Run `{}` was started without asking, within the ${:g} of `auto`; ${:.2f} of that are left, and it may take "
    "${:.2f} more. `clone {}` plans the same run, which people approve; `auto usd=…` raises what starts unasked."
)


class Affording:
    """Admits one run at a time, so that no two take what is left of a budget."""

    def __init__(self, budgets: BudgetService, allowances: AllowanceService, runs: Runs) -> None:
        """Both count what is set aside for runs that are not over, and of others what they used."""
        self._budgets = budgets
        self._allowances = allowances
        self._runs = runs
        self.spending = asyncio.Lock()  # from the look at what is left to the run that takes it

    @asynccontextmanager
    async def again(self, run: Run) -> AsyncIterator[None]:
        """Hold what is left while a run that is over is put back into the queue.

        Raises:
            OverBudget: it may take more than is left.
        """
        left = run.spec.model_copy(update={"max_hours": max(hours_left_s(run), 0.0) / 3600})
        async with self.spending:
            await self._budgets.admit(left, run.requester, await self._runs.thread(run.id), run.session_id)
            cap = await self._allowances.cap_of(run.id)
            takes = left.max_hours * float(left.price_usd or 0)
            if cap is not None and takes > cap.left_usd:
                raise OverBudget(OVER_CAP.format(run.id, cap.usd, max(cap.left_usd, 0.0), takes, run.id))
            yield
