"""Messages out: once per key, within limits, through rate limits, lost answers, archived threads and old messages."""

import hashlib
from pathlib import Path

import pytest

from agent.domain.content import Button, Card, Content, Fact, Picture
from agent.domain.errors import AppError, BadRequest, NotAllowed, RateLimited, Unavailable
from tests.discord.conftest import Bot
from tests.platforms.discord_server import DiscordServer
from tests.platforms.discord_world import Channel, Message

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 64


def run_card(step: int, **more: object) -> Content:
    """A run card at some step."""
    stop = Button(action="stop", subject="r-abc123", label="Stop", style="danger")
    facts = (Fact(name="Loss", value=f"{1 / step:.3f}"),)
    return Content(
        card=Card(
            kind="run",
            title="r-abc123",
            tone="busy",
            progress=step / 100,
            facts=facts,
            buttons=(stop,),
            **more,  # type: ignore[arg-type]
        )
    )


async def open_thread(server: DiscordServer, bot: Bot) -> tuple[Channel, Message]:
    """A thread in which the bot has spoken."""
    asked = await server.user("alice").mention(server.general, "go")
    await bot.adapter.post(bot.address(server.general, asked), Content(text="ok"), key=f"open{asked.id}")
    return await server.thread_of(asked), server.messages(asked.id)[0]


async def test_the_same_key_twice_is_one_message(server: DiscordServer, bot: Bot) -> None:
    address = bot.address(server.general)
    first = await bot.adapter.post(address, Content(text="once"), key="k")
    assert await bot.adapter.post(address, Content(text="once"), key="k") == first
    await bot.adapter.post(address, Content(text="once"), key="other")
    assert len(server.messages(server.general)) == 2


async def test_the_same_key_from_another_process_is_one_message(server: DiscordServer, bot: Bot) -> None:
    first = await bot.adapter.post(bot.address(server.general), Content(text="once"), key="k")
    await bot.stop()
    other = await Bot(server).start()
    assert (await other.adapter.post(other.address(server.general), Content(text="once"), key="k")).id == first.id
    assert len(server.messages(server.general)) == 1
    await other.stop()


async def test_a_post_repeated_after_a_restart_shows_the_newest_content(server: DiscordServer, bot: Bot) -> None:
    await bot.adapter.post(bot.address(server.general), run_card(1), key="k")
    assert not [line for line in server.requests if line.startswith("PATCH")], "a post is one request"
    await bot.stop()
    other = await Bot(server).start()
    await other.adapter.post(other.address(server.general), run_card(2), key="k")
    [message] = server.messages(server.general)
    assert "0.500" in message.text
    await other.stop()


async def test_a_post_whose_answer_was_lost_is_found(server: DiscordServer, bot: Bot) -> None:
    address = bot.address(server.general)
    server.lose_answer("POST .*messages")
    with pytest.raises(Unavailable):
        await bot.adapter.post(address, Content(text="hello"), key="k")
    await server.wait_for(lambda: server.messages(server.general))
    posted = server.messages(server.general)[0]
    assert posted.nonce
    assert (await bot.adapter.post(address, Content(text="hello"), key="k")).id == str(posted.id)
    found = await bot.adapter.find(address, key="k")
    assert found is not None
    assert found.id == str(posted.id)
    assert await bot.adapter.find(address, key="never posted") is None
    assert len(server.messages(server.general)) == 1


async def test_a_card_is_edited_in_place_and_its_picture_replaced(
    server: DiscordServer,
    bot: Bot,
    tmp_path: Path,
) -> None:
    address, chart = bot.address(server.general), tmp_path / "chart.png"
    pictures = []
    for n in range(2):
        chart.write_bytes(PNG + bytes([n]))
        pictures.append(Picture(path=str(chart), alt=f"Loss {n}", sha256=hashlib.sha256(PNG + bytes([n])).hexdigest()))
    chart.write_bytes(PNG + b"\0")
    ref = await bot.adapter.post(address, run_card(1, picture=pictures[0]), key="k")
    [message] = server.messages(server.general)
    assert server.file(message) == PNG + b"\0"
    chart.write_bytes(PNG + b"\1")
    assert await bot.adapter.edit(address, ref, run_card(2, picture=pictures[1])) == ref
    assert (len(message.attachments), server.file(message)) == (1, PNG + b"\1")
    assert message.attachments[0]["description"] == "Loss 1"
    assert message.embed["image"]["url"] == message.attachments[0]["url"]
    assert "0.500" in message.text
    chart.unlink()
    await bot.adapter.edit(address, ref, run_card(3, picture=pictures[1]))
    assert (message.attachments, "image" in message.embed) == ([], False)
    assert "(no picture) Loss 1" in message.text
    await bot.adapter.edit(address, ref, Content(text="over"))
    assert (message.content, message.embeds, message.components) == ("over", [], [])


