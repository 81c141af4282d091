"""The run service over a real database with hosts of the test's own; no adapters, no tools."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from agent.domain.datasets import DatasetRef
from agent.domain.events import EventBody, WorkerEvent
from agent.domain.ids import new_run_id
from agent.domain.runs import Attempt, Outcome, Run, RunSpec, RunState
from agent.runs.life.service import RunService, Timings
from agent.storage import sql_stores
from agent.storage.database import Database
from agent.stores import Stores, Verdict
from tests.fakes import ALICE, START, THREAD, FakeClock, FakeFleet, engines_of, host

SPEC = RunSpec(
    task="tabular_classification",
    recipe="tabular_classification",
    dataset=DatasetRef(sha256="a" * 64, name="visits.csv", size_bytes=10),
    target="y",
    host="gpu-1",
    bundle_sha256="b" * 64,
)


def ENDING(run: Run, earlier: Sequence[Attempt], attempt: Attempt, outcome: Outcome) -> Verdict:
    """Never tried again."""
    return Verdict(outcome.state, outcome)


async def a_run(stores: Stores, token: str = "token", spec: RunSpec = SPEC) -> Run:
    """A queued run."""
    session_id = await stores.conversations.session_of(THREAD, create=True)
    assert session_id is not None
    run = Run(
        id=new_run_id(), session_id=session_id, requester=ALICE.key, state=RunState.QUEUED, spec=spec, created_at=START
    )
    return await stores.runs.create(run, THREAD, client_token=token)


class Engine:
    """A run service, its clock, its hosts and what it said."""

    def __init__(self, database: Database, *, timings: Timings | None = None) -> None:
        self.stores = sql_stores(database)
        self.runs = self.stores.runs
        self.clock, self.fleet = FakeClock(), FakeFleet()
        self.fleet.infos = (host("gpu-1", gpus=2, slots=4), host("gpu-2", gpus=2, slots=4))
        self.changed: list[str] = []
        self.listening, self.dice = True, 0.5
        self.timings = timings or Timings()
        self._seqs: dict[tuple[str, int], int] = {}
        self.restart()

    def restart(self) -> None:
        """Another bot over the same database."""
        self.service = RunService(
            self.runs,
            engines_of(self.fleet),
            self.clock,
            changed=self.changed.append,
            timings=self.timings,
            listening=lambda: self.listening,
            dice=lambda: self.dice,
        )

    async def create(self, spec: RunSpec = SPEC, *, token: str = "t", user: str = ALICE.key, priority: int = 0) -> Run:
        session_id = await self.stores.conversations.session_of(THREAD, create=True)
        assert session_id is not None
        created = await self.service.create(
            spec, session_id=session_id, requester=user, thread=THREAD, token=token, priority=priority
        )
        return await self.runs.get(created.id)

    def event(
        self, run: Run, body: EventBody, *, attempt: int | None = None, at_host: str | None = None
    ) -> WorkerEvent:
        number = run.attempt if attempt is None else attempt
        seq = self._seqs.get((run.id, number), 0) + 1
        self._seqs[run.id, number] = seq
        return WorkerEvent(
            run=run.id, attempt=number, seq=seq, host=at_host or run.spec.host, at=self.clock.now(), body=body
        )

    async def says(self, run: Run, *bodies: EventBody, attempt: int | None = None) -> Run:
        """A host reports; the run after it."""
        current = await self.runs.get(run.id)
        await self.service.take([self.event(current, body, attempt=attempt) for body in bodies])
        return await self.runs.get(run.id)

    async def now(self, run: Run) -> Run:
        return await self.runs.get(run.id)

    async def passes(self, seconds: float, *, step: float = 45.0) -> None:
        """Time, with a tick at every step."""
        while seconds > 0:
            self.clock.forward(min(seconds, step))
            await self.service.tick()
            seconds -= step


@asynccontextmanager
async def engine_on(database: Database, *, timings: Timings | None = None) -> AsyncIterator[Engine]:
    """An engine while its database is open."""
    await database.start()
    try:
        yield Engine(database, timings=timings)
    finally:
        await database.close()
