"""The local Discord is as strict as the real one where our tests lean on it."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.platforms.discord_server import DiscordServer
from tests.platforms.discord_world import Json


class Api:
    """Raw calls, without discord.py's caution."""

    def __init__(self, server: DiscordServer, session: aiohttp.ClientSession) -> None:
        self._base = server.api_base
        self._session = session
        self._headers = {"Authorization": f"Bot {server.token}"}

    async def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Json]:
        async with self._session.request(method, self._base + path, json=body, headers=self._headers) as answer:
            return answer.status, await answer.json() if answer.content_type == "application/json" else {}


@pytest.fixture
async def api(server: DiscordServer) -> AsyncIterator[Api]:
    """Raw calls to the server."""
    async with aiohttp.ClientSession() as session:
        yield Api(server, session)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"content": "x" * 2001}, "content"),
        ({"embeds": [{"description": "x" * 4097}]}, "embeds"),
        ({"embeds": [{"description": "x" * 3500}, {"description": "x" * 3500}]}, "embeds"),
        ({"embeds": [{"fields": [{"name": "n", "value": " "}]}]}, "embeds"),
        ({"components": [{"type": 1, "components": [{"custom_id": "x" * 101, "label": "l"}]}]}, "components"),
        ({"components": [{"type": 1, "components": [{"custom_id": "x", "label": "l"}] * 6}]}, "components"),
        ({"content": "x", "nonce": "x" * 26}, "nonce"),
    ],
)
async def test_sizes(server: DiscordServer, api: Api, body: Json, where: str) -> None:
    status, answer = await api("POST", f"/channels/{server.general.id}/messages", body)
    assert (status, answer["code"], list(answer["errors"])) == (400, 50035, [where])


async def test_empty_messages_and_unknown_places(server: DiscordServer, api: Api) -> None:
    assert (await api("POST", f"/channels/{server.general.id}/messages", {}))[1]["code"] == 50006
    assert (await api("POST", "/channels/1/messages", {"content": "x"}))[1]["code"] == 10003
    server.forbid("send_messages")
    assert (await api("POST", f"/channels/{server.general.id}/messages", {"content": "x"}))[1]["code"] == 50013


async def test_buckets(server: DiscordServer, api: Api) -> None:
    path = f"/channels/{server.general.id}/messages"
    server.limits.bucket_window_s = 60.0
    answers = [await api("POST", path, {"content": str(n)}) for n in range(6)]
    assert [status for status, _ in answers] == [200] * 5 + [429]
    assert 0 < answers[-1][1]["retry_after"] <= 60.0


async def test_deadlines_of_interactions(server: DiscordServer, api: Api) -> None:
    server.world.commands[0] = [{"id": "1", "name": "train", "options": [{"name": "help", "type": 1}]}]
    used = await server.user("alice").slash("train help", wait=False)
    callback, hook = f"/interactions/{used.id}/{used.token}/callback", f"/webhooks/1/{used.token}"
    assert (await api("POST", hook, {"content": "too early"}))[0] == 404
    assert (await api("POST", callback, {"type": 5, "data": {"flags": 64}}))[0] == 200
    assert (await api("POST", callback, {"type": 5}))[1]["code"] == 40060
    assert (await api("POST", hook, {"content": "first"}))[0] == 200
    assert [message.content for message in used.replies] == ["first"], "the first follow-up ends the waiting"
    server.limits.interaction_deadline_s = server.limits.interaction_life_s = 0.0
    late = await server.user("alice").slash("train help", wait=False)
    assert (await api("POST", f"/interactions/{late.id}/{late.token}/callback", {"type": 5}))[1]["code"] == 10062
    assert (await api("POST", hook, {"content": "late"}))[1]["code"] == 50027


async def test_nonces_old_edits_and_archives(server: DiscordServer, api: Api) -> None:
    path = f"/channels/{server.general.id}/messages"
    body = {"content": "x", "nonce": "n", "enforce_nonce": True}
    first, second = (await api("POST", path, body))[1], (await api("POST", path, body))[1]
    assert first["id"] == second["id"]
    server.limits.old_message_s, server.limits.old_edits = 0.0, 1
    codes = [(await api("PATCH", f"{path}/{first['id']}", {"content": str(n)}))[1].get("code") for n in range(2)]
    assert codes == [None, 30046]
    threads = f"{path}/{first['id']}/threads"
    assert (await api("POST", threads, {"name": "t"}))[0] == 201
    assert (await api("POST", threads, {"name": "t"}))[1]["code"] == 160004
    inside = (await api("POST", f"/channels/{first['id']}/messages", {"content": "in the thread"}))[1]
    server.archive(server.world.channels[int(first["id"])])
    edited = await api("PATCH", f"/channels/{first['id']}/messages/{inside['id']}", {"content": "y"})
    assert edited[1]["code"] == 50083
