"""The real gateway process with the real LiteLLM, and a scripted provider beside it."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.llm.chain import GatewayModel
from agent.ports import Model, ModelMessage, ModelReply, Role, ToolSchema
from tests.platforms.model_server import ModelServer

HANG_S = 60.0  # also for the first answer, before which LiteLLM is loaded beside all other tests
SILENCE_S = 2.0
ANSWER_S = 5.0
CANARY = "sk-canary-7f3a9c51e2d84b60"
OTHER_CANARY = "canary-of-another-provider-0123456789"
ASKED = (ModelMessage(Role.SYSTEM, "Be brief."), ModelMessage(Role.USER, "hello"))
STATUS = ToolSchema("run_status", "How a run is going.", {"type": "object", "properties": {"run": {"type": "string"}}})


class GatewayProcess:
    """One gateway. `log` is what it wrote to its output."""

    def __init__(self, folder: Path) -> None:
        self.socket, self._log = folder / "gateway.sock", folder / "gateway.log"
        self.process: subprocess.Popen[bytes] | None = None

    def program(self, prelude: str = "") -> str:
        """Python that is a gateway; `prelude` runs first in its process."""
        argv = [
            "gateway",
            "--socket",
            str(self.socket),
            "--first-token-s",
            str(SILENCE_S),
            "--gap-s",
            str(SILENCE_S),
            "--answer-s",
            str(ANSWER_S),
        ]
        code = f"import sys, runpy; sys.argv = {argv!r}\n{prelude}\n"
        return code + "runpy.run_module('agent.llm.gateway', run_name='__main__', alter_sys=True)"

    @property
    def environment(self) -> dict[str, str]:
        """This process's, with the keys of the tests only."""
        kept = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_TOKEN"))}
        return kept | {"OPENAI_API_KEY": CANARY, "MISTRAL_API_KEY": OTHER_CANARY}

    def start(self, *, prelude: str = "", **environment: str) -> None:
        """Start it."""
        argv = [sys.executable, "-c", self.program(prelude)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(argv, env=self.environment | environment, stdout=log, stderr=log)

    def kill(self) -> None:
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def model(self, server: ModelServer, name: str = "test-model", **more: Any) -> GatewayModel:
        return self.chain(server, name, **more)

    def chain(self, server: ModelServer, *names: str, **more: Any) -> GatewayModel:
        return self.of([f"openai/{name}@{server.url}" for name in names], **more)

    def of(self, names: Sequence[str], **more: Any) -> GatewayModel:
        return GatewayModel(names, self.socket, **more)


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    """Shared by a module: the import of LiteLLM takes seconds."""
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        process = GatewayProcess(Path(folder))
        process.start()
        try:
            yield process
            assert CANARY not in process.log
            assert OTHER_CANARY not in process.log
            assert "Traceback" not in process.log, process.log
        finally:
            process.kill()


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


async def answer(
    model: Model, messages: Sequence[ModelMessage] = ASKED, tools: Sequence[ToolSchema] = ()
) -> tuple[list[str], ModelReply]:
    """The pieces and the whole reply."""
    async with asyncio.timeout(HANG_S):
        *pieces, reply = [piece async for piece in model.stream(messages, tools)]
    assert isinstance(reply, ModelReply)
    return [piece for piece in pieces if isinstance(piece, str)], reply
