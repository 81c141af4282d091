"""What is read back is what its event would have been."""

from datetime import UTC, datetime, timedelta

from agent.domain.inbound import Inbound
from bot.slack.adapter import SlackAdapter
from tests.platforms.slack_server import SlackServer
from tests.slack.conftest import Inbox


async def test_what_is_read_back_is_what_its_event_was(
    server: SlackServer, adapter: SlackAdapter, inbox: Inbox
) -> None:
    before = datetime.now(UTC) - timedelta(minutes=5)
    alice, guest = server.user("alice"), server.user("guest", external=True)
    server.channel("with partners", shared=True)
    asked = alice.mention("look at this", files=[server.file("a.csv", b"x,y\n1,2\n")])
    alice.say("and at that", thread=asked.ts)
    alice.say("!train status")
    alice.say("lunch?")
    guest.mention("what runs?", channel="with partners")
    alice.mention("what runs?", channel="with partners")
    direct = alice.dm("hello")
    alice.dm("in a thread of its own", thread=direct.ts)
    await server.wait_for(lambda: all(delivery.acked for delivery in server.deliveries))

    def by_twin(came: list[Inbound]) -> dict[str, Inbound]:
        return {inbound.twin: inbound.model_copy(update={"event_id": ""}) for inbound in came}

    read = [inbound async for inbound in adapter.missed(before, [])]
    assert by_twin(read) == by_twin(inbox.stored)
    assert len(read) == 7
    assert [inbound.person.external for inbound in read].count(True) == 1
    assert len({inbound.event_id for inbound in read}) == 7
    assert [inbound async for inbound in adapter.missed(datetime.now(UTC) + timedelta(minutes=5), [])] == []


async def test_a_channel_that_cannot_be_read_does_not_hide_the_others(
    server: SlackServer, adapter: SlackAdapter
) -> None:
    before = datetime.now(UTC) - timedelta(minutes=5)
    server.user("alice").mention("what runs?")
    server.user("alice").dm("hello")
    server.fail("conversations.history", error="channel_not_found")
    assert [inbound.act.text async for inbound in adapter.missed(before, [])] == ["hello"]
