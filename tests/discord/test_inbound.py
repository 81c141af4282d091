"""What people do in Discord arrives as it was meant, once, and is stored before it is acknowledged."""

import asyncio

import pytest

from agent.domain.content import REJECT_BECAUSE, Button, Card, Content
from agent.domain.errors import AppError, Unavailable
from agent.domain.inbound import Clicked, Commanded, Said
from agent.ports import Whisper
from tests.discord.conftest import Bot
from tests.platforms.discord_server import DiscordServer


async def test_a_mention_is_said_in_the_thread_that_will_answer_it(server: DiscordServer, bot: Bot) -> None:
    asked = await server.user("alice").mention(server.general, "fine-tune this")
    came = await bot.next()
    assert came.act == Said(text="fine-tune this")
    assert came.thread == bot.address(server.general, asked)
    assert (came.event_id, came.mentions_bot) == (str(asked.id), True)
    assert (came.person.id, came.person.tenant, came.person.name) == (
        server.user("alice").id,
        str(server.guild_id),
        "Alice",
    )
    assert asked.thread is None, "the thread is opened by the answer, so that the way in stays short"


async def test_mention_thread_answer(server: DiscordServer, bot: Bot) -> None:
    asked = await server.user("alice").mention(server.general, "fine-tune this on the csv")
    ref = await bot.adapter.post((await bot.next()).thread, Content(text="I will look at it."), key="k1")
    thread = await server.thread_of(asked)
    assert thread.id == asked.id
    assert thread.name == "fine-tune this on the csv"
    assert [m.content for m in server.messages(thread)] == ["I will look at it."]
    assert ref.thread_id == ref.channel == str(thread.id)
    await server.user("bob").say(thread, "and the other file")
    heard = await bot.next(2)
    assert (heard.act, heard.mentions_bot) == (Said(text="and the other file"), False)
    assert heard.thread == bot.address(server.general, thread)


async def test_a_long_question_names_its_thread_by_whole_words(server: DiscordServer, bot: Bot) -> None:
    for text, name in (("predict " * 20, "predict " * 9 + "…"), ("x" * 200, "x" * 78 + "…")):
        asked = await server.user("alice").mention(server.general, text)
        await bot.adapter.post(bot.address(server.general, asked), Content(text="ok"), key=text)
        assert (await server.thread_of(asked)).name == name


async def test_a_thread_is_not_named_by_a_secret(server: DiscordServer, bot: Bot) -> None:
    token = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"
    asked = await server.user("alice").mention(server.general, f"my token is {token}")
    await bot.adapter.post((await bot.next()).thread, Content(text="ok"), key="k")
    assert (await server.thread_of(asked)).name == "my token is [secret: huggingface]"


async def test_a_reply_to_a_colleague_says_so(server: DiscordServer, bot: Bot) -> None:
    alice, bob = server.user("alice"), server.user("bob")
    asked = await alice.mention(server.general, "train this")
    address = (await bot.next()).thread
    shown = await bot.adapter.post(address, Content(text="Shall I?"), key="k1")
    thread = await server.thread_of(asked)
    (ours,) = server.messages(thread)
    theirs = await bob.say(thread, "lunch?")
    await alice.say(thread, "yes", answers=theirs)
    await alice.say(thread, "yes", answers=ours)
    answers = [await bot.next(3), await bot.next(4)]
    assert [one.to_others for one in answers] == [True, False]
    posted = bot.adapter.shown_at(shown)
    assert posted is not None
    assert posted <= answers[1].at


async def test_what_is_not_for_the_bot_is_left_alone(server: DiscordServer, bot: Bot) -> None:
    alice = server.user("alice")
    await alice.say(server.general, "lunch?")
    robot = server.user("robot")
    robot.person.bot = True
    await robot.mention(server.general, "beep")
    await bot.adapter.post(bot.address(server.general), Content(text="I talk to myself"), key="own")
    await alice.mention(server.general, "last")
    assert (await bot.next()).act == Said(text="last")
    assert len(bot.came) == 1


