"""The gateway's life: its start, its death by kill -9, the death of its bot, and a client that never hangs."""

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from agent.domain.errors import ModelError, Unavailable
from agent.domain.models import Preference
from agent.llm.chain import GatewayModel, GatewayModels
from agent.llm.offline import OfflinePlanner
from agent.ports import ModelMessage, Role
from bot.processes import Children
from tests.llm.conftest import ASKED, CANARY, HANG_S, GatewayProcess, answer
from tests.platforms.model_server import Fail, Hang, ModelServer, Reply

RECORD = """
import socket
def audit(event, given):
    if event == "import" and given[0].startswith("openai."):
        print("IMPORT", given[0], file=sys.stderr, flush=True)
    named = event in {"socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "urllib.Request"}
    if named or (event == "socket.connect" and given[0].family != socket.AF_UNIX):
        print("NETWORK", event, given[1:], file=sys.stderr, flush=True)
sys.addaudithook(audit)
"""
WITHOUT_LITELLM = "sys.modules['litellm'] = None"


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("g")


async def until(true: object, limit_s: float = HANG_S) -> None:
    async with asyncio.timeout(limit_s):
        while not true():  # type: ignore[operator]
            await asyncio.sleep(0.02)


async def test_a_start_without_network_kill_9_in_the_middle_and_a_new_start(folder: Path, server: ModelServer) -> None:
    gateway, children = GatewayProcess(folder), Children(folder / "logs")
    children.start("gateway", ["-c", gateway.program(RECORD)], gateway.environment)
    try:
        server.script(Hang(after=2), Reply("back again"))
        pieces: list[object] = []

        async def ask() -> None:
            async for piece in gateway.model(server).stream(ASKED, ()):
                pieces.append(piece)  # noqa: PERF401 - they are looked at while they come

        asking = asyncio.create_task(ask())  # at once: it waits while LiteLLM is imported
        await until(lambda: len(pieces) == 2, limit_s=3 * HANG_S)  # the import alone may take half a minute
        before, after = children.log_tail("gateway", 10**6).split("INFO agent.llm.gateway ready")
        assert "NETWORK" not in before
        assert "NETWORK socket.connect" in after  # the record works
        assert "IMPORT openai." in before
        assert "IMPORT openai." not in after  # the first who asks waits for no import
        assert stat.S_IMODE(gateway.socket.stat().st_mode) == 0o600
        first = _child_with(gateway.socket)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(Unavailable, match=r"process that talks to language models ended"):
            await asyncio.wait_for(asking, 5)
        await until(lambda: children.ended() == {"gateway": -signal.SIGKILL})
        waiting = asyncio.create_task(answer(gateway.model(server)))
        await asyncio.sleep(0.2)
        children.revive()
        _, reply = await waiting
        assert reply.text == "back again"
        assert _child_with(gateway.socket) != first
        llama = GatewayModels(
            ("groq/llama-3.1-8b-instant",), gateway.socket, OfflinePlanner(), patience_s=0, silence_s=5
        )
        assert await llama.tokens(Preference(), ASKED) > 0
        assert "getaddrinfo (443" not in children.log_tail("gateway", 10**6)
        assert children.ended() == {"gateway": -signal.SIGKILL}
    finally:
        await children.stop()
    with pytest.raises(Unavailable, match="is not running"):
        await answer(gateway.model(server))
    assert CANARY not in children.log_tail("gateway", 10**6)


async def test_a_server_of_ones_own_gets_its_own_key(folder: Path, server: ModelServer) -> None:
    key = "its-own-key-5d1f0a"
    gateway = GatewayProcess(folder)
    gateway.start(TRAINYARD_MODEL_KEYS=f"http://elsewhere/v1=no {server.url}/={key}")
    server.script(Reply("yes"), Fail(400, f"bad parameter near {key}"), Fail(401))
    try:
        await until(lambda: "INFO agent.llm.gateway ready" in gateway.log, limit_s=3 * HANG_S)
        await answer(gateway.model(server))
        for words in ("did not accept", "The key for openai/test-model was refused"):
            with pytest.raises(ModelError, match=words):
                await answer(gateway.model(server))
    finally:
        gateway.kill()
    assert [request.key for request in server.requests] == [key] * 3
    assert "bad parameter near [secret" in gateway.log
    assert key not in gateway.log


