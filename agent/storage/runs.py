"""Runs, attempts, metrics and logs in SQL. Every state change is a compare-and-set within the table of transitions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select, tuple_, update

from agent import wire
from agent.domain.errors import NotFound
from agent.domain.events import Accepted, Beat, Ended, Logged, Measured, MetricRow, Noted, Saved, Started, WorkerEvent
from agent.domain.rooms import Room
from agent.domain.runs import LIVE, Outcome, Run, RunSpec, RunState, may_become
from agent.storage.database import Database
from agent.storage.tables import attempt, log_chunk, metric_chunk, run, seen_event
from agent.stores import START, Heard, Place


def _as_run(row: Row[Any]) -> Run:
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
    )


def _move(connection: Connection, run_id: str, expect: Sequence[RunState], to: RunState, **values: object) -> bool:
    legal = [state.value for state in expect if may_become(state, to)]
    change = update(run).where(run.c.id == run_id, run.c.state.in_(legal)).values(state=to.value, **values)
    return connection.execute(change).rowcount == 1


class SqlRuns:
    """The run tables."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def create(self, new: Run, room: Room, *, client_token: str) -> Run:
        """Insert a run; a second call with the same token returns the first run."""

        def store(connection: Connection) -> Row[Any]:
            same = select(run).where(run.c.client_token == client_token)
            found = connection.execute(same).one_or_none()
            if found is not None:
                return found
            connection.execute(
                insert(run).values(
                    id=new.id,
                    session_id=new.session_id,
                    room=wire.encode(room).decode(),
                    requester=new.requester,
                    client_token=client_token,
                    state=new.state.value,
                    spec=wire.encode(new.spec).decode(),
                    attempt=0,
                    step=0,
                    created_at=new.created_at,
                )
            )
            return connection.execute(same).one()

        return _as_run(await self._database.write(store))

    async def _one(self, run_id: str) -> Row[Any]:
        query = select(run).where(run.c.id == run_id)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise NotFound(f"There is no run `{run_id}`. `runs` lists the runs of this thread.")
        return row

    async def get(self, run_id: str) -> Run:
        """One run."""
        return _as_run(await self._one(run_id))

    async def room(self, run_id: str) -> Room:
        """Where its card is."""
        return wire.decode(Room, (await self._one(run_id)).room)

    async def of_session(self, session_id: str, limit: int) -> Sequence[Run]:
        """Newest first."""
        query = select(run).where(run.c.session_id == session_id).order_by(run.c.created_at.desc()).limit(limit)
        return [_as_run(row) for row in await self._database.read(lambda connection: connection.execute(query).all())]

    async def recent(self, limit: int) -> Sequence[Run]:
        """Newest first, all sessions."""
        query = select(run).order_by(run.c.created_at.desc()).limit(limit)
        return [_as_run(row) for row in await self._database.read(lambda connection: connection.execute(query).all())]

    async def in_state(self, states: Sequence[RunState]) -> Sequence[Run]:
        """Oldest first."""
        query = select(run).where(run.c.state.in_([state.value for state in states])).order_by(run.c.created_at)
        return [_as_run(row) for row in await self._database.read(lambda connection: connection.execute(query).all())]

    async def move(self, run_id: str, *, expect: RunState, to: RunState) -> bool:
        """Compare-and-set of the state, within the table of transitions."""
        return await self._database.write(lambda connection: _move(connection, run_id, [expect], to))

    async def end(self, run_id: str, *, expect: RunState, outcome: Outcome, at: datetime) -> bool:
        """Compare-and-set into an end state together with its outcome."""
        text = wire.encode(outcome).decode()
        return await self._database.write(
            lambda connection: _move(connection, run_id, [expect], outcome.state, outcome=text, ended_at=at)
        )

    async def dispatch(self, run_id: str, *, host: str, at: datetime) -> int | None:
        """Queued -> starting with a new attempt; its number, or None when the run was not queued."""

        def store(connection: Connection) -> int | None:
            if not _move(connection, run_id, [RunState.QUEUED], RunState.STARTING, attempt=run.c.attempt + 1):
                return None
            number = int(connection.execute(select(run.c.attempt).where(run.c.id == run_id)).scalar_one())
            connection.execute(insert(attempt).values(run_id=run_id, number=number, host=host, sent=0, sent_at=at))
            return number

        return await self._database.write(store)

    async def resend(self, run_id: str, number: int, *, at: datetime) -> int:
        """Count one more launch hint; the number of hints so far."""
        this = (attempt.c.run_id == run_id) & (attempt.c.number == number)

        def store(connection: Connection) -> int:
            connection.execute(update(attempt).where(this).values(sent=attempt.c.sent + 1, sent_at=at))
            return int(connection.execute(select(attempt.c.sent).where(this)).scalar_one())

        return await self._database.write(store)

    async def heard(self, run_id: str) -> Heard:
        """When its newest attempt was sent and last heard of."""
        query = select(attempt).where(attempt.c.run_id == run_id).order_by(attempt.c.number.desc()).limit(1)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise NotFound(f"Run `{run_id}` has no attempt yet.")
        return Heard(row.number, row.host, row.sent, row.sent_at, row.heard_at)

    async def apply(self, events: Sequence[WorkerEvent], *, at: datetime) -> Sequence[str]:
        """Store events that were not stored before; the runs that changed."""

        def store(connection: Connection) -> list[str]:
            changed: dict[str, None] = {}
            for event in events:
                if _apply(connection, event, at):
                    changed[event.run] = None
            return list(changed)

        return await self._database.write(store)

    async def metrics(self, run_id: str) -> Sequence[MetricRow]:
        """All rows, attempts in order, file order within."""
        return (await self.metrics_after(run_id, START))[0]

    async def metrics_after(self, run_id: str, place: Place) -> tuple[Sequence[MetricRow], Place]:
        """The rows that stand behind `place`, and where they end."""
        where = tuple_(metric_chunk.c.attempt, metric_chunk.c.seq)
        query = (
            select(metric_chunk)
            .where(metric_chunk.c.run_id == run_id, where > place)
            .order_by(metric_chunk.c.attempt, metric_chunk.c.seq)
        )

        def find(connection: Connection) -> tuple[Sequence[MetricRow], Place]:
            chunks = connection.execute(query).all()
            rows = [row for chunk in chunks for row in wire.decode(Measured, chunk.rows).rows]
            return rows, (chunks[-1].attempt, chunks[-1].seq) if chunks else place

        return await self._database.read(find)

    async def log(self, run_id: str, limit: int) -> Sequence[str]:
        """The last lines, newest last."""
        query = (
            select(log_chunk.c.lines)
            .where(log_chunk.c.run_id == run_id)
            .order_by(log_chunk.c.attempt.desc(), log_chunk.c.seq.desc())
            .limit(limit)
        )
        chunks = await self._database.read(lambda connection: connection.execute(query).scalars().all())
        lines: list[str] = []
        for chunk in reversed(chunks):
            logged = wire.decode(Logged, chunk)
            lines.extend(logged.lines)
            if logged.dropped:
                lines.append(f"… {logged.dropped} lines dropped")
        return lines[-limit:]


