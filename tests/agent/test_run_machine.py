"""Whatever people, hosts, clocks and crashes do, in whatever order: the invariants of runs hold.

I1 a run has at most one attempt that is not over, and it has one exactly while its state is live. I2 an outcome that a
host reported is recorded once and stays. I3 the GPUs that are leased are those of open attempts, each once. States
change only as the table allows, which a trigger in the database watches. A hypothesis state machine over a real SQLite
file; hosts are simulated, their reports repeated, held back and lost with them.
"""

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import text

from agent.domain.errors import Conflict, Unavailable
from agent.domain.events import (
    Accepted,
    Beat,
    Ended,
    EventBody,
    Measured,
    MetricRow,
    Pictured,
    Saved,
    Started,
    WorkerEvent,
)
from agent.domain.orders import LaunchOrder, StopOrder
from agent.domain.runs import LIVE, ExitClass, Outcome, RunState, may_become
from tests.agent.databases import sqlite
from tests.agent.engine import SPEC, Engine
from tests.fakes import host

T = TypeVar("T")
S = RunState
HOSTS = ("gpu-1", "gpu-2")
WATCH = (
    "CREATE TABLE moved (old TEXT, new TEXT)",
    "CREATE TRIGGER watch AFTER UPDATE OF state ON run WHEN old.state <> new.state BEGIN "
    "INSERT INTO moved VALUES (old.state, new.state); END",
)
ENDINGS = (
    Outcome(state=S.SUCCEEDED, seconds=30),
    Outcome(state=S.PAUSED, checkpoint_step=5, seconds=30),
    Outcome(state=S.STOPPED, seconds=30),
    *(Outcome(state=S.FAILED, exit_class=why, seconds=900) for why in ExitClass),
)
COUNT = st.integers(0, 10**6)
SEEN: set[tuple[str, str]] = set()  # every step that some run took, over all examples


class Hosts:
    """What runs on the simulated hosts: a supervisor for each attempt, which reports until it is over."""

    def __init__(self) -> None:
        self.fences: dict[tuple[str, str], int] = {}
        self.alive: dict[tuple[str, str, int], int] = {}  # host, run, attempt -> the last seq
        self.reports: list[WorkerEvent] = []  # on their way to the bot
        self.delivered: list[WorkerEvent] = []
        self.silent: set[str] = set()

    def report(self, key: tuple[str, str, int], body: EventBody, at: Any) -> None:
        name, run, attempt = key
        self.alive[key] += 1
        self.reports.append(WorkerEvent(run=run, attempt=attempt, seq=self.alive[key], host=name, at=at, body=body))

    def kill(self, key: tuple[str, str, int]) -> None:
        self.alive.pop(key, None)


