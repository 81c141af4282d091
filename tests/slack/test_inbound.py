"""What people do in Slack, as it reaches `accept`."""

import asyncio
import json
import time

import aiohttp

from agent.domain.content import REJECT_BECAUSE, Button, Card, Content
from agent.domain.inbound import Clicked, Commanded, Said
from bot.slack.adapter import SlackAdapter
from bot.slack.inbound import plain_text
from tests.platforms.slack_server import SlackServer
from tests.slack.conftest import Inbox, listening

CARD = Content(
    card=Card(
        kind="approval",
        title="Start?",
        buttons=(
            Button(action="approve", subject="ap-1", label="Approve", style="primary", digest="0123456789abcdef"),
        ),
    )
)


async def test_a_mention_is_stored_before_it_is_acknowledged(server, adapter, inbox):
    question = server.user("alice").mention("train &lt;this&gt; &amp; that", files=[server.file("a.csv", b"x\n1\n")])
    await server.wait_for(lambda: len(inbox.stored) == 2 and all(d.acked for d in server.deliveries_of(question)))

    first, second = inbox.stored
    assert inbox.acked_before == [False, False]
    assert first.event_id != second.event_id
    assert first.twin == second.twin == f"{question.channel}:{question.ts}"
    assert isinstance(first.act, Said)
    assert first.act == second.act
    assert first.act.text == "train <this> & that"
    assert first.act.attachments[0].name == "a.csv"
    assert first.act.attachments[0].size_bytes == 4
    assert (first.thread.thread_id, first.thread.tenant, first.mentions_bot) == (question.ts, server.team_id, True)
    assert first.person.id == server.user("alice").id
    assert not first.person.external


async def test_an_answer_goes_into_the_thread_and_is_not_heard_as_a_question(server, adapter, inbox):
    question = server.user("alice").mention("hello")
    await server.wait_for(lambda: len(inbox.stored) == 2)

    await adapter.post(inbox.stored[0].thread, Content(text="Hi, **Alice**"), key="k1")
    await server.wait_for(lambda: all(d.acked for d in server.deliveries))

    thread = server.thread(question.ts)
    assert [message.shown for message in thread][1:] == ["Hi, **Alice**"]
    assert not thread[1].unfurl
    assert len(inbox.stored) == 2


async def test_a_redelivered_event_keeps_its_id(server, adapter, inbox):
    reply = server.user("alice").dm("status please")
    await server.wait_for(lambda: len(inbox.stored) == 1)

    delivery = server.deliveries_of(reply)[0]
    server.redeliver(delivery)
    server.redeliver(delivery)
    await server.wait_for(lambda: len(inbox.stored) == 3)

    assert len({inbound.event_id for inbound in inbox.stored}) == 1


async def test_what_could_not_be_stored_is_not_acknowledged_and_comes_again():
    async with SlackServer(ack_deadline_s=0.3) as server:
        inbox = Inbox(broken=2, server=server)
        async with listening(server, inbox):
            message = server.user("alice").dm("train")
            await server.wait_for(lambda: inbox.stored and server.deliveries_of(message)[0].acked)

    attempts = server.deliveries_of(message)[0].attempts
    assert [attempt.acked for attempt in attempts[:2]] == [False, False]
    assert attempts[-1].acked


async def test_replies_that_do_not_name_the_bot_are_marked(server, adapter, inbox):
    alice = server.user("alice")
    root = alice.say("just talking")
    alice.say("a reply", thread=root.ts)
    await server.wait_for(lambda: inbox.stored)

    assert [(inbound.act.text, inbound.mentions_bot, inbound.thread.thread_id) for inbound in inbox.stored] == [
        ("a reply", False, root.ts),
    ]


async def test_bang_train_is_a_command_where_it_stands(server, adapter, inbox):
    alice = server.user("alice")
    root = alice.say("the run of yesterday")
    alice.say("!train status r-abc123", thread=root.ts)
    await server.wait_for(lambda: inbox.stored)

    assert inbox.stored[0].act == Commanded(words=("status", "r-abc123"))
    assert inbox.stored[0].thread.thread_id == root.ts
    assert inbox.stored[0].mentions_bot


