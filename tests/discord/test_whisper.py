"""Private answers: seen by one person, through whatever way is left."""

import asyncio

from agent.domain.content import Content
from agent.domain.inbound import Inbound
from agent.ports import Whisper
from tests.discord.conftest import Bot, whispers
from tests.discord.test_inbound import approval
from tests.platforms.discord_server import DiscordServer
from tests.platforms.discord_world import Interaction


def to(came: Inbound) -> Whisper:
    """A private answer to what came."""
    return Whisper(person=came.person.id, handle=came.reply_handle)


async def command(server: DiscordServer, bot: Bot) -> tuple[Interaction, Inbound]:
    """Alice asks for the status."""
    used = await server.user("alice").slash("train status")
    return used, await bot.next()


async def test_the_deferred_answer_is_filled(server: DiscordServer, bot: Bot) -> None:
    used, came = await command(server, bot)
    ref = await bot.adapter.post(came.thread, Content(text="Nothing runs."), key="k", whisper=to(came))
    assert whispers(used) == ["Nothing runs."]
    assert server.messages(server.general) == []
    assert await bot.adapter.edit(came.thread, ref, Content(text="Something runs.")) == ref
    await bot.adapter.post(came.thread, Content(text="And more."), key="k2", whisper=to(came))
    assert whispers(used) == ["Something runs.", "And more."]
    await bot.adapter.post(came.thread, Content(text="Nothing runs."), key="k", whisper=to(came))
    assert whispers(used) == ["Nothing runs.", "And more."], "the same key fills the same place"


async def test_an_answer_never_overtakes_the_acknowledgement(server: DiscordServer, bot: Bot) -> None:
    held = server.hold("POST /interactions")
    used = await server.user("alice").slash("train status", wait=False)
    came = await bot.next()
    posting = asyncio.create_task(bot.adapter.post(came.thread, Content(text="Quick."), key="k", whisper=to(came)))
    await asyncio.sleep(0.05)
    held.set()
    await posting
    assert whispers(used) == ["Quick."]


async def test_another_process_fills_it_too(server: DiscordServer, bot: Bot) -> None:
    used, came = await command(server, bot)
    await bot.stop()
    other = await Bot(server).start()
    await other.adapter.post(came.thread, Content(text="One."), key="k", whisper=to(came))
    await other.adapter.post(came.thread, Content(text="Two."), key="k2", whisper=to(came))
    assert whispers(used) == ["One.", "Two."]
    await other.stop()


async def test_a_click_is_answered_beside_the_card(server: DiscordServer, bot: Bot) -> None:
    await bot.adapter.post(bot.address(server.general), approval(), key="card")
    card = server.messages(server.general)[0]
    click = await server.user("bob").click(card, "Approve")
    came = await bot.next()
    await bot.adapter.post(came.thread, Content(text="Only Alice may."), key="k", whisper=to(came))
    assert whispers(click) == ["Only Alice may."]
    assert (list(card.buttons), len(server.messages(server.general))) == (["Approve", "Reject"], 1)


async def test_after_fifteen_minutes_a_direct_message(server: DiscordServer, bot: Bot) -> None:
    used, came = await command(server, bot)
    server.limits.interaction_life_s = 0.0
    await bot.adapter.post(came.thread, Content(text="Late."), key="k", whisper=to(came))
    assert whispers(used) == []
    direct = server.world.direct(server.user("alice").person)
    assert [m.content for m in server.messages(direct)] == ["Late."]


async def test_a_late_acknowledgement_takes_the_other_way(server: DiscordServer, bot: Bot) -> None:
    server.limits.interaction_deadline_s = 0.0
    used = await server.user("alice").slash("train status", wait=False)
    came = await bot.next()
    await bot.adapter.post(came.thread, Content(text="Stored all the same."), key="k", whisper=to(came))
    assert used.callback == 0
    direct = server.world.direct(server.user("alice").person)
    assert [m.content for m in server.messages(direct)] == ["Stored all the same."]


async def test_closed_direct_messages_reveal_nothing(server: DiscordServer, bot: Bot) -> None:
    alice = server.user("alice")
    alice.person.takes_dms = False
    await bot.adapter.post(
        bot.address(server.general), Content(text="secret"), key="k", whisper=Whisper(person=alice.id)
    )
    [told] = server.messages(server.general)
    assert f"<@{alice.id}>" in told.content
    assert "secret" not in told.content
    assert told.pinged == []
