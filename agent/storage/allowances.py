"""What a thread may start without asking, in SQL."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection, delete, insert, select, update

from agent.domain.approvals import Allowance, ApprovalState
from agent.domain.inbound import Thread
from agent.domain.runs import ENDED, RunState
from agent.storage.database import Database
from agent.storage.tables import allowance, approval, run

_OVER = frozenset(state.value for state in (*ENDED, RunState.LOST))
_COUNTED = (ApprovalState.APPROVED.value, ApprovalState.CONSUMED.value)
_STARTED = select(approval.c.state.label("decided"), approval.c.arguments, run.c.state, run.c.used_s).select_from(
    approval.outerjoin(run, run.c.client_token == "approval:" + approval.c.id)
)


def put_allowance(connection: Connection, new: Allowance) -> None:
    """Store it in place of the one for the same tool, whose runs count for it then."""
    same = allowance.c.thread_key == new.thread_key, allowance.c.tool == new.tool
    change = update(allowance).where(*same).values(new.model_dump(exclude={"id"}))
    if not connection.execute(change).rowcount:
        connection.execute(insert(allowance), new.model_dump())


class SqlAllowances:
    """One row for each that is in force."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def of(self, thread: Thread) -> Sequence[Allowance]:
        """Those of a thread, the oldest first."""
        query = select(allowance).where(allowance.c.thread_key == thread.key).order_by(allowance.c.at)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [Allowance.model_validate(row, from_attributes=True) for row in rows]

    async def put(self, new: Allowance) -> None:
        """Store it in place of the one for the same tool, whose runs count for it then."""
        await self._database.write(lambda connection: put_allowance(connection, new))

    async def end(self, thread: Thread) -> None:
        """Nothing is approved by itself in this thread any more."""
        gone = delete(allowance).where(allowance.c.thread_key == thread.key)
        await self._database.write(lambda connection: connection.execute(gone))

    async def of_run(self, run_id: str) -> Allowance | None:
        """The one in force that approved a run by itself."""
        started = _STARTED.where(run.c.id == run_id).with_only_columns(approval.c.allowance)
        query = select(allowance).where(allowance.c.id.in_(started))
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        return None if row is None else Allowance.model_validate(row, from_attributes=True)

    async def spent_usd(self, allowance_id: str) -> float:
        """What it has paid for: of runs that are over what they used, of others all that was approved."""
        query = _STARTED.where(approval.c.allowance == allowance_id, approval.c.state.in_(_COUNTED))
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        total = 0.0
        for row in rows:
            spec = json.loads(row.arguments)["spec"]
            waits = row.decided == ApprovalState.APPROVED.value
            if row.state is not None or waits:
                hours = row.used_s / 3600 if row.state in _OVER else spec["max_hours"]
                total += hours * float(spec.get("price_usd") or 0)
        return total
