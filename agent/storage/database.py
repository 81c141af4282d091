"""The connection to the database: one writer thread with group commit, and readers.

Writes are plain functions of a connection. The writer runs what is waiting in one transaction, each function in a
savepoint of its own, so that many sessions share one commit and one failing function harms no other. The transaction
is durable before any of their callers goes on.

A transaction that broke before its commit (the connection was lost, another process held the lock) is run once more;
one whose commit broke is not, because it may have happened. On PostgreSQL the writer's connection holds an advisory
lock: a second bot is refused, and a bot that lost its connection writes no more once another one has taken over.
"""

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, RootTransaction, create_engine, event, func, make_url, select, text
from sqlalchemy.exc import DBAPIError, OperationalError

from agent.domain.errors import Conflict, NotFound, Unavailable
from agent.storage.schema import NEWEST, upgrade, version_of

log = logging.getLogger(__name__)
T = TypeVar("T")
GROUP = 200
LOCK_WAIT_MS = 10_000
TRIALS, PAUSE_S = 3, 0.2
ONE_BOT = 0x747261696E796172  # "trainyar": the key of the advisory lock
TAKE_OVER_S = 5.0  # how long the session of a bot that has just died may hold its lock


@dataclass(slots=True)
class _Job:
    run: Callable[[Connection], Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    flushed: bool


class Database:
    """One database: `sqlite:///path` or `postgresql+psycopg://…`."""

    def __init__(self, url: str) -> None:
        """Nothing is opened before `start`."""
        self.url = url
        self._engine: Engine | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._writer: Connection | None = None

    async def start(self) -> None:
        """Bring the schema up to date and start writing.

        Raises:
            Unavailable: the database cannot be opened; the text says which and what to do.
            Conflict: another bot uses it.
        """
        try:
            await asyncio.to_thread(self._open)
        except (OperationalError, OSError) as error:
            where = make_url(self.url).render_as_string(hide_password=True)
            raise Unavailable(
                f"The database {where} cannot be opened ({_cause(error)}). "
                "Check TRAINYARD_DATABASE_URL, or leave it unset to use SQLite in TRAINYARD_HOME."
            ) from error

    def _open(self) -> None:
        url = make_url(self.url)
        if url.get_backend_name() == "sqlite" and url.database:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        self._engine = open_engine(self.url)
        try:
            self._writer = _writing(self._engine, TAKE_OVER_S)
            upgrade(self._engine)
        except BaseException:
            self._let_go()
            self._engine.dispose()
            self._engine = None
            raise
        self._thread = threading.Thread(target=self._write_forever, name="database-writer", daemon=True)
        self._thread.start()

    async def start_reading(self) -> None:
        """Open it beside the bot that writes to it, without changing anything.

        Raises:
            NotFound: there is none yet.
            Conflict: it is of another version of Trainyard.
            Unavailable: it cannot be opened.
        """
        url = make_url(self.url)
        if url.get_backend_name() == "sqlite" and not await asyncio.to_thread(Path(url.database or "").is_file):
            raise NotFound(
                f"There is no database {url.database} yet; a bot makes it when it starts first. "
                "TRAINYARD_HOME or TRAINYARD_DATABASE_URL says where it is."
            )
        self._engine = open_engine(self.url)
        found = await self.read(version_of)
        if found != NEWEST:
            raise Conflict(
                f"The database has the schema {found or 'of nothing'}, and this Trainyard reads {NEWEST}. "
                "Start the bot of this version once; it brings the database up to date."
            )

    async def write(self, run: Callable[[Connection], T], *, flushed: bool = True) -> T:
        """Run `run` in a transaction; returns after the commit. What it raises is raised here, and undone.

        A commit survives the end of the process, and where it is `flushed` the loss of power too; the next one that is
        flushed saves those before it. So what is made anew after a loss needs no disk to wait for.

        Raises:
            Unavailable: the database is away, locked or full; it may work later.
        """
        self._opened()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(run, future, loop, flushed))
        try:
            return await future
        except DBAPIError as error:
            if isinstance(error, OperationalError) or error.connection_invalidated:
                raise _away(error) from error
            raise

    async def read(self, run: Callable[[Connection], T]) -> T:
        """Run `run` on a connection of its own; it sees what is committed. Raises `Unavailable` as `write` does."""
        try:
            return await asyncio.to_thread(self._read, run)
        except DBAPIError as error:
            if isinstance(error, OperationalError) or error.connection_invalidated:
                raise _away(error) from error
            raise

    def _read(self, run: Callable[[Connection], T]) -> T:
        with self._opened().connect() as connection:
            return run(connection)

    async def close(self) -> None:
        """Finish what was asked for, then let go of the database."""
        if self._thread is not None:
            self._jobs.put(None)
            await asyncio.to_thread(self._thread.join)
            self._thread = None
        if self._engine is not None:
            self._let_go()
            self._engine.dispose()
            self._engine = None

    def _let_go(self) -> None:
        """Close the writer's connection for good, and with it the lock."""
        if self._writer is not None:
            self._writer.invalidate()
            self._writer.close()
            self._writer = None

    def _opened(self) -> Engine:
        if self._engine is None:
            raise Unavailable("The database is closed: the bot is stopping.")
        return self._engine

    def _write_forever(self) -> None:
        running = True
        while running:
            first = self._jobs.get()
            batch = [first] if first is not None else []
            running = first is not None
            while running and len(batch) < GROUP and not self._jobs.empty():
                following = self._jobs.get()
                if following is None:
                    running = False
                    break
                batch.append(following)
            if batch:
                self._commit(batch)

    def _commit(self, batch: Sequence[_Job]) -> None:
        settled: list[tuple[_Job, Any, BaseException | None]] = []
        try:
            settled = self._tried(batch)
        except BaseException as error:  # noqa: BLE001 - handed to every caller that waits for this commit
            settled = [(job, None, error) for job in batch]
        loops = {job.loop for job in batch}
        for loop in loops:
            mine = [entry for entry in settled if entry[0].loop is loop]
            loop.call_soon_threadsafe(_resolve, mine)

    def _taken_up(self) -> Connection:
        """A new connection for the writer; another bot may have taken over meanwhile."""
        try:
            return _writing(self._opened(), TAKE_OVER_S)
        except Conflict as error:
            raise Unavailable(f"This bot may not write any more. {error}") from error

    def _tried(self, batch: Sequence[_Job]) -> list[tuple[_Job, Any, BaseException | None]]:
        """Run a batch in one transaction; again when it broke before its commit for a reason that may pass."""
        for trial in range(1, TRIALS + 1):
            try:
                if self._writer is None:
                    self._writer = self._taken_up()
                transaction = _begin(self._writer, flushed=any(job.flushed for job in batch))
                try:
                    settled = [_attempt(job, self._writer, alone=len(batch) == 1) for job in batch]
                except BaseException:
                    transaction.rollback()
                    raise
            except DBAPIError as error:
                if not _passes(error) or trial == TRIALS:
                    raise
                log.warning("transaction is tried again", extra={"cause": _cause(error), "trial": trial})
                if error.connection_invalidated:
                    self._let_go()
                time.sleep(PAUSE_S * trial)
            else:
                try:
                    transaction.commit()
                except BaseException:
                    self._let_go()  # what became of it is unknown: the next transaction begins with a new connection
                    raise
                return settled
        raise AssertionError("the last trial returns or raises")


