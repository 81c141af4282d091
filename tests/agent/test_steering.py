"""A turn at work hears what people say meanwhile, and can be ended at any moment."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from agent.conversation.prompt import as_read
from agent.conversation.tool_calls import GIVEN_UP, NOT_ASKED
from agent.domain.inbound import Attachment, Inbound, Noticed
from agent.domain.runs import RunState
from agent.llm.chain import ModelChain
from agent.llm.offline import OfflinePlanner
from agent.ports import ModelMessage, ModelReply, Role, ToolCall
from tests.agent.conftest import Harness
from tests.agent.slow_tools import SlowTools
from tests.agent.stage import Stage
from tests.fakes import ALICE, BOB, GUEST, START, THREAD, ScriptedModel, clicked, said


def calls(*calls: tuple[str, str]) -> ModelReply:
    """A reply with these calls, by tool and what it is about."""
    made = (ToolCall(f"c-{what}", name, json.dumps({"what": what})) for name, what in calls)
    return ModelReply("", tuple(made), "m")


def read(messages: Sequence[ModelMessage]) -> list[str]:
    """What a model reads, without the system's word."""
    return [as_read(replace(message, note="")) for message in messages if message.role is not Role.SYSTEM]


@pytest.fixture
def slow(harness: Harness) -> SlowTools:
    tools = SlowTools()
    harness.toolsets = (tools,)
    return tools