class RunMachine(RuleBasedStateMachine):
    """The bot, its database, its clock, two hosts with two GPUs each."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="machine-")
        self.loop = asyncio.new_event_loop()
        self.hosts = Hosts()
        self.tokens = 0
        self.states: dict[str, RunState] = {}
        self.final: dict[str, Outcome] = {}
        self.pictured: dict[tuple[str, str], tuple[int, int]] = {}
        self.path = Path(self.folder.name) / "test.db"
        self.database = sqlite(self.path)
        self.do(self.database.start())
        for statement in WATCH:
            self.do(self.database.write(lambda connection, say=statement: connection.execute(text(say))))  # type: ignore[misc]
        self.engine = Engine(self.database)
        self._wire()

    def do(self, what: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(what)

    def _wire(self) -> None:
        async def launch(order: LaunchOrder) -> None:
            if order.host in self.hosts.silent:
                raise Unavailable("The host is cut off.")
            key = (order.host, order.run, order.attempt)
            if order.attempt <= self.hosts.fences.get(key[:2], 0):
                return
            self.hosts.fences[key[:2]] = order.attempt
            self.hosts.alive[key] = 0
            self.hosts.report(key, Accepted(boot_id="b"), self.engine.clock.now())

        async def stop(order: StopOrder, *, host: str) -> None:
            key = (host, order.run, order.attempt)
            if host in self.hosts.silent or key not in self.hosts.alive:
                return
            ended = {"stop": S.STOPPED, "pause": S.PAUSED, "kill": S.FAILED}[order.how]
            exit_class = ExitClass.KILLED if order.how == "kill" else None
            outcome = Outcome(state=ended, exit_class=exit_class, checkpoint_step=3, seconds=10)
            self.hosts.report(key, Ended(outcome=outcome), self.engine.clock.now())
            self.hosts.kill(key)

        self.engine.fleet.submit = launch  # type: ignore[method-assign]
        self.engine.fleet.cancel = stop  # type: ignore[method-assign]
        self._connect()

    def _connect(self) -> None:
        up = [name for name in HOSTS if name not in self.hosts.silent]
        self.engine.fleet.infos = tuple(host(name, gpus=2, slots=2, boot_id="b") for name in up)

    @rule(gpus=st.integers(0, 2), auto=st.booleans(), at=st.sampled_from(HOSTS))
    def create(self, gpus: int, auto: bool, at: str) -> None:
        self.tokens += 1
        spec = SPEC.model_copy(update={"gpus": gpus, "auto_resume": auto, "host": at})
        self.do(self.engine.create(spec, token=str(self.tokens), user=f"u{self.tokens % 3}"))

    @precondition(lambda self: self.states)
    @rule(
        which=COUNT,
        wish=st.sampled_from(["pause", "resume", "stop", "kill", "retry", "update_script", "prioritise"]),
    )
    def request(self, which: int, wish: str) -> None:
        run_id = sorted(self.states)[which % len(self.states)]
        was = self.do(self.engine.runs.get(run_id)).spec.bundle_sha256
        change = {"bundle_sha256": ("d" if was[0] == "c" else "c") * 64, "was": was}
        arguments: dict[str, Any] = {"update_script": change, "prioritise": {"priority": 1}}.get(wish, {})
        try:
            said = self.do(getattr(self.engine.service, wish)(run_id, **arguments))
        except Conflict as refused:
            said = refused.text
        assert run_id in said

    @precondition(lambda self: self.hosts.alive)
    @rule(which=COUNT, body=st.sampled_from(["started", "measured", "saved", "beat", "pictured"]))
    def a_host_works(self, which: int, body: str) -> None:
        key = sorted(self.hosts.alive)[which % len(self.hosts.alive)]
        row = MetricRow(step=self.hosts.alive[key], at=1.0, values={"loss": 1.0})
        said: dict[str, EventBody] = {
            "started": Started(model="m", total_steps=9),
            "measured": Measured(rows=(row,)),
            "saved": Saved(step=3, size_bytes=1),
            "beat": Beat(),
            "pictured": Pictured(name="map", form="table", step=row.step, sha256="a" * 64),
        }
        self.hosts.report(key, said[body], self.engine.clock.now())

    @precondition(lambda self: self.hosts.alive)
    @rule(which=COUNT, outcome=st.sampled_from(ENDINGS))
    def an_attempt_ends(self, which: int, outcome: Outcome) -> None:
        key = sorted(self.hosts.alive)[which % len(self.hosts.alive)]
        self.hosts.report(key, Ended(outcome=outcome), self.engine.clock.now())
        self.hosts.kill(key)

    @rule(count=st.integers(1, 30), repeat=st.booleans())
    def reports_arrive(self, count: int, repeat: bool) -> None:
        arriving = [event for event in self.hosts.reports[:count] if event.host not in self.hosts.silent]
        again = self.hosts.delivered[-5:] if repeat else []
        self.do(self.engine.service.take([*arriving, *again, *arriving[-2:]]))
        self.hosts.delivered += arriving
        self.hosts.reports = [event for event in self.hosts.reports if event not in arriving]

    @rule(seconds=st.sampled_from([1.0, 21.0, 45.0, 59.0]), ticks=st.sampled_from([1, 3, 25]))
    def time_passes(self, seconds: float, ticks: int) -> None:
        for _ in range(ticks):
            self.engine.clock.forward(seconds)
            self.do(self.engine.service.tick())

    @rule(name=st.sampled_from(HOSTS))
    def a_host_falls_silent_or_comes_back(self, name: str) -> None:
        self.hosts.silent ^= {name}
        self._connect()

    @rule(name=st.sampled_from(HOSTS))
    def a_host_burns_down(self, name: str) -> None:
        """Its supervisors and what they had not delivered are gone; the machine is back at once, with an empty disk."""
        self.hosts.alive = {key: seq for key, seq in self.hosts.alive.items() if key[0] != name}
        self.hosts.reports = [event for event in self.hosts.reports if event.host != name]

    @rule(deaf=st.booleans())
    def the_bot_hears_or_not(self, deaf: bool) -> None:
        self.engine.listening = not deaf

    @rule()
    def the_bot_starts_anew(self) -> None:
        self.do(self.database.close())
        self.database = sqlite(self.path)
        self.do(self.database.start())
        clock, fleet = self.engine.clock, self.engine.fleet
        self.engine = Engine(self.database)
        self.engine.clock, self.engine.fleet = clock, fleet
        self.engine.restart()

    @invariant()
    def states_are_legal(self) -> None:
        query = text("SELECT DISTINCT old, new FROM moved")
        for old, new in self.do(self.database.read(lambda connection: connection.execute(query).all())):
            assert may_become(S(old), S(new)), f"{old} -> {new}"
            SEEN.add((old, new))
        for run in self.do(self.engine.runs.recent(1000)):
            self.states[run.id] = run.state
            assert (run.outcome is None) == (run.state not in {S.SUCCEEDED, S.FAILED, S.STOPPED, S.LOST})
            if run.state is S.SUCCEEDED:
                assert run.outcome is not None
                assert self.final.setdefault(run.id, run.outcome) == run.outcome  # I2

    @invariant()
    def at_most_one_attempt_is_open(self) -> None:
        for run in self.do(self.engine.runs.recent(1000)):
            attempts = self.do(self.engine.runs.attempts(run.id))
            assert [attempt.number for attempt in attempts] == list(range(1, run.attempt + 1))
            open_ones = [attempt.number for attempt in attempts if attempt.outcome is None]
            assert open_ones == ([run.attempt] if run.state in LIVE else [])
            assert abs(run.used_s - sum(a.outcome.seconds for a in attempts if a.outcome is not None)) < 1e-6

    @invariant()
    def leases_are_those_of_open_attempts(self) -> None:
        leases = self.do(self.engine.runs.leases())
        held = [
            (attempt.host, uuid, run.id, attempt.number)
            for run, attempt in self.do(self.engine.runs.live())
            for uuid in attempt.gpus
        ]
        assert sorted((lease.host, lease.uuid, lease.run, lease.attempt) for lease in leases) == sorted(held)
        assert len({(lease.host, lease.uuid) for lease in leases}) == len(leases)
        for run, attempt in self.do(self.engine.runs.live()):
            assert len(attempt.gpus) == run.spec.gpus

    @invariant()
    def metrics_are_stored_once(self) -> None:
        query = text("SELECT count(*), count(DISTINCT run_id || ':' || attempt || ':' || seq) FROM metric_chunk")
        total, distinct = self.do(self.database.read(lambda connection: connection.execute(query).one()))
        assert total == distinct

    @invariant()
    def a_picture_never_goes_back(self) -> None:
        query = text("SELECT run_id, name, attempt, seq FROM run_picture")
        for run_id, name, attempt, seq in self.do(self.database.read(lambda c: c.execute(query).all())):
            assert (attempt, seq) >= self.pictured.get((run_id, name), (0, 0))
            self.pictured[run_id, name] = attempt, seq

    def teardown(self) -> None:
        self.do(self.database.close())
        self.loop.close()
        self.folder.cleanup()


TestRunMachine = RunMachine.TestCase
TestRunMachine.settings = settings(
    max_examples=max(5, settings.default.max_examples // 10),
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def _walk(machine: RunMachine, dice: random.Random, steps: int) -> None:
    """A long life: hosts mostly work and are mostly heard, people wish something now and then."""
    stop_reasons = ["pause", "resume", "stop", "kill", "retry", "update_script", "prioritise"]
    for _ in range(steps):
        match dice.choices(range(9), weights=[4, 8, 30, 6, 25, 15, 3, 1, 1])[0]:
            case 0 if len(machine.states) < 8:
                machine.create(gpus=dice.randint(0, 2), auto=dice.random() < 0.8, at=dice.choice(HOSTS))
            case 1 if machine.states:
                machine.request(which=dice.randrange(10**6), wish=dice.choice(stop_reasons))
            case 2 if machine.hosts.alive:
                said = ["started", "measured", "measured", "saved", "beat"]
                machine.a_host_works(which=dice.randrange(10**6), body=dice.choice(said))
            case 3 if machine.hosts.alive:
                machine.an_attempt_ends(which=dice.randrange(10**6), outcome=dice.choice(ENDINGS))
            case 4:
                machine.reports_arrive(count=dice.choice([1, 5, 30]), repeat=dice.random() < 0.3)
            case 5:
                ticks = dice.choices([1, 3, 45], weights=[8, 8, 1])[0]
                machine.time_passes(seconds=dice.choice([1.0, 21.0, 45.0]), ticks=ticks)
            case 6:
                machine.a_host_falls_silent_or_comes_back(name=dice.choice(HOSTS))
            case 7:
                machine.a_host_burns_down(name=dice.choice(HOSTS))
            case 8:
                machine.the_bot_starts_anew()
        machine.states_are_legal()
        machine.at_most_one_attempt_is_open()
        machine.leases_are_those_of_open_attempts()
        machine.metrics_are_stored_once()


@pytest.mark.parametrize(("seed", "steps"), [(0, 250), pytest.param(1, 2000, marks=pytest.mark.faults)])
def test_long_lives_keep_the_invariants(seed: int, steps: int) -> None:
    before = set(SEEN)
    machine = RunMachine()
    try:
        _walk(machine, random.Random(seed), steps)
        SEEN.clear()
        machine.states_are_legal()
        assert len(SEEN) > 15, sorted(SEEN)  # it went far
    finally:
        SEEN.update(before)
        machine.teardown()