def _apply(connection: Connection, event: WorkerEvent, at: datetime) -> bool:
    key = {"run_id": event.run, "attempt": event.attempt, "seq": event.seq}
    newest = connection.execute(select(run.c.attempt).where(run.c.id == event.run)).scalar_one_or_none()
    if newest is None:
        return False  # a run of another bot's database
    seen = select(seen_event.c.seq).filter_by(**key)
    if connection.execute(seen).scalar_one_or_none() is not None:
        return False
    connection.execute(insert(seen_event).values(key))
    if event.attempt != newest:
        return False  # the fence: a superseded attempt changes nothing
    connection.execute(
        update(attempt).where(attempt.c.run_id == event.run, attempt.c.number == event.attempt).values(heard_at=at)
    )
    _apply_body(connection, event, key)
    return True


def _apply_body(connection: Connection, event: WorkerEvent, key: dict[str, object]) -> None:
    this = run.c.id == event.run
    match event.body:
        case Accepted() | Beat() | Saved() | Noted():
            _move(connection, event.run, [RunState.UNREACHABLE], RunState.RUNNING)
        case Started(total_steps=total):
            _move(connection, event.run, [RunState.STARTING, RunState.UNREACHABLE], RunState.RUNNING)
            connection.execute(update(run).where(this).values(total_steps=total, started_at=event.at))
        case Measured(rows=rows) as body:
            connection.execute(insert(metric_chunk).values(**key, rows=wire.encode(body).decode()))
            _move(connection, event.run, [RunState.STARTING, RunState.UNREACHABLE], RunState.RUNNING)
            if rows:
                connection.execute(update(run).where(this).values(step=rows[-1].step))
        case Logged() as body:
            connection.execute(insert(log_chunk).values(**key, lines=wire.encode(body).decode()))
        case Ended(outcome=outcome):
            text = wire.encode(outcome).decode()
            _move(connection, event.run, [*LIVE, RunState.LOST], outcome.state, outcome=text, ended_at=event.at)
