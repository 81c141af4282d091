"""Our client of MCP servers against the reference server of the protocol's authors, a program for node."""

from pathlib import Path

import pytest

from agent.tools.dispatch import Dispatcher
from bot.mcp.config import ServerConfig
from tests.bot.mcp.conftest import Served, call, planned, until

pytestmark = pytest.mark.peers
SERVER = Path(__file__).parent / "node_modules" / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
READS = ("echo", "get-sum", "get-tiny-image", "get-structured-content", "simulate-research-query")


async def test_its_tools_are_offered_found_called_and_asked_about(tmp_path: Path) -> None:
    assert SERVER.exists(), "run `make test-peers`, which installs it"
    dispatcher = Dispatcher([])
    config = ServerConfig(command="node", args=(str(SERVER), "stdio"), reads=READS)
    async with Served(tmp_path, dispatcher.offer).running(every=config):
        await until(lambda: dispatcher.knows("every_echo"))
        assert (await call(dispatcher, "every_echo", '{"message": "hello"}')).text == "Echo: hello"
        assert (await call(dispatcher, "every_get-sum", '{"a": 2, "b": 3}')).text == "The sum of 2 and 3 is 5."
        weather = await call(dispatcher, "every_get-structured-content", '{"location": "New York"}')
        assert '"temperature"' in weather.text
        (picture,) = (await call(dispatcher, "every_get-tiny-image")).files
        assert Path(picture.path).read_bytes().startswith(b"\x89PNG")
        found = await call(dispatcher, "find_tools", '{"words": "simulate a research query"}')
        assert found.data["tools"] == ["every_simulate-research-query"]
        asked = await planned(dispatcher, "every_toggle-simulated-logging")
        assert asked.plan.exact == {"server": "every", "tool": "toggle-simulated-logging", "arguments": {}}