async def test_direct_messages_have_no_thread(server: DiscordServer, bot: Bot) -> None:
    said = await server.user("alice").direct("hello")
    came = await bot.next()
    assert (came.thread.tenant, came.thread.channel, came.thread.thread_id) == ("dm", str(said.channel.id), "")
    assert came.mentions_bot
    await bot.adapter.post(came.thread, Content(text="hello Alice"), key="k")
    assert [m.content for m in server.messages(said.channel)] == ["hello", "hello Alice"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("!train status r-abc123", ("status", "r-abc123")),
        ("!train", ()),
        ("!TRAIN runs", ("runs",)),
    ],
)
async def test_bang_commands(server: DiscordServer, bot: Bot, text: str, words: tuple[str, ...]) -> None:
    await server.user("alice").say(server.general, text)
    assert (await bot.next()).act == Commanded(words=words)


async def test_a_bare_command_word_after_the_name_is_a_command(server: DiscordServer, bot: Bot) -> None:
    await server.user("alice").mention(server.general, "stop r-abc123")
    await server.user("alice").mention(server.general, "stop talking")
    assert {(await bot.next(1)).act, (await bot.next(2)).act} == {
        Commanded(words=("stop", "r-abc123")),
        Said(text="stop talking"),
    }


async def test_slash_is_accepted_then_deferred_for_one_person(server: DiscordServer, bot: Bot) -> None:
    bot.gate.clear()
    used = await server.user("alice").slash("train logs", run="r-abc123", wait=False)
    await server.wait_for(lambda: bot.entered)
    assert not used.callback, "nothing is acknowledged before it is stored"
    bot.gate.set()
    await server.wait_for(lambda: used.callback)
    assert (used.callback, used.ephemeral, used.replies) == (5, True, [])
    came = await bot.next()
    assert came.act == Commanded(words=("logs", "r-abc123"))
    assert (came.event_id, came.thread) == (str(used.id), bot.address(server.general))
    assert used.token in came.reply_handle


async def test_slash_in_a_thread_belongs_to_the_thread(server: DiscordServer, bot: Bot) -> None:
    asked = await server.user("alice").mention(server.general, "go")
    await bot.adapter.post((await bot.next()).thread, Content(text="ok"), key="k")
    thread = await server.thread_of(asked)
    await server.user("alice").slash("train status", channel=thread)
    assert (await bot.next(2)).thread == bot.address(server.general, thread)


def approval(subject: str = "a-1") -> Content:
    """A card with two buttons."""
    buttons = (
        Button(action="approve", subject=subject, label="Approve", style="primary", digest="0123456789abcdef"),
        Button(action="reject", subject=subject, label="Reject", style="danger", digest="0123456789abcdef"),
    )
    return Content(card=Card(kind="approval", title="Train?", buttons=buttons))


async def test_a_click_is_accepted_then_acknowledged_silently(server: DiscordServer, bot: Bot) -> None:
    ref = await bot.adapter.post(bot.address(server.general), approval(), key="k")
    card = server.messages(server.general)[0]
    bot.gate.clear()
    click = await server.user("alice").click(card, "Approve", wait=False)
    await server.wait_for(lambda: bot.entered)
    assert not click.callback
    bot.gate.set()
    await server.wait_for(lambda: click.callback == 6)
    came = await bot.next()
    assert came.act == Clicked(action="approve", subject="a-1", digest="0123456789abcdef")
    assert (came.thread.channel, ref.id) == (str(server.general.id), str(card.id))


async def test_a_click_works_after_a_restart(server: DiscordServer, bot: Bot) -> None:
    await bot.adapter.post(bot.address(server.general), approval(), key="k")
    await bot.stop()
    other = await Bot(server).start()
    click = await server.user("bob").click(server.messages(server.general)[0], "Reject")
    assert (await other.next()).act == Clicked(action="reject", subject="a-1", digest="0123456789abcdef")
    assert click.callback == 6
    await other.stop()


