"""Real Redis, real Celery workers, real supervisors.

Every fixture ends what it started; a last check looks for leftovers.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis

from agent.domain.events import Ended, WorkerEvent
from agent.domain.orders import LaunchOrder, StopOrder
from agent.domain.runs import JobKind, Outcome, RunSpec, Script
from agent.wire import decode
from worker.client.blobs import FolderBlobs
from worker.client.bundle import pack_files, runtime_files
from worker.client.keys import load_or_create, sign
from worker.client.redis_server import EmbeddedRedis
from worker.engines.hosts.fleet import CeleryFleet
from worker.folders import HostFolder, RunFolder
from worker.launches.launching import Launcher
from worker.launches.spawning import WAITING
from worker.sandbox.tiers import why_not
from worker.settings import Settings
from worker.warm.sets import read_ready

LIMIT_S = 60.0
EACH_TIER = pytest.mark.parametrize("tier", ["bwrap", "landlock"], indirect=True)
T = TypeVar("T")

PREPARE = b"""
import pathlib, sys
sealed = pathlib.Path(sys.argv[sys.argv.index("--sealed-dir") + 1])
(sealed / "labels.csv").write_text("row_id,label\\n0,a\\n")
pathlib.Path("data/source.csv").rename("data/train.csv")
pathlib.Path("data/test.csv").write_text("row_id\\n0\\n")
"""
EVALUATE = b"""
import json, pathlib, sys
sealed = pathlib.Path(sys.argv[sys.argv.index("--sealed-dir") + 1])
right = (sealed / "labels.csv").read_text() == pathlib.Path("predictions/model.csv").read_text()
score = {"name": "model", "value": float(right)}
card = {"metric": "accuracy", "higher_is_better": True, "model": score,
        "baselines": [{"name": "majority", "value": 0.5}], "all_metrics": {"accuracy": float(right)}, "test_rows": 1}
pathlib.Path("scorecard.json").write_text(json.dumps(card))
"""
HEAD = """
import json, os, pathlib, signal, sys, time
def start(steps=3):
    pathlib.Path("meta.json").write_text(json.dumps({"model": "tiny", "total_steps": steps}))
def metric(step, **values):
    with open("metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": step, "at": time.time(), "values": values}) + "\\n")
def finish():
    pathlib.Path("predictions").mkdir(exist_ok=True)
    pathlib.Path("predictions/model.csv").write_text("row_id,label\\n0,a\\n")
    pathlib.Path("artifacts").mkdir(exist_ok=True)
    pathlib.Path("artifacts/model.txt").write_text("the model")
    pathlib.Path("artifacts/config.json").write_text(json.dumps({"kind": "the tiny one"}))
def wait_for(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.02)
"""
GOOD = "start()\nfor step in (1, 2, 3):\n    metric(step, loss=1 / step)\nprint('trained')\nfinish()\n"
ENDLESS = """
start()
step = 0
while not pathlib.Path("go-on").exists():
    step += 1
    metric(step, loss=1.0)
    time.sleep(0.05)
finish()
"""
TIMINGS = {
    "heartbeat_s": "0.5",
    "flush_s": "0.05",
    "checkpoint_grace_s": "3",
    "second_term_s": "0.5",
    "sweep_s": "1",
    "host_beat_s": "1",
    "ready_s": "20",
    "send_limit_s": "60",
    "stack_dump_s": "1",
    "disk_every_s": "0.2",
    "disk_floor_bytes": "0",
    "disk_floor_share": "0",
    "disk_hard_bytes": "0",
    "guard_s": "0.1",
    "warm": "off",
}


def eventually(look: Callable[[], T], *, limit_s: float = LIMIT_S, what: str = "") -> T:
    """The first true answer of `look`."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.03)
    raise AssertionError(f"did not happen within {limit_s} s: {what or look}")


