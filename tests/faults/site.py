"""A whole site for fault tests: embedded Redis behind a proxy, a worker and a bot as processes, a folder as the chat.

The bot's database is read with SQLite itself, what people see with `file_adapter.standing`, the rest from /proc.
Everything that a site started is ended by `close`, which also says what was left over.
"""

import contextlib
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from agent.domain.events import MetricRow
from agent.domain.inbound import Attachment, Clicked, Inbound, Person, Said
from agent.domain.runs import ENDED, RunState
from agent.storage.database import open_engine
from agent.storage.series import rows_between
from tests.faults import killer
from tests.faults.file_adapter import ADDRESS, ALICE, Folder, Shown
from tests.faults.proxy import Proxy
from tests.worker.conftest import EVALUATE, PREPARE, TIMINGS, Yard, eventually
from worker.client.bundle import pack_files
from worker.client.keys import load_or_create
from worker.client.redis_server import EmbeddedRedis

EXAMPLES = Path(__file__).parents[2] / "examples"
PAYLOADS = Path(__file__).parent / "payloads"
ENDS = tuple(state.value for state in ENDED)
# Seconds, as a team has minutes. A launch has much more time than it needs: these tests share two cores with others.
BOT_TIMINGS = {
    "resend_after_s": 3.0,
    "hints": 8,
    "unreachable_after_s": 5.0,
    "lost_after_s": 15.0,
    "order_lives_s": 60.0,
}
CANARIES = {
    "SLACK_BOT_TOKEN": "xoxb-canary-7Jd82kQpLm",
    "AWS_SECRET_ACCESS_KEY": "canary/8fJq0zP1vXwY2nB5",
    "OPENAI_API_KEY": "sk-canary-4mNs81LwQz90TrUv",
}