async def test_a_reason_is_asked_for_in_a_dialog(server: DiscordServer, bot: Bot) -> None:
    button = Button(action=REJECT_BECAUSE, subject="a-1", label="Reject, because…", digest="0123456789abcdef")
    card = Card(kind="approval", title="Train?", buttons=(button,))
    await bot.adapter.post(bot.address(server.general), Content(card=card), key="k")
    bob = server.user("bob")
    click = await bob.click(server.messages(server.general)[0], "Reject, because…")
    assert (click.callback, click.dialog["title"], bot.came) == (9, "Reject with a reason", [])
    sent = await bob.submit(click, "The GPUs are taken.")
    came = await bot.next()
    assert came.act == Clicked(
        action=REJECT_BECAUSE, subject="a-1", digest="0123456789abcdef", text="The GPUs are taken."
    )
    assert (came.person.id, sent.callback) == (bob.id, 6)


async def test_slash_in_private(server: DiscordServer, bot: Bot) -> None:
    alice = server.user("alice")
    direct = server.world.direct(alice.person)
    used = await alice.slash("train help", channel=direct)
    came = await bot.next()
    assert (came.thread.tenant, came.thread.channel, came.person.tenant) == ("dm", str(direct.id), "dm")
    await bot.adapter.post(
        came.thread,
        Content(text="Ask me."),
        key="k",
        whisper=Whisper(person=alice.id, handle=came.reply_handle),
    )
    assert [message.text for message in used.replies] == ["Ask me."]


async def test_an_unreachable_discord_is_tried_again(server: DiscordServer) -> None:
    server.fail("GET /users/@me$", 503)
    bot = await Bot(server).start()
    await server.user("alice").mention(server.general, "hello")
    assert (await bot.next()).act == Said(text="hello")
    await bot.stop()


async def test_an_unknown_button_is_answered(server: DiscordServer, bot: Bot) -> None:
    await bot.adapter.post(bot.address(server.general), approval(), key="k")
    card = server.messages(server.general)[0]
    card.buttons["Approve"]["custom_id"] = "old-form"
    click = await server.user("alice").click(card, "Approve")
    assert (click.callback, click.ephemeral) == (4, True)
    assert click.original is not None
    assert "older version" in click.original.content
    assert bot.came == []


async def test_an_event_missed_in_a_dropped_connection_is_replayed(server: DiscordServer, bot: Bot) -> None:
    async with server.gateway_down():
        missed = await server.user("alice").mention(server.general, "are you there?")
    assert (await bot.next()).event_id == str(missed.id)
    assert (server.gateway.resumes, server.gateway.identifies) == (1, 1)


async def test_a_replayed_event_has_the_same_id(server: DiscordServer, bot: Bot) -> None:
    first = await server.user("alice").mention(server.general, "once")
    await bot.next()
    for session in server.gateway.sessions.values():  # as if the acknowledged sequence had been lost on the way
        session.events.append((session.seq + 1, *next(e for e in session.events if e[1] == "MESSAGE_CREATE")[1:]))
        session.seq += 1
    async with server.gateway_down():
        pass
    again = await bot.next(2)
    assert again.event_id == bot.came[0].event_id == str(first.id)


async def test_a_lost_session_is_identified_anew(server: DiscordServer, bot: Bot) -> None:
    async with server.gateway_down():
        server.forget_sessions()
    await server.connected()
    await server.user("alice").mention(server.general, "hello again")
    assert (await bot.next()).act == Said(text="hello again")
    assert server.gateway.identifies == 2


async def test_a_reconnect_that_discord_asks_for(server: DiscordServer, bot: Bot) -> None:
    await server.reconnect()
    await server.wait_for(lambda: server.gateway.resumes)
    await server.user("alice").mention(server.general, "still there?")
    assert (await bot.next()).act == Said(text="still there?")


