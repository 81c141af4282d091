"""What people wrote while no session could bring it is read back; what a resumed session brings is not."""

import asyncio
from datetime import UTC, datetime, timedelta

from agent.domain.inbound import Said
from tests.discord.conftest import Bot
from tests.platforms.discord_server import DiscordServer


async def test_what_a_lost_session_did_not_bring_is_read_back(server: DiscordServer, bot: Bot) -> None:
    alice = server.user("alice")
    asked = await alice.mention(server.general, "go", files=[("a.csv", b"a,b\n1,2\n")])
    thread = await alice.open_thread(asked)
    await alice.say(thread, "quickly")
    direct = await alice.direct("hello")
    await bot.next(3)
    await bot.adapter.connection.anew()  # the first
    began = datetime.now(UTC)
    async with server.gateway_down():
        await server.wait_for(lambda: not server.gateway.connected)
        server.forget_sessions()
        await alice.say(thread, "are you there?")
        await alice.mention(server.general, "hello?")
        await alice.say(server.general, "lunch?")
        await alice.direct("and here?")
    lost_at = await asyncio.wait_for(bot.adapter.connection.anew(), 20)
    assert lost_at is not None
    assert lost_at >= began - timedelta(seconds=1)
    assert len(bot.came) == 3
    addresses = [came.thread for came in bot.came]
    missed = [came async for came in bot.adapter.missed(began - timedelta(hours=1), addresses)]
    known = {came.event_id: came for came in bot.came}
    assert {came.event_id: came for came in missed if came.event_id in known} == known
    news = [came for came in missed if came.event_id not in known]
    texts = {came.act.text: came for came in news if isinstance(came.act, Said)}
    assert texts.keys() == {"are you there?", "hello?", "and here?"}
    assert texts["are you there?"].thread == bot.address(server.general, thread)
    assert not texts["are you there?"].mentions_bot
    assert texts["and here?"].thread.channel == str(direct.channel.id)
    another = asyncio.create_task(bot.adapter.connection.anew())
    await server.reconnect()  # resumes
    await server.wait_for(lambda: server.gateway.resumes)
    await alice.direct("still there?")
    await bot.next(4)
    assert not another.done()
    another.cancel()


async def test_an_archived_thread_is_read_back_where_it_is_ours(server: DiscordServer, bot: Bot) -> None:
    alice, before = server.user("alice"), datetime.now(UTC) - timedelta(hours=1)
    asked = await alice.mention(server.general, "go")
    thread = await alice.open_thread(asked)
    await alice.say(thread, "quickly")
    await bot.next(2)
    server.archive(thread)
    await bot.stop()
    other = await Bot(server).start()
    await other.adapter.connection.wait()
    address = bot.address(server.general, thread)
    assert [came.act.text async for came in other.adapter.missed(before, [address]) if came.thread == address] == [
        "go",
        "quickly",
    ]
    server.forbid("read_message_history")
    await other.stop()
    third = await Bot(server).start()
    await third.adapter.connection.wait()
    assert [came async for came in third.adapter.missed(before, [address])] == []
    await third.stop()
