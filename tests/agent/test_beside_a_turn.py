"""A slow answer: what people do beside it acts at once, it has a deadline, and it can be ended."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from agent.brain import Brain
from agent.domain.runs import RunState
from agent.ports import ModelMessage, ModelReply, ToolCall, ToolSchema
from tests.agent.conftest import House
from tests.agent.stage import Stage
from tests.fakes import ALICE, BOB, GUEST, ScriptedModel, clicked, commanded, said


class Drips:
    """Says two words and goes on only when it may; then it answers by its script."""

    def __init__(self, *calls: ToolCall) -> None:
        self.may_end = asyncio.Event()
        self.asked: list[Sequence[ModelMessage]] = []
        self.calls = calls

    async def stream(
        self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
    ) -> AsyncIterator[str | ModelReply]:
        self.asked.append(messages)
        yield "Slowly "
        yield "now "
        await self.may_end.wait()
        calls = self.calls if messages[-1].role == "user" else ()
        yield ModelReply(f"Slowly now the end of {len(self.asked)}.", calls, "m")


async def dripping(house: House, brain: Brain, text: str = "tell me a long story") -> Drips:
    """A turn of Alice's is answered by a model that drips."""
    model = house.model
    assert isinstance(model, Drips)
    asked = len(model.asked)
    await brain.desk.accept(said(text))
    await house.until(lambda: len(model.asked) > asked and any("now" in text for text in house.door.texts()))
    return model


async def test_commands_clicks_and_control_act_beside_a_slow_answer(house: House) -> None:
    house.model = Drips()
    async with house.open() as brain:
        stage = Stage(house, brain)
        run, other = await stage.running(), await stage.running()
        await stage.asks("clone", run.id, "seed=7")  # is asked about before the slow answer begins
        approve = (await stage.asked()).card
        assert approve is not None
        model = await dripping(house, brain)
        assert (await stage.asks("cluster")).card is not None
        await brain.desk.accept(said(f"pause {run.id}"))
        await stage.asks("kill", other.id)
        await house.until(lambda: any(c.card.title == f"Kill {other.id}?" for c in house.door.shown if c.card))
        await brain.desk.accept(clicked(house.door.button("approve")))
        await house.until(lambda: any("is being killed" in text for text in house.door.texts()))
        assert [order.how for order in house.fleet.stopped] == ["pause", "kill"]
        await brain.desk.accept(clicked(approve.buttons[0]))
        await house.until(lambda: sum("Approved by alice" in c.card.footer for c in house.door.shown if c.card) == 2)
        (new,) = [one for one in await brain.stores.runs.recent(9) if one.id not in {run.id, other.id}]
        assert "Slowly now " in house.door.texts()  # it still drips
        model.may_end.set()
        await house.until(lambda: "Slowly now the end of 1." in house.door.texts())
        await brain.desk.idle()
        assert len(model.asked) == 1  # the command's turn needs no model
        await brain.postman.idle()
        assert sum(new.id in text for text in house.door.texts()) == 1


async def test_turns_keep_their_order(house: House) -> None:
    house.model = Drips()
    async with house.open() as brain:
        model = await dripping(house, brain)
        await brain.desk.accept(said("and a second one"))
        await brain.desk.accept(commanded("cluster"))
        await house.until(lambda: bool(house.door.whispers))
        assert len(model.asked) == 1
        model.may_end.set()
        await brain.desk.idle()
    assert [message.text for message in model.asked[1] if message.role != "system"] == [
        "tell me a long story",
        "Slowly now the end of 1.",
        "and a second one",
    ]


async def test_stop_ends_an_answer_and_keeps_what_was_said(house: House) -> None:
    house.model = Drips()
    async with house.open() as brain:
        stage = Stage(house, brain)
        run = await stage.running()
        for word in ("stop", "Stop talking!", "cancel", "halt please"):
            await dripping(house, brain)
            await brain.desk.accept(said(word, person=BOB, mentions_bot=False))
            await house.until(lambda: house.door.texts()[-1] == "Slowly now\n\n_Stopped by bob._")
            await brain.desk.idle()
        assert await brain.stores.conversations.running_turns() == []
        assert (await brain.stores.runs.get(run.id)).state is RunState.RUNNING
        asked = house.model.asked  # type: ignore[attr-defined]
        assert asked[1][2].text == "Slowly now\n\n_Stopped by bob._"
        assert len(house.door.texts()) == 4  # nothing but the answers
    house.model = ScriptedModel()  # asked once more, it fails the test
    async with house.open() as brain:
        await brain.desk.idle()


async def test_a_command_stops_an_answer_too_and_is_answered(house: House) -> None:
    house.model = Drips()
    async with house.open() as brain:
        stage = Stage(house, brain)
        await dripping(house, brain)
        assert "answer" in (await stage.asks("stop")).text
        await house.until(lambda: "Slowly now\n\n_Stopped by alice._" in house.door.texts())


async def test_a_guest_ends_no_answer_to_others(house: House) -> None:
    house.model = Drips()
    async with house.open() as brain:
        model = await dripping(house, brain)
        await brain.desk.accept(said("stop", person=GUEST))
        await house.until(lambda: any("Guests" in text for text in house.door.texts()))
        model.may_end.set()
        await brain.desk.idle()
        assert any("the end of 1" in text for text in house.door.texts())


async def test_a_tool_that_runs_is_not_undone_when_its_turn_is_stopped(house: House) -> None:
    house.model = Drips(ToolCall("c1", "pause_run", "{}"))
    async with house.open() as brain:
        stage = Stage(house, brain)
        run = await stage.running()
        model = await dripping(house, brain)
        entered, go_on = asyncio.Event(), asyncio.Event()
        pause = brain.service.pause

        async def slowly(run_id: str, *, by: str = "") -> str:
            entered.set()
            await go_on.wait()
            return await pause(run_id, by=by)

        brain.service.pause = slowly  # type: ignore[method-assign]
        model.may_end.set()
        await entered.wait()
        await brain.desk.accept(said("stop"))
        await house.until(lambda: all(answer.by for answer in brain.desk._answering.values()))
        go_on.set()
        await house.until(lambda: "_Stopped by alice._" in house.door.texts())
        assert (await brain.stores.runs.get(run.id)).state is RunState.PAUSING
        assert len(model.asked) == 1
        assert await brain.stores.conversations.running_turns() == []


async def test_an_answer_has_a_deadline_and_can_be_continued(house: House) -> None:
    house.options = replace(house.options, answer_s=0.05)
    house.model = model = Drips()
    async with house.open() as brain:
        await brain.desk.accept(said("tell me a long story", person=ALICE))
        await house.until(lambda: any("longer than" in text for text in house.door.texts()))
        (text,) = house.door.texts()
        assert text.startswith("Slowly now\n\n")
        await brain.desk.idle()
        await brain.postman.idle()
        model.may_end.set()
        await brain.desk.accept(clicked(house.door.button("continue")))
        await house.until(lambda: "Slowly now the end of 2." in house.door.texts())
        assert model.asked[1][-1].text == "Go on."
        assert model.asked[1][-2].text == text
