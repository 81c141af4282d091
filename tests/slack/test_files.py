"""Attachments on their way in."""

import pytest

from agent.domain.errors import BadData, NotFound
from agent.domain.inbound import Attachment, Said
from tests.platforms.slack_world import File

DATA = b"text,label\n" + b"good,1\nbad,0\n" * 40_000


async def attached(server, inbox, file: File) -> Attachment:
    server.user("alice").dm("use this", files=[file])
    await server.wait_for(lambda: inbox.stored)
    act = inbox.stored[-1].act
    assert isinstance(act, Said)
    return act.attachments[0]


async def test_a_file_arrives_whole(server, adapter, inbox, tmp_path):
    attachment = await attached(server, inbox, server.file("tickets.csv", DATA))

    await adapter.fetch(attachment, tmp_path / "tickets.csv", limit_bytes=10_000_000)

    assert (tmp_path / "tickets.csv").read_bytes() == DATA
    assert [path.name for path in tmp_path.iterdir()] == ["tickets.csv"]


async def test_a_stub_is_looked_up_first(server, adapter, inbox, tmp_path):
    attachment = await attached(server, inbox, server.file("guest.csv", DATA, stub=True))

    await adapter.fetch(attachment, tmp_path / "guest.csv", limit_bytes=10_000_000)

    assert (tmp_path / "guest.csv").read_bytes() == DATA
    assert len(server.called("files.info")) == 1


async def test_a_sign_in_page_is_not_a_file(server, adapter, inbox, tmp_path):
    attachment = await attached(server, inbox, server.file("a.csv", DATA))
    server.scopes.discard("files:read")

    with pytest.raises(BadData, match="files:read"):
        await adapter.fetch(attachment, tmp_path / "a.csv", limit_bytes=10_000_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("announced", [len(DATA), 10])
async def test_a_file_that_is_too_large_is_refused_even_if_it_lies(server, adapter, inbox, tmp_path, announced):
    attachment = await attached(server, inbox, server.file("big.csv", DATA))
    attachment = attachment.model_copy(update={"size_bytes": announced})

    with pytest.raises(BadData, match=r"big\.csv is larger"):
        await adapter.fetch(attachment, tmp_path / "big.csv", limit_bytes=100_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/secret",
        "https://slack.com.evil.example/x",
        "http://files.slack.com/plain",
        "file:///etc/passwd",
    ],
)
async def test_only_slacks_hosts_are_asked(server, adapter, inbox, tmp_path, address):
    attachment = await attached(server, inbox, server.file("a.csv", DATA))
    elsewhere = attachment.model_copy(update={"locator": f'{{"id": "F1", "url": "{address}"}}'})

    with pytest.raises(BadData, match="not on Slack"):
        await adapter.fetch(elsewhere, tmp_path / "a.csv", limit_bytes=10_000_000)


async def test_a_redirect_to_another_host_is_not_followed(server, adapter, inbox, tmp_path):
    attachment = await attached(server, inbox, server.file("a.csv", DATA, redirect="http://127.0.0.1:1/steal"))

    with pytest.raises(BadData, match="not on Slack"):
        await adapter.fetch(attachment, tmp_path / "a.csv", limit_bytes=10_000_000)


async def test_a_deleted_file_is_gone(server, adapter, inbox, tmp_path):
    attachment = await attached(server, inbox, server.file("a.csv", DATA))
    server.files.clear()

    with pytest.raises(NotFound):
        await adapter.fetch(attachment, tmp_path / "a.csv", limit_bytes=10_000_000)