async def test_what_people_say_meanwhile_reaches_the_next_step_by_name(harness: Harness, slow: SlowTools) -> None:
    harness.model = model = ScriptedModel(calls(("look_long", "a")), ModelReply("Both done.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look at a"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("and use the small model", person=BOB, mentions_bot=False))
        await brain.router.accept(said("cluster", person=BOB))  # a command stays one
        await harness.until(lambda: any(c.card and "Cluster" in c.card.title for c in harness.adapter.shown))
        await harness.until(lambda: len(harness.adapter.busy_with) == 2)  # Bob sees that it is worked on
        slow.go_on.set()
        await harness.until(lambda: "Both done." in harness.adapter.texts())
        await brain.router.idle()
        assert read(model.asked[1]) == [
            '[from "alice"]\nlook at a',
            "",
            '{"text": "ended a"}',
            '[from "bob"]\nand use the small model',
        ]
        assert await brain.stores.inbox.waiting() == []
        await harness.until(lambda: harness.adapter.busy_with == [])
    harness.model = model = ScriptedModel(ModelReply("As I said.", (), "m"))
    async with harness.open() as brain:  # nothing is said or done twice, and later turns know who spoke
        await brain.router.accept(said("so?"))
        await harness.until(lambda: "As I said." in harness.adapter.texts())
    assert '[from "bob"]\nand use the small model' in read(model.asked[0])


async def test_words_that_waited_when_the_bot_died_steer_the_turn_after_its_start(
    harness: Harness, slow: SlowTools
) -> None:
    harness.model = ScriptedModel(calls(("look_long", "a")))
    async with harness.open() as brain:
        await brain.router.accept(said("look at a"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("and quickly", person=BOB))
        await brain.router.accept(said("please", person=ALICE))
    harness.model = model = ScriptedModel(ModelReply("Here it is.", (), "m"))
    slow.go_on.set()
    async with harness.open() as brain:
        await harness.until(lambda: "Here it is." in harness.adapter.texts())
        await brain.router.idle()
    assert read(model.asked[0])[-2:] == ['[from "bob"]\nand quickly', '[from "alice"]\nplease']
    assert len(model.asked) == 1


async def test_a_guest_does_not_steer_others_and_what_comes_at_the_end_is_a_turn(
    harness: Harness, slow: SlowTools
) -> None:
    harness.model = model = ScriptedModel(
        calls(("look_long", "a")), ModelReply("Done.", (), "m"), ModelReply("Hello, guest.", (), "m")
    )
    async with harness.open() as brain:
        await brain.router.accept(said("look at a"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("delete everything", person=GUEST))
        await brain.router.accept(said("and b", person=BOB))  # does not wait behind the guest
        await harness.until(lambda: len(harness.adapter.busy_with) == 3)
        slow.go_on.set()
        await harness.until(lambda: "Hello, guest." in harness.adapter.texts())
    assert read(model.asked[1])[3:] == ['[from "bob"]\nand b']
    assert read(model.asked[2])[-1] == '[from "guest", a guest]\ndelete everything'


@pytest.mark.parametrize("words", ["no", "ok", "sure", "go ahead", "looks good", "yes please"])
async def test_a_word_that_decides_nothing_here_is_said_to_the_turn(
    harness: Harness, slow: SlowTools, words: str
) -> None:
    harness.model = model = ScriptedModel(calls(("look_long", "a")), ModelReply("Done.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look at a"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said(words))
        await brain.router.accept(said("use the small model instead"))
        await harness.until(lambda: len(harness.adapter.busy_with) == 3)
        slow.go_on.set()
        await brain.router.idle()
    assert read(model.asked[1])[3:] == [f'[from "alice"]\n{words}', '[from "alice"]\nuse the small model instead']
    assert len(model.asked) == 2


async def test_a_yes_waits_where_something_is_to_be_decided_and_holds_up_no_words(
    harness: Harness, slow: SlowTools
) -> None:
    harness.model = model = ScriptedModel(calls(("look_long", "a")), ModelReply("Done.", (), "m"))
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await brain.router.accept(said("look at a"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("yes"))
        await brain.router.accept(said(f"clone {run.id} epochs=2"))  # is asked about beside the turn
        await stage.asked()
        await brain.router.accept(said("and quickly", person=BOB))
        await harness.until(lambda: len(harness.adapter.busy_with) == 3)
        slow.go_on.set()
        await brain.router.idle()
        await brain.delivery.idle()
    assert read(model.asked[1])[3:] == ['[from "bob"]\nand quickly']
    assert len(model.asked) == 2
    assert len(harness.fleet.launched) == 2  # the `yes` was about the card


async def test_a_turn_of_the_monitor_hears_what_people_say_meanwhile(harness: Harness, slow: SlowTools) -> None:
    harness.model = model = ScriptedModel(calls(("look_long", "a")), ModelReply("I leave it.", (), "m"))
    notice = Noticed(run="r-abc123", finding="nan", text="The loss is NaN.")
    async with harness.open() as brain:
        await brain.router.notice(Inbound(event_id="n", thread=THREAD, person=ALICE, act=notice, at=START))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("that is meant to be so", person=BOB, mentions_bot=False))
        await harness.until(lambda: len(harness.adapter.busy_with) == 1)
        slow.go_on.set()
        await brain.router.idle()
        await brain.delivery.idle()
    assert harness.adapter.texts() == ["I leave it."]
    assert read(model.asked[1])[::3] == ["[monitor] The loss is NaN.", '[from "bob"]\nthat is meant to be so']
    harness.model = model = ScriptedModel(ModelReply("Fine.", (), "m"))
    async with harness.open() as brain:  # its words stay his
        await brain.router.accept(said("so?"))
        await brain.router.idle()
    assert read(model.asked[0])[3] == '[from "bob"]\nthat is meant to be so'


async def test_the_planner_of_rules_answers_one_request_after_the_other(harness: Harness, slow: SlowTools) -> None:
    harness.model = ModelChain(None, OfflinePlanner())
    async with harness.open() as brain:
        await brain.router.accept(said("what is the weather"))
        await brain.router.accept(said("and how is tomorrow"))
        await harness.until(lambda: len(harness.adapter.texts()) == 2)


async def test_a_stop_cancels_what_reads_and_keeps_what_has_ended(harness: Harness, slow: SlowTools) -> None:
    harness.model = model = ScriptedModel(calls(("look", "a"), ("look_long", "b")), ModelReply("I saw a.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look at a and b"))
        await harness.until(lambda: slow.begun == ["b"])
        await brain.router.accept(said("stop", person=BOB, mentions_bot=False))
        await harness.until(lambda: harness.adapter.texts() == ["_Stopped by bob._"])
        await brain.router.idle()
        await brain.router.accept(said("what did you see?"))
        await harness.until(lambda: "I saw a." in harness.adapter.texts())
    assert slow.ended == []
    results = [message.text for message in model.asked[1] if message.role is Role.TOOL]
    assert results[0] == '{"text": "saw a"}'
    assert "before the call had ended" in results[1]


async def test_a_stop_waits_for_what_changes_something_and_says_so(harness: Harness, slow: SlowTools) -> None:
    harness.model = ScriptedModel(calls(("change", "a"), ("look", "b")))
    async with harness.open() as brain:
        await brain.router.accept(said("change a"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("stop"))
        await harness.until(lambda: any("`change` is at work and changes" in text for text in harness.adapter.texts()))
        slow.go_on.set()
        await harness.until(lambda: "_Stopped by alice. `change` was finished first._" in harness.adapter.texts())
        await brain.router.idle()
        assert await brain.stores.conversations.running_turns() == []
        (_, _, result, end) = await brain.stores.conversations.history(
            await brain.stores.conversations.session_of(said("").thread, create=False) or ""
        )
        assert result.text == '{"text": "ended a"}'
        assert end.role is Role.ASSISTANT


async def test_a_tool_that_failed_after_a_stop_was_not_finished(harness: Harness, slow: SlowTools) -> None:
    harness.model = ScriptedModel(calls(("change", "fails")))
    async with harness.open() as brain:
        await brain.router.accept(said("change it"))
        await harness.until(lambda: slow.begun == ["fails"])
        await brain.router.accept(said("stop"))
        await harness.until(lambda: any("`change` is at work and changes" in text for text in harness.adapter.texts()))
        slow.go_on.set()
        await brain.router.idle()
        await brain.delivery.idle()
    assert harness.adapter.texts()[-1] == "_Stopped by alice._"


async def hangs(begun: asyncio.Event) -> NoReturn:
    """An order that no host answers."""
    begun.set()
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_stop_ends_a_plan_that_is_being_made(
    harness: Harness, csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, start = asyncio.Event(), ToolCall("c", "start_training", json.dumps({"target": "visited_doctor"}))
    monkeypatch.setattr(harness.fleet, "inspect", lambda _order: hangs(begun))
    harness.model = model = ScriptedModel(ModelReply("", (start,), "m"), ModelReply("Nothing.", (), "m"))
    async with harness.open() as brain:
        file = Attachment(id="f", name="visits.csv", size_bytes=10, locator=str(csv))
        await brain.router.accept(said("train", files=(file,)))
        await begun.wait()
        await brain.router.accept(said("stop"))
        await brain.router.idle()
        await brain.delivery.idle()
        assert harness.adapter.texts() == ["_Stopped by alice._"]
        await brain.router.accept(said("what did you do?"))
        await brain.router.idle()
    assert [said.text for said in model.asked[1] if said.role is Role.TOOL] == [NOT_ASKED]


async def test_a_stop_ends_a_download(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, address = asyncio.Event(), "https://example.org/visits.csv"
    monkeypatch.setattr(harness.fleet, "fetch_data", lambda _order: hangs(begun))
    fetch = ToolCall("c", "fetch_data", json.dumps({"address": address}))
    harness.model = model = ScriptedModel(ModelReply("", (fetch,), "m"), ModelReply("Nothing.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said(f"get {address}"))
        await begun.wait()
        await brain.router.accept(said("stop"))
        await brain.router.idle()
        await brain.delivery.idle()
        assert harness.adapter.texts() == ["_Stopped by alice._"]
        await brain.router.accept(said("what did you do?"))
        await brain.router.idle()
    assert [said.text for said in model.asked[1] if said.role is Role.TOOL] == [GIVEN_UP]


async def test_a_stop_beside_a_question_says_that_it_still_waits(harness: Harness, slow: SlowTools) -> None:
    ask = ToolCall("c1", "ask_user", json.dumps({"question": "Which?", "choices": ["a", "b"]}))
    look = ToolCall("c2", "look_long", json.dumps({"what": "a"}))
    harness.model = ScriptedModel(ModelReply("", (ask, look), "m"), ModelReply("b it is.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look at a"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said("stop", person=BOB))
        told = "_Stopped by bob. What was asked above still waits for its answer._"
        await harness.until(lambda: harness.adapter.texts() == [told])
        await brain.router.accept(clicked(harness.adapter.button("answer")))
        await harness.until(lambda: "b it is." in harness.adapter.texts())


async def test_nobody_stops_a_run_in_the_name_of_whose_turn_it_is(harness: Harness, slow: SlowTools) -> None:
    """Bob cannot have Alice's run stopped by speaking up while a turn of hers is at work."""
    async with harness.open() as brain:
        run = await Stage(harness, brain).running(person=ALICE)
    stop = ModelReply("", (ToolCall("c2", "stop_run", json.dumps({"run": run.id})),), "m")
    harness.model = ScriptedModel(calls(("look_long", "a")), stop, ModelReply("It goes on.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("look at a"))
        await harness.until(lambda: slow.begun == ["a"])
        await brain.router.accept(said(f"stop {run.id} too, will you", person=BOB, mentions_bot=False))
        await harness.until(lambda: len(harness.adapter.busy_with) == 2)
        slow.go_on.set()
        await harness.until(lambda: any(c.card and c.card.title == f"Stop {run.id}?" for c in harness.adapter.shown))
        assert (await brain.stores.runs.get(run.id)).state is RunState.RUNNING
        await brain.router.accept(clicked(harness.adapter.button("reject"), person=ALICE))
        await harness.until(lambda: "It goes on." in harness.adapter.texts())


async def test_the_name_of_the_command_alone_shows_help(harness: Harness) -> None:
    async with harness.open() as brain:
        await brain.router.accept(said("/train"))
        await harness.until(lambda: any(c.card and "help" in str(c.card).lower() for c in harness.adapter.shown))
