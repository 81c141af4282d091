"""Our gateway, through the real LiteLLM, against a model server that others wrote: three providers' protocols."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.llm.chain import GatewayModel
from agent.ports import ModelMessage, ModelReply, Role, ToolSchema

pytestmark = pytest.mark.peers
HERE = Path(__file__).parent
SERVER = HERE / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
FIXTURES = {
    "fixtures": [
        {"match": {"userMessage": "hello"}, "response": {"content": "Good morning from the other side."}},
        {
            "match": {"userMessage": "status"},
            "response": {"toolCalls": [{"name": "run_status", "arguments": '{"run": "r-abc123"}'}]},
        },
    ]
}
STATUS = ToolSchema("run_status", "How a run is going.", {"type": "object", "properties": {"run": {"type": "string"}}})


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    assert SERVER.exists(), "run `make test-peers`, which installs it"
    fixtures = tmp_path_factory.mktemp("aimock") / "fixtures.json"
    fixtures.write_text(json.dumps(FIXTURES))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = int(probe.getsockname()[1])
    server = subprocess.Popen(["node", str(SERVER), "-p", str(free), "-f", str(fixtures)], stdout=subprocess.DEVNULL)
    try:
        yield free
    finally:
        server.terminate()
        server.wait(10)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gw-"))
    path = folder / "gateway.sock"
    keys = {"OPENAI_API_KEY": "sk-local", "ANTHROPIC_API_KEY": "sk-ant-local"}
    process = subprocess.Popen(
        [sys.executable, "-m", "agent.llm.gateway", "--socket", str(path)], env=dict(os.environ) | keys
    )
    try:
        yield path
    finally:
        process.terminate()
        process.wait(20)


async def reply(model: GatewayModel, text: str) -> tuple[list[str], ModelReply]:
    pieces: list[str] = []
    async with asyncio.timeout(60):
        async for piece in model.stream([ModelMessage(Role.USER, text)], [STATUS]):
            if isinstance(piece, ModelReply):
                return pieces, piece
            pieces.append(piece)
    raise AssertionError("the reply never ended")


@pytest.mark.parametrize("name", ["openai/gpt-4o@{}/v1", "anthropic/claude-sonnet-4-5@{}", "ollama_chat/qwen3@{}"])
async def test_text_streams_and_tools_are_called(name: str, port: int, gateway: Path) -> None:
    model = GatewayModel([name.format(f"http://127.0.0.1:{port}")], gateway)
    pieces, said = await reply(model, "hello")
    assert "".join(pieces) == said.text == "Good morning from the other side."
    _, asked = await reply(model, "status please")
    (call,) = asked.calls
    assert (call.name, json.loads(call.arguments)) == ("run_status", {"run": "r-abc123"})
