"""Answers that grow."""

import asyncio

from agent.clock import SystemClock
from agent.delivery.outbox import CUT_OFF, OutboxDelivery
from agent.domain.content import Button, Card, Content
from agent.domain.inbound import Thread
from agent.storage import sql_stores
from bot.slack.adapter import Tuning
from bot.slack.stream import Pace
from tests.agent.databases import sqlite
from tests.platforms.slack_server import SlackServer
from tests.slack.conftest import FAST, Inbox, listening

WORDS = [f"word{n} " for n in range(40)]
TEXT = "".join(WORDS)


async def asked(server: SlackServer, inbox: Inbox, **how: object) -> Thread:
    """Alice has asked, so the adapter knows whom an answer is for."""
    message = server.user("alice").mention("question", **how)
    await server.wait_for(lambda: len(inbox.stored) == 2 and all(d.acked for d in server.deliveries_of(message)))
    return inbox.stored[0].thread


def answers(server: SlackServer, address: Thread) -> list[str]:
    return [message.shown for message in server.thread(address.thread_id)[1:]]


async def test_an_answer_grows_and_ends_as_it_was_meant(server, adapter, inbox):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")

    ref = await stream.append(WORDS[0])
    assert ref is not None
    assert answers(server, address) == [WORDS[0]]
    for word in WORDS[1:]:
        await stream.append(word)
        await asyncio.sleep(0.002)
    await server.wait_for(lambda: answers(server, address) == [TEXT])  # what was held back comes by itself
    assert await stream.finish(Content(text=TEXT + "end")) == ref

    message = server.message(ref.channel, ref.id)
    assert message.shown == TEXT + "end"
    assert not message.streaming
    assert message.edits == []
    assert await adapter.find(address, key="turn-1") == ref
    assert 2 < len(server.called("chat.appendStream")) < len(WORDS)


async def test_half_an_answer_of_a_dead_process_is_found_and_put_right(server, adapter, inbox):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")
    standing = await stream.append("half of")

    assert await adapter.find(address, key="run:r-1") is None  # a card is never half an answer
    assert await adapter.find(address, key="turn-0", growing=True) is None  # nor is this one's anybody else's
    found = await adapter.find(address, key="turn-1", growing=True)
    assert found is not None
    assert found.id == standing.id
    await adapter.edit(address, found, Content(text="all of it"))
    assert answers(server, address) == ["all of it"]
    assert await adapter.find(address, key="turn-1") == found
    assert await adapter.find(address, key="turn-2", growing=True) is None  # what was put right belongs to nobody else


async def test_a_card_whose_post_failed_leaves_the_answer_alone_that_grows_beside_it(server, adapter, inbox, tmp_path):
    address = await asked(server, inbox)
    database = sqlite(tmp_path / "t.db")
    await database.start()
    delivery = OutboxDelivery(sql_stores(database).outbox, {"slack": adapter}, SystemClock(), gap_s={})
    async with delivery.open("turn-1", address) as live:
        await live.append("Your loss is high ")
        await server.wait_for(lambda: answers(server, address) == ["Your loss is high "])
        server.fail("chat.postMessage", error="internal_error")
        await delivery.put("run:r-1", address, Content(text="step 1"), urgent=True)
        await server.wait_for(lambda: len(answers(server, address)) == 2)
        content = Content(text="Your loss is high because the rate is.")
        await live.finish(content, await delivery.put("turn-1", address, content, urgent=True))
    await delivery.idle()

    assert answers(server, address) == ["Your loss is high because the rate is.", "step 1"]
    await delivery.close()
    await database.close()


