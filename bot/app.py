"""The composition root of the bot's process: names every adapter, starts and stops everything in order."""

import asyncio
import contextlib
import fcntl
import itertools
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

import redis.asyncio

from agent.brain import Options, Surroundings, build
from agent.clock import SystemClock
from agent.conversation.guards import TurnLimits
from agent.domain.content import Document
from agent.domain.errors import AppError, Conflict, NotFound, Unavailable
from agent.domain.models import Preference
from agent.domain.policy import Grant
from agent.domain.runs import DEFAULT_ENGINE
from agent.llm.chain import GatewayModels
from agent.llm.rules import Rules
from agent.runs.engines import Engines
from agent.runs.life.service import Timings
from agent.runs.polling import feed_of
from agent.storage import sql_stores
from agent.storage.database import Database
from bot.connection import Adapter, Failed
from bot.embedded import embedded_redis, wants_redis
from bot.mcp.config import servers_of
from bot.missed import History, catch_up
from bot.platforms import edit_gaps_s
from bot.processes import Children
from bot.relay import relay
from bot.settings import Settings, gateway_environment, worker_environment
from charts_render.pool import ChartPool
from worker.client.blobs import BlobStore, make_blobs
from worker.client.bundle import pack, pack_files, runtime_files, server_files, unpack
from worker.client.keys import ServingKey
from worker.client.redis_server import EmbeddedRedis
from worker.client.redis_url import for_client, shown
from worker.engines import Given, engine_module

if TYPE_CHECKING:
    from bot.mcp.servers import Servers

log = logging.getLogger(__name__)
LOCK = "bot.lock"
ADAPTER = "adapter "  # begins the names of the tasks that end when a platform's connection ends by itself
RESTART_S = (1.0, 30.0)
CANCELS = 3
EXPIRES_EVERY = 5  # ticks; what people did not answer in hours is closed some seconds later
CANCEL_S = 3.0
OWN_WORKER_S = 60.0  # for its self-test and its libraries, on a slow machine


class PackedBundles:
    """`agent.ports.Bundles`: the recipes' files as they are installed."""

    def __init__(self, blobs: BlobStore) -> None:
        """Bundles are kept in the blob store."""
        self._blobs = blobs

    async def pack(self, recipe: str) -> str:
        """Pack a recipe's files into the blob store; the bundle's sha256."""
        sha256, data = await asyncio.to_thread(pack, recipe)
        await asyncio.to_thread(self._blobs.put_bytes, data, name=f"{recipe}.tar")
        return sha256

    async def pack_program(self, files: Mapping[str, bytes]) -> str:
        """Pack somebody's own program with what it may import of ours; the bundle's sha256."""
        sha256, data = await asyncio.to_thread(lambda: pack_files(runtime_files() | dict(files)))
        await asyncio.to_thread(self._blobs.put_bytes, data, name="program.tar")
        return sha256

    async def pack_server(self) -> str:
        """Pack the program that keeps a model up; the bundle's sha256."""
        sha256, data = await asyncio.to_thread(lambda: pack_files(server_files()))
        await asyncio.to_thread(self._blobs.put_bytes, data, name="serve.tar")
        return sha256

    async def read(self, sha256: str, name: str) -> str:
        """The text of one file of a stored bundle. Raises `NotFound`."""
        files = await self._files(sha256)
        if name not in files:
            raise NotFound(f"The run's program has no file `{name}`. Its files: {', '.join(sorted(files))}.")
        return files[name].decode(errors="replace")

    async def replace(self, sha256: str, files: Mapping[str, str]) -> str:
        """Store a copy of a bundle with these files in place of its own; the copy's sha256. Raises `NotFound`."""
        texts = {name: text.encode() for name, text in files.items()}
        digest, data = pack_files(await self._files(sha256) | texts)
        await asyncio.to_thread(self._blobs.put_bytes, data, name="bundle.tar")
        return digest

    async def _files(self, sha256: str) -> dict[str, bytes]:
        return await asyncio.to_thread(lambda: unpack(self._blobs.get_file(sha256).read_bytes()))