async def test_thread_that_exists_already_is_used(server: DiscordServer, bot: Bot) -> None:
    asked = await server.user("alice").mention(server.general, "go")
    address = (await bot.next()).thread
    thread = await server.user("bob").open_thread(asked)
    await bot.adapter.post(address, Content(text="ok"), key="k")
    assert [m.content for m in server.messages(thread)] == ["ok"]
    assert any("/threads 400" in line for line in server.requests), "160004, and no harm done"


async def test_the_thread_is_opened_after_a_restart(server: DiscordServer, bot: Bot) -> None:
    asked = await server.user("alice").mention(server.general, "go")
    await bot.next()
    await bot.stop()
    other = await Bot(server).start()
    await other.adapter.post(other.address(server.general, asked), Content(text="ok"), key="k")
    assert [m.content for m in server.messages(asked.id)] == ["ok"]
    await other.stop()


async def test_an_old_message_goes_on_in_a_new_one(server: DiscordServer) -> None:
    server.limits.old_message_s, server.limits.old_edits = 0.0, 0
    bot = await Bot(server).start()
    address = bot.address(server.general)
    ref = await bot.adapter.post(address, run_card(1), key="k")
    moved = await bot.adapter.edit(address, ref, run_card(2))
    assert moved.id != ref.id
    old, new = server.messages(server.general)
    assert (str(old.id), str(new.id)) == (ref.id, moved.id)
    assert "0.500" in new.text
    await bot.stop()


async def test_a_message_near_the_hour_is_not_edited_but_says_where_it_goes_on(server: DiscordServer) -> None:
    bot = await Bot(server, editable_s=0.0).start()
    address = bot.address(server.general)
    ref = await bot.adapter.post(address, run_card(1), key="k")
    moved = await bot.adapter.edit(address, ref, run_card(2))
    old, new = server.messages(server.general)
    assert f"/{server.guild_id}/{server.general.id}/{new.id}" in old.content
    assert (old.buttons, list(new.buttons)) == ({}, ["Stop"])
    assert moved.id == str(new.id)
    await bot.stop()


async def test_a_move_that_is_repeated_shows_the_newest_state(server: DiscordServer) -> None:
    first = await Bot(server, editable_s=0.0).start()
    address = first.address(server.general)
    ref = await first.adapter.post(address, run_card(1), key="k")
    await first.adapter.edit(address, ref, run_card(2))
    await first.stop()  # before the new address was stored
    other = await Bot(server, editable_s=0.0).start()
    moved = await other.adapter.edit(address, ref, run_card(4))
    _, new = server.messages(server.general)
    assert moved.id == str(new.id)
    assert "0.250" in new.text
    await other.stop()


async def test_an_archived_thread_is_woken_for_an_edit(server: DiscordServer, bot: Bot) -> None:
    thread, message = await open_thread(server, bot)
    address = bot.address(server.general, thread)
    ref = await bot.adapter.post(address, run_card(1), key="k")
    server.archive(thread)
    assert await bot.adapter.edit(address, ref, run_card(2)) == ref
    assert not thread.archived
    server.archive(thread)
    await bot.adapter.post(address, Content(text="still here"), key="k2")
    assert [m.content for m in server.messages(thread)] == ["ok", "", "still here"]
    server.archive(thread, locked=True)
    with pytest.raises(NotAllowed):
        await bot.adapter.post(address, Content(text="no"), key="k3")
    assert message.content == "ok"


async def test_rate_limits_are_waited_for(server: DiscordServer, bot: Bot) -> None:
    server.limit("POST .*messages", retry_after_s=0.1)
    server.limit("POST .*messages", retry_after_s=0.1, everywhere=True)
    await bot.adapter.post(bot.address(server.general), Content(text="through"), key="k")
    assert [m.content for m in server.messages(server.general)] == ["through"]
    assert server.too_many == 2


async def test_a_burst_stays_within_the_bucket(server: DiscordServer, bot: Bot) -> None:
    server.limits.bucket_window_s = 0.3
    for n in range(12):
        await bot.adapter.post(bot.address(server.general), Content(text=str(n)), key=str(n))
    assert [m.content for m in server.messages(server.general)] == [str(n) for n in range(12)]
    assert server.too_many == 0, "discord.py reads the headers"


async def test_a_long_rate_limit_is_told_not_slept_through(server: DiscordServer, bot: Bot) -> None:
    server.limit("POST .*threads", retry_after_s=200)
    asked = await server.user("alice").mention(server.general, "go")
    with pytest.raises(RateLimited) as told:
        await bot.adapter.post((await bot.next()).thread, Content(text="ok"), key="k")
    assert told.value.retry_after_s == 200
    assert asked.thread is None


