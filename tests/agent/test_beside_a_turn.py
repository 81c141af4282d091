"""A slow answer: what people do beside it acts at once, it has a deadline, and it can be ended."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent.brain import Brain
from agent.domain.events import Ended
from agent.domain.inbound import Attachment
from agent.domain.orders import Predictions, PredictOrder
from agent.domain.runs import Artifact, Outcome, RunState
from agent.ports import ModelMessage, ModelReply, Role, ToolCall, ToolSchema
from tests.agent.conftest import Harness
from tests.agent.slow_tools import SlowTools
from tests.agent.stage import Stage
from tests.agent.test_turns import attached
from tests.fakes import ALICE, BOB, GUEST, THREAD, ScriptedModel, clicked, commanded, said


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
        calls = self.calls if messages[-1].role is Role.USER else ()
        yield ModelReply(f"Slowly now the end of {len(self.asked)}.", calls, "m")


def slow_answers(harness: Harness) -> list[str]:
    return [text for text in harness.adapter.texts() if "now" in text]


async def dripping(harness: Harness, brain: Brain, text: str = "tell me a long story") -> Drips:
    """A turn of Alice's is answered by a model that drips."""
    model = harness.model
    assert isinstance(model, Drips)
    before = len(slow_answers(harness))
    await brain.router.accept(said(text))
    await harness.until(lambda: len(slow_answers(harness)) > before)
    return model


async def test_commands_clicks_and_control_act_beside_a_slow_answer(harness: Harness) -> None:
    harness.model = Drips()
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run, other = await stage.running(), await stage.running()
        await stage.asks("clone", run.id, "seed=7")  # is asked about before the slow answer begins
        approve = (await stage.asked()).card
        assert approve is not None
        model = await dripping(harness, brain)
        assert (await stage.asks("cluster")).card is not None
        await brain.router.accept(said(f"pause {run.id}"))
        await stage.asks("kill", other.id)
        await harness.until(lambda: any(c.card.title == f"Kill {other.id}?" for c in harness.adapter.shown if c.card))
        await brain.router.accept(clicked(harness.adapter.button("approve")))
        await harness.until(lambda: any("is being killed" in text for text in harness.adapter.texts()))
        assert [order.how for order in harness.fleet.stopped] == ["pause", "kill"]
        await brain.router.accept(clicked(approve.buttons[0]))
        await harness.until(
            lambda: sum("Approved by alice" in c.card.footer for c in harness.adapter.shown if c.card) == 2
        )
        (new,) = [one for one in await brain.stores.runs.recent(9) if one.id not in {run.id, other.id}]
        assert "Slowly now " in harness.adapter.texts()  # it still drips
        model.may_end.set()
        await harness.until(lambda: "Slowly now the end of 1." in harness.adapter.texts())
        await brain.router.idle()
        assert len(model.asked) == 1  # the command's turn needs no model
        await brain.delivery.idle()
        assert sum(new.id in text for text in harness.adapter.texts()) == 1


async def test_turns_keep_their_order(harness: Harness) -> None:
    harness.model = Drips()
    async with harness.open() as brain:
        model = await dripping(harness, brain)
        await brain.router.accept(said("and a second one"))
        await brain.router.accept(commanded("cluster"))
        await harness.until(lambda: bool(harness.adapter.whispers))
        assert len(model.asked) == 1
        model.may_end.set()
        await brain.router.idle()
    assert [message.text for message in model.asked[1] if message.role is not Role.SYSTEM] == [
        "tell me a long story",
        "Slowly now the end of 1.",
        "and a second one",
    ]


async def test_stop_ends_an_answer_and_keeps_what_was_said(harness: Harness) -> None:
    harness.model = Drips()
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        for word in ("stop", "Stop talking!", "cancel", "halt please"):
            await dripping(harness, brain)
            await brain.router.accept(said(word, person=BOB, mentions_bot=False))
            await harness.until(lambda: harness.adapter.texts()[-1] == "Slowly now\n\n_Stopped by bob._")
            await brain.router.idle()
        assert await brain.stores.conversations.running_turns() == []
        assert (await brain.stores.runs.get(run.id)).state is RunState.RUNNING
        asked = harness.model.asked  # type: ignore[attr-defined]
        assert asked[1][2].text == "Slowly now\n\n_Stopped by bob._"
        assert len(harness.adapter.texts()) == 4  # nothing but the answers
    harness.model = ScriptedModel()  # asked once more, it fails the test
    async with harness.open() as brain:
        await brain.router.idle()


