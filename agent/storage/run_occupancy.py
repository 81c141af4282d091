"""What the plan of the queue is made from, read in one go: a plan is made at each click that starts a run.

Called by `agent.storage.run_reads` and `agent.storage.runs`.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, select

from agent import wire
from agent.domain.runs import LIVE, Attempt, ExitClass, Outcome, Run
from agent.run_store import Cordon, Home, Occupancy
from agent.storage import run_rows as rows
from agent.storage.tables import attempt, checkpoint, gpu, run

_LIVE_STATES = [state.value for state in sorted(LIVE)]
_LIVE_RUNS = select(run).where(run.c.state.in_(_LIVE_STATES)).order_by(run.c.created_at, run.c.id)
_LIVE_ATTEMPTS = (
    select(attempt)
    .join(run, (attempt.c.run_id == run.c.id) & (attempt.c.number == run.c.attempt))
    .where(run.c.state.in_(_LIVE_STATES))
)
_CORDONS = select(gpu).order_by(gpu.c.host, gpu.c.uuid)


def occupancy(connection: Connection, run_ids: Sequence[str], since: datetime) -> Occupancy:
    """See `agent.run_store.Runs.occupancy`."""
    return Occupancy(
        live=live(connection),
        homes=_homes(connection, run_ids) if run_ids else {},
        spent=_spent(connection, since),
        starts=_starts(connection, since),
        cordons=cordons(connection),
    )


def live(connection: Connection) -> list[tuple[Run, Attempt]]:
    """Every run in a live state with its newest attempt, oldest first."""
    own = {row.run_id: rows.as_attempt(row) for row in connection.execute(_LIVE_ATTEMPTS)}
    return [(rows.as_run(row), own[row.id]) for row in connection.execute(_LIVE_RUNS) if row.id in own]


def cordons(connection: Connection) -> list[Cordon]:
    """Every GPU that gets no runs."""
    return [Cordon(row.host, row.uuid, row.reason, row.since, row.sticky) for row in connection.execute(_CORDONS)]


def _homes(connection: Connection, run_ids: Sequence[str]) -> dict[str, Home]:
    saved = (
        select(checkpoint.c.run_id, checkpoint.c.step, attempt.c.host)
        .join(
            attempt,
            (attempt.c.run_id == checkpoint.c.run_id) & (attempt.c.number == checkpoint.c.attempt),
        )
        .where(checkpoint.c.run_id.in_(run_ids))
        .order_by(checkpoint.c.attempt, checkpoint.c.seq)
    )
    heard = (
        select(attempt.c.run_id, attempt.c.host, attempt.c.outcome)
        .where(attempt.c.run_id.in_(run_ids), attempt.c.heard_at.is_not(None))
        .order_by(attempt.c.number)
    )
    newest = {row.run_id: row for row in connection.execute(heard)}
    lost = {
        row.run_id: row.host
        for row in newest.values()
        if row.outcome and wire.decode(Outcome, row.outcome).exit_class is ExitClass.LOST
    }
    found = connection.execute(saved).all()
    return {row.run_id: Home(row.host, row.step, lost.get(row.run_id) == row.host) for row in found}


def _spent(connection: Connection, since: datetime) -> dict[str, float]:
    query = (
        select(run.c.requester, attempt.c.gpus, attempt.c.used_s)
        .join(run, run.c.id == attempt.c.run_id)
        .where(attempt.c.ended_at > since)
    )
    found: dict[str, float] = {}
    for row in connection.execute(query):
        gpus = row.gpus.count('"') // 2  # of a JSON list of names without quotes
        found[row.requester] = found.get(row.requester, 0.0) + row.used_s * max(1, gpus)
    return found


def _starts(connection: Connection, since: datetime) -> list[tuple[str, datetime, datetime]]:
    query = (
        select(run.c.requester, run.c.queued_at, attempt.c.dispatched_at)
        .join(run, run.c.id == attempt.c.run_id)
        .where(attempt.c.dispatched_at > since)
    )
    return [(row.requester, row.queued_at, row.dispatched_at) for row in connection.execute(query)]
