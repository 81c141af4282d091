"""The way out when single messages fail: what fails holds up little, is not hammered, and comes in the end."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from agent.delivery import outbox as module
from agent.delivery.outbox import OutboxDelivery
from agent.domain.content import Content
from agent.domain.errors import AppError, NotAllowed, NotFound, RateLimited, Unavailable
from agent.domain.inbound import Thread
from agent.ports import MessageRef, Whisper
from agent.storage import sql_stores
from agent.stores import Outbox, Post, PostState
from tests.agent.databases import sqlite
from tests.fakes import FakeAdapter, FakeClock

THREAD = Thread(platform="slack", tenant="T1", channel="C1", thread_id="1.0")


class ChatAdapter(FakeAdapter):
    """Fails calls as `trouble` says; `tried` has them all, as (kind, text)."""

    def __init__(self) -> None:
        super().__init__()
        self.tried: list[tuple[str, str]] = []
        self.trouble: Callable[[str, str], AppError | None] = lambda _kind, _text: None

    def _try(self, kind: str, text: str) -> None:
        self.tried.append((kind, text))
        if error := self.trouble(kind, text):
            raise error

    async def post(self, thread: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        self._try("post", content.text)
        return await super().post(thread, content, key=key, whisper=whisper)

    async def edit(self, thread: Thread, ref: MessageRef, content: Content) -> MessageRef:
        self._try("edit", content.text)
        if ref.id not in self.messages:
            raise NotFound("The message was deleted.")
        return await super().edit(thread, ref, content)

    def edits(self) -> int:
        return sum(kind == "edit" for kind, _ in self.tried)


@pytest.fixture
async def outbox(tmp_path: Path) -> AsyncIterator[Outbox]:
    database = sqlite(tmp_path / "t.db")
    await database.start()
    yield sql_stores(database).outbox
    await database.close()


@pytest.fixture
def adapter() -> ChatAdapter:
    return ChatAdapter()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def delivery(
    outbox: Outbox, adapter: ChatAdapter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[OutboxDelivery]:
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(module, "PASSED_FROM_S", 0.08)
    monkeypatch.setattr(module, "LONGEST_WAIT_S", 0.1)
    running = OutboxDelivery(outbox, {"slack": adapter}, clock, gap_s={"slack": 15.0})
    yield running
    await running.close()


async def shown(adapter: ChatAdapter, *texts: str) -> None:
    async with asyncio.timeout(10):
        while adapter.texts() != list(texts):
            await asyncio.sleep(0.005)


async def put(delivery: OutboxDelivery, key: str, text: str, *, urgent: bool = False) -> None:
    await delivery.put(key, THREAD, Content(text=text), urgent=urgent)


async def test_only_what_was_begun_as_a_growing_answer_is_looked_for_as_one(
    delivery: OutboxDelivery, adapter: ChatAdapter, outbox: Outbox
) -> None:
    asked: list[tuple[str, bool]] = []

    async def find(thread: Thread, *, key: str, growing: bool = False) -> MessageRef | None:
        asked.append((key, growing))
        return None

    adapter.find = find  # type: ignore[method-assign]
    adapter.trouble = lambda _kind, _text: Unavailable("The answer was lost.") if len(adapter.tried) == 1 else None
    await put(delivery, "card", "step 1")
    await shown(adapter, "step 1")
    await outbox.begin("answer", THREAD)
    await put(delivery, "answer", "whole")
    await shown(adapter, "step 1", "whole")
    assert asked == [("card", False), ("answer", True)]


async def answer(delivery: OutboxDelivery, outbox: Outbox, text: str) -> None:
    """An answer that came at once and did not grow."""
    async with delivery.open("answer", THREAD) as live:
        content = Content(text=text)
        version = await outbox.put("answer", THREAD, content, whisper=None, urgent=True)
        await live.finish(content, version)


async def test_an_answer_that_came_at_once_is_posted_without_a_look_at_what_waits(
    delivery: OutboxDelivery, adapter: ChatAdapter, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    due = outbox.due

    async def counted(thread_key: str) -> Sequence[Post]:
        looks.append(len(adapter.tried))
        return await due(thread_key)

    monkeypatch.setattr(outbox, "due", counted)
    await answer(delivery, outbox, "hello")
    await delivery.idle()
    assert (adapter.tried, looks) == ([("post", "hello")], [])
    stored = await outbox.get("answer")
    assert stored is not None
    assert (stored.shown, stored.state) == (1, PostState.SENT)


async def test_an_answer_that_came_at_once_and_could_not_be_posted_is_looked_for_and_posted(
    delivery: OutboxDelivery, adapter: ChatAdapter, outbox: Outbox
) -> None:
    adapter.trouble = lambda _kind, _text: Unavailable("The answer was lost.") if len(adapter.tried) == 1 else None
    await answer(delivery, outbox, "hello")
    await shown(adapter, "hello")
    await delivery.idle()
    assert adapter.tried == [("post", "hello")] * 2


async def test_an_answer_that_came_at_once_waits_behind_what_is_being_delivered(
    delivery: OutboxDelivery, adapter: ChatAdapter, outbox: Outbox
) -> None:
    adapter.trouble = lambda _kind, text: (
        RateLimited("Slowly.", retry_after_s=0.05) if text == "card" and len(adapter.tried) == 1 else None
    )
    await put(delivery, "card", "card")
    await answer(delivery, outbox, "hello")
    await shown(adapter, "card", "hello")
    await delivery.idle()
    assert adapter.texts() == ["card", "hello"]


async def test_an_answer_that_began_to_grow_before_a_restart_is_looked_for(
    delivery: OutboxDelivery, adapter: ChatAdapter, outbox: Outbox
) -> None:
    await outbox.begin("answer", THREAD)
    asked: list[bool] = []

    async def find(thread: Thread, *, key: str, growing: bool = False) -> MessageRef | None:
        asked.append(growing)
        return None

    adapter.find = find  # type: ignore[method-assign]
    await answer(delivery, outbox, "hello")
    await shown(adapter, "hello")
    assert asked == [True]


async def test_what_a_bot_posted_before_it_was_ended_is_not_posted_again_by_the_next(
    delivery: OutboxDelivery, adapter: ChatAdapter, outbox: Outbox, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted, never, post = asyncio.Event(), asyncio.Event(), adapter.post

    async def post_without_end(*args: object, **more: object) -> MessageRef:
        await post(*args, **more)  # type: ignore[arg-type]
        posted.set()
        await never.wait()
        raise AssertionError("ended before")

    monkeypatch.setattr(adapter, "post", post_without_end)
    await put(delivery, "answer", "whole")
    await posted.wait()
    await put(delivery, "second", "not sent yet")
    await delivery.close()
    monkeypatch.setattr(adapter, "post", post)
    after = OutboxDelivery(outbox, {"slack": adapter}, clock, gap_s={})
    await after.recover()
    await after.idle()
    assert adapter.texts() == ["whole", "not sent yet"]


async def test_what_was_posted_while_the_database_was_away_is_not_posted_again(
    delivery: OutboxDelivery, adapter: ChatAdapter, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, failures = outbox.sent, [Unavailable("The database is away."), Unavailable("It still is.")]

    async def sent_later(key: str, ref: MessageRef, *, shown: int | None) -> None:
        if failures:
            raise failures.pop()
        await sent(key, ref, shown=shown)

    monkeypatch.setattr(outbox, "sent", sent_later)
    await put(delivery, "answer", "whole")
    await delivery.idle()
    assert (adapter.texts(), failures) == (["whole"], [])
    assert [kind for kind, _ in adapter.tried] == ["post", "edit", "edit"]


async def test_an_edit_that_waits_holds_up_no_post_and_is_not_repeated_before_its_time(
    delivery: OutboxDelivery, adapter: ChatAdapter, clock: FakeClock
) -> None:
    adapter.trouble = lambda kind, _text: RateLimited("Wait.", retry_after_s=300) if kind == "edit" else None
    await put(delivery, "run", "step 1")
    await shown(adapter, "step 1")
    clock.forward(60)
    await put(delivery, "run", "step 2")
    await put(delivery, "approval", "Shall I?", urgent=True)
    await shown(adapter, "step 1", "Shall I?")
    await put(delivery, "run", "step 3", urgent=True)
    await asyncio.sleep(0.1)
    assert adapter.edits() == 1


async def test_a_post_that_fails_keeps_its_place_for_some_tries_and_then_lets_others_pass(
    delivery: OutboxDelivery, adapter: ChatAdapter
) -> None:
    away = Unavailable("Slack did not take the file.")
    adapter.trouble = lambda _kind, text: away if text == "chart" and len(adapter.tried) <= 2 else None
    await put(delivery, "a", "chart")
    await put(delivery, "b", "answer")
    await shown(adapter, "chart", "answer")
    adapter.trouble = lambda _kind, text: away if text == "second chart" else None
    await put(delivery, "c", "second chart")
    await put(delivery, "d", "second answer")
    await shown(adapter, "chart", "answer", "second answer")
    adapter.trouble = lambda _kind, _text: None
    await shown(adapter, "chart", "answer", "second answer", "second chart")


async def test_a_post_that_is_passed_makes_no_other_wait_for_it(
    delivery: OutboxDelivery, adapter: ChatAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_WAIT_S", 30.0)
    away = RateLimited("Slack is busy.", retry_after_s=30.0)
    once = Unavailable("Slack did not answer.")
    adapter.trouble = lambda _kind, text: away if text == "chart" else None
    await put(delivery, "a", "chart")
    async with asyncio.timeout(10):
        while ("post", "chart") not in adapter.tried:
            await asyncio.sleep(0.01)
    adapter.trouble = lambda _kind, text: (
        once if adapter.tried.count(("post", "answer")) == 1 and text == "answer" else None
    )
    await put(delivery, "b", "answer")
    await put(delivery, "c", "another answer")
    await shown(adapter, "answer", "another answer")


async def test_a_message_that_broke_its_adapter_is_tried_as_often_in_its_next_version(
    delivery: OutboxDelivery, adapter: ChatAdapter
) -> None:
    post, broke = adapter.post, []

    async def breaks(thread: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        if len(broke) < module.MOST_TRIES + 1:
            broke.append(content.text)
            raise ValueError("a bug of the adapter")
        return await post(thread, content, key=key, whisper=whisper)

    adapter.post = breaks  # type: ignore[method-assign]
    await put(delivery, "run", "step 1")
    async with asyncio.timeout(10):
        while len(broke) < module.MOST_TRIES:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    await put(delivery, "run", "step 2", urgent=True)
    await shown(adapter, "step 2")


async def test_after_an_outage_everything_comes_in_its_order(
    delivery: OutboxDelivery, adapter: ChatAdapter, outbox: Outbox
) -> None:
    adapter.trouble = lambda _kind, _text: Unavailable("Slack cannot be reached.")
    names = [f"message {number}" for number in range(4)]
    for name in names:
        await put(delivery, name, name)
    async with asyncio.timeout(10):
        while adapter.tried.count(("post", names[-1])) <= module.MOST_TRIES:
            await asyncio.sleep(0.01)
    assert {post.state for post in await outbox.due(THREAD.key)} == {"sending"}
    adapter.trouble = lambda _kind, _text: None
    await shown(adapter, *names)


class Outage:
    """The platform fails until the last message was tried often: it works again between two looks, for all."""

    def __init__(self, last: str, *, of: list[tuple[str, str]], try_s: float) -> None:
        """Each try takes `try_s` on the clock that `now_s` is read from."""
        self._last, self._tried, self._try_s = ("post", last), of, try_s
        self.over, self.later_s = False, 0.0

    def trouble(self, _kind: str, _text: str) -> AppError | None:
        if self.over:
            return None
        self.later_s += self._try_s
        self.over = self._tried.count(self._last) > module.MOST_TRIES
        return Unavailable("Slack cannot be reached.")

    def now_s(self) -> float:
        return asyncio.get_running_loop().time() + self.later_s


@pytest.mark.parametrize(("try_s", "look_s"), [(0.0, 0.01), (0.2, 0.0)])  # of 0.1 s between two tries at most
async def test_what_fails_together_comes_in_its_order_however_long_a_try_takes(
    delivery: OutboxDelivery, adapter: ChatAdapter, monkeypatch: pytest.MonkeyPatch, try_s: float, look_s: float
) -> None:
    names = [f"message {number}" for number in range(8)]
    outage, asked = Outage(names[-1], of=adapter.tried, try_s=try_s), itertools.count()
    adapter.trouble = outage.trouble
    monkeypatch.setattr(module, "_now_s", lambda: outage.now_s() + look_s * (next(asked) if outage.over else 0))
    for name in names:
        await put(delivery, name, name)
    async with asyncio.timeout(20):
        while len(adapter.texts()) < len(names):
            delivery.wake(THREAD.key)  # so that one looks also just before the first one's time
            await asyncio.sleep(0.001)
    assert adapter.texts() == names


async def test_a_deleted_card_is_left_alone_until_there_is_news_that_matters(
    delivery: OutboxDelivery, adapter: ChatAdapter, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await put(delivery, "run", "step 1")
    await delivery.idle()
    adapter.messages.clear()
    for step in range(2, 7):
        clock.forward(60)
        await put(delivery, "run", f"step {step}")
        await asyncio.sleep(0.05)
    assert (adapter.edits(), adapter.texts()) == (1, [])
    assert [(record.levelname, record.exc_info) for record in caplog.records] == [("WARNING", None)]
    await put(delivery, "run", "finished", urgent=True)
    await shown(adapter, "finished")
    await delivery.idle()  # the moment of the edit is noted after it is shown
    clock.forward(60)
    await put(delivery, "run", "described")
    await shown(adapter, "described")


async def test_a_card_whose_channel_was_away_goes_on(
    delivery: OutboxDelivery, adapter: ChatAdapter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bot that was removed and invited again: to a platform the message was not there meanwhile."""
    monkeypatch.setattr(module, "GONE_S", 0.05)
    await put(delivery, "run", "step 1")
    await delivery.idle()
    adapter.trouble = lambda _kind, text: NotFound("That channel is not there.") if text == "step 2" else None
    for step in range(2, 4):
        clock.forward(60)
        await put(delivery, "run", f"step {step}")
        await asyncio.sleep(0.1)
    await shown(adapter, "step 3")