def _passes(error: DBAPIError) -> bool:
    """Whether the same transaction may succeed: the connection was lost, or somebody else held the lock."""
    locked = isinstance(error, OperationalError) and "locked" in str(error.orig)
    return error.connection_invalidated or locked


def _writing(engine: Engine, wait_s: float) -> Connection:
    """The connection that writes. On PostgreSQL it holds the lock that only one bot has. Raises `Conflict`."""
    connection = engine.connect()
    if engine.dialect.name != "postgresql":
        return connection
    try:
        end = time.monotonic() + wait_s
        while not (alone := connection.execute(select(func.pg_try_advisory_lock(ONE_BOT))).scalar_one()):
            connection.rollback()
            if time.monotonic() >= end:
                break
            time.sleep(PAUSE_S)
        connection.commit()
    except BaseException:
        connection.invalidate()
        connection.close()
        raise
    if not alone:
        connection.close()
        where = engine.url.render_as_string(hide_password=True)
        raise Conflict(f"Another Trainyard bot uses the database {where}. Stop it, or set TRAINYARD_DATABASE_URL.")
    return connection


def _begin(connection: Connection, *, flushed: bool) -> RootTransaction:
    """Begin a transaction whose commit waits for the disk, or does not."""
    if connection.dialect.name == "sqlite":  # which takes this between transactions only, and PostgreSQL within
        synchronous = "FULL" if flushed else "NORMAL"
        if connection.info.get("synchronous") != synchronous:
            connection.connection.cursor().execute(f"PRAGMA synchronous={synchronous}")
            connection.info["synchronous"] = synchronous
    transaction = connection.begin()
    if connection.dialect.name == "postgresql" and not flushed:
        connection.exec_driver_sql("SET LOCAL synchronous_commit TO OFF")
    return transaction


