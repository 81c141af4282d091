"""What is cut off goes on: decisions, broken turns, an absent database, a platform that is not connected."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from agent.conversation import actors
from agent.domain.approvals import ApprovalState
from agent.domain.content import Content
from agent.domain.errors import Unavailable
from agent.domain.events import Accepted, Beat, EventBody, Started, WorkerEvent
from agent.domain.inbound import Inbound, Thread
from agent.domain.runs import ExitClass, RunState, Usage
from agent.ports import MessageRef, ModelMessage, ModelReply, Role, ToolCall, ToolSchema
from bot import relay
from tests.agent.conftest import Harness
from tests.agent.databases import sqlite
from tests.agent.stage import Stage
from tests.agent.test_turns import asked_to_train, attached
from tests.fakes import THREAD, ScriptedModel, clicked, commanded, said

CONSOLE = Thread(platform="console", tenant="local", channel="terminal", thread_id="main")


def once(original: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    """`original`, which breaks the first time."""
    left = [error]

    async def call(*args: Any, **named: Any) -> Any:
        if left:
            raise left.pop()
        return await original(*args, **named)

    return call


async def test_a_question_that_expired_just_before_a_crash_is_closed_after_it(harness: Harness, csv: Path) -> None:
    harness.options = replace(harness.options, approval_lifetime=timedelta(hours=1))
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        harness.clock.forward(3601)
        brain.stores.approvals.settle = once(None, asyncio.CancelledError())  # type: ignore[method-assign, arg-type]
        with pytest.raises(asyncio.CancelledError):
            await brain.router.expire()
    async with harness.open() as brain:
        await harness.until(lambda: any("nothing was started" in text for text in harness.adapter.texts()))
        await brain.delivery.idle()
        (card,) = [c.card for c in harness.adapter.shown if c.card and c.card.kind == "approval"]
        assert card.buttons == ()
        assert "Expired" in card.footer


async def test_what_was_decided_while_the_database_went_away_is_carried_out_without_a_restart(
    harness: Harness, csv: Path
) -> None:
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        settle = brain.stores.approvals.settle
        brain.stores.approvals.settle = once(settle, Unavailable("The database is away."))  # type: ignore[method-assign]
        await brain.router.accept(clicked(harness.adapter.button("approve")))
        await harness.until(lambda: any("database is away" in content.text for _, content in harness.adapter.whispers))
        await brain.router.expire()
        await harness.until(lambda: any("Started" in text for text in harness.adapter.texts()))
        assert len(await brain.stores.runs.recent(5)) == 1
        assert await brain.router.expire() is None
        await brain.router.idle()
        assert sum("Started" in text for text in harness.adapter.texts()) == 1


async def test_an_approval_is_not_used_up_by_a_database_that_went_away_while_it_was_carried_out(
    harness: Harness, csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        approve = harness.adapter.button("approve")
        create = brain.stores.runs.create

        async def created_and_cut_off(*args: Any, **named: Any) -> None:
            await create(*args, **named)
            raise Unavailable("The connection was lost at the commit.")

        monkeypatch.setattr(brain.stores.runs, "create", created_and_cut_off)
        await brain.router.accept(clicked(approve))
        await harness.until(
            lambda: any("is carried out by itself" in content.text for _, content in harness.adapter.whispers)
        )
        await brain.router.accept(clicked(approve))
        await harness.until(
            lambda: any("was approved by alice" in content.text for _, content in harness.adapter.whispers)
        )
        await brain.router.expire()  # still away
        monkeypatch.setattr(brain.stores.runs, "create", create)
        await brain.router.expire()
        await harness.until(lambda: any("Started" in text for text in harness.adapter.texts()))
        await brain.router.idle()
        await brain.delivery.idle()
        assert len(harness.fleet.launched) == len(await brain.stores.runs.recent(5)) == 1
        assert not any("connection was lost" in text for text in harness.adapter.texts())
        (card,) = [c.card for c in harness.adapter.shown if c.card and c.card.kind == "approval"]
        assert "Approved by alice" in card.footer


async def test_what_could_not_be_carried_out_before_its_card_expired_is_answered_so(
    harness: Harness, csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_args: Any, **_named: Any) -> None:
        raise Unavailable("The database is away.")

    harness.options = replace(harness.options, approval_lifetime=timedelta(hours=1))
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        monkeypatch.setattr(brain.stores.runs, "create", away)
        await brain.router.accept(clicked(harness.adapter.button("approve")))
        await brain.router.idle()
        await brain.router.expire()
        assert len(await brain.stores.approvals.of_state(ApprovalState.APPROVED)) == 1
        assert not any("database is away" in text for text in harness.adapter.texts())
        harness.clock.forward(3601)
        await brain.router.expire()
        await harness.until(lambda: any("database is away" in text for text in harness.adapter.texts()))
        assert await brain.stores.approvals.of_state(ApprovalState.APPROVED) == []


async def test_a_decision_that_waits_holds_up_no_other(
    harness: Harness, csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans = ('{"target": "visited_doctor"}', '{"target": "visited_doctor", "seed": 3}')
    calls = tuple(ToolCall(f"c{number}", "start_training", plan) for number, plan in enumerate(plans, 1))
    harness.model = ScriptedModel(ModelReply("", calls, "m"), ModelReply("Both run.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("train two", files=attached(csv)))
        await harness.until(lambda: sum(bool(c.card and c.card.buttons) for c in harness.adapter.shown) == 2)
        create, settle = brain.stores.runs.create, brain.stores.approvals.settle
        away = Unavailable("The database is away.")
        for button in [b for c in harness.adapter.shown if c.card for b in c.card.buttons if b.action == "approve"]:
            monkeypatch.setattr(brain.stores.approvals, "settle", once(settle, away))
            await brain.router.accept(clicked(button))
            await brain.router.idle()
        monkeypatch.setattr(brain.stores.runs, "create", once(create, away))
        await brain.router.expire()
        assert len(await brain.stores.approvals.of_state(ApprovalState.APPROVED)) == 1
        await brain.router.expire()
        await harness.until(lambda: "Both run." in harness.adapter.texts())
        assert len(harness.fleet.launched) == 2


async def test_the_decided_card_is_stored_with_the_decision(harness: Harness, csv: Path) -> None:
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        (asked,) = await brain.stores.approvals.of_state(ApprovalState.PENDING)
        harness.adapter.failures = [Unavailable("the platform is away") for _ in range(500)]
        await brain.router.accept(clicked(harness.adapter.button("reject")))
        await brain.router.idle()
        post = await brain.stores.outbox.get(f"approval:{asked.id}")
        assert post is not None
        assert post.content.card is not None
        assert "Rejected by alice" in post.content.card.footer


async def test_an_expired_question_says_so_after_it_was_closed(harness: Harness, csv: Path) -> None:
    harness.options = replace(harness.options, approval_lifetime=timedelta(hours=1))
    async with harness.open() as brain:
        await asked_to_train(harness, brain, csv)
        approve = harness.adapter.button("approve")
        harness.clock.forward(3601)
        await brain.router.expire()
        await brain.router.accept(clicked(approve))
        await harness.until(lambda: len(harness.adapter.whispers) == 1)
        assert "had expired" in harness.adapter.whispers[0][1].text


async def test_two_plans_in_one_reply_are_asked_once_each_and_both_are_carried_out(harness: Harness, csv: Path) -> None:
    plans = ('{"target": "visited_doctor"}', '{"target": "visited_doctor", "seed": 3}')
    calls = tuple(ToolCall(f"c{number}", "start_training", plan) for number, plan in enumerate(plans, 1))
    harness.model = ScriptedModel(ModelReply("", calls, "m"), ModelReply("Both run.", (), "m"))
    async with harness.open() as brain:
        await brain.router.accept(said("train two", files=attached(csv)))
        await harness.until(lambda: sum(bool(c.card and c.card.buttons) for c in harness.adapter.shown) == 2)
        buttons = [b for c in harness.adapter.shown if c.card for b in c.card.buttons if b.action == "approve"]
        await brain.router.accept(clicked(buttons[0]))
        await harness.until(lambda: len(harness.fleet.launched) == 1)
        await brain.router.idle()
        harness.fleet.connected = False  # a second look at the open plan would fail now
        await brain.router.accept(clicked(buttons[1]))
        await harness.until(lambda: "Both run." in harness.adapter.texts())
        answers = [message.call_id for message in harness.model.asked[-1] if message.role is Role.TOOL]
        assert answers == ["c1", "c2"]


async def test_a_turn_that_broke_ends_with_its_error_and_is_not_taken_up_again(harness: Harness) -> None:
    class Breaks:
        async def stream(
            self, messages: Sequence[ModelMessage], tools: Sequence[ToolSchema]
        ) -> AsyncIterator[str | ModelReply]:
            raise ZeroDivisionError
            yield ""

    harness.model = Breaks()
    async with harness.open() as brain:
        await brain.router.accept(said("divide"))
        await harness.until(lambda: any("Something broke here (id " in text for text in harness.adapter.texts()))
        assert await brain.stores.conversations.running_turns() == []
    harness.model = ScriptedModel()  # asked once more, it fails the test
    async with harness.open() as brain:
        await brain.router.idle()
        await brain.delivery.idle()
    assert len(harness.adapter.messages) == 1


async def test_a_thread_outlives_the_absence_of_its_database(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actors, "STORE_AWAY_S", (0.01, 0.01))
    async with harness.open() as brain:
        away = Unavailable("The database is away.")
        brain.stores.inbox.done = once(brain.stores.inbox.done, away)  # type: ignore[method-assign]
        await brain.router.accept(commanded("hosts"))
        await brain.router.accept(commanded("help"))
        await asyncio.wait_for(brain.router.idle(), 10)
        await brain.delivery.idle()
        assert len(harness.adapter.whispers) == 2
        assert await brain.stores.inbox.waiting() == []


async def test_the_end_of_a_run_is_told_though_the_database_was_away_just_then(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.open() as brain:
        stage = Stage(harness, brain)
        run = await stage.running()
        await brain.delivery.idle()
        put = brain.delivery.put
        monkeypatch.setattr(brain.delivery, "put", once(put, Unavailable("The database is away.")))
        await stage.ended(run, RunState.FAILED, ExitClass.USER_ERROR, "It broke.")
        await harness.until(lambda: any("It broke." in text for text in harness.adapter.texts()))
        await brain.delivery.idle()


async def test_an_act_that_was_stored_though_storing_it_raised_is_handled_when_it_comes_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with harness.open() as brain:
        inbox = brain.stores.inbox
        add = inbox.add

        async def stored_and_cut_off(inbound: Inbound) -> None:
            await add(inbound)
            raise Unavailable("The connection was lost at the commit.")

        monkeypatch.setattr(inbox, "add", stored_and_cut_off)
        asked = commanded("help")
        with pytest.raises(Unavailable):
            await brain.router.accept(asked)
        monkeypatch.setattr(inbox, "add", add)
        assert sorted(await asyncio.gather(*(brain.router.accept(asked) for _ in range(3)))) == [False, False, True]
        await brain.router.idle()
        assert not await brain.router.accept(asked)
        await brain.delivery.idle()
        assert len(harness.adapter.whispers) == 1


async def test_a_quiet_thread_lets_go_of_its_actor_and_takes_the_next_message(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actors, "IDLE_S", 0.01)
    async with harness.open() as brain:
        for count in (1, 2, 3):
            await brain.router.accept(commanded("hosts"))
            await harness.until(lambda: len(harness.adapter.whispers) == count)  # noqa: B023 - awaited in the same round
            await harness.until(lambda: not brain.router._at_once.all())


async def test_trouble_of_the_database_is_a_sentence_that_callers_can_wait_for(tmp_path: Path) -> None:
    def full(_connection: object) -> None:
        raise OperationalError("INSERT", {}, Exception("database or disk is full"))

    database = sqlite(tmp_path / "test.db")
    await database.start()
    for carry_out in (database.write, database.read):
        with pytest.raises(Unavailable, match="database or disk is full"):
            await carry_out(full)
    await database.close()
    with pytest.raises(Unavailable, match="closed"):
        await database.write(full)


async def test_what_only_a_newer_bot_can_read_is_left_for_it(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness.open() as brain:
        await brain.stores.inbox.add(said("first"))
        await brain.stores.inbox.add(said("second"))
    with contextlib.closing(sqlite3.connect(harness.folder / "test.db")) as database, database:
        newer = "UPDATE inbox SET payload = replace(payload, '\"version\":1', '\"version\":2') WHERE id = 1"
        assert database.execute(newer).rowcount == 1
    harness.model = ScriptedModel(ModelReply("The second.", (), "m"))
    async with harness.open() as brain:
        await harness.until(lambda: harness.adapter.texts() == ["The second."])
        await brain.router.idle()
    assert [record.item for record in caplog.records if record.message == "inbox item left aside"] == [1]  # type: ignore[attr-defined]
    with contextlib.closing(sqlite3.connect(harness.folder / "test.db")) as database:
        assert database.execute("SELECT state FROM inbox ORDER BY id").fetchall() == [("new",), ("done",)]


async def test_what_belongs_to_a_platform_that_is_not_connected_waits_for_it(harness: Harness) -> None:
    async with harness.open() as brain:
        await brain.delivery.put("k", CONSOLE, Content(text="for the terminal"))
        await brain.router.accept(said("hello", thread=CONSOLE))
        await brain.router.idle()
        await brain.delivery.idle()
        post = await brain.stores.outbox.get("k")
        assert post is not None
        assert post.state != "dead"
        assert len(await brain.stores.inbox.waiting()) == 1


async def test_a_message_that_breaks_the_adapter_holds_up_no_other(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.delivery.outbox.FIRST_WAIT_S", 0.001)
    post = harness.adapter.post

    async def breaks(thread: Thread, content: Content, **named: Any) -> MessageRef:
        if content.text == "poison":
            raise KeyError("a bug of the adapter")
        return await post(thread, content, **named)

    harness.adapter.post = breaks  # type: ignore[method-assign, assignment]
    async with harness.open() as brain:
        await brain.delivery.put("bad", THREAD, Content(text="poison"))
        await brain.delivery.put("good", THREAD, Content(text="fine"))
        await harness.until(lambda: harness.adapter.texts() == ["fine"])


async def test_a_sender_outlives_the_absence_of_its_database(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.delivery.outbox.FIRST_WAIT_S", 0.001)
    async with harness.open() as brain:
        due = brain.stores.outbox.due
        brain.stores.outbox.due = once(due, RuntimeError("anything"))  # type: ignore[method-assign]
        await brain.delivery.put("k", THREAD, Content(text="fine"))
        await harness.until(lambda: harness.adapter.texts() == ["fine"])


async def test_a_thread_that_is_quiet_leaves_nothing_in_memory(harness: Harness) -> None:
    async with harness.open() as brain:
        for number in range(50):
            thread = THREAD.model_copy(update={"thread_id": str(number)})
            await brain.delivery.put(f"k{number}", thread, Content(text="x"))
            harness.clock.forward(60)
        await brain.delivery.idle()
        delivery = brain.delivery
        assert not delivery._senders
        assert len(delivery._edited_at) <= 1


class Feed:
    """Hands out each batch once, as the real one does."""

    def __init__(self, *batches: Sequence[WorkerEvent]) -> None:
        self.batches = list(batches)
        self.acked: list[str] = []
        self.empty = asyncio.Event()

    async def read(self) -> Sequence[tuple[str, WorkerEvent]]:
        if not self.batches:
            self.empty.set()
            await asyncio.Event().wait()
        return [(str(event.seq), event) for event in self.batches.pop(0)]

    async def ack(self, ids: Sequence[str]) -> None:
        self.acked += ids


@pytest.mark.parametrize("error", [Unavailable("The database is away."), OverflowError("int too large")])
async def test_events_that_could_not_be_stored_are_tried_again(
    harness: Harness, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "PAUSE_S", 0.001)
    events = [
        WorkerEvent(run="r-000000", attempt=1, seq=seq, host="gpu-1", at=harness.clock.now(), body=Beat())
        for seq in (1, 2)
    ]
    taken: list[int] = []
    async with harness.open() as brain:
        failures = [error]

        async def take(batch: Sequence[WorkerEvent]) -> None:
            if failures:
                raise failures.pop()
            taken.extend(event.seq for event in batch)

        brain.service.take = take  # type: ignore[method-assign, assignment]
        feed = Feed(events)
        task = asyncio.create_task(relay.relay(feed, brain.service))
        await asyncio.wait_for(feed.empty.wait(), 10)
        task.cancel()
    assert taken == [1, 2]
    assert feed.acked == ["1", "2"]


async def test_an_event_that_cannot_be_stored_leaves_no_gap(harness: Harness) -> None:
    at = harness.clock.now()
    async with harness.open() as brain:
        run = await Stage(harness, brain).create()
        vast = Beat(usage=Usage(cpus=1.0, memory_bytes=10**400))
        told: list[EventBody] = [Accepted(boot_id="b"), vast, Started(model="m", total_steps=3), Beat()]
        events = [
            WorkerEvent(run=run.id, attempt=1, seq=seq, host="gpu-1", at=at, body=body)
            for seq, body in enumerate(told, start=1)
        ]
        feed = Feed(events)
        task = asyncio.create_task(relay.relay(feed, brain.service))
        await asyncio.wait_for(feed.empty.wait(), 10)
        task.cancel()
        assert (await brain.stores.runs.get(run.id)).state is RunState.RUNNING
    assert feed.acked == ["1", "2", "3", "4"]
    with sqlite3.connect(harness.folder / "test.db") as stored:
        assert stored.execute("SELECT seen_to FROM attempt").fetchall() == [(4,)]
        assert stored.execute("SELECT count(*) FROM seen_event").fetchone() == (0,)