class App:
    """One bot: adapters, sessions, run service, relay. `async with App(settings, adapters)` serves until its end."""

    def __init__(
        self,
        settings: Settings,
        adapters: list[Adapter],
        *,
        worker: bool,
        owner: str = "",
        redis: EmbeddedRedis | None = None,
        timings: Timings | None = None,
    ) -> None:
        """`worker` starts a worker here as a child, if runs may go to hosts. `redis` may begin before this.

        `owner` is the key of who sits at the terminal of this process, and may set what admins set. `timings` are the
        run service's.
        """
        self.settings = settings
        self._owner = frozenset({Grant(who=owner)}) if owner else frozenset()
        self._redis = redis or embedded_redis(settings)
        self.adapters: dict[str, Adapter] = {adapter.platform: adapter for adapter in adapters}
        self._with_worker = worker and DEFAULT_ENGINE in settings.engine_names
        self._timings = timings
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self.children = Children(settings.home / "logs")

    async def __aenter__(self) -> "App":
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await _ended(self._tasks)
        await self._stack.aclose()

    async def _start(self) -> None:
        settings = self.settings
        settings.home.mkdir(parents=True, exist_ok=True)
        alive = last_alive(settings.home)
        self._mcp = servers_of(settings)
        self._stack.enter_context(only_one(settings.home))
        redis_url = await self._reach_redis()
        await self._open_database()
        self._connect(redis_url)
        self._stack.push_async_callback(self.children.stop)
        if settings.model_names:
            self._start_gateway()
        if self._with_worker:
            self.children.start("worker", ["-m", "worker"], self._worker_environment)
        self._wire()
        await self.brain.recover()
        for adapter in self.adapters.values():
            if isinstance(adapter, History):
                self._background(
                    f"missed {adapter.platform}",
                    lambda adapter=adapter: catch_up(adapter, self.brain, alive=alive),  # type: ignore[misc]
                )
            self._background(
                f"{ADAPTER}{adapter.platform}",
                lambda adapter=adapter: adapter.run(self.brain.router.accept, self.brain.complete),  # type: ignore[misc]
                failed=adapter.connection.failed,
            )
        for name, feed in self.feeds.items():
            self._background(
                f"relay {name}",
                lambda feed=feed: relay(feed, self.brain.service),  # type: ignore[misc]
            )
        if self._mcp:
            self._background("mcp", self._serve_mcp)
        self._background("cards", self.brain.cards.run)
        if self.brain.monitor is not None:
            self._background("monitor", self.brain.monitor.run)
        self._background("clock", self._tick_forever)
        self._background("warming", self._warm, forever=False)

    async def _reach_redis(self) -> str:
        """Where Redis is; empty where nothing needs one."""
        if self._redis is not None:
            self._stack.callback(self._redis.stop)
            return self._redis.start()  # in the main thread, whose end is the server's end; nothing else runs yet
        if self.settings.redis_url and wants_redis(self.settings):
            await _reach(self.settings.redis_url)
            return self.settings.redis_url
        return ""

    async def _open_database(self) -> None:
        self.database = Database(self.settings.database)
        self._stack.push_async_callback(self.database.close)
        await self.database.start()
        self.stores = sql_stores(self.database)

    def _connect(self, redis_url: str) -> None:
        home = self.settings.home
        self.redis_url = redis_url
        self.blobs = make_blobs(self.settings.blobs, home=home, redis_url=redis_url, cache=home / "blobs")
        self._worker_environment = worker_environment(home, redis_url, self.settings.blobs)
        own_worker_s = OWN_WORKER_S if self._with_worker else 0.0
        given = Given(home, redis_url, self.blobs, self._worker_environment, own_worker_s, self.settings.price_list)
        parts = [engine_module(name).parts(given) for name in self.settings.engine_names]
        for one in parts:
            self._stack.push_async_callback(one.close)
        self.engines = Engines(parts[0], *parts[1:])
        self.feeds = {one.engine.name: feed_of(one, self.stores.runs) for one in parts}
        self.pool = ChartPool()
        self._stack.push_async_callback(self.pool.close)

    def _start_gateway(self) -> None:
        self._socket = self.settings.home / "gateway.sock"
        self._socket.unlink(missing_ok=True)
        argv = ["-m", "agent.llm.gateway", "--socket", str(self._socket)]
        set_ = self.settings
        limits = (set_.first_token_s, set_.gap_s, set_.first_token_s + set_.answer_s)  # the bot keeps what was said
        for option, limit in zip(("--first-token-s", "--gap-s", "--answer-s"), limits, strict=True):
            argv += [option, str(limit)]
        self.children.start("gateway", argv, gateway_environment())

    def _wire(self) -> None:
        settings = self.settings
        rules, names = Rules(), settings.model_names
        models = None
        if names:
            patience_s, silence_s = settings.model_patience_s, settings.silence_s
            models = GatewayModels(names, self._socket, rules, patience_s=patience_s, silence_s=silence_s)
        self.brain = build(
            Surroundings(
                stores=self.stores,
                adapters=self.adapters,
                engines=self.engines,
                blobs=self.blobs,
                bundles=PackedBundles(self.blobs),
                charts=self.pool,
                model=models.model(Preference()) if models else rules,
                models=models,
                clock=SystemClock(),
                tokens=ServingKey(settings.home / "keys").token,
                acts=rules.acts,
                options=Options(
                    pictures=settings.home / "charts",
                    grants=settings.grants.model_copy(update={"admin": settings.grants.admin | self._owner}),
                    second_person=settings.second_person,
                    quorum=settings.quorum,
                    runs_open=settings.runs == "workspace",
                    approval_lifetime=settings.approval_lifetime,
                    answer_s=settings.answer_s,
                    context_tokens=settings.context_tokens,
                    limits=TurnLimits(
                        settings.turn_steps, settings.turn_tokens, settings.turn_usd, settings.turn_minutes
                    ),
                    edit_gap_s=edit_gaps_s(settings),
                    card_pace_s=settings.card_pace_s,
                    monitor=settings.monitor,
                    charged=bool(names),
                    advised=bool(names),
                    timings=self._timings,
                    listening=lambda: not any(feed.away for feed in self.feeds.values()),
                ),
            )
        )
        self._stack.push_async_callback(self.brain.close)

    async def _warm(self) -> None:
        """Load what the first request needs, once people can reach the bot; an earlier request loads it itself."""
        waits = [asyncio.create_task(adapter.connection.wait()) for adapter in self.adapters.values()]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        await asyncio.to_thread(Rules.load)
        self.brain.dispatcher.schemas()
        await self.pool.start()

    async def _serve_mcp(self) -> None:
        """Offer what MCP servers have, while they are connected."""
        servers = await asyncio.to_thread(_mcp_servers)  # the client takes most of a second to load
        logs = self.settings.home / "logs"
        await servers(self._mcp, self._document, logs, self.brain.dispatcher.offer).run()

    async def _document(self, data: bytes, name: str) -> Document:
        """A stored file that a message may have."""
        kept = await asyncio.to_thread(self.blobs.put_bytes, data, name=name)
        path = await self.blobs.get(kept.sha256)
        return Document(path=str(path), name=name, sha256=kept.sha256, size_bytes=kept.size_bytes)

    async def _tick_forever(self) -> None:
        for number in itertools.count():
            await self.brain.service.tick()
            if number % EXPIRES_EVERY == 0:
                await self.brain.router.expire()
            self.children.revive()
            os.utime(self.settings.home / LOCK)  # see `last_alive`
            await asyncio.sleep(self.settings.tick_s)

    def _background(
        self, name: str, start: Callable[[], Awaitable[None]], *, forever: bool = True, failed: Failed | None = None
    ) -> None:
        running = _kept_running(name, start, forever=forever, failed=failed)
        self._tasks.append(asyncio.create_task(running, name=name))

    async def until_an_adapter_closes(self) -> None:
        """Wait for the end of the first adapter that ends by itself (a terminal at the end of its input)."""
        adapters = [task for task in self._tasks if task.get_name().startswith(ADAPTER)]
        await asyncio.wait(adapters, return_when=asyncio.FIRST_COMPLETED)