async def test_a_slash_command_is_answered_in_private_by_its_handle(server, adapter, inbox):
    delivery = server.user("alice").slash("status r-1", channel="general")
    await server.wait_for(lambda: delivery.acked)

    inbound = inbox.stored[0]
    assert inbound.act == Commanded(words=("status", "r-1"))
    assert (inbound.thread.thread_id, inbound.event_id) == ("", delivery.payload["trigger_id"])
    assert inbound.reply_handle.startswith(server.origin)


async def test_a_click_carries_action_subject_and_digest(server, adapter, inbox, address):
    ref = await adapter.post(address, CARD, key="card-1")
    card = server.message(ref.channel, ref.id)
    assert card is not None

    delivery = server.user("bob").click(card, "Approve")
    await server.wait_for(lambda: delivery.acked)

    inbound = inbox.stored[-1]
    assert inbound.act == Clicked(action="approve", subject="ap-1", digest="0123456789abcdef")
    assert inbound.thread == address
    assert inbound.event_id == f"{card.ts}:{delivery.payload['actions'][0]['action_ts']}:{server.user('bob').id}"
    assert inbound.reply_handle


async def test_a_reason_is_asked_for_in_a_dialog(server, adapter, inbox, address):
    button = Button(action=REJECT_BECAUSE, subject="ap-1", label="Reject, because…", digest="0123456789abcdef")
    card = Card(kind="approval", title="Start?", buttons=(button,))
    ref = await adapter.post(address, Content(card=card), key="card-2")
    message = server.message(ref.channel, ref.id)
    bob = server.user("bob")
    click = bob.click(message, "Reject, because…")
    await server.wait_for(lambda: click.acked)
    assert inbox.stored == []
    (_, view), *_ = server.views
    assert (view["title"]["text"], view["blocks"][0]["label"]["text"]) == ("Reject with a reason", "Why not?")

    sent = bob.submit("The GPUs are taken.\nTry on Monday.")
    await server.wait_for(lambda: sent.acked)
    (inbound,) = inbox.stored
    assert inbound.act == Clicked(
        action=REJECT_BECAUSE,
        subject="ap-1",
        digest="0123456789abcdef",
        text="The GPUs are taken.\nTry on Monday.",
    )
    assert (inbound.thread, inbound.person.id) == (address, bob.id)
    assert inbound.reply_handle


async def test_where_no_dialog_can_be_opened_the_click_goes_on_without_text(server, adapter, inbox, address):
    button = Button(action=REJECT_BECAUSE, subject="ap-1", label="Reject, because…", digest="0123456789abcdef")
    ref = await adapter.post(address, Content(card=Card(kind="approval", title="Start?", buttons=(button,))), key="c")
    server.disabled.add("views.open")
    click = server.user("bob").click(server.message(ref.channel, ref.id), "Reject, because…")
    await server.wait_for(lambda: click.acked)
    assert [inbound.act.text for inbound in inbox.stored] == [""]


async def test_guests_of_other_organisations_are_flagged(server, adapter, inbox):
    server.channel("shared", shared=True)
    server.user("mallory", external=True).mention("stop everything", channel="shared")
    server.user("alice").mention("status", channel="shared")
    await server.wait_for(lambda: len(inbox.stored) == 4)

    assert {(inbound.person.id, inbound.person.external) for inbound in inbox.stored} == {
        (server.user("mallory").id, True),
        (server.user("alice").id, False),
    }
    assert {inbound.person.tenant for inbound in inbox.stored} == {server.team_id}


async def test_events_that_nobody_asked_for_are_acknowledged(server, adapter, inbox):
    server._announce({"type": "app_home_opened", "user": "U1"}, server.user("alice").say("x"))
    server._announce({"type": "brand_new_event"}, server.messages()[0])
    await server.wait_for(lambda: all(delivery.acked for delivery in server.deliveries))

    assert inbox.stored == []