class Site(Yard):
    """One home. Workers and bots come and go; `proxy` stands between Redis and whoever is told its address."""

    def __init__(self, home: Path, server: EmbeddedRedis, proxy: Proxy, *, sandbox: str = "none") -> None:
        super().__init__(home, server, sandbox=sandbox)
        self.proxy = proxy
        self.behind = {"worker": False, "bot": False}  # who reaches Redis through the proxy
        self.people = Folder(home / "platform")
        self.database = home / "trainyard.db"
        self.bot: subprocess.Popen[bytes] | None = None
        self.timings: dict[str, float] = dict(BOT_TIMINGS)
        self.bot_extra: dict[str, str] = {}
        self._numbers = itertools.count(1)

    # ---- processes ----

    @property
    def env(self) -> dict[str, str]:
        """The worker's; canaries among it, which must not get anywhere. A supervisor waits for its attempt."""
        warm = "off" if self.sandbox == "none" else "data"  # nothing begins warm without walls
        own = {**super().env, "TRAINYARD_SLOTS": "6", "TRAINYARD_WARM": warm, **CANARIES, **self.extra}
        if self.behind["worker"]:
            own["TRAINYARD_REDIS_URL"] = self.proxy.url
        return own

    def start_other_worker(self, host: str) -> "subprocess.Popen[bytes]":
        """A second host on this machine; it reaches Redis directly."""
        env = {**self.env, "TRAINYARD_HOST_ID": host, "TRAINYARD_REDIS_URL": self.server.url}
        with (self.home / "worker.log").open("ab") as log:
            worker = subprocess.Popen([sys.executable, "-m", "worker"], env=env, stdout=log, stderr=log)
        self.workers.append(worker)
        eventually(lambda: self.redis().exists(f"trainyard:host:{host}"), what="the other worker's first beat")
        return worker

    def start_killed_worker(
        self, trace: Path, *, at: int, only: str, victim: str = "self"
    ) -> "subprocess.Popen[bytes]":
        """A worker that dies at its `at`-th boundary. Nothing waits there, so that boundaries come in one order."""
        self.redis().delete(f"trainyard:host:{self.host}")
        argv = killer.command(trace, "worker", at=at, only=only, victim=victim)
        with (self.home / "worker.log").open("ab") as log:
            worker = subprocess.Popen(argv, env=self.env | {"TRAINYARD_WARM": "off"}, stdout=log, stderr=log)
        self.workers.append(worker)
        eventually(lambda: self.redis().exists(f"trainyard:host:{self.host}"), what="the worker's first beat")
        return worker

    @property
    def bot_env(self) -> dict[str, str]:
        """The bot's."""
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "TRAINYARD_HOME": str(self.home),
            "TRAINYARD_REDIS_URL": self.proxy.url if self.behind["bot"] else self.server.url,
            "TRAINYARD_DATABASE_URL": f"sqlite:///{self.database}",
            "TRAINYARD_TICK_S": "0.3",
            "TRAINYARD_CARD_PACE_S": "0.5",
            "TRAINYARD_FAULT_TIMINGS": json.dumps(self.timings),
            **self.bot_extra,
        }

    def start_bot(
        self, trace: Path | None = None, *, at: int = 0, how: str = "kill", wait: bool = True, only: str = ""
    ) -> None:
        """A bot, under a killer when `trace` is given; returns when its adapter is open."""
        module = "tests.faults.botproc"
        argv = (
            [sys.executable, "-m", module]
            if trace is None
            else killer.command(trace, module, at=at, how=how, only=only)
        )
        ready = self.home / "bot.ready"
        ready.unlink(missing_ok=True)
        with (self.home / "bot.log").open("ab") as log:
            self.bot = subprocess.Popen(argv, env=self.bot_env, stdout=log, stderr=log, start_new_session=True)
        if wait:
            eventually(lambda: ready.exists() or self.bot_ended, what="the bot's start")
            if self.bot_ended and trace is None:
                raise AssertionError(f"the bot ended at once:\n{self.bot_log[-3000:]}")

    @property
    def bot_ended(self) -> bool:
        return self.bot is None or self.bot.poll() is not None

    @property
    def bot_log(self) -> str:
        path = self.home / "bot.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def kill_bot(self) -> None:
        """SIGKILL to the bot; what it started dies with it."""
        assert self.bot is not None
        self.bot.kill()
        self.bot.wait()

    def stop_bot(self, limit_s: float = 25.0) -> int:
        """SIGTERM; its exit code."""
        assert self.bot is not None
        self.bot.send_signal(signal.SIGTERM)
        try:
            return self.bot.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.bot.kill()
            self.bot.wait()
            raise

    # ---- runs ----

    def bundle(self, train: str, *, files: dict[str, bytes] | None = None) -> tuple[str, bytes]:
        """A tiny program's bundle: sha256 and bytes. `train` is the name of a payload, or a program."""
        path = PAYLOADS / f"{train}.py"
        program = path.read_bytes() if "\n" not in train and path.exists() else train.encode()
        default = {
            "train.py": program,
            "worker/recipes/prelude.py": (PAYLOADS / "prelude.py").read_bytes(),
            "requirements.txt": b"",
            "worker/__init__.py": b"",
            "worker/recipes/__init__.py": b"",
            "worker/recipes/prepare.py": PREPARE,
            "worker/recipes/evaluate.py": EVALUATE,
        }
        return pack_files({**default, **(files or {})})

    def create(self, train: str, **spec: Any) -> str:
        """Ask the bot's run service for a run; its id."""
        sha256, data = self.bundle(train)
        self.blobs.put_bytes(data, name="bundle.tar")
        dataset = self.blobs.put_bytes(b"x,y\n1,a\n", name="data.csv")
        more = {"settings": {"mark": next(self._numbers)}, **spec}
        full = {
            "task": "tabular_classification",
            "recipe": "tabular_classification",
            "dataset": dataset.model_dump(mode="json"),
            "target": "y",
            "host": self.host,
            "bundle_sha256": sha256,
            **more,
        }
        return str(self.order_bot("create", spec=full)["run"])

    def order_bot(self, do: str, *, limit_s: float = 60.0, **more: Any) -> dict[str, Any]:
        """Have the bot do something; its answer."""
        name = f"{do}-{time.time_ns()}"
        folder = self.home / "orders"
        folder.mkdir(exist_ok=True)
        aside = folder / f"{name}.new"
        aside.write_text(json.dumps({"do": do, **more}))
        aside.rename(folder / f"{name}.json")
        answer = folder / f"{name}.answer"
        eventually(answer.exists, limit_s=limit_s, what=f"the bot's answer to {do}")
        return json.loads(answer.read_text())  # type: ignore[no-any-return]

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """What the database says now."""
        if not self.database.exists():
            return []
        with contextlib.closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=20)) as connection:
            connection.row_factory = sqlite3.Row
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'run'").fetchone():
                return []  # the bot has not made its tables yet
            return [dict(row) for row in connection.execute(query, values)]

    def run_row(self, run: str) -> dict[str, Any]:
        return self.rows("SELECT * FROM run WHERE id = ?", run)[0]

    def state(self, run: str) -> str:
        return str(self.run_row(run)["state"])

    def result(self, run: str) -> dict[str, Any]:
        """The stored outcome of a run that is over."""
        return json.loads(self.run_row(run)["outcome"] or "{}")  # type: ignore[no-any-return]

    def until(self, run: str, *states: RunState | str, limit_s: float = 60.0) -> str:
        """Wait until the run is in one of the states."""
        wanted = {str(getattr(state, "value", state)) for state in states}
        with self.explained(run):
            eventually(lambda: self.state(run) in wanted, limit_s=limit_s, what=f"{run} in {wanted}")
        return self.state(run)

    def ends(self, run: str, *, limit_s: float = 60.0) -> dict[str, Any]:
        """Wait until the run is over; its outcome."""
        self.until(run, *ENDS, limit_s=limit_s)
        return self.result(run)

    def progresses(self, run: str, *, beyond: int | None = None, limit_s: float = 60.0) -> int:
        """Wait until the database has a later step than now; that step."""
        after = self.run_row(run)["step"] if beyond is None else beyond
        with self.explained(run):
            eventually(
                lambda: self.run_row(run)["step"] > after or self.state(run) in ENDS,
                limit_s=limit_s,
                what=f"{run} beyond step {after}",
            )
            assert self.run_row(run)["step"] > after, f"{run} ended at step {self.run_row(run)['step']}"
        return int(self.run_row(run)["step"])

    def attempts(self, run: str) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM attempt WHERE run_id = ? ORDER BY number", run)

    def stored(self, run: str, attempt: dict[str, Any]) -> list[MetricRow]:
        """The rows of metrics that the database has of one of the `attempts`, in their order."""
        engine = open_engine(f"sqlite:///{self.database}")
        with engine.connect() as connection:
            found = rows_between(connection, run, attempt["number"], 0, 2**62, folded=attempt["folded"])
        engine.dispose()
        return found

    def let_go(self, run: str) -> None:
        """The endless payload finishes."""
        (self.folder(run).path / "go-on").touch()

    @contextlib.contextmanager
    def explained(self, run: str) -> Iterator[None]:
        """Adds what is known of a run to a failure."""
        try:
            yield
        except AssertionError as error:
            row = {
                key: value for key, value in self.run_row(run).items() if key in {"state", "step", "attempt", "outcome"}
            }
            tails = [f"--- {name}\n{_tail(self.home / name)}" for name in ("worker.log", "bot.log")]
            tails += [f"--- {name}\n{_tail(self.folder(run).path / name)}" for name in ("supervisor.log", "output.log")]
            raise AssertionError("\n".join([str(error), str(row), *map(str, self.attempts(run)), *tails])) from error

    # ---- people ----

    def says(
        self, text: str, *, files: Sequence[Path] = (), thread: str = ADDRESS.thread_id, person: Person = ALICE
    ) -> None:
        """Somebody writes."""
        attachments = tuple(
            Attachment(id=path.name, name=path.name, size_bytes=path.stat().st_size, locator=str(path))
            for path in files
        )
        self._deliver(Said(text=text, attachments=attachments), thread, person)

    def clicks(
        self, shown: Shown, label: str, *, times: int = 1, digest: str | None = None, person: Person = ALICE
    ) -> None:
        """Somebody presses a button, `times` times; `digest` as another version of the card would have it."""
        button = shown.buttons[label]
        told = button["digest"] if digest is None else digest
        for _ in range(times):
            self._deliver(
                Clicked(action=button["action"], subject=button["subject"], digest=told), shown.thread, person
            )

    def _deliver(self, act: Said | Clicked, thread: str, person: Person) -> None:
        event, address = f"event-{time.time_ns()}", ADDRESS.model_copy(update={"thread_id": thread})
        self.people.deliver(Inbound(event_id=event, thread=address, person=person, act=act, at=datetime.now(UTC)))

    def asks_for_a_model(self, thread: str, *, payload: str = "good") -> None:
        """Alice attaches a csv and wants a model; the recipe's program is a tiny one."""
        (self.home / "payload.tar").write_bytes(self.bundle(payload)[1])
        data = self.home / "visits.csv"
        lines = (EXAMPLES / "doctor_visits.csv").read_text().splitlines(keepends=True)
        data.write_text("".join(lines[:400]))
        self.says("train a model that predicts visited_doctor", files=[data], thread=thread)

    def in_thread(self, thread: str, *words: str) -> list[Shown]:
        """Messages of a thread that show all of `words` now."""
        return [one for one in self.people.shown if one.thread == thread and all(word in one.words for word in words)]

    def runs_of(self, thread: str) -> list[str]:
        """The runs that a thread has begun."""
        return [
            row["id"]
            for row in self.rows("SELECT id, thread FROM run")
            if json.loads(row["thread"])["thread_id"] == thread
        ]

    def sees(self, *words: str, thread: str = "", limit_s: float = 60.0) -> Shown:
        """Wait for a message (of `thread`, if that is given) that shows all of `words`."""

        def there() -> Shown | None:
            every = [shown for shown in self.people.shown if thread in {"", shown.thread}]
            found = [shown for shown in every if all(word in shown.words for word in words)]
            return found[-1] if found else None

        try:
            return eventually(there, limit_s=limit_s, what=f"a message with {words}")  # type: ignore[return-value]
        except AssertionError as error:
            seen = "\n".join(f"{shown.key}: {shown.words[:300]}" for shown in self.people.shown)
            raise AssertionError(f"{error}\nshown:\n{seen}\n--- bot.log\n{_tail(self.home / 'bot.log')}") from error

    # ---- the end ----

    def close(self) -> None:
        """End the bot, workers, and whatever of this home is left."""
        if not self.bot_ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.stop_bot()
        super().close()