def _mcp_servers() -> "type[Servers]":
    from bot.mcp.servers import Servers  # noqa: PLC0415 - only who sets servers has and loads the client

    return Servers


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel `tasks` until they end. Libraries that lose a cancellation get a second one; what still runs is named."""
    left = set(tasks)
    for _ in range(CANCELS):
        for task in left:
            task.cancel()
        if left:
            _, left = await asyncio.wait(left, timeout=CANCEL_S)
    for task in left:
        log.error("service does not end", extra={"service": task.get_name()})


async def _reach(redis_url: str) -> None:
    """Raises `Unavailable` when Redis does not answer: at the start that is a mistake, later it may come back."""
    client = redis.asyncio.Redis.from_url(for_client(redis_url), socket_timeout=5, socket_connect_timeout=3)
    try:
        await client.ping()
    except (redis.RedisError, OSError) as error:
        raise Unavailable(
            f"Redis at {shown(redis_url)} does not answer ({type(error).__name__}). Start it, correct "
            "TRAINYARD_REDIS_URL, or leave it unset to use an embedded server."
        ) from error
    finally:
        await client.aclose()


async def _kept_running(
    name: str, start: Callable[[], Awaitable[None]], *, forever: bool, failed: Failed | None = None
) -> None:
    """Run a background service; one that breaks is started again after a pause that grows."""
    pause_s, longest_s = RESTART_S
    while True:
        try:
            await start()
        except Exception as error:
            log.exception("service broke and is started again", extra={"service": name, "pause_s": pause_s})
            if failed is not None:
                reason = (
                    error.text if isinstance(error, AppError) else f"it broke ({type(error).__name__}, see the log)"
                )
                failed(reason, retry_s=pause_s)
        else:
            return
        if not forever:
            return
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, longest_s)


def last_alive(home: Path) -> datetime | None:
    """When a bot with this home last ticked."""
    with contextlib.suppress(FileNotFoundError):
        return datetime.fromtimestamp((home / LOCK).stat().st_mtime, UTC)
    return None


@contextlib.contextmanager
def only_one(home: Path) -> Iterator[IO[str]]:
    """Hold the home's lock. Raises `Conflict` when another bot has it."""
    lock = (home / LOCK).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise Conflict(
            f"Another Trainyard bot is running with the home {home}. Stop it first, or set TRAINYARD_HOME."
        ) from None
    with lock:
        yield lock
