"""What hosts report, into the tables: one transaction a batch, with a few statements however many events it has.

The fence is here: an event of an attempt that was superseded changes nothing, and is answered with `Stale`. An event
that was stored before is known by its seq. Called by `agent.storage.runs.SqlRuns.apply`, in the writer's transaction.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from agent import wire
from agent.domain.events import (
    Accepted,
    Beat,
    Ended,
    Logged,
    Measured,
    Noted,
    Pictured,
    Saved,
    Started,
    WorkerEvent,
)
from agent.domain.levels import level_of
from agent.domain.runs import RunState
from agent.run_store import DROPPED, Applied, Ending, Stale
from agent.series.usage import row_of
from agent.storage import result_pictures
from agent.storage import run_rows as rows
from agent.storage.series import FOLD, MOST_LOOSE, fold
from agent.storage.series_tables import METRICS, USAGE, SeriesTables
from agent.storage.tables import attempt, checkpoint, log_line, metric_chunk, note, run, seen_event, usage_chunk

# Built once: building a statement costs more than carrying it out does. An update sets what it is given.
_RUNS = select(run).where(run.c.id.in_(bindparam("runs", expanding=True))).order_by(run.c.id).with_for_update()
_NEWEST = (
    select(attempt)
    .join(run, (attempt.c.run_id == run.c.id) & (attempt.c.number == run.c.attempt))
    .where(run.c.id.in_(bindparam("runs", expanding=True)))
)
_BEYOND = select(seen_event).where(seen_event.c.run_id.in_(bindparam("runs", expanding=True)))
_CHANGE_RUN = update(run).where(run.c.id == bindparam("of_run"))
_CHANGE_ATTEMPT = update(attempt).where(
    attempt.c.run_id == bindparam("of_run"), attempt.c.number == bindparam("of_number")
)


class _Seen:
    """Which events of an attempt were stored: all up to `through`, and those in `beyond` behind a gap."""

    def __init__(self, through: int, beyond: set[int]) -> None:
        self.through, self.beyond, self._stored = through, beyond, set(beyond)

    def add(self, seq: int) -> bool:
        """False when it was stored before."""
        if seq <= self.through or seq in self.beyond:
            return False
        self.beyond.add(seq)
        while self.through + 1 in self.beyond:
            self.through += 1
            self.beyond.remove(self.through)
        return True

    def store(self, connection: Connection, run_id: str, number: int) -> None:
        """Write what changed behind the gap; `through` is written with the attempt."""
        this = (seen_event.c.run_id == run_id) & (seen_event.c.attempt == number)
        if self._stored - self.beyond:
            connection.execute(delete(seen_event).where(this, seen_event.c.seq <= self.through))
        new = [{"run_id": run_id, "attempt": number, "seq": seq} for seq in sorted(self.beyond - self._stored)]
        if new:
            connection.execute(insert(seen_event), new)


class _Batch:
    """Rows to insert, gathered over all runs."""

    def __init__(self) -> None:
        self.metrics: list[dict[str, object]] = []
        self.beats: list[dict[str, object]] = []
        self.lines: list[dict[str, object]] = []
        self.checkpoints: list[dict[str, object]] = []
        self.notes: list[dict[str, object]] = []
        self.pictures: list[dict[str, object]] = []

    def add(self, event: WorkerEvent, life: "_Life") -> None:
        """What is a fact whatever became of the attempt since; `life` has not taken the event yet."""
        key: dict[str, object] = {"run_id": event.run, "attempt": event.attempt, "seq": event.seq}
        match event.body:
            case Measured() as body:
                self.metrics.append(key | {"rows": wire.encode(body).decode()})
            case Beat(usage=usage) if usage is not None:
                row = row_of(usage, at=event.at.timestamp(), step=life.step, gpus=life.gpus)
                self.beats.append(key | {"rows": wire.encode(Measured(rows=(row,))).decode()})
            case Logged(lines=lines, dropped=dropped):
                said = [(level_of(line), line) for line in lines]
                if dropped:
                    said.append(("warning", f"… {dropped} {DROPPED}"))
                of = {"run_id": event.run, "attempt": event.attempt}
                self.lines += [of | {"level": level, "text": line.replace("\x00", "")} for level, line in said]
            case Saved(step=step, size_bytes=size):
                self.checkpoints.append(key | {"step": step, "size_bytes": size, "at": event.at})
            case Pictured() as body:
                self.pictures.append(result_pictures.row_of(event, body))
            case Noted(text=text):
                self.notes.append(key | {"text": text.replace("\x00", ""), "at": event.at})
            case _:
                return

    def store(self, connection: Connection) -> None:
        """Insert them, one statement a table."""
        tables = (
            (metric_chunk, self.metrics),
            (usage_chunk, self.beats),
            (log_line, self.lines),
            (checkpoint, self.checkpoints),
            (note, self.notes),
        )
        for table, values in tables:
            if values:
                connection.execute(insert(table), values)
        if self.pictures:
            result_pictures.store(connection, self.pictures)


class _Life:
    """One run and its newest attempt while a batch is applied; what changed is written once, or before its end."""

    def __init__(self, connection: Connection, row: Row[Any], own: Row[Any], beyond: set[int], at: datetime) -> None:
        self._connection, self._at = connection, at
        self.row, self.own = row, own
        self.state = RunState(row.state)
        self.seen = _Seen(own.seen_to, beyond)
        self.rows, self.low_step = own.rows, own.low_step
        self.beats, self.step = own.beats, int(row.step)
        self._run: dict[str, object] = {}
        self._attempt: dict[str, object] = {}

    @property
    def closed(self) -> bool:
        return self.own.outcome is not None

    @property
    def gpus(self) -> Sequence[str]:
        """What the attempt was given."""
        return rows.as_attempt(self.own).gpus

    def take(self, event: WorkerEvent, ending: Ending) -> bool:
        """Apply an event that is new; False when the attempt lives and may not."""
        body = event.body
        if isinstance(body, Beat) and body.usage is not None:
            self.beats += 1
            self._attempt["beats"] = self.beats
        if isinstance(body, Measured) and body.rows:
            steps = [row.step for row in body.rows]
            self.rows += len(steps)
            self.low_step = min(steps) if self.low_step is None else min(self.low_step, *steps)
            self._attempt |= {"rows": self.rows, "low_step": self.low_step}
        if isinstance(body, Ended):
            if self.own.ended_seq is None:
                self._end(body, event, ending)
            return True
        if self.closed:
            return self.own.ended_seq is not None or self._revive(event)
        self._facts(event)
        return True

    def _facts(self, event: WorkerEvent) -> None:
        """What an attempt that lives has to say."""
        self._attempt["heard_at"] = self._at
        match event.body:
            case Accepted(boot_id=boot_id):
                self._attempt |= {"boot_id": boot_id, "accepted_at": event.at}
            case Started(total_steps=total):
                self._run["total_steps"] = total
                if self.row.started_at is None:
                    self._run.setdefault("started_at", event.at)
                self._train()
            case Measured(rows=measured):
                if measured:
                    self._run["step"] = self.step = measured[-1].step
                self._train()
            case Beat(usage=usage) if usage is not None:
                self._run["usage"] = wire.encode(usage).decode()
            case _:
                pass  # it lives, and that is all
        if self.state is RunState.UNREACHABLE:
            training = self.own.training or "training" in self._attempt
            self._become(RunState.RUNNING if training else RunState.STARTING)

    def _train(self) -> None:
        if not self.own.training:
            self._attempt["training"] = True
        if self.state in (RunState.STARTING, RunState.UNREACHABLE):
            self._become(RunState.RUNNING)

    def _become(self, state: RunState) -> None:
        self.state = state
        self._run["state"] = state.value

    def _revive(self, event: WorkerEvent) -> bool:
        """A run that was given up lives, and nothing was put in its place: it goes on, if its GPUs are still free."""
        own = self.own
        if self.state is not RunState.LOST:
            return False
        if not rows.take_gpus(self._connection, event.run, own.number, own.host, rows.as_attempt(own).gpus):
            return False
        states = {"pause": RunState.PAUSING, "": RunState.RUNNING if own.training else RunState.STARTING}
        self._become(states.get(own.stop, RunState.STOPPING))
        self._run |= {"outcome": None, "ended_at": None, "note": ""}
        self._attempt |= {"outcome": None, "ended_at": None, "used_s": 0.0}
        self._write()
        self._run["used_s"] = rows.used_s(self._connection, event.run)
        self._facts(event)
        return True

    def _end(self, body: Ended, event: WorkerEvent, ending: Ending) -> None:
        """Its own word that it is over; also of one that was given up: its host has the truth.

        Of a supervisor that died, or an end that cannot be read, nobody knows the time: it counts as of a lost one.
        """
        outcome, reported = body.outcome, (event.at, event.seq)
        if not outcome.seconds:
            self._write()
            outcome = outcome.model_copy(update={"seconds": rows.as_attempt(self.own).heard_s})
        self._attempt["heard_at"] = self._at
        self._write()
        rows.close_attempt(self._connection, self.row, self.own, outcome, at=self._at, ending=ending, reported=reported)
        self._read()

    def _write(self) -> None:
        if self._run:
            self._connection.execute(update(run).where(run.c.id == self.row.id).values(**self._run))
        if self._attempt:
            rows.change_attempt(self._connection, self.row.id, self.own.number, **self._attempt)
        if self._run or self._attempt:
            self._read()
        self._run, self._attempt = {}, {}

    def _read(self) -> None:
        self.row = self._connection.execute(select(run).where(run.c.id == self.row.id)).one()
        self.own = rows.attempt_row(self._connection, self.row.id, self.own.number)
        self.state = RunState(self.row.state)

    def left(self) -> tuple[dict[str, object], dict[str, object]]:
        """What is still to be written, of the run and of its attempt, each with its key."""
        self.seen.store(self._connection, self.row.id, self.own.number)
        self._fold("folded", METRICS, have=self.rows, folded=self.own.folded)
        self._fold("beats_folded", USAGE, have=self.beats, folded=self.own.beats_folded)
        if self.seen.through != self.own.seen_to:
            self._attempt["seen_to"] = self.seen.through
        key = {"of_run": self.row.id}
        of_attempt = self._attempt | key | {"of_number": self.own.number} if self._attempt else {}
        return self._run | key if self._run else {}, of_attempt

    def _fold(self, column: str, tables: SeriesTables, *, have: int, folded: int) -> None:
        """Move rows into columns once there are enough of them."""
        if have - folded >= FOLD:
            through = self.seen.through if have - folded < MOST_LOOSE else None
            key = {"run_id": self.row.id, "number": self.own.number}
            self._attempt[column] = fold(self._connection, **key, folded=folded, through=through, tables=tables)


def apply(connection: Connection, events: Sequence[WorkerEvent], *, at: datetime, ending: Ending) -> Applied:
    """Store what is new. An unknown run is another bot's, and passed over."""
    lives = _lives(connection, sorted({event.run for event in events}), at)
    batch, changed = _Batch(), dict[str, None]()
    stale: dict[tuple[str, int], Stale] = {}
    for event in events:
        life = lives.get(event.run)
        if life is None or event.attempt > life.own.number:
            continue
        key = (event.run, event.attempt)
        if isinstance(event.body, Ended):
            stale.pop(key, None)
        if event.attempt < life.own.number:  # the fence
            if not isinstance(event.body, Ended):
                stale[key] = Stale(event.run, event.attempt, event.host)
            continue
        if not life.seen.add(event.seq):
            continue
        batch.add(event, life)
        changed[event.run] = None
        if not life.take(event, ending):
            stale[key] = Stale(event.run, event.attempt, event.host)
    batch.store(connection)
    _store_left(connection, [lives[run_id].left() for run_id in changed])
    return Applied(tuple(changed), tuple(stale.values()))


