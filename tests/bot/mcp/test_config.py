"""The file of servers: what it may say, and the sentence for what is wrong in it, at the start and in the doctor."""

import asyncio
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from agent.domain.errors import BadData
from bot.app import App
from bot.console.adapter import ConsoleAdapter
from bot.console.plain import PlainScreen
from bot.doctor import examine
from bot.mcp.config import ServerConfig, read_servers, servers_of
from bot.settings import Settings
from tests.bot.mcp.conftest import Served, children, until

KNOWN = {"TOKEN": "s3cret", "HOST": "mcp.example.com"}


def read(folder: Path, content: object) -> dict[str, ServerConfig]:
    path = folder / "mcp.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_servers(path, KNOWN)


def one(**server: object) -> dict[str, object]:
    return {"mcpServers": {"files": server}}


def test_variables_stand_for_values_of_the_environment(tmp_path: Path) -> None:
    servers = {
        "files": {"type": "stdio", "command": "npx", "args": ["-k=${TOKEN}"], "env": {"KEY": "${TOKEN}"}},
        "far": {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "reads": "*"},
        "off": {"command": "x", "args": ["${NOBODY}"], "disabled": True, "description": "later"},
    }
    found = read(tmp_path, {"mcpServers": servers})
    assert list(found) == ["files", "far"]
    assert (found["files"].args, found["files"].env) == (("-k=s3cret",), {"KEY": "s3cret"})
    assert (found["far"].url, found["far"].headers["Authorization"]) == (
        "https://mcp.example.com/mcp",
        "Bearer s3cret",
    )
    assert found["far"].only_reads("anything")
    assert not found["files"].only_reads("anything")
    assert found["files"].cwd == tmp_path


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is no JSON (Expecting property name enclosed in double quotes, line 1, column 2)"),
        ([], "the file: Input should be"),
        ({"servers": {}}, "mcpServers: Field required"),
        (one(), "mcpServers.files: It needs either `command`"),
        (one(command="a", url="https://b"), "mcpServers.files: It needs either `command`"),
        (one(command="a", args="b"), "mcpServers.files.args: Input should be a valid tuple"),
        (one(command="a", cmd="b"), "mcpServers.files.cmd: Extra inputs are not permitted"),
        (one(url="ftp://${TOKEN}"), "mcpServers.files.url: This is no address. It begins with https://"),
        (one(url="https://a", type="sse"), "mcpServers.files.type: Input should be 'stdio', 'http'"),
        (one(command="a", env={"K": "${NOBODY}"}), "files.env.K needs the variable NOBODY, which is not set. Put"),
        (one(command="a", limit_s=0), "mcpServers.files.limit_s: Input should be greater than 0"),
    ],
)
def test_a_wrong_file_is_said_with_the_place_and_no_value(tmp_path: Path, content: object, says: str) -> None:
    with pytest.raises(BadData) as caught:
        read(tmp_path, content)
    assert caught.value.text.startswith("TRAINYARD_MCP: ")
    assert says in caught.value.text
    assert "s3cret" not in caught.value.text


def settings_of(folder: Path, monkeypatch: pytest.MonkeyPatch, path: Path) -> Settings:
    monkeypatch.setenv("TRAINYARD_SANDBOX", "none")
    return Settings(home=folder / "home", redis_url="", engines="local", models="", mcp=path)


async def test_the_bot_does_not_start_with_a_wrong_file_and_the_doctor_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path, monkeypatch, tmp_path / "none.json")
    with pytest.raises(BadData, match=r"none.json cannot be read \(No such file or directory\)"):
        async with App(settings, [], worker=False):
            pass
    printed = io.StringIO()
    assert await examine(settings, Console(file=printed, width=300)) == 1
    assert "none.json cannot be read" in printed.getvalue()
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(BadData, match=r"pip install 'trainyard\[llm\]'"):
        servers_of(settings)


async def test_the_bot_waits_for_no_server_and_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(tmp_path, lambda _server, _tools: None)
    good = served.config().model_dump(mode="json", include={"command", "args", "env"})
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"notes": good, "none": {"command": "no-such-program"}}}))
    screen = PlainScreen(Console(file=io.StringIO()))
    adapter = ConsoleAdapter(thread_id="main", person="ann", files=tmp_path / "files", read=False, screen=screen)
    async with asyncio.timeout(30), App(settings_of(tmp_path, monkeypatch, path), [adapter], worker=False) as app:
        dispatcher = app.brain.dispatcher
        assert not dispatcher.knows("notes_look"), "it did not wait"
        await until(lambda: dispatcher.knows("notes_look"))
        assert (tmp_path / "home/logs/mcp-notes.log").exists()
        assert len(children()) == 1
    assert children() == []
