"""Files that come with a message: once, before their message, privately where the message is private."""

import hashlib
from pathlib import Path

import pytest

from agent.domain.content import Card, Content, Document
from agent.domain.errors import Unavailable
from agent.domain.inbound import Thread
from agent.ports import Whisper
from tests.platforms.slack_server import SlackServer
from tests.slack.conftest import Inbox, listening
from tests.slack.test_stream import asked

ROWS = b"step,loss\n1,0.5\n"


def document(folder: Path, name: str = "metrics.csv", data: bytes = ROWS) -> Document:
    path = folder / f"on-disk-{name.replace('/', '_')}"
    path.write_bytes(data)
    return Document(path=str(path), name=name, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def shared(server: SlackServer, address: Thread) -> list[tuple[str, bytes]]:
    """Files that stand in the thread's thread, by name and content, in order."""
    ids = [file for message in server.thread(address.thread_id) for file in message.files]
    return [(server.files[file].name, server.files[file].data) for file in ids]


def words(server: SlackServer, address: Thread) -> list[str]:
    return [message.shown for message in server.thread(address.thread_id)[1:] if not message.files]


async def test_files_stand_in_the_thread_before_their_message_and_an_edit_leaves_them(
    server, adapter, address, tmp_path
):
    files = (document(tmp_path), document(tmp_path, "the log.txt", b"epoch 1\n"))
    content = Content(text="All metrics of r-1.", files=files)

    ref = await adapter.post(address, content, key="t1")
    await adapter.edit(address, ref, content.model_copy(update={"text": "All metrics of r-1, done."}))

    assert shared(server, address) == [("metrics.csv", ROWS), ("the_log.txt", b"epoch 1\n")]
    assert [bool(message.files) for message in server.thread(address.thread_id)[1:]] == [True, True, False]
    assert words(server, address) == ["All metrics of r-1, done."]


async def test_a_file_is_not_posted_again_when_the_message_has_to_be(server, adapter, address, tmp_path):
    content = Content(text="Here it is.", files=(document(tmp_path),))
    server.fail("chat.postMessage", status=503, error="service_unavailable")
    with pytest.raises(Unavailable):
        await adapter.post(address, content, key="t1")
    assert await adapter.find(address, key="t1") is None

    async with listening(server, Inbox()) as other:  # a bot that was started anew
        await other.post(address, content, key="t1")

    assert shared(server, address) == [("metrics.csv", ROWS)]
    assert words(server, address) == ["Here it is."]


async def test_the_same_file_under_another_key_comes_again(server, adapter, address, tmp_path):
    content = Content(text="Here it is.", files=(document(tmp_path),))
    await adapter.post(address, content, key="t1")
    await adapter.post(address, content, key="t2")

    assert shared(server, address) == [("metrics.csv", ROWS)] * 2


async def test_a_file_whose_answer_was_lost_is_not_posted_again(server, adapter, address, tmp_path):
    content = Content(text="Here it is.", files=(document(tmp_path),))
    server.fail("files.completeUploadExternal", lose_answer=True)
    with pytest.raises(Unavailable):
        await adapter.post(address, content, key="t1")

    await adapter.post(address, content, key="t1")

    assert shared(server, address) == [("metrics.csv", ROWS)]


async def test_a_growing_answer_ends_with_its_files(server, adapter, inbox, tmp_path):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")
    await stream.append("The metrics ")

    await stream.finish(Content(text="The metrics of r-1.", files=(document(tmp_path),)))

    assert shared(server, address) == [("metrics.csv", ROWS)]
    assert words(server, address) == ["The metrics of r-1."]


@pytest.mark.parametrize("known", ["address", "nothing"])
async def test_an_answer_that_a_dead_process_had_begun_gets_its_files_once(server, adapter, inbox, tmp_path, known):
    address = await asked(server, inbox)
    stream = await adapter.stream(address, key="turn-1")
    begun = await stream.append("The metrics ")
    content = Content(text="The metrics of r-1.", files=(document(tmp_path),))

    async with listening(server, Inbox()) as other:
        ref = begun if known == "address" else await other.find(address, key="turn-1", growing=True)
        await other.edit(address, ref, content)
    async with listening(server, Inbox()) as third:
        await third.edit(address, ref, content.model_copy(update={"text": "The metrics of r-1!"}))

    assert shared(server, address) == [("metrics.csv", ROWS)]
    assert words(server, address) == ["The metrics of r-1!"]


async def test_what_slack_does_not_take_is_a_sentence(server, adapter, address, tmp_path):
    large = document(tmp_path, "weights.tar")
    with Path(large.path).open("r+b") as file:
        file.truncate(10**9 + 1)  # sparse: takes no room on the disk
    gone = document(tmp_path, "gone.csv")
    Path(gone.path).unlink()
    card = Card(kind="result", title="r-1 is done")

    await adapter.post(address, Content(card=card, files=(large, gone)), key="t1")

    [shown] = words(server, address)
    assert "`weights.tar` (1.0 GB): Slack takes 1.0 GB a file at most" in shown
    assert "`gone.csv` is not on my disk any more" in shown
    assert "r-1 is done" in shown
    assert server.called("files.getUploadURLExternal") == []


async def test_without_the_right_to_upload_the_message_says_where_the_file_lies(server, adapter, address, tmp_path):
    server.scopes.discard("files:write")
    given = document(tmp_path)

    await adapter.post(address, Content(text="Here it is.", files=(given,)), key="t1")

    [shown] = words(server, address)
    assert "files:write" in shown
    assert given.path in shown


async def test_the_files_of_a_whisper_go_to_the_person_alone(server, adapter, inbox, address, tmp_path):
    alice = server.user("alice")
    delivery = alice.slash("metrics r-1 csv")
    await server.wait_for(lambda: delivery.acked)
    to = Whisper(person=alice.id, handle=inbox.stored[-1].reply_handle)
    content = Content(text="All metrics.", files=(document(tmp_path),))

    await adapter.post(address, content, key="w1", whisper=to)
    await adapter.post(address, content, key="w1", whisper=to)  # repeated after a lost answer

    assert shared(server, address) == []
    [file] = [file for file in server.files.values() if file.shared_in]
    assert (file.data, file.shared_in) == (ROWS, [(server.direct(alice).id, "")])
    assert "in your direct messages" in server.whispers[0].shown


async def test_a_whisper_whose_person_cannot_be_written_to_says_so(server, adapter, address, tmp_path):
    server.scopes.discard("im:write")
    alice = server.user("alice")

    await adapter.post(
        address, Content(text="x", files=(document(tmp_path),)), key="w1", whisper=Whisper(person=alice.id)
    )

    assert "I may not write to you directly" in server.whispers[0].shown
    assert server.files == {}
