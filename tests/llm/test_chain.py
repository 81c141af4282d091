"""Fail-over down the chain, in the real turn loop with the real gateway."""

import subprocess
import sys
from pathlib import Path

import pytest

from agent.domain.errors import Unavailable
from agent.llm.chain import BY_RULES, ModelChain
from agent.llm.offline import OfflinePlanner
from agent.ports import ModelMessage, ModelReply, Role
from tests.agent.conftest import Harness
from tests.fakes import ScriptedModel, said
from tests.llm.conftest import CANARY, GatewayProcess, answer
from tests.platforms.model_server import Call, Cut, Fail, Hang, ModelServer, Reply


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def chain(gateway: GatewayProcess, server: ModelServer) -> ModelChain:
    return ModelChain([gateway.model(server, "first"), gateway.model(server, "second")], OfflinePlanner())


async def test_a_refused_key_and_then_an_answer(gateway: GatewayProcess, server: ModelServer) -> None:
    server.script(Fail(401), model="first")
    server.script(Reply("I am the second."), model="second")
    pieces, reply = await answer(chain(gateway, server))  # type: ignore[arg-type]
    assert "".join(pieces) == reply.text == "I am the second."
    assert reply.model == "openai/second"


async def test_cut_in_the_middle_only_the_seconds_words_stay(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    server.script(Cut(after=3), Hang(after=1), model="first")
    server.script(Reply("All is well."), Reply("Still well."), model="second")
    harness.model = chain(gateway, server)
    async with harness.open() as brain:
        await brain.router.accept(said("how are things"))
        await harness.until(lambda: harness.adapter.texts() == ["All is well."], 30)
        await brain.router.accept(said("and now"))
        await harness.until(lambda: harness.adapter.texts() == ["All is well.", "Still well."], 30)
    assert len(harness.adapter.messages) == 2
    assert "word0 word1" in next(iter(harness.adapter.messages.values()))[-2].text  # it was shown, and replaced
    history = [message["content"] for message in server.requests[-1].messages]
    assert history[1:] == ['[from "alice"]\nhow are things', "All is well.", '[from "alice"]\nand now']


async def test_all_fail_and_the_planner_says_why(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    server.script(Fail(500), model="first")
    server.script(Fail(401, f"bad key {CANARY}"), model="second")
    harness.model = chain(gateway, server)
    async with harness.open() as brain:
        await brain.router.accept(said("what is the weather"))
        await harness.until(lambda: bool(harness.adapter.texts()), 30)
    (text,) = harness.adapter.texts()
    assert text.startswith("_The key for openai/second was refused. Put a valid one into `.env` and restart the bot.")
    assert BY_RULES in text
    assert "did not understand" in text
    assert CANARY not in text


async def test_the_planner_says_why_once_a_turn() -> None:
    asked, tool = ModelMessage(Role.USER, "go"), ModelMessage(Role.TOOL, "{}", call_id="1")
    told = ModelMessage(Role.ASSISTANT, f"_It broke. {BY_RULES}_\n\nI look.", model="p")
    cases = [
        ([asked], f"_It broke. {BY_RULES}_\n\nI look."),
        ([asked, told, tool], "I look."),
        ([asked, told, tool, asked], f"_It broke. {BY_RULES}_\n\nI look."),
    ]
    for messages, shown in cases:
        broken, planner = ScriptedModel(Unavailable("It broke.")), ScriptedModel(ModelReply("I look.", (), "p"))
        *_, reply = [piece async for piece in ModelChain([broken], planner).stream(messages, ())]
        assert isinstance(reply, ModelReply)
        assert reply.text == shown


async def test_arguments_that_are_no_json_go_back_to_the_model(
    gateway: GatewayProcess, server: ModelServer, harness: Harness
) -> None:
    server.script(
        Reply("Let me look.", calls=[Call("list_hosts", '{"host": ', id="c1"), Call("list_hosts", {}, id="c2")]),
        Reply("One host is there."),
    )
    harness.model = chain(gateway, server)
    async with harness.open() as brain:
        await brain.router.accept(said("which machines have you got"))
        await harness.until(lambda: "One host is there." in harness.adapter.texts(), 30)
    sent = server.requests[1].messages
    answers = {message["tool_call_id"]: message["content"] for message in sent if message["role"] == "tool"}
    assert "`list_hosts` cannot use these arguments" in answers["c1"]
    assert "gpu-1" in answers["c2"]
    assert server.requests[1].body["model"] == "first"


def test_the_bots_side_imports_no_vendor() -> None:
    code = "import sys, agent.llm.chain; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "agent" in loaded
    assert not {"litellm", "openai", "httpx", "aiohttp", "tiktoken"} & set(loaded)
