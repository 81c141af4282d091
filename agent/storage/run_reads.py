"""What is read of runs beside their own rows: attempts, checkpoints, notes, leases, metrics, logs. Changes nothing but
cordons. The base of `agent.storage.runs.SqlRuns`.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, func, insert, select, update

from agent.domain.events import MetricRow
from agent.domain.runs import Attempt, Checkpoint
from agent.run_store import (
    ALL_STEPS,
    START,
    Cordon,
    Kind,
    Lease,
    LogPage,
    LogQuery,
    Note,
    Occupancy,
    Place,
    Script,
    Steps,
)
from agent.series.slices import MetricTable, Slice
from agent.series.usage import STEP, place_of, slice_by_step, table_by_step
from agent.series.window import Stretch, Summary, Window
from agent.storage import run_rows as rows
from agent.storage.database import Database
from agent.storage.run_occupancy import cordons, occupancy
from agent.storage.series import rows_between, slice_of, table_of
from agent.storage.series_reads import SeriesReads
from agent.storage.series_tables import METRICS, USAGE
from agent.storage.tables import attempt, checkpoint, gpu, gpu_lease, log_line, note, script

_TABLES = {"metrics": METRICS, "usage": USAGE}
LEVELS = {"error": ["error"], "warning": ["error", "warning"]}


class RunReads:
    """Reads of the run tables."""

    def __init__(self, database: Database) -> None:
        """`database` is started by the composition root."""
        self._database = database

    async def attempts(self, run_id: str) -> Sequence[Attempt]:
        """All attempts, oldest first."""
        query = select(attempt).where(attempt.c.run_id == run_id).order_by(attempt.c.number)
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return [rows.as_attempt(row) for row in found]

    async def checkpoints(self, run_id: str) -> Sequence[Checkpoint]:
        """In the order in which they were saved."""
        order = (checkpoint.c.attempt, checkpoint.c.seq)
        query = select(checkpoint).where(checkpoint.c.run_id == run_id).order_by(*order)
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return [Checkpoint(attempt=row.attempt, step=row.step, size_bytes=row.size_bytes, at=row.at) for row in found]

    async def notes(self, run_id: str) -> Sequence[Note]:
        """What its hosts told people, oldest first."""
        query = select(note).where(note.c.run_id == run_id).order_by(note.c.attempt, note.c.seq)
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return [Note(row.attempt, row.text, row.at) for row in found]

    async def scripts(self, run_id: str) -> Sequence[Script]:
        """All versions of its program, oldest first."""
        query = select(script).where(script.c.run_id == run_id).order_by(script.c.version)
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return [Script(row.version, row.bundle_sha256, row.at) for row in found]

    async def leases(self) -> Sequence[Lease]:
        """Every GPU that is held."""
        query = select(gpu_lease).order_by(gpu_lease.c.host, gpu_lease.c.uuid)
        found = await self._database.read(lambda connection: connection.execute(query).all())
        return [Lease(row.host, row.uuid, row.run_id, row.attempt) for row in found]

    async def cordons(self) -> Sequence[Cordon]:
        """Every GPU that gets no runs."""
        return await self._database.read(cordons)

    async def occupancy(self, run_ids: Sequence[str], since: datetime) -> Occupancy:
        """What a plan for these runs, which are queued, is made from."""
        return await self._database.read(lambda connection: occupancy(connection, run_ids, since))

    async def cordon(self, host: str, uuid: str, reason: str, *, at: datetime, sticky: bool) -> None:
        """Give it no more runs; what is known already keeps its date."""
        this = (gpu.c.host == host) & (gpu.c.uuid == uuid)

        def store(connection: Connection) -> None:
            known = connection.execute(select(gpu).where(this)).one_or_none()
            if known is None:
                values = {"host": host, "uuid": uuid, "reason": reason, "since": at, "sticky": sticky}
                connection.execute(insert(gpu), values)
            else:
                change = update(gpu).where(this).values(reason=reason, sticky=sticky or known.sticky)
                connection.execute(change)

        await self._database.write(store)

    async def uncordon(self, host: str, uuid: str) -> bool:
        """It gets runs again; False when it did."""
        change = delete(gpu).where(gpu.c.host == host, gpu.c.uuid == uuid)
        return await self._database.write(lambda connection: connection.execute(change).rowcount == 1)

    async def metrics(self, run_id: str) -> Sequence[MetricRow]:
        """All rows, attempts in order, file order within."""
        return (await self.metrics_after(run_id, START))[0]

    async def metrics_after(
        self, run_id: str, place: Place, *, most: int | None = None
    ) -> tuple[Sequence[MetricRow], Place]:
        """The rows that stand behind `place`, and where they end."""
        number, row = place
        query = select(attempt.c.number, attempt.c.rows, attempt.c.folded).where(
            attempt.c.run_id == run_id, attempt.c.number >= number, attempt.c.rows > 0
        )

        def find(connection: Connection) -> tuple[Sequence[MetricRow], Place]:
            found: list[MetricRow] = []
            end = place
            for own in connection.execute(query.order_by(attempt.c.number)).all():
                first = row if own.number == number else 0
                stop = own.rows if most is None else min(own.rows, first + most)
                if stop > first:
                    found += rows_between(connection, run_id, own.number, first, stop, folded=own.folded)
                    end = (own.number, stop)
                    if most is not None:
                        break
            return found, end

        return await self._database.read(find)

    async def newest_metrics(self, run_id: str, count: int) -> Sequence[MetricRow]:
        """The last `count` rows, newest last."""
        query = select(attempt.c.number, attempt.c.rows, attempt.c.folded, attempt.c.low_step).where(
            attempt.c.run_id == run_id, attempt.c.rows > 0
        )

        def find(connection: Connection) -> Sequence[MetricRow]:
            found: list[MetricRow] = []
            left, until = count, ALL_STEPS[1]
            for own in connection.execute(query.order_by(attempt.c.number.desc())):
                first = max(0, own.rows - left)
                read = rows_between(connection, run_id, own.number, first, own.rows, folded=own.folded)
                found = [row for row in read if row.step < until] + found
                left -= own.rows - first
                until = min(until, own.low_step)
                if not left:
                    break
            return found

        return await self._database.read(find)

    async def metric_table(self, run_id: str, kind: Kind = "metrics") -> MetricTable:
        """The names and the number of rows of a whole export."""
        found = await self._database.read(lambda connection: table_of(connection, run_id, _TABLES[kind]))
        return table_by_step(found) if kind == "usage" else found

    async def metric_slice(self, run_id: str, number: int, first: int, stop: int, kind: Kind = "metrics") -> Slice:
        """The rows `[first, stop)` of an attempt."""
        tables = _TABLES[kind]
        rows = await self._database.read(lambda connection: slice_of(connection, run_id, number, first, stop, tables))
        return slice_by_step(rows) if kind == "usage" else rows

    async def metric_names(self, run_id: str) -> Sequence[str]:
        """Of all metrics, the one that began at the lowest step first."""
        return await self._database.read(lambda connection: SeriesReads(connection, run_id).names())

    async def series(self, run_id: str, names: Sequence[str] | None = None) -> Sequence[Summary]:
        """What there is of each metric, or of these."""

        def find(connection: Connection) -> list[Summary]:
            reads = SeriesReads(connection, run_id)
            return [
                found
                for name in (reads.names() if names is None else names)
                if (found := reads.summary(name)) is not None
            ]

        return await self._database.read(find)

    async def windows(self, run_id: str, names: Sequence[str], steps: Steps = ALL_STEPS) -> Sequence[Window]:
        """The curves of these metrics between two steps, both included, in no more detail than a picture shows."""
        low, high = steps

        def find(connection: Connection) -> list[Window]:
            reads = SeriesReads(connection, run_id)
            return [reads.window(name, low, high) for name in names]

        return await self._database.read(find)

    async def usage(self, run_id: str, *, last_s: float | None = None) -> Mapping[str, Sequence[Stretch]]:
        """What its attempts used."""

        def find(connection: Connection) -> dict[str, list[Stretch]]:
            reads = SeriesReads(connection, run_id, USAGE)
            newest = reads.highest(STEP)
            low = ALL_STEPS[0] if last_s is None or newest is None else newest - place_of(last_s)
            return {name: reads.stretches(name, low) for name in reads.names()}

        return await self._database.read(find)

    async def paces(self, run_id: str, *, last_s: float | None = None) -> Sequence[Stretch]:
        """The steps that its attempts made, by time."""

        def find(connection: Connection) -> Sequence[Stretch]:
            reads = SeriesReads(connection, run_id)
            name = reads.densest()
            if name is None:
                return []
            whole = reads.stretches(name)
            if last_s is None or not whole:
                return whole
            since = max(float(one.window.spans["ended"].max()) for one in whole) - last_s
            return [part for one in whole if (part := _nearer(reads, one, since))]

        return await self._database.read(find)

    async def stretches(self, run_id: str, names: Sequence[str]) -> Mapping[str, Sequence[Stretch]]:
        """What each attempt has of these metrics."""

        def find(connection: Connection) -> dict[str, list[Stretch]]:
            reads = SeriesReads(connection, run_id)
            return {name: reads.stretches(name) for name in names}

        return await self._database.read(find)

    async def log(self, run_id: str, limit: int) -> Sequence[str]:
        """The last lines, newest last."""
        return (await self.log_page(run_id, LogQuery(limit=limit))).lines

    async def log_page(self, run_id: str, query: LogQuery) -> LogPage:
        """A page of the log, in the log's order."""
        wanted = select(log_line.c.id, log_line.c.text).where(log_line.c.run_id == run_id)
        if query.before is not None:
            wanted = wanted.where(log_line.c.id < query.before)
        if query.since is not None:
            wanted = wanted.where(log_line.c.id >= query.since)
        if query.level is not None:
            wanted = wanted.where(log_line.c.level.in_(LEVELS[query.level]))
        if query.contains:
            wanted = wanted.where(func.lower(log_line.c.text).contains(query.contains.lower(), autoescape=True))
        order = log_line.c.id.desc() if query.since is None else log_line.c.id
        wanted = wanted.order_by(order).limit(query.limit + 1)  # one more says whether there are more
        found = await self._database.read(lambda connection: connection.execute(wanted).all())
        page = sorted(found[: query.limit])
        older = page[0].id if page and query.since is None and len(found) > query.limit else None
        return LogPage(tuple(row.text for row in page), tuple(row.id for row in page), older)


def _nearer(reads: SeriesReads, whole: Stretch, since: float) -> Stretch | None:
    """What an attempt has from a moment on, in more detail than the whole has; None where that is nothing."""
    near = whole.since(since)
    if near is None or near.window.exact:
        return near
    steps = int(near.window.spans["first"].min()), int(near.window.spans["last"].max())
    again = [one for one in reads.stretches(whole.window.name, *steps) if one.attempt == whole.attempt]
    return again[0].since(since)
