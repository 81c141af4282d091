"""The connection to the database: one writer thread with group commit, and readers.

Writes are plain functions of a connection. The writer runs what is waiting in one transaction, each function in a
savepoint of its own, so that many sessions share one commit and one failing function harms no other. The transaction
is durable before any of their callers goes on.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, OperationalError

from agent.domain.errors import Unavailable

T = TypeVar("T")
GROUP = 200
LOCK_WAIT_MS = 10_000


@dataclass(slots=True)
class _Job:
    run: Callable[[Connection], Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop


class Database:
    """One database: `sqlite:///path` or `postgresql+psycopg://…`."""

    def __init__(self, url: str) -> None:
        """Nothing is opened before `start`."""
        self.url = url
        self._engine: Engine | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        """Bring the schema up to date and start writing.

        Raises:
            Unavailable: the database cannot be opened; the text says which and what to do.
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
        from agent.storage.schema import upgrade  # noqa: PLC0415 - Alembic is imported only where it is needed

        url = make_url(self.url)
        if url.get_backend_name() == "sqlite" and url.database:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        self._engine = open_engine(self.url)
        upgrade(self._engine)
        self._thread = threading.Thread(target=self._write_forever, name="database-writer", daemon=True)
        self._thread.start()

    async def write(self, run: Callable[[Connection], T]) -> T:
        """Run `run` in a transaction; returns after the commit. What it raises is raised here, and undone.

        Raises:
            Unavailable: the database is away, locked or full; it may work later.
        """
        self._opened()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(run, future, loop))
        try:
            return await future
        except OperationalError as error:
            raise _away(error) from error

    async def read(self, run: Callable[[Connection], T]) -> T:
        """Run `run` on a connection of its own; it sees what is committed. Raises `Unavailable` as `write` does."""
        try:
            return await asyncio.to_thread(self._read, run)
        except OperationalError as error:
            raise _away(error) from error

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
            self._engine.dispose()
            self._engine = None

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
            with self._opened().begin() as connection:
                settled = [_attempt(job, connection, alone=len(batch) == 1) for job in batch]
        except BaseException as error:  # noqa: BLE001 - handed to every caller that waits for this commit
            settled = [(job, None, error) for job in batch]
        loops = {job.loop for job in batch}
        for loop in loops:
            mine = [entry for entry in settled if entry[0].loop is loop]
            loop.call_soon_threadsafe(_resolve, mine)


def _cause(error: Exception) -> str:
    """The driver's own words, in one line."""
    return next(iter(str(getattr(error, "orig", error)).splitlines()), type(error).__name__)


def _away(error: OperationalError) -> Unavailable:
    return Unavailable(f"The database cannot be used now ({_cause(error)}). Try again when it is back.")


def _attempt(job: _Job, connection: Connection, *, alone: bool) -> tuple[_Job, Any, BaseException | None]:
    if alone:
        return job, job.run(connection), None
    savepoint = connection.begin_nested()
    try:
        result = job.run(connection)
    except BaseException as error:  # noqa: BLE001 - handed to the caller of this one job
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


def _begin_sqlite(connection: Connection) -> None:
    # Writers take the lock at once: a later upgrade from a read lock could fail with "database is locked".
    connection.exec_driver_sql("BEGIN IMMEDIATE" if threading.current_thread().name == "database-writer" else "BEGIN")


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