def _store_left(connection: Connection, left: Sequence[tuple[dict[str, object], dict[str, object]]]) -> None:
    """One statement for all rows that change in the same columns: a batch is often an event each of many runs."""
    alike: dict[tuple[int, tuple[str, ...]], list[dict[str, object]]] = {}
    for change in left:
        for which, values in enumerate(change):
            if values:
                alike.setdefault((which, tuple(sorted(values))), []).append(values)
    for (which, _), changes in sorted(alike.items()):
        connection.execute((_CHANGE_RUN, _CHANGE_ATTEMPT)[which], changes)


def _lives(connection: Connection, run_ids: Sequence[str], at: datetime) -> dict[str, _Life]:
    """The runs of a batch that have an attempt; on PostgreSQL their rows are held until the end of the transaction."""
    which = {"runs": run_ids}
    found = connection.execute(_RUNS, which).all()
    own = {row.run_id: row for row in connection.execute(_NEWEST, which)}
    beyond: dict[tuple[str, int], set[int]] = {}
    for row in connection.execute(_BEYOND, which):
        beyond.setdefault((row.run_id, row.attempt), set()).add(row.seq)
    return {
        row.id: _Life(connection, row, own[row.id], beyond.get((row.id, row.attempt), set()), at)
        for row in found
        if row.id in own
    }
