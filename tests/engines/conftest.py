"""A place for each engine that there is: the same tests run on all of them.

A new engine gets an entry in `SITES`; without one its tests cannot be collected.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from agent.clock import SystemClock
from agent.domain.orders import AttemptLabel, LaunchOrder
from agent.domain.runs import JobKind, Outcome, Run, RunSpec, Script
from agent.ports import Engine, EngineParts
from agent.runs.engines import Engines
from agent.runs.life.service import RunService
from agent.runs.polling import feed_of
from agent.storage import sql_stores
from agent.stores import Runs
from bot.relay import relay
from tests.agent.databases import sqlite
from tests.fakes import ALICE, THREAD
from tests.worker.conftest import TIMINGS, opened, processes_naming
from worker.client.blobs import FolderBlobs
from worker.client.bundle import pack_files, runtime_files
from worker.engines import Given, engine_module, names
from worker.folders import HostFolder, RunFolder

CANCEL_S = 1.0
LIMIT_S = 60.0
T = TypeVar("T")


@dataclass(frozen=True)
class Site:
    """Where an engine's attempts run: a home, the name of its one host, the environment of its workers."""

    engine: str
    home: Path
    host: str
    redis_url: str
    environment: Mapping[str, str]


@contextmanager
def hosts(home: Path) -> Iterator[Site]:
    """A real Redis and a real worker."""
    with opened(home) as yard:
        yard.extra["TRAINYARD_DATA_FOLDERS"] = str(home / "data")
        yard.start_worker()
        yield Site("hosts", home, yard.host, yard.server.url, yard.env)


@contextmanager
def local(home: Path) -> Iterator[Site]:
    """Nothing; afterwards no process of it is left."""
    home.mkdir(parents=True)
    own = {f"TRAINYARD_{name.upper()}": value for name, value in TIMINGS.items()}
    environment = {"PATH": os.environ["PATH"], "TRAINYARD_HOME": str(home), "TRAINYARD_SANDBOX": "none", **own}
    environment["TRAINYARD_DATA_FOLDERS"] = str(home / "data")
    try:
        yield Site("local", home, "local", "", environment)
    finally:
        for pid in processes_naming(str(home)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


SITES: Mapping[str, Callable[[Path], AbstractContextManager[Site]]] = {"hosts": hosts, "local": local}


class Rig:
    """One engine as the bot has it, and small programs to run on it."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.blobs = FolderBlobs(site.home / "blobs")
        self.parts = self.new_parts()
        self.engine: Engine = self.parts.engine

    def new_parts(self) -> EngineParts:
        """As a bot that has just been started makes them."""
        given = Given(self.site.home, self.site.redis_url, self.blobs, self.site.environment)
        return engine_module(self.site.engine).parts(given)

    def folder(self, run: str) -> RunFolder:
        return HostFolder.of(self.site.home, self.site.host).run(run)

    def label(self, run: str, attempt: int = 1) -> AttemptLabel:
        return AttemptLabel(run=run, attempt=attempt, host=self.site.host)

    def spec(self, program: str) -> RunSpec:
        """A program of somebody's own, which nobody tries again."""
        sha256, data = pack_files(runtime_files() | {"train.py": program.encode()})
        self.blobs.put_bytes(data, name="program.tar")
        return RunSpec(
            job=JobKind.SCRIPT,
            script=Script(name="train.py"),
            host=self.site.host,
            engine=self.site.engine,
            auto_resume=False,
            bundle_sha256=sha256,
        )

    def order(self, run: str, program: str, *, attempt: int = 1) -> LaunchOrder:
        expires = datetime.now(UTC) + timedelta(minutes=5)
        return LaunchOrder(run=run, attempt=attempt, host=self.site.host, spec=self.spec(program), expires_at=expires)

    async def ready(self) -> None:
        """Waits until the engine has its host."""
        await until(self.parts.hosts.hosts)

    async def ended(self, run: str, attempt: int = 1) -> Outcome:
        """Waits for the end of an attempt."""

        async def outcome() -> Outcome | None:
            status = await self.engine.status(self.label(run, attempt))
            return status.outcome if status and not status.alive else None

        return await until(outcome)

    async def log(self, run: str) -> str:
        """All that the run printed, read piece by piece."""
        text, after = "", 0
        while (part := await self.engine.logs(self.label(run), after)).end > after:
            text, after = text + part.text, part.end
        return text

    async def printed(self, run: str, words: str) -> None:
        """Waits until the run's log has these words."""

        async def there() -> bool:
            return words in await self.log(run)

        await until(there)


@dataclass
class Serving:
    """A run service over one engine, with a relay that can be ended and begun anew."""

    rig: Rig
    service: RunService
    runs: Runs
    session_id: str
    relaying: asyncio.Task[None] | None = None
    parts: EngineParts | None = None

    async def create(self, program: str) -> Run:
        spec = self.rig.spec(program)
        return await self.service.create(
            spec, session_id=self.session_id, requester=ALICE.key, thread=THREAD, token=program
        )

    async def restart_relay(self) -> None:
        """As after a restart of the bot: all that the relay knew is lost."""
        await self.end_relay()
        self.parts = self.rig.new_parts()
        self.relaying = asyncio.create_task(relay(feed_of(self.parts, self.runs), self.service))

    async def end_relay(self) -> None:
        if self.relaying is not None and self.parts is not None:
            while not self.relaying.done():  # before Python 3.12 a cancellation gets lost where redis-py sends
                self.relaying.cancel()
                await asyncio.wait([self.relaying], timeout=CANCEL_S)
            await self.parts.close()

    async def until(self, run: Run, true: Callable[[Run], bool]) -> Run:
        async def reached() -> Run | None:
            now = await self.runs.get(run.id)
            return now if true(now) else None

        return await until(reached)


@asynccontextmanager
async def serving(rig: Rig, folder: Path) -> AsyncIterator[Serving]:
    """The service with a database of its own, while the block lasts."""
    database = sqlite(folder / "test.db")
    await database.start()
    stores = sql_stores(database)
    await rig.ready()
    service = RunService(stores.runs, Engines(rig.parts), SystemClock(), changed=lambda _run: None)
    session_id = await stores.conversations.session_of(THREAD, create=True)
    served = Serving(rig, service, stores.runs, session_id or "")
    await served.restart_relay()
    try:
        yield served
    finally:
        await served.end_relay()
        await database.close()


async def until(look: Callable[[], Awaitable[T | None]], limit_s: float = LIMIT_S) -> T:
    """The first true answer of `look`."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if found := await look():
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"did not happen within {limit_s} s: {look}")


@pytest.fixture(scope="module", params=names())
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A place for one engine, for the tests of a module."""
    with SITES[request.param](tmp_path_factory.mktemp("site") / "home") as found:
        yield found


@pytest.fixture
async def rig(site: Site) -> AsyncIterator[Rig]:
    made = Rig(site)
    await made.ready()
    yield made
    await made.parts.close()
