"""Budgets, and what was used of them, in SQL.

What the attempts of runs used counts when they ran. What is left of the hours that were approved is set aside now until
the run is over. So what an approval sets aside needs no row of its own, and is settled with the run's end.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from agent import wire
from agent.domain.approvals import ApprovalState
from agent.domain.budgets import Budget, RunHours, Scope, Unit, Used
from agent.domain.inbound import Thread
from agent.domain.runs import ENDED, RunState
from agent.storage.database import Database
from agent.storage.tables import approval, attempt, budget, model_call, run, turn

_OVER = frozenset(state.value for state in (*ENDED, RunState.LOST))
_ATTEMPTS = select(run.c.id, run.c.thread, run.c.spec, attempt.c.used_s, attempt.c.ended_at).where(
    attempt.c.run_id == run.c.id, attempt.c.used_s > 0
)
_OPEN = select(run.c.id, run.c.thread, run.c.spec, run.c.used_s).where(run.c.state.not_in(_OVER))
_APPROVED = select(approval.c.id, turn.c.thread, approval.c.arguments).where(
    approval.c.turn_id == turn.c.id, approval.c.state == ApprovalState.APPROVED.value
)
_WHOSE = {
    Scope.PERSON: (run.c.requester, approval.c.requester),
    Scope.THREAD: (run.c.session_id, approval.c.session_id),
}


class SqlBudgets:
    """One row a budget; sums are made when they are asked for."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def all(self) -> Sequence[Budget]:
        """Every budget."""
        rows = await self._database.read(lambda connection: connection.execute(select(budget)).all())
        return [Budget.model_validate(row, from_attributes=True) for row in rows]

    async def set(self, new: Budget) -> None:
        """Store it in place of the one before."""
        same = delete(budget).where(*_same(new.scope, new.key, new.unit))
        values = new.model_dump() | {"scope": new.scope.value, "unit": new.unit.value}

        def store(connection: Connection) -> None:
            connection.execute(same)
            connection.execute(insert(budget), values)

        await self._database.write(store)

    async def remove(self, scope: Scope, key: str, unit: Unit) -> None:
        """Take it away."""
        await self._database.write(
            lambda connection: connection.execute(delete(budget).where(*_same(scope, key, unit)))
        )

    async def used(self, scope: Scope, key: str, since: datetime | None) -> Used:
        """What language models and runs used since then, with what is approved for runs that are not over."""

        def read(connection: Connection) -> Used:
            models = _models(connection, scope, key, since)
            return models.model_copy(update=_runs(connection, scope, key, since))

        return await self._database.read(read)


def _same(scope: Scope, key: str, unit: Unit) -> tuple[Any, ...]:
    return budget.c.scope == scope.value, budget.c.key == key, budget.c.unit == unit.value


def _models(connection: Connection, scope: Scope, key: str, since: datetime | None) -> Used:
    """What language models used."""
    tokens = func.coalesce(func.sum(model_call.c.tokens_in + model_call.c.tokens_out), 0)
    query = select(
        tokens.label("tokens"),
        func.coalesce(func.sum(model_call.c.usd), 0.0).label("usd"),
        (func.count() - func.count(model_call.c.usd)).label("unpriced"),
    )
    columns = {
        Scope.PERSON: model_call.c.person,
        Scope.CHANNEL: model_call.c.channel,
        Scope.THREAD: model_call.c.session_id,
    }
    if scope in columns:
        query = query.where(columns[scope] == key)
    row = connection.execute(query if since is None else query.where(model_call.c.at >= since)).one()
    return Used(models_usd=row.usd, unpriced=row.unpriced, tokens=row.tokens)


def _runs(connection: Connection, scope: Scope, key: str, since: datetime | None) -> dict[str, Any]:
    """What attempts used since then, and what is set aside now for runs that are not over, whenever they were made."""
    attempts, runs, approved = _ATTEMPTS, _OPEN, _APPROVED
    if since is not None:
        attempts = attempts.where(attempt.c.ended_at > since)
    if scope in _WHOSE:
        of_run, asked = _WHOSE[scope]
        attempts, runs, approved = (
            attempts.where(of_run == key),
            runs.where(of_run == key),
            approved.where(asked == key),
        )
    channel = key if scope is Scope.CHANNEL else ""
    used = set_aside = RunHours()
    unpriced = set()
    for ended in connection.execute(attempts):
        if _of_channel(ended, channel):
            spec = json.loads(ended.spec)
            used += _hours(spec, _seconds(ended.used_s, ended.ended_at, since) / 3600)
            unpriced |= _unpriced(spec, ended.id)
    for open_run in connection.execute(runs):
        if _of_channel(open_run, channel):
            spec = json.loads(open_run.spec)
            set_aside += _hours(spec, max(0.0, spec["max_hours"] - open_run.used_s / 3600))
            unpriced |= _unpriced(spec, open_run.id)
    for decided in connection.execute(approved):
        if _of_channel(decided, channel):
            for spec in _specs(decided.arguments):
                set_aside += _hours(spec, spec["max_hours"])
                unpriced |= _unpriced(spec, decided.id)
    return {"runs": used, "set_aside": set_aside, "unpriced_runs": len(unpriced)}


def _seconds(used_s: float, ended_at: datetime, since: datetime | None) -> float:
    """What an attempt used since then; it is taken to have used it right before its end."""
    return used_s if since is None else min(used_s, (ended_at - since).total_seconds())


def _of_channel(row: Any, channel: str) -> bool:
    return not channel or wire.decode(Thread, row.thread).channel_key == channel


def _specs(arguments: str) -> Iterator[dict[str, Any]]:
    spec = json.loads(arguments).get("spec")
    if isinstance(spec, dict):
        yield spec


def _unpriced(spec: dict[str, Any], id_: str) -> set[str]:
    return {id_} if spec.get("price_usd") is None else set()


def _hours(spec: dict[str, Any], hours: float) -> RunHours:
    gpus = spec.get("gpus", 0)
    usd = hours * float(spec.get("price_usd") or 0)
    return RunHours(gpu=hours * gpus, cpu=0.0 if gpus else hours, usd=usd)