def _tail(path: Path, lines: int = 25) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else "(none)"


@contextlib.contextmanager
def opened(home: Path, *, sandbox: str = "none") -> Iterator[Site]:
    """A site with a running Redis and proxy, without a worker or a bot; afterwards nothing of it lives."""
    home.mkdir(parents=True, exist_ok=True)
    server = EmbeddedRedis(home)
    server.start()
    proxy = Proxy(server.url.removeprefix("unix://").partition("?")[0]).start()
    site = Site(home, server, proxy, sandbox=sandbox)
    load_or_create(site.keys)
    try:
        yield site
    finally:
        site.close()
        proxy.stop()
        server.stop()
        wait_for_no_process_of(home)


def wait_for_no_process_of(home: Path, *, limit_s: float = 20.0) -> None:
    """Nothing that names the home is left, but for this process and its parents."""
    mine = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}

    def left() -> list[int]:
        from tests.worker.conftest import processes_naming

        return [pid for pid in processes_naming(str(home)) if pid not in mine]

    eventually(lambda: not left(), limit_s=limit_s, what=f"no process of {home} left behind: {left()}")


def measured(look: Callable[[], Any], *, limit_s: float = 60.0, what: str = "") -> float:
    """Seconds until `look` is true."""
    began = time.monotonic()
    eventually(look, limit_s=limit_s, what=what)
    return time.monotonic() - began


__all__ = ["CANARIES", "PAYLOADS", "TIMINGS", "Site", "eventually", "measured", "opened"]