async def test_what_keeps_ending_is_started_less_and_less_often(folder: Path) -> None:
    children = Children(folder)
    children.start("broken", ["-c", "print('here', flush=True)"], dict(os.environ))
    try:
        for _ in range(100):
            children.revive()
            await asyncio.sleep(0.02)
        starts = children.log_tail("broken", 1000).count("here")
        assert 2 <= starts <= 4  # at once, after 0.5 s, after 1 s more
    finally:
        await children.stop()


async def test_kill_9_of_the_bot_ends_the_gateway(folder: Path) -> None:
    """One without LiteLLM, which starts sooner: what it has loaded plays no part in its end."""
    gateway = GatewayProcess(folder)
    socket = gateway.socket
    code = f"""
import os, time
from pathlib import Path
from bot.processes import Children
argv = ["-c", {gateway.program(WITHOUT_LITELLM)!r}]
Children(Path({str(folder)!r})).start("gateway", argv, dict(os.environ))
time.sleep(600)
"""
    bot = subprocess.Popen([sys.executable, "-c", code])
    try:
        await until(socket.exists)
        with pytest.raises(ModelError, match="LiteLLM is not installed"):
            await answer(GatewayModel(["openai/x"], socket))
        process = psutil.Process(_child_with(socket, of=bot.pid))
        bot.kill()
        bot.wait()
        await until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    finally:
        bot.kill()
        bot.wait()


async def test_without_litellm_people_are_told(folder: Path) -> None:
    gateway = GatewayProcess(folder)
    gateway.start(prelude=WITHOUT_LITELLM)
    try:
        with pytest.raises(ModelError, match=r"LiteLLM is not installed\. Run"):
            await answer(GatewayModel(["openai/x"], gateway.socket))
    finally:
        gateway.kill()


def _child_with(socket: Path, *, of: int | None = None) -> int:
    (pid,) = [one.pid for one in psutil.Process(of).children() if str(socket) in " ".join(one.cmdline())]
    return int(pid)


@asynccontextmanager
async def impostor(socket: Path, said: bytes, *, end: bool) -> AsyncIterator[None]:
    """A gateway that answers every request with the same bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(said)
        await writer.drain()
        if not end:
            await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(serve, path=str(socket), limit=1 << 26)
    try:
        yield
    finally:
        server.close()


async def test_the_bots_side_never_hangs(folder: Path) -> None:
    cases: list[tuple[bytes, bool, type[Exception], str]] = [
        (b"", False, Unavailable, "m did not answer in time."),
        (b'{"text": "half', False, Unavailable, "m did not answer in time."),
        (b"", True, Unavailable, "ended"),
        (b'{"text": "half', True, Unavailable, "ended"),
        (b"garbage\n", True, ModelError, "The answer of m cannot be read."),
        (b"[]\n", True, ModelError, "cannot be read"),
        (b'{"done": {"text": "x"}}\n', True, ModelError, "cannot be read"),
        (b"x" * 16_100_000 + b"\n", True, ModelError, "cannot be read"),
    ]
    for number, (said, end, kind, sentence) in enumerate(cases):
        socket = folder / f"{number}.sock"
        async with impostor(socket, said, end=end):
            with pytest.raises(kind, match=sentence):
                await answer(GatewayModel(["m"], socket, silence_s=30.0 if end else 0.3))


async def test_a_gateway_that_stands_still(folder: Path) -> None:
    """It takes the connection, but never reads: a long request does not fit into the socket."""
    import socket as sockets

    path = folder / "still.sock"
    with sockets.socket(sockets.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(4)
        model = GatewayModel(["m"], path, silence_s=0.3)
        for length in (10, 5_000_000):
            with pytest.raises(Unavailable, match="m did not answer in time"):
                await answer(model, [*ASKED[:1], ModelMessage(Role.USER, "x" * length)])


async def test_a_cancellation_that_meets_a_word_is_not_lost(folder: Path) -> None:
    """In Python 3.11 `asyncio.wait_for` swallows it; the bot would then wait for minutes before it stops."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writers.append(writer)

    async def read(model: GatewayModel) -> None:
        async for _ in model.stream(ASKED, ()):
            pass

    path = folder / "words.sock"
    server = await asyncio.start_unix_server(serve, path=str(path))
    for gap in range(12):
        reading = asyncio.create_task(read(GatewayModel(["m"], path)))
        await until(lambda gap=gap: len(writers) == gap + 1)
        writers[-1].write(b'{"text": "word"}\n')
        for _ in range(gap):
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait({reading}, timeout=5)
        assert reading.cancelled(), gap
        writers[-1].close()
    server.close()