async def test_an_answer_that_a_restart_cut_off_streams_no_more(server, adapter, inbox, tmp_path):
    address = await asked(server, inbox)
    database = sqlite(tmp_path / "t.db")
    await database.start()
    outbox = sql_stores(database).outbox
    cut_off = OutboxDelivery(outbox, {"slack": adapter}, SystemClock(), gap_s={})
    async with cut_off.open("turn-1", address) as live:
        await live.append("Half a sen")
        await server.wait_for(lambda: answers(server, address) == ["Half a sen"])
    await cut_off.close()
    delivery = OutboxDelivery(outbox, {"slack": adapter}, SystemClock(), gap_s={})
    await delivery.recover()
    await delivery.idle()

    (message,) = server.thread(address.thread_id)[1:]
    assert (message.shown, message.streaming) == (CUT_OFF, False)
    await delivery.close()
    await database.close()


async def test_an_answer_that_ends_otherwise_is_put_right(server, adapter, inbox):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")
    await stream.append("I will start the ")
    card = Card(kind="approval", title="Start?", buttons=(Button(action="approve", subject="a1", label="Approve"),))

    ref = await stream.finish(Content(text="Shall I start it?", card=card))

    message = server.message(ref.channel, ref.id)
    assert message.shown.startswith("Shall I start it?\n▪️ Start?")
    assert list(message.buttons) == ["Approve"]
    assert len(answers(server, address)) == 1


async def test_a_stream_is_rotated_before_slack_ends_it(inbox):
    pace = Pace(append_every_s=0.01, edit_every_s=0.02, rotate_after_s=0.2)
    async with (
        SlackServer(time_scale=1.0 / 300, rate_scale=100) as server,
        listening(server, inbox, tuning=Tuning(rates=FAST.rates, pace=pace)) as adapter,
    ):
        address = await asked(server, inbox)
        stream = await adapter.stream(address, key="turn-1")
        for word in WORDS:
            await stream.append(word)
            await asyncio.sleep(0.04)
        await server.wait_for(lambda: "".join(answers(server, address)) == TEXT)
        assert len(answers(server, address)) >= 2

        await stream.finish(Content(text=TEXT))

        assert answers(server, address) == [TEXT]
        assert all(not message.streaming for message in server.messages())


async def test_a_stream_is_rotated_when_it_is_long_and_its_code_stays_code(server, adapter, inbox):
    address = await asked(server, inbox)
    code = "```python\n" + "".join(f"line_{n} = {n}  # {'x' * 40}\n" for n in range(400)) + "```"
    stream = await adapter.stream(address, key="turn-1")
    for at in range(0, len(code), 3_000):
        await stream.append(code[at : at + 3_000])
        await asyncio.sleep(0.03)

    await stream.finish(Content(text=code))

    shown = answers(server, address)
    assert len(shown) == 3
    assert all(text.startswith("```python\n") and text.endswith("\n```") for text in shown)
    assert len(server.called("chat.startStream")) >= 2


async def test_a_stream_that_slack_has_ended_goes_on_by_edits(inbox):
    pace = Pace(append_every_s=0.01, edit_every_s=0.02, rotate_after_s=1e6)
    async with (
        SlackServer(time_scale=0.2 / 300, rate_scale=100) as server,
        listening(server, inbox, tuning=Tuning(rates=FAST.rates, pace=pace)) as adapter,
    ):
        address = await asked(server, inbox)
        stream = await adapter.stream(address, key="turn-1")
        ref = await stream.append("begun, ")
        await asyncio.sleep(0.3)
        await stream.append("went on, ")
        await server.wait_for(lambda: answers(server, address) == ["begun, went on, "])

        assert await stream.finish(Content(text="begun, went on, done")) == ref
        assert answers(server, address) == ["begun, went on, done"]


async def test_without_streaming_the_answer_grows_by_edits(server, adapter, inbox):
    server.disabled |= {"chat.startStream", "chat.appendStream", "chat.stopStream"}
    address = await asked(server, inbox)
    for turn in range(2):
        stream = await adapter.stream(address, key=f"turn-{turn}")
        await stream.append("one ")
        await stream.append("two ")
        await server.wait_for(lambda turn=turn: answers(server, address)[turn:] == ["one two "])
        await stream.finish(Content(text="one two three"))

    assert answers(server, address) == ["one two three"] * 2
    assert len(server.called("chat.startStream")) == 1
    assert await adapter.find(address, key="turn-1") is not None


