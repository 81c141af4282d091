"""Rows of runs and attempts as values, and the changes that several transactions share.

Every state change is a compare-and-set within the table of transitions. What ends an attempt frees its GPUs here, in
the same transaction. Knows no events and no policy. Called by `agent.storage.runs` and `agent.storage.run_events`.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from agent import wire
from agent.domain.runs import LIVE, Attempt, Outcome, Run, RunSpec, RunState, Usage, may_become
from agent.run_store import Ending, Verdict
from agent.storage.tables import attempt, checkpoint, gpu_lease, run, script

# Its host was lost, it waits for another attempt or for people, and then that host says that it had succeeded.
_TRUTH = {(RunState.QUEUED, RunState.SUCCEEDED), (RunState.PAUSED, RunState.SUCCEEDED)}


def as_run(row: Row[Any]) -> Run:
    """A run from its row."""
    return Run(
        id=row.id,
        session_id=row.session_id,
        requester=row.requester,
        state=RunState(row.state),
        spec=wire.decode(RunSpec, row.spec),
        attempt=row.attempt,
        step=row.step,
        total_steps=row.total_steps,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        outcome=wire.decode(Outcome, row.outcome) if row.outcome else None,
        priority=row.priority,
        not_before=row.not_before,
        note=row.note,
        queued_at=row.queued_at,
        used_s=row.used_s,
        goes_on=row.goes_on,
        script=row.script,
        usage=wire.decode(Usage, row.usage) if row.usage else None,
    )


def as_attempt(row: Row[Any]) -> Attempt:
    """An attempt from its row."""
    return Attempt(
        number=row.number,
        host=row.host,
        gpus=tuple(json.loads(row.gpus)),
        sent=row.sent,
        sent_at=row.sent_at,
        heard_at=row.heard_at,
        boot_id=row.boot_id,
        first_step=row.first_step,
        outcome=wire.decode(Outcome, row.outcome) if row.outcome else None,
        dispatched_at=row.dispatched_at,
        accepted_at=row.accepted_at,
        stop=row.stop,
        stops=row.stops,
        stop_sent_at=row.stop_sent_at,
        seen_to=row.seen_to,
    )


def insert_run(connection: Connection, new: Run, *, thread: str, client_token: str) -> None:
    """A new run and the first version of its program."""
    connection.execute(
        insert(run).values(
            id=new.id,
            session_id=new.session_id,
            thread=thread,
            requester=new.requester,
            client_token=client_token,
            state=new.state.value,
            spec=wire.encode(new.spec).decode(),
            attempt=0,
            step=0,
            priority=new.priority,
            note=new.note,
            used_s=0.0,
            goes_on=False,
            script=1,
            counts_from=0,
            created_at=new.created_at,
            queued_at=new.created_at,
        )
    )
    first = {"run_id": new.id, "version": 1, "bundle_sha256": new.spec.bundle_sha256, "at": new.created_at}
    connection.execute(insert(script), first)


def locked(connection: Connection, run_id: str) -> Row[Any] | None:
    """A run's row; on PostgreSQL nobody else changes it before this transaction ends."""
    return connection.execute(select(run).where(run.c.id == run_id).with_for_update()).one_or_none()


def move(connection: Connection, run_id: str, expect: Sequence[RunState], to: RunState, **values: object) -> bool:
    """Compare-and-set of a run's state, within the table of transitions."""
    legal = [state.value for state in expect if may_become(state, to)]
    change = update(run).where(run.c.id == run_id, run.c.state.in_(legal)).values(state=to.value, **values)
    return connection.execute(change).rowcount == 1


def attempt_row(connection: Connection, run_id: str, number: int) -> Row[Any]:
    """The row of an attempt that exists."""
    this = (attempt.c.run_id == run_id) & (attempt.c.number == number)
    return connection.execute(select(attempt).where(this)).one()


def change_attempt(connection: Connection, run_id: str, number: int, **values: object) -> None:
    """Set columns of one attempt."""
    this = (attempt.c.run_id == run_id) & (attempt.c.number == number)
    connection.execute(update(attempt).where(this).values(**values))


def take_gpus(connection: Connection, run_id: str, number: int, host: str, gpus: Sequence[str]) -> bool:
    """All of the GPUs, or none and False."""
    if not gpus:
        return True
    rows = [{"host": host, "uuid": uuid, "run_id": run_id, "attempt": number} for uuid in gpus]
    savepoint = connection.begin_nested()
    try:
        connection.execute(insert(gpu_lease), rows)
    except IntegrityError:
        savepoint.rollback()
        return False
    savepoint.commit()
    return True


