"""What the adapter writes, and what Slack makes of it."""

import asyncio
import hashlib

import pytest

from agent.domain.content import Card, Content, Picture, Table
from agent.domain.errors import AppError, NotAllowed, RateLimited, TransientError, Unavailable
from agent.domain.inbound import Thread
from agent.ports import Whisper
from bot.slack.adapter import Tuning
from bot.slack.limiter import Limiter, Rate
from tests.platforms.slack_server import SlackServer
from tests.slack.conftest import Inbox, listening

PNG = b"\x89PNG\r\n\x1a\n"


def picture(tmp_path, name: str) -> Picture:
    path = tmp_path / f"{name}.png"
    path.write_bytes(PNG + name.encode())
    return Picture(path=str(path), alt=f"loss, {name}", sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def charted(chart: Picture, **more: object) -> Content:
    return Content(card=Card(kind="run", title="Run r-1", picture=chart, **more))


async def test_a_post_is_found_by_its_key_when_the_answer_was_lost(server, adapter, address):
    server.fail("chat.postMessage", lose_answer=True)

    with pytest.raises(Unavailable):
        await adapter.post(address, Content(text="training starts"), key="turn-1")
    found = await adapter.find(address, key="turn-1")

    assert found is not None
    assert server.message(found.channel, found.id).shown == "training starts"
    assert await adapter.find(address, key="turn-2") is None


async def test_a_long_answer_comes_in_whole_messages_and_is_found_as_one(server, adapter, address):
    text = "# Report\n\n" + "\n\n".join(f"paragraph {n} " + "word " * 100 for n in range(50))

    ref = await adapter.post(address, Content(text=text), key="long")
    thread = server.thread(address.thread_id)[1:]

    assert len(thread) == 3
    assert ref.id == thread[0].ts
    assert " ".join(" ".join(message.shown for message in thread).split()) == " ".join(text.split())
    assert (await adapter.find(address, key="long")) == ref


async def test_half_a_long_answer_is_completed_and_not_repeated(server, adapter, address):
    text = "\n\n".join("word " * 400 for _ in range(12))
    await adapter.post(address, Content(text="x"), key="other")
    await adapter.post(address, Content(text=text), key="long")
    for message in server.thread(address.thread_id)[3:]:
        message.deleted = True

    assert await adapter.find(address, key="long") is None
    await adapter.post(address, Content(text=text), key="long")

    assert await adapter.find(address, key="long") is not None
    assert len(server.thread(address.thread_id)) == 5
    assert len(server.called("chat.postMessage")) == 6


async def test_editing_a_long_answer_reaches_all_of_its_messages(server, adapter, address):
    ref = await adapter.post(address, Content(text="word " * 3_000), key="long")
    await adapter.edit(address, ref, Content(text="mots " * 3_000))

    assert "word" not in " ".join(message.shown for message in server.thread(address.thread_id)[1:])


@pytest.mark.parametrize(("words", "parts"), [(1, 1), (3_000, 2)])
async def test_an_edit_leaves_nothing_of_a_longer_answer(server, adapter, address, words, parts):
    ref = await adapter.post(address, Content(text="word " * 5_000), key="long")
    assert len(server.thread(address.thread_id)) == 4

    await adapter.edit(address, ref, Content(text="mot " * words))

    shown = [message.shown for message in server.thread(address.thread_id)[1:] if not message.deleted]
    assert len(shown) == parts
    assert "word" not in " ".join(shown)


async def test_a_very_long_answer_comes_as_a_file_with_its_beginning(server, adapter, address):
    text = "\n\n".join(f"{n} " + "word " * 300 for n in range(60))

    await adapter.post(address, Content(text=text), key="huge")

    thread = server.thread(address.thread_id)[1:]
    assert [len(message.files) for message in thread] == [1, 0]
    assert server.files[thread[0].files[0]].data.decode() == text
    assert "more characters" in thread[1].shown


async def test_a_card_with_everything_too_large_is_still_legal(server, adapter, address):
    card = Card(
        kind="data",
        title="t" * 500,
        body="words " * 5_000,
        log=tuple(f"line {n} " * 20 for n in range(500)),
        table=Table(columns=tuple(f"c{n}" for n in range(40)), rows=(tuple("x" * 50 for _ in range(40)),) * 300),
        footer="f" * 5_000,
        progress=7.0,
    )

    ref = await adapter.post(address, Content(text="note " * 2_500, card=card), key="large")
    await adapter.edit(address, ref, Content(text="note " * 20_000, card=card))

    assert "more rows are not shown" in server.transcript()
    assert "line 499" in server.transcript()


async def test_whispers_use_the_handle_and_survive_its_end(server, adapter, inbox, address):
    alice = server.user("alice")
    delivery = alice.slash("status")
    await server.wait_for(lambda: delivery.acked)
    to = Whisper(person=alice.id, handle=inbox.stored[-1].reply_handle)

    for number in range(6):  # a handle serves five times
        await adapter.post(address, Content(text=f"secret {number}"), key=f"w{number}", whisper=to)

    assert [message.shown for message in server.whispers] == [f"secret {n}" for n in range(6)]
    assert {message.only_for for message in server.whispers} == {alice.id}
    assert len(server.called("chat.postEphemeral")) == 1


async def test_a_chart_is_uploaded_once_and_swapped_in_place(server, adapter, address, tmp_path):
    first, second = picture(tmp_path, "step-1"), picture(tmp_path, "step-2")

    ref = await adapter.post(address, charted(first), key="card")
    before = server.message(ref.channel, ref.id).pictures
    await adapter.edit(address, ref, charted(first, progress=0.5))
    same = server.message(ref.channel, ref.id).pictures
    await adapter.edit(address, ref, charted(second))
    after = server.message(ref.channel, ref.id).pictures

    assert before == same != after
    assert server.files[after[0]].data == PNG + b"step-2"
    assert len(server.called("files.getUploadURLExternal")) == 2
    assert server.files[after[0]].shared_in == []
    assert len(server.thread(address.thread_id)) == 2


async def test_a_chart_is_shown_when_slack_has_processed_it(tmp_path):
    async with SlackServer(file_processing_s=0.5) as server, listening(server, Inbox()) as adapter:
        ref = await adapter.post(address_in(server), charted(picture(tmp_path, "slow")), key="card")

        assert server.message(ref.channel, ref.id).pictures


async def test_a_chart_that_slack_never_shows_becomes_a_file(tmp_path):
    hasty = Tuning(picture_waits_s=(0.01, 0.01))
    async with SlackServer(file_processing_s=1e6) as server, listening(server, Inbox(), tuning=hasty) as adapter:
        address = address_in(server)
        ref = await adapter.post(address, charted(picture(tmp_path, "never")), key="card")

        assert "loss, never" in server.message(ref.channel, ref.id).shown
        assert [file.shared_in for file in server.files.values() if file.shared_in] == [
            [(address.channel, address.thread_id)]
        ]


async def test_without_the_right_to_upload_a_card_with_a_chart_is_refused_by_the_name_of_the_scope(
    server, adapter, address, tmp_path
):
    server.scopes.discard("files:write")
    chart = picture(tmp_path, "x")

    with pytest.raises(NotAllowed, match="files:write"):
        await adapter.post(address, charted(chart), key="card")
    assert server.thread(address.thread_id)[1:] == []

    server.scopes.add("files:write")
    ref = await adapter.post(address, charted(chart), key="card")
    assert server.message(ref.channel, ref.id).pictures


async def test_a_card_whose_picture_is_gone_from_the_disk_is_shown_in_words(server, adapter, address, tmp_path):
    gone = picture(tmp_path, "x").model_copy(update={"path": str(tmp_path / "gone.png")})

    ref = await adapter.post(address, charted(gone), key="card")

    assert "loss, x" in server.message(ref.channel, ref.id).shown


async def test_a_card_waits_for_its_picture_a_few_tries_only(server, adapter, address, tmp_path):
    server.fail("files.getUploadURLExternal", error="internal_error", times=100)
    card = charted(picture(tmp_path, "x"))

    for _ in range(2):
        with pytest.raises(TransientError):
            await adapter.post(address, card, key="card")
    ref = await adapter.post(address, card, key="card")

    assert "loss, x" in server.message(ref.channel, ref.id).shown


async def test_a_short_wait_is_sat_out_and_a_long_one_is_told(server, adapter, address):
    server.fail("chat.postMessage", retry_after=1)
    await adapter.post(address, Content(text="patient"), key="a")
    assert server.thread(address.thread_id)[1].shown == "patient"

    server.fail("chat.postMessage", retry_after=30)
    with pytest.raises(RateLimited) as caught:
        await adapter.post(address, Content(text="later"), key="b")
    assert caught.value.retry_after_s >= 30
    asked = len(server.called("chat.postMessage"))
    with pytest.raises(RateLimited):  # nobody else has to ask Slack again, nor to wait here
        await adapter.post(address, Content(text="later too"), key="c")
    assert len(server.called("chat.postMessage")) == asked


async def test_our_own_limits_keep_us_from_ever_being_refused():
    async with SlackServer() as server, listening(server, Inbox()) as adapter:
        address = address_in(server)
        ref = await adapter.post(address, Content(text="0"), key="card")
        await asyncio.gather(*(adapter.edit(address, ref, Content(text=str(n))) for n in range(20)))

        assert len(server.called("chat.update")) == 20


async def test_refusals_say_what_to_do(server, adapter, address):
    hidden = server.channel("hidden", has_bot=False)
    with pytest.raises(NotAllowed, match="/invite @trainyard"):
        await adapter.post(
            address.model_copy(update={"channel": hidden.id, "thread_id": ""}), Content(text="x"), key="a"
        )

    server.scopes.discard("chat:write")
    with pytest.raises(NotAllowed, match="chat:write"):
        await adapter.post(address, Content(text="x"), key="b")

    server.fail("chat.postMessage", status=503, error="service_unavailable")
    with pytest.raises(Unavailable):
        await adapter.post(address, Content(text="x"), key="c")


async def test_a_message_that_may_not_be_edited_is_posted_anew(server, adapter, address):
    ref = await adapter.post(address, Content(text="old"), key="card")
    server.fail("chat.update", error="edit_window_closed")

    new = await adapter.edit(address, ref, Content(text="new"))

    assert new.id != ref.id
    assert server.message(new.channel, new.id).shown == "new"


async def test_wrong_tokens_are_told_in_words(server):
    server.app_token = "xapp-another"
    with pytest.raises(AppError, match="app token"):
        async with listening(SlackLike(server), Inbox()):
            pass
    server.bot_token = "xoxb-another"
    with pytest.raises(AppError, match="install the app again"):
        async with listening(SlackLike(server), Inbox()):
            pass


async def test_the_limiter_lets_a_burst_through_and_then_keeps_the_rate():
    now = asyncio.get_running_loop().time
    limiter = Limiter(now, rates={"m": Rate(6_000, 3)})
    start = now()
    for _ in range(13):
        await limiter.wait("m")
    assert now() - start >= 0.09

    limiter.hold("m", "", 0.2)
    assert limiter.delay_s("m") > 0.1


class SlackLike:
    """A server as somebody with old tokens sees it."""

    def __init__(self, server: SlackServer) -> None:
        self.bot_token, self.app_token, self.url = "xoxb-local-bot", "xapp-local-app", server.url


def address_in(server: SlackServer) -> Thread:
    question = server.user("alice").say("hello")
    return Thread(platform="slack", tenant=server.team_id, channel=question.channel, thread_id=question.ts)


async def test_a_restart_uploads_nothing_again_and_still_deletes_what_is_replaced(server, address, tmp_path):
    first, second = (picture(tmp_path, name) for name in "ab")
    async with listening(server, Inbox(), memory=tmp_path / "home") as adapter:
        card = await adapter.post(address, charted(first), key="card")
    async with listening(server, Inbox(), memory=tmp_path / "home") as adapter:
        card = await adapter.edit(address, card, charted(first))
        assert [file.name for file in server.files.values()] == [f"{first.sha256[:12]}.png"]
        assert len(server.called("files.completeUploadExternal")) == 1
        await adapter.edit(address, card, charted(second))
    assert [file.name for file in server.files.values()] == [f"{second.sha256[:12]}.png"]


async def test_an_edit_with_another_picture_deletes_the_one_before(server, adapter, address, tmp_path):
    first, second, third = (picture(tmp_path, name) for name in "abc")
    card = await adapter.post(address, charted(first), key="card")
    await adapter.post(address, charted(second), key="another")
    for chart in (second, third, third):
        card = await adapter.edit(address, card, charted(chart))

    names = sorted(file.name for file in server.files.values())
    assert names == sorted(f"{chart.sha256[:12]}.png" for chart in (second, third))  # the other message has the second
    assert len(server.called("files.delete")) == 1

    server.scopes.discard("files:write")
    await adapter.edit(address, card, Content(card=Card(kind="run", title="Run r-1 is over")))
    assert "is over" in server.message(card.channel, card.id).shown
