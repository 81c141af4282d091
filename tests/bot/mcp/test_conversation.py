"""A conversation with a server's tools: people approve the exact call, it is made once, its words are others'."""

import json

from agent.domain.runs import RunState
from agent.ports import ModelReply, ToolCall
from agent.ports import Role as Speaker
from agent.tools.dispatch import TAINTED
from tests.agent.conftest import Harness
from tests.agent.stage import Stage
from tests.agent.test_allowances import click, labels
from tests.agent.test_deciding import card_with
from tests.bot.mcp.conftest import Served, until
from tests.fakes import ScriptedModel, said


def calls(name: str, **arguments: object) -> ModelReply:
    """A model's reply that calls a tool; the reply after it is what comes next in the script."""
    return ModelReply("", (ToolCall(f"c-{name}", name, json.dumps(arguments)),), "m")


def answers(model: ScriptedModel) -> list[dict[str, object]]:
    """What tools answered, as the model read it last."""
    return [json.loads(one.text) for one in model.asked[-1] if one.role is Speaker.TOOL]


async def test_a_call_that_may_change_something_waits_for_people_and_is_made_once(harness: Harness) -> None:
    model = harness.model = ScriptedModel(
        calls("notes_write", text="buy milk\n*Cost* none"),
        ModelReply("Written.", (), "m"),
        calls("notes_write", text="x" * 600),
        calls("notes_write", text="no"),
        ModelReply("Then not.", (), "m"),
        calls("notes_die", text="once"),
        ModelReply("I do not know.", (), "m"),
    )
    async with harness.open() as brain:
        served, stage = Served(harness.folder, brain.dispatcher.offer), Stage(harness, brain)
        async with served.running(notes=served.config()):
            await until(lambda: brain.dispatcher.knows("notes_write"))
            await stage.asks("auto", "usd=50")  # covers nothing whose price nobody knows
            await brain.router.accept(said("note that I need milk"))
            card = await card_with(harness, "approve")
            assert {fact.name: fact.value for fact in card.facts} == {
                "Cost": "unknown: the server names no price",
                "Server": "notes",
                "Tool": "write",
                "Argument text": '"buy milk\\n*Cost* none"',
            }
            assert "Always here" not in labels(card)
            assert "asked about every time" in (await stage.asks("approve", card.buttons[0].subject, "always")).text
            assert served.written() == []
            await click(harness, brain, card, "approve")
            await harness.until(lambda: "Written." in harness.adapter.texts())
            assert served.written() == ["buy milk", "*Cost* none"]
            await click(harness, brain, card, "approve")
            await brain.router.accept(said("and a long one"))
            await click(harness, brain, await card_with(harness, "reject"), "reject")
            await harness.until(lambda: "Then not." in harness.adapter.texts())
            assert served.written() == ["buy milk", "*Cost* none"]
            await brain.router.accept(said("end"))
            await click(harness, brain, await card_with(harness, "approve"), "approve")
            await harness.until(lambda: "I do not know." in harness.adapter.texts())
            await brain.router.expire()  # which carries out what waits
            assert served.written() == ["buy milk", "*Cost* none", "once"]
    written, long, rejected, died = answers(model)
    assert written["text"] == "wrote buy milk\n*Cost* none"
    assert "too long for a card" in str(long["error"])
    assert rejected["approval"] == "rejected"
    assert died["outcome"] == "unknown"
    assert "server `notes`" in str(died["error"])


async def test_what_a_server_says_is_not_the_persons_word(harness: Harness) -> None:
    harness.model = ScriptedModel(
        calls("notes_injected"), ModelReply("Read.", (), "m"), calls("pause_run"), ModelReply("Paused.", (), "m")
    )
    async with harness.open() as brain:
        served, stage = Served(harness.folder, brain.dispatcher.offer), Stage(harness, brain)
        run = await stage.running()
        async with served.running(notes=served.config()):
            await until(lambda: brain.dispatcher.knows("notes_injected"))
            assert await stage.tells("what does the page say?") == "Read."
        assert not brain.dispatcher.knows("notes_injected"), "its words stay others' when it is gone"
        await brain.router.accept(said("go on"))
        card = await card_with(harness, "approve")
        assert card.body == TAINTED
        assert (await brain.stores.runs.get(run.id)).state is RunState.RUNNING
