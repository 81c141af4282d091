"""From a message to its answer, through approvals and restarts."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from agent.brain import Brain
from agent.domain.errors import ModelError, Unavailable
from agent.domain.rooms import Attachment, Room
from agent.domain.runs import RunState
from agent.llm.chain import ModelChain
from agent.llm.offline import OfflinePlanner
from agent.ports import ModelMessage, ModelReply, ToolCall, ToolSchema
from tests.agent.conftest import House
from tests.fakes import ALICE, BOB, GUEST, ROOM, ScriptedModel, clicked, commanded, host, said


def attached(csv: Path) -> tuple[Attachment, ...]:
    return (Attachment(id="F1", name=csv.name, size_bytes=csv.stat().st_size, locator=str(csv)),)


async def asked_to_train(house: House, brain: Brain, csv: Path) -> None:
    await brain.desk.accept(said("train a model that predicts who visited the doctor", files=attached(csv)))
    await house.until(lambda: any(c.card and c.card.kind == "approval" for c in house.door.shown))


async def test_a_message_gets_one_streamed_answer(house: House) -> None:
    house.model = ScriptedModel(ModelReply("Hello there, Alice.", (), "m"))
    async with house.open() as brain:
        assert await brain.desk.accept(said("hello, who is there"))
        await house.until(lambda: house.door.texts() == ["Hello there, Alice."])
    assert len(house.door.messages) == 1
    (history,) = house.door.messages.values()
    assert [content.text for content in history][:2] == ["Hello ", "Hello there, "]


async def test_redeliveries_and_twins_are_one_turn(house: House) -> None:
    async with house.open() as brain:
        first = said("what is the weather", event="E1", twin="C1:1.0")
        assert await brain.desk.accept(first)
        assert not await brain.desk.accept(first)
        assert not await brain.desk.accept(first.model_copy(update={"event_id": "E2"}))
        await house.until(lambda: bool(house.door.texts()))
        await brain.postman.idle()
    assert len(house.door.messages) == 1
    assert "did not understand" in house.door.texts()[0]


async def test_threads_do_not_wait_for_each_other(house: House) -> None:
    gate = asyncio.Event()

    class Slow:
        async def stream(
            self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
        ) -> AsyncIterator[str | ModelReply]:
            if messages[-1].text.startswith("slow"):
                await gate.wait()
            yield ModelReply(f"answer to {messages[-1].text}", (), "m")

    house.model = Slow()
    async with house.open() as brain:
        await brain.desk.accept(said("slow one"))
        await brain.desk.accept(said("quick one", room=ROOM.model_copy(update={"thread": "2.0"})))
        await house.until(lambda: house.door.texts() == ["answer to quick one"])
        gate.set()
        await house.until(lambda: "answer to slow one" in house.door.texts())


async def test_train_is_asked_first_and_runs_after_the_click(house: House, csv: Path) -> None:
    async with house.open() as brain:
        await asked_to_train(house, brain, csv)
        assert house.fleet.launched == []
        await brain.desk.accept(clicked(house.door.button("approve")))
        await house.until(lambda: any("Started" in text for text in house.door.texts()))
        (order,) = house.fleet.launched
        assert (order.spec.target, order.spec.task, order.attempt) == ("visited_doctor", "tabular_classification", 1)
        card = next(c.card for c in house.door.shown if c.card and c.card.kind == "approval")
        assert card.buttons == ()
        assert "Approved by alice" in card.footer


async def test_a_plan_that_cannot_work_is_refused_and_nobody_is_asked(house: House, csv: Path) -> None:
    house.fleet.refusal = "The setting rounds takes a whole number from 1 to 100,000, not 0."
    async with house.open() as brain:
        await brain.desk.accept(said("train on it and predict health, with 0 rounds", files=attached(csv)))
        await house.until(lambda: house.fleet.refusal in house.door.texts())
        await brain.desk.idle()
        await brain.postman.idle()
    assert not [c.card for c in house.door.shown if c.card and c.card.kind == "approval"]
    assert sum(house.fleet.refusal in text for text in house.door.texts()) == 1


async def test_the_data_card_shows_the_target_that_came_with_the_file(house: House, csv: Path) -> None:
    house.fleet.effort = 10.0
    async with house.open() as brain:
        await brain.desk.accept(said("train a model that predicts health, with 6000 rounds", files=attached(csv)))
        await house.until(lambda: any(c.card and c.card.kind == "approval" for c in house.door.shown))
    data, plan = (next(c.card for c in house.door.shown if c.card and c.card.kind == k) for k in ("data", "approval"))
    assert data is not None
    assert plan is not None
    assert [fact.value for fact in data.facts if fact.name == "Target"] == ["health: 600 × yes, 400 × no (40.0 %)"]
    assert {fact.name: fact.value for fact in plan.facts}["Cost"] == "about 9 s, stops at 1 h 00 min"


async def test_the_plan_says_that_its_host_takes_no_runs_and_prefers_one_that_does(house: House, csv: Path) -> None:
    full = host("gpu-1", disk_low=True, disk_free_bytes=10**9)
    house.fleet.infos = (full,)
    async with house.open() as brain:
        await asked_to_train(house, brain, csv)
        card = next(c.card for c in house.door.shown if c.card and c.card.kind == "approval")
        assert "**gpu-1 takes no runs now**: its disk is almost full (1.0 GB free). The run waits" in card.body
        await brain.desk.accept(clicked(house.door.button("approve")))
        await house.until(lambda: any(c.card and "gpu-1: its disk is almost" in c.card.body for c in house.door.shown))
        house.fleet.infos = (full, host("gpu-2", cpus=1))
        await brain.desk.accept(said("again"))
        await house.until(
            lambda: any(f.value == "gpu-2, CPU" for c in house.door.shown if c.card for f in c.card.facts)
        )


async def test_a_second_click_and_a_strangers_click_do_nothing(house: House, csv: Path) -> None:
    async with house.open() as brain:
        await asked_to_train(house, brain, csv)
        approve = house.door.button("approve")
        for person in (BOB, GUEST):
            await brain.desk.accept(clicked(approve, person=person))
        await house.until(lambda: len(house.door.whispers) == 2)
        assert house.fleet.launched == []
        assert all("Only the person who asked" in content.text for _, content in house.door.whispers)
        await brain.desk.accept(clicked(approve))
        await brain.desk.accept(clicked(approve))
        await house.until(lambda: len(house.door.whispers) == 3)
        assert "decided by alice before" in house.door.whispers[-1][1].text
        assert len(house.fleet.launched) == 1


async def test_a_stranger_cannot_decide_in_words_here_or_elsewhere(house: House, csv: Path) -> None:
    elsewhere = ROOM.model_copy(update={"thread": "9.9"})
    async with house.open() as brain:
        await asked_to_train(house, brain, csv)
        approval_id = house.door.button("approve").subject
        for person in (BOB, GUEST):
            await brain.desk.accept(said("approve", person=person))
            await brain.desk.accept(said(f"approve {approval_id}", person=person, room=elsewhere))
        await house.until(lambda: sum("Only the person who asked" in text for text in house.door.texts()) == 4)
        assert house.fleet.launched == []
        await brain.desk.accept(said(f"approve {approval_id}", room=elsewhere))
        await house.until(lambda: len(house.fleet.launched) == 1)


async def test_an_approver_may_decide_for_others(house: House, csv: Path) -> None:
    house.options = replace(house.options, approvers=frozenset({BOB.id}))
    async with house.open() as brain:
        await asked_to_train(house, brain, csv)
        await brain.desk.accept(clicked(house.door.button("approve"), person=BOB))
        await house.until(lambda: len(house.fleet.launched) == 1)


async def test_a_click_with_another_digest_or_none_does_nothing(house: House, csv: Path) -> None:
    async with house.open() as brain:
        await asked_to_train(house, brain, csv)
        approve = house.door.button("approve")
        for digest in ("", "0" * 16, approve.digest[:4]):
            await brain.desk.accept(clicked(approve, digest=digest))
        await house.until(lambda: len(house.door.whispers) == 3)
        assert house.fleet.launched == []
        assert all("older version" in content.text for _, content in house.door.whispers)


async def test_a_click_after_a_restart_executes_once(house: House, csv: Path) -> None:
    async with house.open() as brain:
        await asked_to_train(house, brain, csv)
        await brain.postman.idle()
    before = len(house.door.messages)
    async with house.open() as brain:
        await brain.desk.accept(clicked(house.door.button("approve")))
        await house.until(lambda: len(house.door.messages) == before + 2)
        await brain.desk.accept(clicked(house.door.button("stop")))
        await house.until(lambda: bool(house.fleet.stopped))
        await brain.postman.idle()
    assert len(house.fleet.launched) == 1
    assert len(house.door.messages) == before + 2  # "Started …" and the run card; nothing was said twice


async def test_rejecting_starts_nothing_and_says_so(house: House, csv: Path) -> None:
    async with house.open() as brain:
        await asked_to_train(house, brain, csv)
        await brain.desk.accept(said("reject"))
        await house.until(lambda: any("nothing was started" in text for text in house.door.texts()))
        assert house.fleet.launched == []


async def test_an_expired_question_cannot_be_approved(house: House, csv: Path) -> None:
    house.options = replace(house.options, approval_lifetime=timedelta(hours=1))
    async with house.open() as brain:
        await asked_to_train(house, brain, csv)
        approve = house.door.button("approve")
        house.clock.forward(3601)
        await brain.desk.accept(clicked(approve))
        await house.until(lambda: len(house.door.whispers) == 1)
        assert "expired" in house.door.whispers[0][1].text
        await brain.desk.expire()
        await house.until(lambda: any("nothing was started" in text for text in house.door.texts()))
        assert house.fleet.launched == []


async def test_a_turn_cut_off_in_the_middle_goes_on_and_says_nothing_twice(house: House, csv: Path) -> None:
    stuck = asyncio.Event()

    class Dies:
        async def stream(
            self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
        ) -> AsyncIterator[str | ModelReply]:
            yield "The answer "
            stuck.set()
            await asyncio.Event().wait()

    house.model = Dies()
    async with house.open() as brain:
        await brain.desk.accept(said("a long question"))
        await asyncio.wait_for(stuck.wait(), 10)
    assert [content.text for content in house.door.shown] == ["The answer "]
    house.model = ScriptedModel(ModelReply("The answer is 42.", (), "m"))
    async with house.open() as brain:
        await house.until(lambda: house.door.texts() == ["The answer is 42."])
        await brain.postman.idle()
    assert len(house.door.messages) == 1


async def test_a_tool_call_of_unknown_outcome_is_told_and_not_repeated(house: House) -> None:
    call = ToolCall("c1", "pause_run", '{"run": "r-abc123"}')
    house.model = ScriptedModel(ModelReply("", (call,), "m"), ModelReply("I looked: nothing runs.", (), "m"))
    async with house.open() as brain:
        conversations = brain.stores.conversations
        original = conversations.append

        async def dies_after_the_call(turn: object, messages: Sequence[ModelMessage]) -> None:
            if messages[0].role == "tool":
                raise asyncio.CancelledError
            await original(turn, messages)  # type: ignore[arg-type]

        conversations.append = dies_after_the_call  # type: ignore[method-assign]
        await brain.desk.accept(said("end it all"))
        await house.until(lambda: len(house.model.asked) == 1)  # type: ignore[attr-defined]
        await asyncio.sleep(0.05)
    async with house.open():
        await house.until(lambda: house.door.texts() == ["I looked: nothing runs."])
    assert "outcome is unknown" in house.model.asked[-1][-1].text  # type: ignore[attr-defined]


async def test_errors_are_sentences_and_bugs_have_an_id(house: House, csv: Path) -> None:
    async with house.open() as brain:
        await brain.desk.accept(said("train a model that predicts `nope`", files=attached(csv)))
        await house.until(lambda: any("no column `nope`" in text for text in house.door.texts()))
        await brain.desk.accept(commanded("fly"))
        await brain.desk.accept(commanded("logs", "r-zzzzzz"))
        await brain.desk.accept(commanded("stop", "../../etc/passwd"))
        await house.until(lambda: len(house.door.whispers) == 3)
        texts = [content.text for _, content in house.door.whispers]
        assert "no command `fly`" in texts[0]
        assert "no run `r-zzzzzz`" in texts[1]
        assert "not a run id" in texts[2]

        async def breaks(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        brain.stores.conversations.begin_turn = breaks  # type: ignore[method-assign, assignment]
        await brain.desk.accept(said("hello world"))
        await house.until(lambda: any("Something broke here (id " in text for text in house.door.texts()))


async def test_no_host_is_said_and_nothing_is_asked(house: House, csv: Path) -> None:
    house.fleet.connected = False
    async with house.open() as brain:
        await brain.desk.accept(said("train a model that predicts visited_doctor", files=attached(csv)))
        await house.until(lambda: any("No GPU host is connected" in text for text in house.door.texts()))


async def test_a_guest_reads_but_starts_nothing(house: House, csv: Path) -> None:
    async with house.open() as brain:
        await brain.desk.accept(said("train a model that predicts visited_doctor", files=attached(csv), person=GUEST))
        await house.until(lambda: any("Guests of another organisation" in text for text in house.door.texts()))


async def test_the_step_limit_is_said_and_can_be_continued(house: House) -> None:
    endless = [ModelReply("", (ToolCall(f"c{n}", "list_runs", "{}"),), "m") for n in range(16)]
    house.model = ScriptedModel(*endless, ModelReply("Now I am done.", (), "m"))
    async with house.open() as brain:
        await brain.desk.accept(said("look around for ever"))
        await house.until(lambda: any("I stopped after 16 steps" in text for text in house.door.texts()))
        await brain.desk.accept(clicked(house.door.button("continue")))
        await house.until(lambda: "Now I am done." in house.door.texts())


async def test_the_chain_fails_over_and_ends_in_the_planner(house: House) -> None:
    refused = ScriptedModel(ModelError("The key for m1 was refused."))
    answers = ScriptedModel(ModelReply("I am the second.", (), "m2"), Unavailable("m2 is away."))
    house.model = ModelChain([refused, answers], OfflinePlanner())
    async with house.open() as brain:
        await brain.desk.accept(said("who are you really"))
        await house.until(lambda: house.door.texts() == ["I am the second."])
        refused.replies.append(ModelError("The key for m1 was refused."))
        await brain.desk.accept(said("hello again"))
        await house.until(lambda: any("m2 is away. So I go by rules" in text for text in house.door.texts()))


async def test_thread_replies_without_a_mention_are_heard_only_in_our_threads(house: House) -> None:
    other = Room(platform="slack", tenant="T1", channel="C1", thread="9.9")
    async with house.open() as brain:
        await brain.desk.accept(said("lunch?", room=other, mentions_bot=False))
        await brain.desk.accept(said("help"))
        await brain.desk.accept(said("what is the weather"))
        await brain.desk.accept(said("and tomorrow?", mentions_bot=False))
        await house.until(lambda: len(house.door.texts()) == 2)
        await brain.postman.idle()
        assert await brain.stores.inbox.waiting() == []
    with contextlib.closing(sqlite3.connect(house.folder / "test.db")) as database:
        kept = [payload for (payload,) in database.execute("SELECT payload FROM inbox ORDER BY id")]
    assert (len(kept), kept[0]) == (4, ""), "what others say among themselves is not kept"
    assert "tomorrow" in kept[3]


async def test_a_message_posted_with_its_answer_lost_is_found_again(house: House) -> None:
    house.door.lose_answers = 1
    async with house.open() as brain:
        await brain.desk.accept(said("help"))
        await house.until(lambda: any(len(history) == 2 for history in house.door.messages.values()))
        await brain.postman.idle()
    assert len(house.door.messages) == 1


async def test_what_was_left_in_the_outbox_is_delivered_after_a_restart(house: House) -> None:
    house.door.failures = [Unavailable("the platform is away") for _ in range(50)]
    async with house.open() as brain:
        await brain.desk.accept(said("help"))
        await house.until(lambda: len(house.door.failures) < 50)
    house.door.failures.clear()
    async with house.open():
        await house.until(lambda: len(house.door.messages) == 1)


async def test_a_run_that_ends_shows_its_result_once(house: House, csv: Path) -> None:
    async with house.open() as brain:
        await asked_to_train(house, brain, csv)
        await brain.desk.accept(clicked(house.door.button("approve")))
        await house.until(lambda: len(house.fleet.launched) == 1)
        (run,) = await brain.stores.runs.recent(5)
        assert run.requester == ALICE.key
        assert run.state is RunState.STARTING
        await brain.desk.accept(said("how is it going?"))
        await house.until(lambda: any(f"Run `{run.id}` is starting." in text for text in house.door.texts()))