def _cause(error: Exception) -> str:
    """The driver's own words, in one line."""
    return next(iter(str(getattr(error, "orig", error)).splitlines()), type(error).__name__)


def _away(error: DBAPIError) -> Unavailable:
    return Unavailable(f"The database cannot be used now ({_cause(error)}). Try again when it is back.")


def _attempt(job: _Job, connection: Connection, *, alone: bool) -> tuple[_Job, Any, BaseException | None]:
    if alone:
        return job, job.run(connection), None
    savepoint = connection.begin_nested()
    try:
        result = job.run(connection)
    except BaseException as error:
        if isinstance(error, DBAPIError) and _passes(error):
            raise  # the whole transaction is lost
        savepoint.rollback()
        return job, None, error
    savepoint.commit()
    return job, result, None


def _resolve(settled: Sequence[tuple[_Job, Any, BaseException | None]]) -> None:
    for job, result, error in settled:
        if job.future.cancelled():
            continue
        if error is not None:
            job.future.set_exception(error)
        else:
            job.future.set_result(result)


@contextlib.asynccontextmanager
async def reading(url: str) -> AsyncIterator[Database]:
    """A database while it is only read, beside the bot that writes to it. Raises as `start_reading` does."""
    database = Database(url)
    try:
        await database.start_reading()
        yield database
    finally:
        await database.close()


def open_engine(url: str) -> Engine:
    """An engine with the settings that durability needs (WAL, full sync, one transaction a `begin`)."""
    engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(raw: Any, _record: object) -> None:
    raw.isolation_level = None  # we say BEGIN ourselves
    cursor = raw.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        f"busy_timeout={LOCK_WAIT_MS}",
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
    raw.create_function("lower", 1, _lower, deterministic=True)  # their own knows ASCII only


def _lower(text: Any) -> Any:
    return text.lower() if isinstance(text, str) else text


def _begin_sqlite(connection: Connection) -> None:
    # Writers take the lock at once: a later upgrade from a read lock could fail with "database is locked".
    begin = "BEGIN IMMEDIATE" if threading.current_thread().name == "database-writer" else "BEGIN"
    try:
        connection.connection.cursor().execute(begin)  # a third of what it costs through SQLAlchemy
    except sqlite3.OperationalError as error:
        raise OperationalError(begin, None, error) from error


def reachable(url: str) -> str:
    """Empty when the database answers, otherwise the reason in the driver's words."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
    except DBAPIError as error:
        return str(error.orig).splitlines()[0]
    finally:
        engine.dispose()
    return ""
