"""Answers that grow: a steady pace, a new message when one is full, exactly the final text at the end."""

import asyncio
import itertools

import pytest

from agent.domain.content import Card, Content
from tests.discord.conftest import Bot
from tests.platforms.discord_server import DiscordServer


async def test_edits_keep_their_pace(server: DiscordServer) -> None:
    server.limits.bucket = 1000
    bot = await Bot(server, edit_pace_s=0.25).start()
    stream = await bot.adapter.stream(bot.address(server.general), key="k")
    for n in range(60):
        await stream.append(f"word{n} ")
        await asyncio.sleep(0.01)
    [message] = await server.wait_for(lambda: server.messages(server.general))
    await server.wait_for(lambda: "word59" in message.content)
    assert message.content.endswith(" …")
    times = [at for at, _, _ in message.edits]
    assert all(later - earlier >= 0.25 for earlier, later in itertools.pairwise(times))
    assert len(times) < 60, "many words, few edits"
    ref = await stream.finish(Content(text="Final words."))
    assert (ref.id, message.content) == (str(message.id), "Final words.")
    await bot.stop()


async def test_a_full_message_is_continued_in_another(server: DiscordServer, bot: Bot) -> None:
    stream = await bot.adapter.stream(bot.address(server.general), key="k")
    text = "".join(f"Sentence number {n} of a long answer.\n\n" for n in range(130))
    for at in range(0, len(text), 97):
        await stream.append(text[at : at + 97])
        await asyncio.sleep(0)
    await server.wait_for(
        lambda: "number 129" in server.messages(server.general)[-1].content if server.messages(server.general) else None
    )
    parts = [m.content for m in server.messages(server.general)]
    assert len(parts) == 3
    assert all(len(part) <= 1902 for part in parts)
    assert [part.endswith("…") for part in parts] == [False, False, True]
    ref = await stream.finish(Content(text=text, card=Card(kind="notice", title="Done")))
    whole = "\n\n".join(m.content for m in server.messages(server.general))
    assert whole.split() == text.split()
    last = server.messages(server.general)[-1]
    assert (ref.id, last.embed["title"]) == (str(last.id), "Done")


async def test_a_shorter_end_removes_what_is_too_much(server: DiscordServer, bot: Bot) -> None:
    stream = await bot.adapter.stream(bot.address(server.general), key="k")
    await stream.append("A line.\n" * 400)
    await server.wait_for(lambda: len(server.messages(server.general)) == 2)
    await stream.finish(Content(text="In short: no."))
    assert [m.content for m in server.messages(server.general)] == ["In short: no."]


async def test_fences_stay_whole(server: DiscordServer, bot: Bot) -> None:
    stream = await bot.adapter.stream(bot.address(server.general), key="k")
    await stream.append("Look:\n```python\nprint(1)\n")
    message = (await server.wait_for(lambda: server.messages(server.general)))[0]
    assert message.content == "Look:\n```python\nprint(1)\n```\n…"
    await stream.append("print(2)\n```\nDone.")
    await stream.finish(Content(text="Look:\n```python\nprint(1)\nprint(2)\n```\nDone."))
    assert message.content == "Look:\n```python\nprint(1)\nprint(2)\n```\nDone."


async def test_rate_limits_and_trouble_lose_no_words(server: DiscordServer, bot: Bot) -> None:
    server.limit("POST .*messages", retry_after_s=60)
    server.fail("PATCH .*messages", 503)
    stream = await bot.adapter.stream(bot.address(server.general), key="k")
    assert await stream.append("Hello ") is None
    await stream.append("world")
    await stream.finish(Content(text="Hello world."))
    assert [m.content for m in server.messages(server.general)] == ["Hello world."]


async def test_a_stream_that_begins_again_goes_on_in_its_message(server: DiscordServer, bot: Bot) -> None:
    stream = await bot.adapter.stream(bot.address(server.general), key="turn-1")
    await stream.append("Half an ans")
    await server.wait_for(lambda: server.messages(server.general))
    await bot.stop()
    other = await Bot(server).start()
    again = await other.adapter.stream(other.address(server.general), key="turn-1")
    await again.finish(Content(text="The whole answer."))
    assert [m.content for m in server.messages(server.general)] == ["The whole answer."]
    await other.stop()


async def test_an_answer_without_words(server: DiscordServer, bot: Bot) -> None:
    asked = await server.user("alice").mention(server.general, "go")
    stream = await bot.adapter.stream((await bot.next()).thread, key="k")
    await stream.finish(Content(text=""))
    assert [m.content for m in server.messages(await server.thread_of(asked))] == ["…"]


async def test_typing_while_it_is_at_work(server: DiscordServer, bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bot.discord.adapter.TYPING_S", 0.01)
    asked = await server.user("alice").mention(server.general, "go")
    came = await bot.next()

    def typed() -> int:
        return sum(line.endswith(f"{asked.id}/typing 204") for line in server.requests)

    server.fail("POST .*typing", 500)
    async with bot.adapter.busy(came.thread, came):
        await server.wait_for(lambda: typed() > 2)  # it outlives trouble of Discord's own
        assert asked.thread is not None
    server.fail("POST .*typing", 403, code=50013)
    async with bot.adapter.busy(came.thread, came):
        await server.wait_for(lambda: any(line.endswith("typing 403") for line in server.requests))