async def test_other_bots_and_edits_are_not_heard(server, adapter, inbox):
    message = server.user("alice").say("first")
    place = {"channel": message.channel, "ts": "1.000001"}
    by_bot = {"type": "app_mention", "user": "U0OTHER", "bot_id": "B0OTHER", **place}
    edited = {"type": "message", "subtype": "message_changed", **place}
    server._announce(by_bot | {"text": f"<@{server.bot_user_id}> hi"}, message)
    server._announce(edited | {"user": server.user("alice").id, "thread_ts": message.ts, "text": "x"}, message)
    await server.wait_for(lambda: all(delivery.acked for delivery in server.deliveries))

    assert inbox.stored == []


async def test_a_mention_that_stands_only_in_the_rich_text_counts_but_not_in_a_quote(server, adapter, inbox):
    message = server.user("alice").say("root")

    def rich(kind: str, ts: str) -> dict[str, object]:
        mention = {"type": kind, "elements": [{"type": "user", "user_id": server.bot_user_id}]}
        return {
            "type": "message",
            "user": "U1",
            "text": "hm",
            "channel": message.channel,
            "ts": ts,
            "thread_ts": message.ts,
            "blocks": [{"type": "rich_text", "elements": [mention]}],
        }

    server._announce(rich("rich_text_section", "1.000001"), message)
    server._announce(rich("rich_text_quote", "1.000002"), message)
    await server.wait_for(lambda: len(inbox.stored) == 2)

    assert {inbound.twin[-1]: inbound.mentions_bot for inbound in inbox.stored} == {"1": True, "2": False}


async def test_a_broken_connection_is_opened_again(server, adapter, inbox):
    await server.refresh_sockets()
    server.user("alice").dm("still there?")
    await server.wait_for(lambda: inbox.stored)

    assert inbox.stored[0].act.text == "still there?"


async def test_a_connection_that_breaks_without_a_word_is_opened_again(server, adapter, inbox):
    await server.drop_sockets()
    await server.wait_for(lambda: not server.connected)
    server.user("alice").dm("still there?")
    await server.wait_for(lambda: inbox.stored)

    assert inbox.stored[0].act.text == "still there?"


async def test_http_mode_checks_signatures_and_refuses_what_it_cannot_store(server):
    inbox = Inbox(server=server)
    adapter = SlackAdapter(
        bot_token=server.bot_token,
        signing_secret=server.signing_secret,
        http_port=0,
        api_url=server.url,
    )
    running = asyncio.create_task(adapter.run(inbox))
    await adapter.ready()
    url = "http://{}:{}/slack/events".format(*adapter.address)
    server.deliver_to(url)
    try:
        inbox.broken = 1
        message = server.user("alice").dm("by http")
        command = server.user("alice").slash("runs")
        await server.wait_for(lambda: len(inbox.stored) == 2 and server.deliveries_of(message)[0].acked)
        event = server.deliveries_of(message)[0]
        statuses = sorted(attempt.status for attempt in (*event.attempts, *command.attempts))
        assert statuses in ([200, 200, 503], [200, 503])

        body = json.dumps({"type": "event_callback", "event": {}})
        forged = server.signed(body, secret="wrong")
        stale = server.signed(body, timestamp=int(time.time()) - 3600)
        challenge = json.dumps({"type": "url_verification", "challenge": "abc", "token": "t"})
        assert await _post(url, body, forged) == (401, '{"error": "invalid request"}')
        assert (await _post(url, body, stale))[0] == 401
        assert (await _post(url, challenge, server.signed(challenge)))[1].strip('"') == '{"challenge": "abc"}'
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _post(url: str, body: str, headers: dict[str, str]) -> tuple[int, str]:
    headers = headers | {"Content-Type": "application/json"}
    async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
        return answer.status, await answer.text()


def test_markup_becomes_what_the_person_saw():
    def shown(text: str) -> str:
        return plain_text(text, me="U0BOT")

    assert shown("<@U0BOT> hello <@U2|bob> in <#C1|ml>") == "hello @bob in #ml"
    assert shown("see <https://a.b/c|the docs>, <https://a.b> &lt;3") == "see the docs (https://a.b/c), https://a.b <3"
    assert shown("<!here> <!date^1^{date}|today> <mailto:x@y.z|x@y.z>") == "@here today x@y.z"
    assert shown("example.com is <http://example.com|example.com>") == "example.com is http://example.com"