async def test_what_a_full_disk_kept_out_is_stored_afterwards_in_its_order(
    server: DiscordServer, bot: Bot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.conversation.backlog.PAUSES_S", (0.01, 0.01))
    bot.fail_with = [Unavailable("database or disk is full")] * 20
    alice = server.user("alice")
    for text in ("keep me", "and me"):
        await alice.direct(text)
    assert [(await bot.next(n)).act for n in (1, 2)] == [Said(text="keep me"), Said(text="and me")]


async def test_a_click_that_cannot_be_stored_says_so(server: DiscordServer, bot: Bot) -> None:
    await bot.adapter.post(bot.address(server.general), approval(), key="k")
    bot.fail_with = [Unavailable("My memory is busy; please press again.")]
    click = await server.user("alice").click(server.messages(server.general)[0], "Approve")
    assert (click.callback, click.ephemeral) == (4, True)
    assert click.original is not None
    assert click.original.content == "My memory is busy; please press again."


async def test_an_old_thread_is_known_after_a_restart(server: DiscordServer, bot: Bot) -> None:
    asked = await server.user("alice").mention(server.general, "go")
    await bot.adapter.post((await bot.next()).thread, Content(text="ok"), key="k")
    thread = await server.thread_of(asked)
    await bot.stop()
    server.archive(thread)
    other = await Bot(server).start()
    server.world.tell = lambda event, data: None if event == "THREAD_UPDATE" else server.gateway.tell(event, data)
    await server.user("alice").say(thread, "awake?")
    came = await other.next()
    assert came.thread == other.address(server.general, thread)
    await other.stop()


async def test_words_in_anybodys_thread_come_in_after_a_restart(server: DiscordServer, bot: Bot) -> None:
    alice = server.user("alice")
    thread = await alice.open_thread(await alice.say(server.general, "plans"))
    await alice.mention(thread, "train on this")
    await bot.adapter.post((await bot.next()).thread, Content(text="What should I predict?"), key="k")
    await bot.stop()
    other = await Bot(server).start()
    await alice.say(thread, "visited_doctor")
    came = await other.next()
    assert (came.act, came.mentions_bot) == (Said(text="visited_doctor"), False), "whose thread it is, sessions know"
    assert came.thread == other.address(server.general, thread)
    await other.stop()


async def test_mention_only_mode_hears_its_name_alone(server: DiscordServer) -> None:
    server.world.message_content = False
    bot = await Bot(server, message_content=False).start()
    asked = await server.user("alice").mention(server.general, "go")
    await bot.adapter.post((await bot.next()).thread, Content(text="ok"), key="k")
    thread = await server.thread_of(asked)
    await server.user("alice").say(thread, "unheard")
    await server.user("alice").mention(thread, "heard")
    assert (await bot.next(2)).act == Said(text="heard")
    await bot.stop()


async def test_commands_are_synced_only_when_they_changed(server: DiscordServer, bot: Bot) -> None:
    await server.wait_for(lambda: server.world.commands.get(0))
    puts = [line for line in server.requests if line.startswith("PUT")]
    await bot.stop()
    server.requests.clear()
    other = await Bot(server).start()
    await asyncio.sleep(0)
    await other.stop()
    assert len(puts) == 1
    assert not [line for line in server.requests if line.startswith("PUT")]


async def test_commands_of_named_servers_work_there(server: DiscordServer) -> None:
    bot = await Bot(server, guild_ids=(server.guild_id,)).start()
    used = await server.user("alice").slash("train metrics", run="r-abc123")
    assert (await bot.next()).act == Commanded(words=("metrics", "r-abc123"))
    assert (used.callback, list(server.world.commands)) == (5, [server.guild_id])
    await bot.stop()


async def test_discord_says_which_roles_a_person_has_on_the_server(server: DiscordServer, bot: Bot) -> None:
    await server.user("alice").mention(server.general, "status")
    person = (await bot.next()).person
    server.world.people["alice"].roles = [77, 78]
    assert await bot.adapter.groups_of(person, frozenset({"77", "99"})) == {"77"}
    private = person.model_copy(update={"tenant": "dm"})
    assert await bot.adapter.groups_of(private, frozenset({"77"})) == frozenset()
    with pytest.raises(AppError):
        await bot.adapter.groups_of(person.model_copy(update={"id": "1"}), frozenset({"77"}))
