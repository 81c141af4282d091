"""Real MCP servers, as children of the test, whose tools join a dispatcher."""

import asyncio
import contextlib
import hashlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from agent.domain.content import Document
from agent.ports import ToolCall
from agent.tools.dispatch import Dispatcher, NeedsApproval
from agent.tools.tool import Caller, Result, Tool
from bot.mcp.config import ServerConfig
from bot.mcp.servers import Servers
from tests.agent.conftest import Harness
from tests.fakes import ALICE, THREAD

SERVER = Path(__file__).with_name("server.py")
READS = ("look", "environment", "injected", "giant", "picture", "wrong", "hang", "grow")
CALLER = Caller(ALICE, "s", THREAD)


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are tried again at once."""
    monkeypatch.setattr("bot.mcp.servers.RETRY_S", (0.05, 60.0))


class Served:
    """Servers that run, and the dispatcher that has their tools."""

    def __init__(self, folder: Path, offer: Callable[[str, Sequence[Tool]], None]) -> None:
        self.folder = folder
        self.notes = folder / "notes.txt"
        self.offer = offer

    def written(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def config(self, **more: object) -> ServerConfig:
        """The server of this folder, as a program."""
        usual = {"command": sys.executable, "args": [str(SERVER)], "env": {"NOTES": str(self.notes)}, "reads": READS}
        return ServerConfig.model_validate({**usual, "cwd": self.folder, **more})

    async def keep(self, data: bytes, name: str) -> Document:
        path = self.folder / name
        path.write_bytes(data)
        return Document(path=str(path), name=name, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))

    @asynccontextmanager
    async def running(self, **configs: ServerConfig) -> AsyncIterator[None]:
        running = asyncio.create_task(Servers(configs, self.keep, self.folder / "logs", self.offer).run())
        try:
            yield
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running
            assert children() == []


def children() -> list[psutil.Process]:
    """The programs of servers that run."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if (str(SERVER) in line or "tools/list" in line) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


async def until(true: Callable[[], bool], limit_s: float = 15.0) -> None:
    async with asyncio.timeout(limit_s):
        while not true():
            await asyncio.sleep(0.01)


async def call(dispatcher: Dispatcher, name: str, arguments: str = "{}") -> Result:
    """What a tool that only reads answers."""
    answer = await dispatcher.call(CALLER, ToolCall("c", name, arguments))
    assert isinstance(answer, Result)
    return answer


async def planned(dispatcher: Dispatcher, name: str, arguments: str = "{}") -> NeedsApproval:
    """The question of a tool that asks first."""
    answer = await dispatcher.call(CALLER, ToolCall("c", name, arguments))
    assert isinstance(answer, NeedsApproval)
    return answer