def free_gpus(connection: Connection, run_id: str, number: int) -> None:
    """What this attempt held."""
    connection.execute(delete(gpu_lease).where(gpu_lease.c.run_id == run_id, gpu_lease.c.attempt == number))


def counted(connection: Connection, row: Row[Any], number: int) -> list[Attempt]:
    """The attempts before `number` whose failures count: heard of, and not forgiven by a person; oldest first."""
    query = (
        select(attempt)
        .where(
            attempt.c.run_id == row.id,
            attempt.c.number < number,
            attempt.c.number > row.counts_from,
            attempt.c.heard_at.is_not(None),
        )
        .order_by(attempt.c.number)
    )
    return [as_attempt(found) for found in connection.execute(query)]


def close_attempt(
    connection: Connection,
    row: Row[Any],
    own: Row[Any],
    outcome: Outcome,
    *,
    at: datetime,
    ending: Ending,
    reported: tuple[datetime, int] | None = None,
) -> Verdict:
    """The attempt is over: its outcome, its GPUs, its time, and what becomes of its run, all at once.

    `row` and `own` are the run and the attempt as this transaction sees them; the caller holds the run's row. `at` is
    our clock; `reported` its host's, and the number of the event, where the end is the attempt's own word.
    """
    ended_at, ended_seq = reported or (at, None)
    verdict = ending(as_run(row), counted(connection, row, own.number), as_attempt(own), outcome)
    change_attempt(
        connection,
        row.id,
        own.number,
        outcome=wire.encode(verdict.outcome).decode(),
        used_s=max(0.0, verdict.outcome.seconds),
        ended_at=ended_at,
        ended_seq=ended_seq,
    )
    free_gpus(connection, row.id, own.number)
    state = RunState(row.state)
    total_s = used_s(connection, row.id)
    moves = state in LIVE or state is RunState.LOST or (state, verdict.state) in _TRUTH
    if not moves or not may_become(state, verdict.state):
        connection.execute(update(run).where(run.c.id == row.id).values(used_s=total_s))
        return verdict
    values: dict[str, object] = {"state": verdict.state.value, "used_s": total_s, "usage": None}
    if verdict.state is RunState.QUEUED:
        values |= {"not_before": verdict.not_before, "note": verdict.note, "queued_at": at, "goes_on": False}
        values |= {"outcome": None, "ended_at": None}
    elif verdict.state is RunState.PAUSED:
        values |= {"note": verdict.note, "not_before": None, "outcome": None, "ended_at": None}
    else:
        values |= {"outcome": wire.encode(verdict.outcome).decode(), "ended_at": ended_at, "note": verdict.note}
        values |= {"goes_on": False, "not_before": None}
        if verdict.state is RunState.SUCCEEDED:
            values |= _of_the_program_that_ran(connection, row, own, verdict.outcome)
    connection.execute(update(run).where(run.c.id == row.id).values(**values))
    return verdict


def _of_the_program_that_ran(
    connection: Connection, row: Row[Any], own: Row[Any], outcome: Outcome
) -> dict[str, object]:
    """What to change where a new program came too late: the result is of the one that the attempt was sent with."""
    query = (
        select(script)
        .where(script.c.run_id == row.id, script.c.at <= own.dispatched_at)
        .order_by(script.c.version.desc())
        .limit(1)
    )
    ran = connection.execute(query).one_or_none()
    if ran is None or ran.version == row.script:
        return {}
    late = f"It was done before version {row.script} of its program could take over"
    said = f"{late}: this is what version {ran.version} made."
    noted = outcome.model_copy(update={"reason": " ".join(part for part in (outcome.reason, said) if part)})
    spec = as_run(row).spec.model_copy(update={"bundle_sha256": ran.bundle_sha256})
    return {
        "outcome": wire.encode(noted).decode(),
        "spec": wire.encode(spec).decode(),
        "script": ran.version,
    }


def used_s(connection: Connection, run_id: str) -> float:
    """The training time of all attempts of a run."""
    query = select(func.coalesce(func.sum(attempt.c.used_s), 0.0)).where(attempt.c.run_id == run_id)
    return float(connection.execute(query).scalar_one())


def newest_step(connection: Connection, run_id: str) -> int:
    """Of the newest checkpoint; 0 where there is none."""
    query = (
        select(checkpoint.c.step)
        .where(checkpoint.c.run_id == run_id)
        .order_by(checkpoint.c.attempt.desc(), checkpoint.c.seq.desc())
        .limit(1)
    )
    return int(connection.execute(query).scalar_one_or_none() or 0)
