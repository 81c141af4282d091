"""Runs, attempts, leases, metrics and logs in SQL: the writes that people and the run service ask for, and the reads.

What hosts report is stored by `agent.storage.run_events`. Every state change is a compare-and-set within the table of
transitions; a dispatch and the end of an attempt are one transaction with the GPUs.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, Select, func, insert, select, update

from agent import wire
from agent.cards import counted
from agent.domain.errors import Conflict
from agent.domain.events import WorkerEvent
from agent.domain.inbound import Thread
from agent.domain.runs import ENDED, LIVE, Attempt, Outcome, Run, RunState, may_become
from agent.run_store import Applied, Ending, no_run
from agent.storage import run_rows as rows
from agent.storage.database import Database
from agent.storage.result_pictures import PictureReads
from agent.storage.run_events import apply
from agent.storage.run_occupancy import live
from agent.storage.run_reads import RunReads
from agent.storage.tables import attempt, run, script


class SqlRuns(RunReads, PictureReads):
    """The run tables."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        super().__init__(database)
        self._database = database

    async def create(self, new: Run, thread: Thread, *, client_token: str, most_queued: int | None = None) -> Run:
        """Insert a run; a second call with the same token returns the first run. Raises `Conflict` (queue full)."""
        text = wire.encode(thread).decode()

        def store(connection: Connection) -> Row[Any]:
            same = select(run).where(run.c.client_token == client_token)
            found = connection.execute(same).one_or_none()
            if found is not None:
                return found
            if most_queued is not None:
                mine = (run.c.requester == new.requester) & (run.c.state == RunState.QUEUED.value)
                waiting = connection.execute(select(func.count()).select_from(run).where(mine)).scalar_one()
                if waiting >= most_queued:
                    raise Conflict(
                        f"You have {counted(waiting, 'run')} waiting, and {most_queued} is the most. Stop one of "
                        "them, or wait until one has started."
                    )
            rows.insert_run(connection, new, thread=text, client_token=client_token)
            return connection.execute(same).one()

        return rows.as_run(await self._database.write(store))

    async def get(self, run_id: str) -> Run:
        """One run."""
        return rows.as_run(await self._one(run_id))

    async def thread(self, run_id: str) -> Thread:
        """Where its card is."""
        return wire.decode(Thread, (await self._one(run_id)).thread)

    async def threads(self, run_ids: Sequence[str]) -> Mapping[str, Thread]:
        """Where the cards of these are."""
        query = select(run.c.id, run.c.thread).where(run.c.id.in_(run_ids))
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return {row.id: wire.decode(Thread, row.thread) for row in found}

    async def card_view(self, run_id: str) -> str:
        """How its card draws its curves."""
        return str((await self._one(run_id)).card_view)

    async def set_card_view(self, run_id: str, view: str) -> None:
        """The newest wins."""
        change = update(run).where(run.c.id == run_id).values(card_view=view)
        await self._database.write(lambda connection: connection.execute(change))

    async def _one(self, run_id: str) -> Row[Any]:
        query = select(run).where(run.c.id == run_id)
        row = await self._database.read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise no_run(run_id)
        return row

    async def of_session(self, session_id: str, limit: int) -> Sequence[Run]:
        """Newest first."""
        return await self._runs(
            select(run).where(run.c.session_id == session_id).order_by(run.c.created_at.desc()).limit(limit)
        )

    async def recent(self, limit: int, *, channel_of: Thread | None = None) -> Sequence[Run]:
        """Newest first, all sessions; or those alone whose card is in the channel of this thread."""
        query = select(run).order_by(run.c.created_at.desc()).limit(limit)
        if channel_of is not None:
            for part in ("platform", "channel"):
                written = f'"{part}":{json.dumps(getattr(channel_of, part), ensure_ascii=False)}'
                query = query.where(run.c.thread.contains(written, autoescape=True))
        return await self._runs(query)

    async def measured_before(self, measured: Run) -> int:
        """How many runs of the same data, target and split have a score from before this one ended."""
        if measured.spec.dataset is None or measured.ended_at is None:
            return 0
        alike = run.c.spec.contains(measured.spec.dataset.sha256, autoescape=True)
        query = select(run).where(alike, run.c.outcome.is_not(None), run.c.ended_at < measured.ended_at)
        found = [one for one in await self._runs(query) if one.outcome and one.outcome.scorecard]
        return sum(one.id != measured.id and one.spec.sealed_rows == measured.spec.sealed_rows for one in found)

    async def in_state(self, states: Sequence[RunState]) -> Sequence[Run]:
        """Oldest first."""
        wanted = run.c.state.in_([state.value for state in states])
        return await self._runs(select(run).where(wanted).order_by(run.c.created_at, run.c.id))

    async def _runs(self, query: Select[Any]) -> list[Run]:
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return [rows.as_run(row) for row in found]

    async def live(self) -> Sequence[tuple[Run, Attempt]]:
        """Every run in a live state with its newest attempt, oldest first."""
        return await self._database.read(live)

    async def move(self, run_id: str, *, expect: RunState, to: RunState) -> bool:
        """Compare-and-set of the state, within the table of transitions."""
        rest = {"note": "", "not_before": None} if to is RunState.PAUSED else {}  # it waits for nothing but people
        return await self._database.write(lambda connection: rows.move(connection, run_id, [expect], to, **rest))

    async def request(
        self, run_id: str, *, expect: RunState, how: Literal["stop", "pause", "kill"], note: str = ""
    ) -> bool:
        """Compare-and-set into stopping or pausing, with what its host has to be told; `note` says who wants it."""
        to = RunState.PAUSING if how == "pause" else RunState.STOPPING

        def store(connection: Connection) -> bool:
            row = rows.locked(connection, run_id)
            if row is None or row.state != expect.value:
                return False
            if expect is not to and not rows.move(connection, run_id, [expect], to, goes_on=False):
                return False
            connection.execute(update(run).where(run.c.id == run_id).values(note=note))
            rows.change_attempt(connection, run_id, row.attempt, stop=how, stops=0, stop_sent_at=None)
            return True

        return await self._database.write(store)

    async def go_on(self, run_id: str, *, expect: RunState, goes_on: bool) -> bool:
        """Whether it is queued again as soon as it has paused; compare-and-set on the state."""
        change = update(run).where(run.c.id == run_id, run.c.state == expect.value).values(goes_on=goes_on)
        return await self._database.write(lambda connection: connection.execute(change).rowcount == 1)

    async def end(self, run_id: str, *, expect: RunState, outcome: Outcome, at: datetime) -> bool:
        """Compare-and-set into the state of `outcome`; an attempt that is open ends with it and gives its GPUs back."""
        text = wire.encode(outcome).decode()

        def store(connection: Connection) -> bool:
            row = rows.locked(connection, run_id)
            if row is None or row.state != expect.value or not may_become(expect, outcome.state):
                return False
            if expect in LIVE:
                rows.change_attempt(connection, run_id, row.attempt, outcome=text, ended_at=at)
                rows.free_gpus(connection, run_id, row.attempt)
            values = {"outcome": text, "ended_at": at, "note": "", "not_before": None, "goes_on": False, "usage": None}
            return rows.move(connection, run_id, [expect], outcome.state, **values)

        return await self._database.write(store)

    async def requeue(self, run_id: str, *, expect: RunState, note: str, at: datetime) -> bool:
        """Compare-and-set into the queue on a person's request: earlier failures do not count any more."""
        return await self._database.write(lambda connection: _requeue(connection, run_id, expect, note, at))

    async def replace_script(
        self, run_id: str, *, expect: RunState, to: RunState, was: str, bundle_sha256: str, at: datetime
    ) -> int | None:
        """Another program, as the next version, and a compare-and-set; None when state or program had changed."""

        def store(connection: Connection) -> int | None:
            row = rows.locked(connection, run_id)
            if row is None or row.state != expect.value or (to is not expect and not may_become(expect, to)):
                return None
            spec = rows.as_run(row).spec
            if spec.bundle_sha256 != was:
                return None
            newest = select(func.max(script.c.version)).where(script.c.run_id == run_id)
            version = int(connection.execute(newest).scalar_one() or 0) + 1
            values = {"run_id": run_id, "version": version, "bundle_sha256": bundle_sha256, "at": at}
            connection.execute(insert(script), values)
            changed = wire.encode(spec.model_copy(update={"bundle_sha256": bundle_sha256})).decode()
            change = update(run).where(run.c.id == run_id)
            connection.execute(change.values(spec=changed, script=version))
            if to is RunState.QUEUED:
                _requeue(connection, run_id, expect, f"Its program is version {version} now.", at)
            elif to is RunState.PAUSING:
                rows.move(connection, run_id, [expect], to)
                connection.execute(change.values(goes_on=True, counts_from=row.attempt))
                rows.change_attempt(connection, run_id, row.attempt, stop="pause", stops=0, stop_sent_at=None)
            return version

        return await self._database.write(store)

    async def note(self, run_id: str, text: str) -> bool:
        """Why a queued run waits; False when that was known or it does not wait."""
        waits = (run.c.id == run_id) & (run.c.state == RunState.QUEUED.value) & (run.c.note != text)
        change = update(run).where(waits).values(note=text)
        return await self._database.write(lambda connection: connection.execute(change).rowcount == 1)

    async def prioritise(self, run_id: str, priority: int) -> bool:
        """False when it has ended."""
        over = [state.value for state in ENDED]
        change = update(run).where(run.c.id == run_id, run.c.state.not_in(over)).values(priority=priority)
        return await self._database.write(lambda connection: connection.execute(change).rowcount == 1)

    async def dispatch(
        self, run_id: str, *, host: str, gpus: Sequence[str] = (), at: datetime
    ) -> tuple[Run, Attempt] | None:
        """Queued -> starting with a new attempt and all of its GPUs, or nothing at all and None."""

        def store(connection: Connection) -> tuple[Run, Attempt] | None:
            row = rows.locked(connection, run_id)
            if row is None or row.state != RunState.QUEUED.value or (row.not_before and row.not_before > at):
                return None
            number = row.attempt + 1
            if not rows.take_gpus(connection, run_id, number, host, gpus):
                return None
            values = {"attempt": number, "note": "", "not_before": None, "outcome": None, "usage": None}
            rows.move(connection, run_id, [RunState.QUEUED], RunState.STARTING, **values)
            new = {"run_id": run_id, "number": number, "host": host, "gpus": json.dumps(list(gpus))}
            new |= {"sent": 0, "sent_at": at, "dispatched_at": at, "boot_id": "", "training": False}
            new |= {"first_step": rows.newest_step(connection, run_id), "stop": "", "stops": 0}
            connection.execute(insert(attempt).values(**new, seen_to=0, rows=0, folded=0, used_s=0.0))
            started = connection.execute(select(run).where(run.c.id == run_id)).one()
            own = rows.attempt_row(connection, run_id, number)
            return rows.as_run(started), rows.as_attempt(own)

        return await self._database.write(store)

    async def sent(self, run_id: str, number: int, *, at: datetime) -> None:
        """One more launch hint went out."""
        values = {"sent": attempt.c.sent + 1, "sent_at": at}
        await self._database.write(lambda connection: rows.change_attempt(connection, run_id, number, **values))

    async def stop_sent(self, run_id: str, number: int, *, at: datetime) -> None:
        """One more hint to end went out."""
        values = {"stops": attempt.c.stops + 1, "stop_sent_at": at}
        await self._database.write(lambda connection: rows.change_attempt(connection, run_id, number, **values))

    async def close(
        self, run_id: str, number: int, *, expect: RunState, outcome: Outcome, at: datetime, ending: Ending
    ) -> Run | None:
        """Our own word that the newest attempt is over; the run after it, None when its state had changed."""

        def store(connection: Connection) -> Run | None:
            row = rows.locked(connection, run_id)
            if row is None or row.state != expect.value or row.attempt != number:
                return None
            own = rows.attempt_row(connection, run_id, number)
            if own.outcome is not None:
                return None
            rows.close_attempt(connection, row, own, outcome, at=at, ending=ending)
            return rows.as_run(connection.execute(select(run).where(run.c.id == run_id)).one())

        return await self._database.write(store)

    async def apply(self, events: Sequence[WorkerEvent], *, at: datetime, ending: Ending) -> Applied:
        """Store events that were not stored before, all in one transaction."""
        return await self._database.write(lambda connection: apply(connection, events, at=at, ending=ending))


def _requeue(connection: Connection, run_id: str, expect: RunState, note: str, at: datetime) -> bool:
    values = {"note": note, "queued_at": at, "not_before": None, "outcome": None, "ended_at": None, "goes_on": False}
    return rows.move(connection, run_id, [expect], RunState.QUEUED, counts_from=run.c.attempt, **values)
