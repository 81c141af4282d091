"""Tools that come and go while the bot runs, and do not know a repetition: what is approved is begun once."""

import asyncio
import json
from collections.abc import Mapping

import pytest
from pydantic import JsonValue

from agent.domain.content import Card
from agent.domain.policy import Effect
from agent.ports import ModelReply, Role, ToolCall
from agent.tools.tool import Arguments, Caller, Plan, Result, Tool
from tests.agent.conftest import Harness
from tests.agent.stage import Stage
from tests.agent.test_allowances import click
from tests.agent.test_deciding import card_with
from tests.fakes import ScriptedModel, clicked, said


class Far:
    """A tool of a server. While it is `stuck` an execution never ends."""

    def __init__(self) -> None:
        self.stuck = True
        self.begun: list[str] = []

    def tool(self) -> Tool:
        return Tool(
            "far_write",
            "Writes.",
            Arguments,
            Effect.SPEND,
            plan=self.plan,
            execute=self.execute,
            cost=self.cost,
            parameters={"type": "object", "properties": {}},
        )

    @staticmethod
    def cost(_exact: Mapping[str, JsonValue]) -> str:
        return "unknown"

    async def plan(self, _caller: Caller, _asked: Arguments) -> Plan:
        return Plan({}, Card(kind="approval", title="Write?"))

    async def execute(self, _caller: Caller, _exact: dict[str, JsonValue], token: str) -> Result:
        self.begun.append(token)
        if self.stuck:
            await asyncio.Event().wait()
        return Result("Written.")


async def test_a_call_that_a_restart_cut_off_is_not_made_again_and_an_approval_waits_for_its_server(
    harness: Harness,
) -> None:
    ask = ModelReply("", (ToolCall("c", "far_write", "{}"),), "m")
    model = harness.model = ScriptedModel(ask, ModelReply("I cannot tell.", (), "m"), ask, ModelReply("Done.", (), "m"))
    far = Far()
    async with harness.open() as brain:
        brain.dispatcher.offer("far", [far.tool()])
        await brain.router.accept(said("write"))
        card = await card_with(harness, "approve")
        deciding = asyncio.create_task(click(harness, brain, card, "approve"))
        await harness.until(lambda: bool(far.begun))
        deciding.cancel()
    far.stuck = False
    async with harness.open() as brain:
        await brain.router.expire()
        assert "I cannot tell." not in harness.adapter.texts(), "its server is not there yet"
        brain.dispatcher.offer("far", [far.tool()])
        await brain.router.expire()
        await harness.until(lambda: "I cannot tell." in harness.adapter.texts())
        assert len(far.begun) == 1
        await brain.router.accept(said("once more"))
        card = await card_with(harness, "approve")
        brain.dispatcher.offer("far", [])
        assert "not connected now" in await click(harness, brain, card, "approve")
        brain.dispatcher.offer("far", [far.tool()])
        await click(harness, brain, card, "approve")
        await harness.until(lambda: "Done." in harness.adapter.texts())
    assert len(far.begun) == 2
    answers = [json.loads(one.text) for one in model.asked[-1] if one.role is Role.TOOL]
    assert [answer.get("outcome") for answer in answers] == ["unknown", None]


async def test_of_a_call_that_was_cut_off_and_whose_server_never_comes_back_nothing_is_claimed(
    harness: Harness,
) -> None:
    ask = ModelReply("", (ToolCall("c", "far_write", "{}"),), "m")
    model = harness.model = ScriptedModel(ask, ModelReply("I cannot tell.", (), "m"))
    far = Far()
    async with harness.open() as brain:
        brain.dispatcher.offer("far", [far.tool()])
        await brain.router.accept(said("write"))
        await brain.router.accept(clicked((await card_with(harness, "approve")).buttons[0]))
        await harness.until(lambda: bool(far.begun))
    async with harness.open() as brain:
        harness.clock.forward(2 * 24 * 3600)
        await brain.router.expire()
        await harness.until(lambda: "I cannot tell." in harness.adapter.texts())
    assert json.loads(model.asked[-1][-1].text) == {
        "error": "`far_write` cannot be called: the server that has it is not connected now.",
        "outcome": "unknown",
    }


@pytest.mark.parametrize("how", ["click", "words"])
async def test_a_server_that_takes_long_holds_up_nothing_else(harness: Harness, how: str) -> None:
    harness.model = ScriptedModel(ModelReply("", (ToolCall("c", "far_write", "{}"),), "m"), ModelReply("Hi.", (), "m"))
    far = Far()
    async with harness.open() as brain:
        brain.dispatcher.offer("far", [far.tool()])
        await brain.router.accept(said("write"))
        card = await card_with(harness, "approve")
        await brain.router.accept(clicked(card.buttons[0]) if how == "click" else said("yes"))
        await harness.until(lambda: bool(far.begun))
        async with asyncio.timeout(5):
            assert (await Stage(harness, brain).asks("cluster")).card
        await brain.router.accept(clicked(card.buttons[0]))
        await brain.router.accept(said("hello there"))
        await harness.until(lambda: "Hi." in harness.adapter.texts())
        assert len(far.begun) == 1