async def test_a_refused_edit_keeps_the_gap(delivery: OutboxDelivery, adapter: ChatAdapter, clock: FakeClock) -> None:
    await put(delivery, "run", "step 1")
    await delivery.idle()
    clock.forward(60)
    adapter.trouble = lambda _kind, _text: NotAllowed("That channel is archived.")
    for step in range(2, 12):
        await put(delivery, "run", f"step {step}")
        await asyncio.sleep(0.03)
    assert adapter.edits() == 1


async def test_a_version_that_came_while_the_one_before_was_refused_is_shown(
    delivery: OutboxDelivery, adapter: ChatAdapter
) -> None:
    def refused(kind: str, text: str) -> AppError | None:
        return NotAllowed("That channel is archived.") if text == "step 1" else None

    adapter.trouble = refused
    post = adapter.post

    async def slowly(thread: Thread, content: Content, *, key: str, whisper: Whisper | None = None) -> MessageRef:
        await asyncio.sleep(0.05)
        return await post(thread, content, key=key, whisper=whisper)

    adapter.post = slowly  # type: ignore[method-assign]
    await put(delivery, "run", "step 1")
    await asyncio.sleep(0.02)
    await put(delivery, "run", "finished", urgent=True)
    await shown(adapter, "finished")


async def test_what_is_stored_in_the_moment_of_an_answer_is_shown_with_it(
    outbox: Outbox, adapter: ChatAdapter, delivery: OutboxDelivery
) -> None:
    answer, error = Content(text="an answer"), Content(text="an error")
    await outbox.put("answer", THREAD, answer, whisper=None, urgent=True)
    await outbox.put("error", THREAD, error, whisper=None, urgent=True)
    delivery.wake(THREAD.key, known=(Post.new("answer", THREAD, answer),))
    delivery.wake(THREAD.key)  # before the sender has taken its first step
    await delivery.idle()
    assert adapter.texts() == ["an answer", "an error"]