def hanging(harness: Harness, name: str) -> list[str]:
    """The names of what is downloaded from now on; the download of `name` never ends."""
    fetched, fetch = list[str](), harness.adapter.fetch

    async def hang(attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        fetched.append(attachment.name)
        if attachment.name == name:
            await asyncio.Event().wait()
        await fetch(attachment, into, limit_bytes=limit_bytes)

    harness.adapter.fetch = hang  # type: ignore[method-assign]
    return fetched


def three_files(csv: Path) -> tuple[Attachment, ...]:
    return tuple(attached(csv)[0].model_copy(update={"name": name}) for name in ("one.csv", "two.csv", "three.csv"))


async def test_stop_ends_a_download_and_keeps_what_came_whole(harness: Harness, csv: Path) -> None:
    fetched = hanging(harness, "two.csv")
    harness.model = model = ScriptedModel(ModelReply("Fine.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look at these", files=three_files(csv)))
        await harness.until(lambda: fetched == ["one.csv", "two.csv"])
        await brain.router.accept(said("stop", person=BOB))
        await harness.until(lambda: harness.adapter.texts() == ["_Stopped by bob._"])
        await brain.router.idle()
        assert await brain.stores.inbox.waiting() == []
        await brain.router.accept(said("and now?"))
        await harness.until(lambda: "Fine." in harness.adapter.texts())
        session_id = await brain.stores.conversations.session_of(THREAD, create=False)
        assert [file.name for file in await brain.stores.conversations.files(session_id or "")] == ["one.csv"]
    (asked, _, _) = model.asked[0][1:]
    assert [file.name for file in asked.files] == ["one.csv"]
    assert [why.partition(" was not downloaded to its end")[0] for why in asked.refused] == ["`two.csv`", "`three.csv`"]
    assert fetched == ["one.csv", "two.csv"]


async def test_stop_ends_the_download_of_what_was_said_meanwhile(harness: Harness, csv: Path) -> None:
    slow, fetched = SlowTools(), hanging(harness, "two.csv")
    harness.toolsets = (slow,)
    look = ModelReply("", (ToolCall("c1", "look_long", '{"what": "a"}'),), "m")
    harness.model = model = ScriptedModel(look, ModelReply("Fine.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look at a"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("and at these", files=three_files(csv)))
        await brain.router.accept(said("and then?", person=BOB))
        await harness.until(lambda: len(harness.adapter.busy_with) == 3)
        slow.go_on.set()
        await harness.until(lambda: fetched == ["one.csv", "two.csv"])
        await brain.router.accept(said("stop"))
        await harness.until(
            lambda: harness.adapter.texts() == ["_Stopped by alice._", "Fine."]
        )  # what waited is a turn
        await brain.router.idle()
    steered = [message for message in model.asked[1] if message.text == "and at these"]
    assert [file.name for message in steered for file in message.files] == ["one.csv"]
    assert model.asked[1][-1].text == "and then?"
    assert fetched == ["one.csv", "two.csv"]


async def test_stop_ends_the_download_of_an_answer_with_its_question(harness: Harness, csv: Path) -> None:
    fetched = hanging(harness, "two.csv")
    asks = json.dumps({"question": "Which data?", "choices": ["old", "new"]})
    harness.model = ScriptedModel(ModelReply("", (ToolCall("c1", "ask_user", asks),), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("train"))
        await harness.until(lambda: bool(harness.adapter.shown))
        await brain.router.accept(said("these", files=three_files(csv)))
        await harness.until(lambda: fetched == ["one.csv", "two.csv"])
        await brain.router.accept(said("stop", person=BOB))
        await harness.until(lambda: [c.card and c.card.footer for c in harness.adapter.shown] == ["Stopped by bob."])
        await brain.router.idle()
        assert await brain.stores.inbox.waiting() == []
        assert await brain.stores.conversations.running_turns() == []
        await harness.until(lambda: harness.adapter.busy_with == [])
    assert fetched == ["one.csv", "two.csv"]


async def test_an_answer_with_files_answers_its_question(harness: Harness, csv: Path) -> None:
    fetched = hanging(harness, "none")
    asks = json.dumps({"question": "Which data?", "choices": ["old", "new"]})
    ask = ModelReply("", (ToolCall("c1", "ask_user", asks),), "m")
    harness.model = model = ScriptedModel(ask, ModelReply("Thanks.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("train"))
        await harness.until(lambda: bool(harness.adapter.shown))
        await brain.router.accept(said("these", files=three_files(csv)))
        await harness.until(lambda: "Thanks." in harness.adapter.texts())
        await brain.router.idle()
        assert await brain.stores.inbox.waiting() == []
    assert fetched == ["one.csv", "two.csv", "three.csv"]
    assert [file.name for file in model.asked[1][-1].files] == fetched
    assert json.loads(model.asked[1][-1].text) == {"text": "alice answered: these"}


@pytest.mark.parametrize("first", ["words", "a button", "time"])
async def test_an_answer_whose_files_come_too_late_is_said_to_the_turn(harness: Harness, csv: Path, first: str) -> None:
    come, fetched, fetch = asyncio.Event(), list[str](), harness.adapter.fetch

    async def slow(attachment: Attachment, into: Path, *, limit_bytes: int) -> None:
        fetched.append(attachment.name)
        await come.wait()
        await fetch(attachment, into, limit_bytes=limit_bytes)

    harness.adapter.fetch = slow  # type: ignore[method-assign]
    asks = json.dumps({"question": "Which data?", "choices": ["old", "new"]})
    ask = ModelReply("", (ToolCall("c1", "ask_user", asks),), "m")
    harness.model = model = ScriptedModel(ask, ModelReply("Thanks.", (), "m"), ModelReply("For those too.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("train"))
        await harness.until(lambda: bool(harness.adapter.shown))
        await brain.router.accept(said("these", files=three_files(csv)))
        await harness.until(lambda: bool(fetched))
        if first == "words":
            await brain.router.accept(said("and predict health"))
        elif first == "a button":
            await brain.router.accept(clicked(harness.adapter.button("answer"), person=BOB))
        else:
            harness.clock.forward(2 * 24 * 3600)
            await brain.router.expire()
        await harness.until(lambda: "Thanks." in harness.adapter.texts())
        come.set()
        await harness.until(lambda: "For those too." in harness.adapter.texts())
        await brain.router.idle()
        assert await brain.stores.inbox.waiting() == []
    assert model.asked[-1][-1].text == "these"
    assert [file.name for file in model.asked[-1][-1].files] == ["one.csv", "two.csv", "three.csv"]


async def test_a_command_stops_an_answer_too_and_is_answered(harness: Harness) -> None:
    harness.model = Drips()
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        await dripping(harness, brain)
        assert "answer" in (await stage.asks("stop")).text
        await harness.until(lambda: "Slowly now\n\n_Stopped by alice._" in harness.adapter.texts())


async def test_a_guest_ends_no_answer_to_others(harness: Harness) -> None:
    harness.model = Drips()
    async with harness.open() as brain:
        model = await dripping(harness, brain)
        await brain.router.accept(said("stop", person=GUEST))
        await harness.until(lambda: any("Guests" in text for text in harness.adapter.texts()))
        model.may_end.set()
        await brain.router.idle()
        assert any("the end of 1" in text for text in harness.adapter.texts())


async def test_a_tool_that_runs_is_not_undone_when_its_turn_is_stopped(harness: Harness) -> None:
    harness.model = Drips(ToolCall("c1", "pause_run", "{}"))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        model = await dripping(harness, brain)
        entered, go_on = asyncio.Event(), asyncio.Event()
        pause = brain.service.pause

        async def slowly(run_id: str, *, by: str = "") -> str:
            entered.set()
            await go_on.wait()
            return await pause(run_id, by=by)

        brain.service.pause = slowly  # type: ignore[method-assign]
        model.may_end.set()
        await entered.wait()
        await brain.router.accept(said("stop"))
        await harness.until(
            lambda: all(one.by for answers in brain.router._turns._answering.values() for one in answers)
        )
        go_on.set()
        await harness.until(lambda: "_Stopped by alice. `pause_run` was finished first._" in harness.adapter.texts())
        assert (await brain.stores.runs.get(run.id)).state is RunState.PAUSING
        assert len(model.asked) == 1
        assert await brain.stores.conversations.running_turns() == []


async def test_an_answer_has_a_deadline_and_can_be_continued(harness: Harness) -> None:
    harness.options = replace(harness.options, answer_s=0.05)
    harness.model = model = Drips()
    async with harness.open() as brain:
        await brain.router.accept(said("tell me a long story", person=ALICE))
        await harness.until(lambda: any("longer than" in text for text in harness.adapter.texts()))
        (text,) = harness.adapter.texts()
        assert text.startswith("Slowly now\n\n")
        await brain.router.idle()
        await brain.delivery.idle()
        model.may_end.set()
        await brain.router.accept(clicked(harness.adapter.button("continue")))
        await harness.until(lambda: "Slowly now the end of 2." in harness.adapter.texts())
        assert model.asked[1][-1].text == "Go on."
        assert model.asked[1][-2].text == text


async def test_a_slow_command_holds_up_nothing_else_and_is_ended_by_a_word(harness: Harness) -> None:
    waiting: list[str] = []

    async def predict(order: PredictOrder) -> Predictions:
        waiting.append(order.artifact_sha256)
        try:
            await asyncio.Event().wait()
        finally:
            waiting.pop()
        raise AssertionError("nobody sets it")

    harness.fleet.predict = predict  # type: ignore[method-assign]
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        artifact = Artifact(sha256="c" * 64, size_bytes=3, files=("model",))
        await stage.says(run, Ended(outcome=Outcome(state=RunState.SUCCEEDED, artifact=artifact)))
        await stage.asks("clone", run.id, "seed=7")
        approve = (await stage.asked()).card
        assert approve is not None
        await brain.router.accept(commanded("predict", run.id, "age=30"))
        await harness.until(lambda: waiting == [artifact.sha256])
        assert (await stage.asks("runs")).card is not None
        launched = len(harness.fleet.launched)
        await brain.router.accept(clicked(approve.buttons[0]))
        await harness.until(lambda: len(harness.fleet.launched) == launched + 1)
        await stage.asks("stop")
        await stage.settled()
        told = [content.text for _, content in harness.adapter.whispers]
        assert "I stopped that answer." in told
        assert any("somebody said `stop`" in text for text in told)
        assert waiting == []
