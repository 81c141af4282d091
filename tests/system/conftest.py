"""The whole of Trainyard as it is used: Redis, a worker and the bot as processes, a local Slack around them."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from bot.ending import end_all_of
from tests.platforms.slack_server import SlackServer
from tests.platforms.slack_world import Message
from tests.system import canaries
from worker.client.redis_server import EmbeddedRedis

HANG_S = 120.0
EXAMPLES = Path(__file__).parents[2] / "examples"
TRAINYARD = [sys.executable, "-c", "from bot.start import main; main()"]
WARM = "data,tabular"  # what is trained here; test_demo has the default, and a module may have a `WARM` of its own
LONG_RUN = "with learning rate 0.0005 and 20000 rounds"


class Yard:
    """One host: a home, Redis and a worker. Bots come and go."""

    def __init__(self, home: Path, redis_url: str, *, warm: str = WARM) -> None:
        self.home = home
        self.redis_url = redis_url
        self.warm = warm
        self.worker: subprocess.Popen[bytes] | None = None

    def environment(self, **extra: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINYARD_", "SLACK_"))}
        own = {"TRAINYARD_HOME": str(self.home), "TRAINYARD_REDIS_URL": self.redis_url, "TRAINYARD_HOST_ID": "gpu-1"}
        own |= {"TRAINYARD_WARM": self.warm}
        return kept | own | {"TRAINYARD_HEARTBEAT_S": "1", "TRAINYARD_HOST_BEAT_S": "1"} | extra

    def start_worker(self) -> None:
        with (self.home / "worker.log").open("ab") as log:
            self.worker = subprocess.Popen(
                [sys.executable, "-m", "worker"],
                env=self.environment(AWS_SECRET_ACCESS_KEY=canaries.WORKER),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_worker(self) -> None:
        """kill -9 of the worker's main process."""
        assert self.worker is not None
        self.worker.kill()
        self.worker.wait()

    @asynccontextmanager
    async def bot(self, slack: SlackServer, database: Path, **extra: str) -> AsyncIterator["Bot"]:
        bot = Bot(self, slack, database, extra)
        await bot.start()
        try:
            yield bot
        finally:
            await asyncio.to_thread(bot.stop)  # the local Slack goes on meanwhile


class Bot:
    """The bot's process, connected to a local Slack."""

    def __init__(self, yard: Yard, slack: SlackServer, database: Path, extra: dict[str, str]) -> None:
        self.yard, self.slack, self.database, self.extra = yard, slack, database, extra
        self.process: subprocess.Popen[bytes] | None = None
        self.log = database.with_suffix(".log")

    async def start(self) -> None:
        environment = self.yard.environment(
            TRAINYARD_DATABASE_URL=f"sqlite:///{self.database}",
            TRAINYARD_SLACK_EDIT_GAP_S="0.3",
            TRAINYARD_TICK_S="0.3",
            TRAINYARD_CARD_PACE_S="0.2",
            SLACK_BOT_TOKEN=self.slack.bot_token,
            SLACK_APP_TOKEN=self.slack.app_token,
            SLACK_API_URL=self.slack.url,
            **self.extra,
        )
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*TRAINYARD, "bot"], env=environment, stdout=log, stderr=log, start_new_session=True
            )
        await self.slack.wait_for(lambda: self.slack.connected or self._ended(), timeout=HANG_S)

    def _ended(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError(f"the bot ended:\n{self.log.read_text()[-3000:]}")
        return False

    async def kill(self) -> None:
        """kill -9; returns when Slack has seen the connection go."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        await self.slack.wait_for(lambda: not self.slack.connected)

    def stop(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def opened(*, warm: str = WARM) -> Iterator[Yard]:
    """A home with Redis, without a worker; afterwards nothing of it lives."""
    home = Path(tempfile.mkdtemp(prefix="yard-"))
    server = EmbeddedRedis(home)
    yard = Yard(home, server.start(), warm=warm)
    try:
        yield yard
    finally:
        if yard.worker is not None:
            yard.worker.terminate()
            yard.worker.wait(60)
        end_all_of(home)
        server.stop()
        left = [
            process.info
            for process in psutil.process_iter(["pid", "cmdline"])
            if str(home) in str(process.info["cmdline"])
        ]
        shutil.rmtree(home, ignore_errors=True)
        assert left == []


@pytest.fixture(scope="module")
def yard(request: pytest.FixtureRequest) -> Iterator[Yard]:
    """One host with a worker for the tests of a module."""
    with opened(warm=getattr(request.module, "WARM", WARM)) as yard:
        yard.start_worker()
        yield yard


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slack() -> AsyncIterator[SlackServer]:
    """One workspace for the tests of a module; each has threads of its own."""
    async with SlackServer(rate_scale=100) as server:
        yield server


@pytest.fixture
def visits() -> bytes:
    """Real data, small enough to train in seconds."""
    lines = (EXAMPLES / "doctor_visits.csv").read_text().splitlines(keepends=True)
    return "".join(lines[:4001]).encode()


def cards(slack: SlackServer, ts: str, word: str) -> list[Message]:
    """Messages of a thread that show `word` now."""
    return [message for message in slack.thread(ts) if word in message.shown]


async def approved(slack: SlackServer, data: bytes, words: str = "") -> Message:
    """Alice asks for a model and approves the plan; the message that started the thread."""
    alice = slack.user("alice")
    asked = alice.mention(f"train a model that predicts visited_doctor {words}", files=[slack.file("visits.csv", data)])
    await seen(slack, asked.ts, "Approve", timeout=HANG_S)
    (card,) = [message for message in slack.thread(asked.ts) if "Approve" in message.buttons]
    alice.click(card, "Approve")
    return asked


async def seen(slack: SlackServer, ts: str, *words: str, timeout: float = HANG_S) -> None:
    """Wait until a message of the thread shows all of `words` (buttons count)."""

    def there() -> bool:
        return any(
            all(word in message.shown + " ".join(message.buttons) for word in words) for message in slack.thread(ts)
        )

    try:
        await slack.wait_for(there, timeout=timeout)
    except (AssertionError, TimeoutError) as error:
        raise AssertionError(f"{words} was never shown in:\n{slack.transcript()}") from error


async def whispered(slack: SlackServer, word: str, *, since: int) -> None:
    """Wait until a private answer shows `word`; those up to number `since` are older."""
    await slack.wait_for(lambda: any(word in message.shown for message in slack.whispers[since:]))


async def settled(pause_s: float = 1.0) -> None:
    """Give a second answer the time to come, where a test shows that none does."""
    await asyncio.sleep(pause_s)