async def test_a_missing_permission_is_named(server: DiscordServer, bot: Bot) -> None:
    server.forbid("send_messages_in_threads", "embed_links")
    with pytest.raises(NotAllowed, match="“Embed Links”") as told:
        await bot.adapter.post(bot.address(server.general), run_card(1), key="k")
    assert "Threads" not in told.value.text


async def test_without_leave_for_threads_the_question_is_answered_below(server: DiscordServer, bot: Bot) -> None:
    server.forbid("create_public_threads")
    asked = await server.user("alice").mention(server.general, "go")
    address = (await bot.next()).thread
    for _ in range(2):
        with pytest.raises(NotAllowed, match="“Create Public Threads”"):
            await bot.adapter.post(address, Content(text="ok"), key="k")
    [told] = server.from_bot(server.general)
    assert "“Create Public Threads”" in told.content
    assert told.reference is not None
    assert told.reference["message_id"] == str(asked.id)


async def test_mentions_ring_nobody(server: DiscordServer, bot: Bot) -> None:
    text = f"@everyone @here <@{server.user('alice').id}> <@&{server.world.role_id}> `@everyone`"
    card = Card(kind="notice", title="@everyone", body=text)
    await bot.adapter.post(bot.address(server.general), Content(text=text, card=card), key="k")
    [message] = server.messages(server.general)
    assert message.pinged == []
    z = "\u200b"
    alice, role = server.user("alice").id, server.world.role_id
    shown = f"@{z}everyone @{z}here <@{z}{alice}> <@&{z}{role}> `@everyone`"
    assert message.content == message.embed["description"] == shown


async def test_a_long_text_takes_several_messages_then_a_file(server: DiscordServer, bot: Bot) -> None:
    line = "A sentence of some length about a model.\n\n"
    ref = await bot.adapter.post(bot.address(server.general), Content(text=line * 100), key="k")
    parts = server.messages(server.general)
    assert (len(parts), ref.id) == (3, str(parts[-1].id))
    await bot.adapter.post(bot.address(server.general), Content(text=line * 400), key="k2")
    last = server.messages(server.general)[-1]
    assert server.file(last).decode() == line * 400
    assert "attached" in last.content


async def test_an_edit_leaves_nothing_of_a_longer_post(server: DiscordServer, bot: Bot) -> None:
    address = bot.address(server.general)
    ref = await bot.adapter.post(address, Content(text="long word " * 400), key="k")
    assert len(server.messages(server.general)) == 3
    assert await bot.adapter.edit(address, ref, Content(text="short now")) == ref
    assert [m.content for m in server.messages(server.general)] == ["short now"]


async def test_words_for_a_picture_that_is_gone_leave_the_footer_and_the_limit_alone(
    server: DiscordServer, bot: Bot
) -> None:
    gone = Picture(path="/nowhere/chart.png", alt="x" * 2_000, sha256="a" * 64)
    for body in ("word " * 900, "word " * 200):
        card = Card(kind="result", title="Result", body=body, footer="Try it: predict", picture=gone)
        await bot.adapter.post(bot.address(server.general), Content(card=card), key=body)
        footer = server.messages(server.general)[-1].embed["footer"]["text"]
        assert footer.startswith("Try it: predict\n(no picture) xxx")


async def test_trouble_of_discord_is_transient(server: DiscordServer, bot: Bot) -> None:
    server.fail("POST .*messages", 503)
    with pytest.raises(Unavailable):
        await bot.adapter.post(bot.address(server.general), Content(text="x"), key="k")


async def test_nothing_is_posted_without_words(server: DiscordServer, bot: Bot) -> None:
    with pytest.raises(BadRequest):
        await bot.adapter.post(bot.address(server.general), Content(), key="k")
    many = tuple(Button(action="a", subject=str(n), label=str(n)) for n in range(26))
    with pytest.raises(BadRequest, match="26 buttons"):
        await bot.adapter.post(
            bot.address(server.general), Content(card=Card(kind="run", title="x", buttons=many)), key="k"
        )


async def test_a_bad_token_is_said_clearly(server: DiscordServer) -> None:
    bot = Bot(server, token="wrong")
    with pytest.raises(AppError, match="refuses the bot's token"):
        await bot.adapter.run(bot.accept)


async def test_a_missing_intent_is_said_clearly(server: DiscordServer) -> None:
    server.world.message_content = False
    bot = Bot(server)
    with pytest.raises(AppError, match="mention-only mode"):
        await bot.adapter.run(bot.accept)


async def test_an_adapter_that_is_not_connected_says_so(server: DiscordServer) -> None:
    bot = Bot(server, login_wait_s=0.01)
    with pytest.raises(Unavailable, match="not connected"):
        await bot.adapter.post(bot.address(server.general), Content(text="x"), key="k")