async def test_a_guest_gets_the_answer_without_streaming(server, adapter, inbox):
    server.channel("shared", shared=True)
    server.user("mallory", external=True).mention("hi", channel="shared")
    await server.wait_for(lambda: len(inbox.stored) == 2)
    stream = await adapter.stream(inbox.stored[0].thread, key="turn-1")

    await stream.append("hel")
    await stream.finish(Content(text="hello"))

    assert answers(server, inbox.stored[0].thread) == ["hello"]
    assert server.called("chat.startStream") == []


async def test_rate_limits_delay_the_text_and_never_reach_the_caller(server, adapter, inbox):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")
    await stream.append("a ")
    server.fail("chat.appendStream", retry_after=60)

    for _ in range(20):
        await stream.append("b ")
        await asyncio.sleep(0.005)
    assert answers(server, address) == ["a "]
    await stream.finish(Content(text="a " + "b " * 20))

    assert answers(server, address) == ["a " + "b " * 20]


async def test_a_short_wait_does_not_hold_up_the_model(server, adapter, inbox):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")
    await stream.append("a ")
    await asyncio.sleep(0.03)
    server.fail("chat.appendStream", retry_after=5)

    async with asyncio.timeout(4):
        for _ in range(20):
            await stream.append("b ")
    assert answers(server, address) == ["a "]
    await stream.finish(Content(text="a b"))


async def test_when_nothing_works_the_whole_answer_is_posted_and_the_orphan_removed(server, adapter, inbox):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")
    orphan = await stream.append("begun ")
    server.fail("chat.appendStream", error="message_not_in_streaming_state", times=9)
    server.fail("chat.stopStream", error="message_not_in_streaming_state", times=9)
    server.fail("chat.update", error="cant_update_message", times=9)

    await stream.append("and ")
    ref = await stream.finish(Content(text="begun and ended"))

    assert answers(server, address) == ["begun and ended"]
    assert ref.id != orphan.id


async def test_a_lost_answer_to_an_append_does_not_double_the_text(server, adapter, inbox):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")
    await stream.append("one ")
    await asyncio.sleep(0.03)
    server.fail("chat.appendStream", lose_answer=True)
    await stream.append("two ")

    await stream.finish(Content(text="one two three"))

    assert answers(server, address) == ["one two three"]


async def test_an_interrupted_append_does_not_double_the_text(server, adapter, inbox):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")
    await stream.append("one ")
    await asyncio.sleep(0.03)
    server.fail("chat.appendStream", slow_s=20)
    interrupted = asyncio.create_task(stream.append("two "))
    await server.wait_for(lambda: answers(server, address) == ["one two "])
    interrupted.cancel()
    await asyncio.gather(interrupted, return_exceptions=True)

    await stream.append("thr")
    await stream.finish(Content(text="one two three"))

    assert answers(server, address) == ["one two three"]


async def test_a_mention_cut_in_two_by_the_model_still_pings_nobody(server, adapter, inbox):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")
    for piece in ("hey <", "!chan", "nel> and @he", "re, <@U", "123>"):
        await stream.append(piece)
        await asyncio.sleep(0.03)
    streamed = answers(server, address)[0]
    await stream.finish(Content(text="hey <!channel> and @here, <@U123>"))

    for text in (streamed, *answers(server, address)):
        assert "<!channel" not in text
        assert "@here" not in text
        assert "<@U" not in text


async def test_many_answers_at_once_stay_within_slacks_rates():
    inbox = Inbox()
    async with SlackServer() as server, listening(server, inbox, tuning=Tuning()) as adapter:
        address = await asked(server, inbox)
        streams = [await adapter.stream(address, key=f"t{n}") for n in range(5)]
        for _ in range(10):
            await asyncio.gather(*(stream.append("word ") for stream in streams))
        await asyncio.gather(*(stream.finish(Content(text="word " * 10)) for stream in streams))

        assert answers(server, address) == ["word " * 10] * 5