@dataclass
class Yard:
    """A home, a Redis, hosts, and a client as the bot has it."""

    home: Path
    server: EmbeddedRedis
    host: str = "h1"
    sandbox: str = "none"
    extra: dict[str, str] = field(default_factory=dict)
    workers: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def __post_init__(self) -> None:
        self.blobs = FolderBlobs(self.home / "blobs")
        self.keys = self.home / "keys"
        self._redis: redis.Redis | None = None
        self._read: list[tuple[bytes, WorkerEvent]] = []

    @property
    def env(self) -> dict[str, str]:
        own = {f"TRAINYARD_{name.upper()}": value for name, value in TIMINGS.items()}
        own |= {
            "TRAINYARD_HOME": str(self.home),
            "TRAINYARD_REDIS_URL": self.server.url,
            "TRAINYARD_HOST_ID": self.host,
        }
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TRAINYARD_SANDBOX": self.sandbox, **own, **self.extra}

    def settings(self) -> Settings:
        """What a worker reads from `env`."""
        prefix = "TRAINYARD_"
        own = {name.removeprefix(prefix).lower(): value for name, value in self.env.items() if name.startswith(prefix)}
        return Settings(**own)  # type: ignore[arg-type]

    def launcher(self, **more: Any) -> Launcher:
        """What a worker launches and stops with."""
        return Launcher(self.settings(), self.blobs, tier=self.sandbox, **more)

    def start_worker(self) -> "subprocess.Popen[bytes]":
        """A worker that consumes, as the host beat shows."""
        self.redis().delete(f"trainyard:host:{self.host}")
        with (self.home / "worker.log").open("ab") as log:
            worker = subprocess.Popen([sys.executable, "-m", "worker"], env=self.env, stdout=log, stderr=log)
        self.workers.append(worker)
        eventually(lambda: self.redis().exists(f"trainyard:host:{self.host}"), what="the worker's first beat")
        return worker

    def waits(self) -> None:
        """Waits until a supervisor waits."""
        warm = HostFolder.of(self.home, self.host).warm
        eventually(lambda: any(one.name == WAITING for one in read_ready(warm)), what="a supervisor that waits")

    def redis(self) -> "redis.Redis":
        """One client for all questions; it opens its connection anew after a restart."""
        if self._redis is None:
            self._redis = redis.Redis.from_url(self.server.url)
        return self._redis

    def folder(self, run: str) -> RunFolder:
        return HostFolder.of(self.home, self.host).run(run)

    def order(
        self, run: str, train: str, *, attempt: int = 1, files: dict[str, bytes] | None = None, **spec: Any
    ) -> LaunchOrder:
        """An order for a tiny bundle whose train.py is `train`; unsigned, as the fleet signs it."""
        default = {
            "train.py": (HEAD + train).encode(),
            "requirements.txt": b"",
            "worker/__init__.py": b"",
            "worker/recipes/__init__.py": b"",
            "worker/recipes/prepare.py": PREPARE,
            "worker/recipes/evaluate.py": EVALUATE,
        }
        sha256, data = pack_files({**default, **(files or {})})
        self.blobs.put_bytes(data, name="bundle.tar")
        dataset = self.blobs.put_bytes(b"x,y\n1,a\n", name="data.csv")
        task = spec.pop("task", "tabular_classification")
        full = RunSpec(
            task=task,
            recipe=task,
            dataset=dataset,
            target="y",
            host=self.host,
            bundle_sha256=sha256,
            **spec,
        )
        expires = datetime.now(UTC) + timedelta(minutes=5)
        return LaunchOrder(run=run, attempt=attempt, host=self.host, spec=full, expires_at=expires)

    def own(
        self, run: str, files: dict[str, str], *, attempt: int = 1, spec: dict[str, Any] | None = None, **script: Any
    ) -> LaunchOrder:
        """An order for a program of somebody's own, whose entry is train.py unless `script` says otherwise."""
        sha256, data = pack_files(runtime_files() | {name: text.encode() for name, text in files.items()})
        self.blobs.put_bytes(data, name="program.tar")
        full = RunSpec(
            job=JobKind.SCRIPT,
            script=Script(name="train.py", **script),
            host=self.host,
            bundle_sha256=sha256,
            **(spec or {}),
        )
        expires = datetime.now(UTC) + timedelta(minutes=5)
        return LaunchOrder(run=run, attempt=attempt, host=self.host, spec=full, expires_at=expires)

    async def launch(self, *orders: LaunchOrder) -> None:
        fleet = CeleryFleet(self.server.url, self.keys, self.blobs)
        try:
            await asyncio.gather(*(fleet.submit(order) for order in orders))
        finally:
            await fleet.close()

    def launch_here(self, *orders: LaunchOrder, **more: Any) -> None:
        """Start attempts within this process, without a worker and a queue."""
        for order in orders:
            assert self.launcher(**more).launch(sign(order, load_or_create(self.keys))) == "ready"

    def stop_here(self, order: StopOrder) -> None:
        assert self.launcher().stop(sign(order, load_or_create(self.keys))) == "told"

    async def stop(self, order: StopOrder) -> None:
        fleet = CeleryFleet(self.server.url, self.keys, self.blobs)
        try:
            await fleet.cancel(order, host=self.host)
        finally:
            await fleet.close()

    def events(self, run: str, *, attempt: int = 1) -> list[WorkerEvent]:
        """What the stream says of an attempt, doubles removed, by number."""
        mine = {event.seq: event for event in self._stream() if (event.run, event.attempt) == (run, attempt)}
        return [mine[seq] for seq in sorted(mine)]

    def _stream(self) -> list[WorkerEvent]:
        """All events of the stream; those that were read before are read again only where some are missing."""
        stream = f"trainyard:ev:{self.host}"
        for known in (self._read, []):
            after = b"(" + known[-1][0] if known else b"-"
            entries, length = self.redis().pipeline().xrange(stream, after).xlen(stream).execute()
            self._read = known + [(entry, decode(WorkerEvent, fields[b"e"])) for entry, fields in entries]
            if len(self._read) == length:
                break
        return [event for _, event in self._read]

    def kinds(self, run: str, *, attempt: int = 1) -> list[str]:
        return [event.body.kind for event in self.events(run, attempt=attempt)]

    def outcome(self, run: str, *, attempt: int = 1, limit_s: float = LIMIT_S) -> Outcome:
        """Waits for the end of an attempt."""

        def ended() -> Outcome | None:
            bodies = [event.body for event in self.events(run, attempt=attempt)]
            return next((body.outcome for body in bodies if isinstance(body, Ended)), None)

        return eventually(ended, limit_s=limit_s, what=f"the end of {run}")  # type: ignore[return-value]

    def running(self, run: str, *, attempt: int = 1) -> None:
        """Waits until training reports metrics."""
        eventually(lambda: "measured" in self.kinds(run, attempt=attempt), what=f"metrics of {run}")

    def supervisor_pid(self, run: str) -> int:
        return int(self.folder(run).lock.read_text())

    def gone(self, run: str) -> None:
        """Waits until no process of the run is left."""
        eventually(lambda: not processes_naming(str(self.folder(run).path)), what=f"the end of all processes of {run}")

    def kill_worker(self, worker: "subprocess.Popen[bytes]") -> None:
        worker.kill()
        worker.wait()

    def close(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            try:
                worker.wait(25)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        for pid in processes_naming(str(self.home)):
            if pid != self.server.pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if self._redis is not None:
            self._redis.close()


def processes_naming(text: str) -> list[int]:
    """Living processes with `text` in their command line, environment or working folder, but for this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(folder.name) == os.getpid() or (folder / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                continue
            named = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            if text.encode() in named or text in str((folder / "cwd").readlink()):
                found.append(int(folder.name))
    return found


@contextlib.contextmanager
def served(home: Path) -> Iterator[EmbeddedRedis]:
    """A Redis in a folder; afterwards no process names that."""
    server = EmbeddedRedis(home)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        eventually(lambda: not processes_naming(str(home)), limit_s=20, what="no process left behind")


@contextlib.contextmanager
def hosted(home: Path, server: EmbeddedRedis, *, sandbox: str = "none") -> Iterator[Yard]:
    """A host without a worker; afterwards nothing of it lives but its Redis."""
    yard = Yard(home, server, sandbox=sandbox)
    load_or_create(yard.keys)
    try:
        yield yard
    finally:
        yard.close()


@contextlib.contextmanager
def opened(home: Path, *, sandbox: str = "none") -> Iterator[Yard]:
    with served(home) as server, hosted(home, server, sandbox=sandbox) as yard:
        yield yard


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """One host for the tests of a module that break nothing. Attempts are forks of a supervisor that waits."""
    with opened(tmp_path_factory.mktemp("yard")) as found:
        found.extra["TRAINYARD_WARM"] = "data"  # without a sandbox nothing else stands ready
        found.start_worker()
        found.waits()
        yield found


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    with served(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def host(redis_server: EmbeddedRedis, tmp_path: Path) -> Iterator[Yard]:
    """A host of its own for one test, on the module's Redis, without a worker."""
    home = tmp_path / "host"
    home.mkdir()
    with hosted(home, redis_server) as found:
        yield found
    eventually(lambda: not processes_naming(str(home)), limit_s=20, what="no process left behind")


@pytest.fixture
def own_yard(tmp_path: Path) -> Iterator[Yard]:
    """A Redis and a home for one test that breaks it, without a worker."""
    with opened(tmp_path / "yard") as found:
        yield found


@pytest.fixture
def tier(request: pytest.FixtureRequest) -> str:
    """One of `EACH_TIER` that works here, which is tried with the first test that asks."""
    if why := why_not(request.param):
        pytest.skip(f"LOUD: {request.param} does not work here: {why}")
    return str(request.param)


@pytest.fixture(scope="session")
def bwrap() -> None:
    if why := why_not("bwrap"):
        pytest.skip(f"LOUD: bubblewrap does not work here: {why}")


@pytest.fixture(scope="session")
def landlock() -> None:
    if why := why_not("landlock"):
        pytest.skip(f"LOUD: landlock does not work here: {why}")
