"""What people let a thread start without asking them: a kind of job, or whatever costs less than a cap.

Only what spends, with a person's own words behind it; never what destroys. What is set aside for a run counts against
the cap until the run is over, and then what it has used.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from pydantic import JsonValue

from agent.domain.approvals import Allowance
from agent.domain.ids import new_ulid
from agent.domain.inbound import Person, Thread
from agent.ports import Clock
from agent.stores import Allowances


class Cap(NamedTuple):
    """How many dollars may be spent unasked, and how many of them nobody used or may still use."""

    usd: float
    left_usd: float


class AllowanceService:
    """Stores allowances, and says which one covers a job."""

    def __init__(self, allowances: Allowances, clock: Clock, *, in_force: bool) -> None:
        """Not `in_force`: the settings want a second person or several, so that nothing is approved by itself."""
        self._allowances = allowances
        self._clock = clock
        self.in_force = in_force

    async def of(self, thread: Thread) -> Sequence[tuple[Allowance, float]]:
        """The allowances of a thread, each with the dollars that runs under it used or may still use."""
        found = await self._allowances.of(thread)
        return [(one, await self._allowances.spent_usd(one.id)) for one in found]

    async def allow(self, thread: Thread, person: Person, *, tool: str = "", cap_usd: float | None = None) -> None:
        """Let a tool be approved by itself, or with a cap whatever has a known price."""
        await self._allowances.put(self.new(thread, person, tool=tool, cap_usd=cap_usd))

    def new(self, thread: Thread, person: Person, *, tool: str = "", cap_usd: float | None = None) -> Allowance:
        """Such an allowance, not yet stored."""
        return Allowance(
            id=new_ulid(),
            thread_key=thread.key,
            tool=tool,
            cap_usd=cap_usd,
            by=person.key,
            name=person.shown,
            at=self._clock.now(),
        )

    async def end(self, thread: Thread) -> None:
        """Remove the allowances of a thread, so that people are asked about everything again."""
        await self._allowances.end(thread)

    async def cap_of(self, run_id: str) -> Cap | None:
        """The cap under which a run was started unasked; None for one that people approved."""
        one = await self._allowances.of_run(run_id)
        if one is None or one.cap_usd is None:
            return None
        return Cap(one.cap_usd, one.cap_usd - await self._allowances.spent_usd(one.id))

    async def covering(self, thread: Thread, tool: str, spec: dict[str, JsonValue]) -> Allowance | None:
        """The allowance that covers a job of this tool. A cap covers no job without a known price."""
        if not self.in_force:
            return None
        price = spec.get("price_usd")
        for one, spent in await self.of(thread):
            if one.tool == tool:
                return one
            cost = None if price is None else float(Decimal(str(price)) * Decimal(str(spec["max_hours"])))
            if not one.tool and cost is not None and spent + cost <= (one.cap_usd or 0.0):
                return one
        return None
