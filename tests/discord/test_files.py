"""Files in: whole, within the cap, from Discord only, and again when their address has expired."""

from pathlib import Path

import pytest

from agent.domain.errors import BadData, NotFound, Unavailable
from agent.domain.inbound import Attachment, Said
from bot.discord.addresses import Locator
from tests.discord.conftest import Bot
from tests.platforms.discord_server import DiscordServer

CSV = b"text,label\n" + b"good,1\nbad,0\n" * 50_000


async def attached(server: DiscordServer, bot: Bot, name: str = "t.csv", data: bytes = CSV) -> Attachment:
    """What came with a mention."""
    await server.user("alice").mention(server.general, "train on this", files=[(name, data)])
    act = (await bot.next()).act
    assert isinstance(act, Said)
    return act.attachments[0]


async def test_a_file_arrives_whole(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    file = await attached(server, bot)
    assert (file.name, file.size_bytes, file.media_type) == ("t.csv", len(CSV), "text/csv")
    await bot.adapter.fetch(file, tmp_path / "t.csv", limit_bytes=1_000_000)
    assert (tmp_path / "t.csv").read_bytes() == CSV
    assert list(tmp_path.iterdir()) == [tmp_path / "t.csv"]


async def test_the_cap_holds_whatever_the_message_says(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    file = await attached(server, bot)
    with pytest.raises(BadData, match=r"t\.csv has 0\.7 MB"):
        await bot.adapter.fetch(file, tmp_path / "t.csv", limit_bytes=1000)
    with pytest.raises(BadData, match="larger than"):
        await bot.adapter.fetch(file.model_copy(update={"size_bytes": 10}), tmp_path / "t.csv", limit_bytes=1000)
    with pytest.raises(Unavailable, match="in part"):
        await bot.adapter.fetch(file.model_copy(update={"size_bytes": 900_000}), tmp_path / "t.csv", limit_bytes=10**6)
    assert list(tmp_path.iterdir()) == []


async def test_an_expired_address_is_asked_for_anew(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    server.limits.cdn_life_s = -1.0
    file = await attached(server, bot)
    server.limits.cdn_life_s = 60.0
    await bot.adapter.fetch(file, tmp_path / "t.csv", limit_bytes=1_000_000)
    assert (tmp_path / "t.csv").read_bytes() == CSV


async def test_an_address_with_a_secret_is_not_kept(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    token = "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345"
    file = await attached(server, bot, f"{token}.csv")
    assert token not in file.locator
    await bot.adapter.fetch(file, tmp_path / "t.csv", limit_bytes=1_000_000)
    assert (tmp_path / "t.csv").read_bytes() == CSV


async def test_a_deleted_message_has_no_file(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    server.limits.cdn_life_s = -1.0
    file = await attached(server, bot)
    server.messages(server.general)[0].deleted = True
    with pytest.raises(NotFound, match="deleted"):
        await bot.adapter.fetch(file, tmp_path / "t.csv", limit_bytes=1_000_000)


async def test_a_web_page_is_not_a_csv(server: DiscordServer, bot: Bot, tmp_path: Path) -> None:
    file = await attached(server, bot, "t.html", b"<html>sign in</html>")
    await bot.adapter.fetch(file, tmp_path / "t.html", limit_bytes=1000)
    with pytest.raises(BadData, match="web page"):
        await bot.adapter.fetch(file.model_copy(update={"name": "t.csv"}), tmp_path / "t.csv", limit_bytes=1000)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/t.csv",
        "http://cdn.discordapp.com/t.csv",
        "https://cdn.discordapp.com.example.com/t.csv",
        "https://cdn.discordapp.com@example.com/t.csv",
        "http://127.0.0.1:1/t.csv",
        "file:///etc/passwd",
    ],
)
async def test_only_discord_is_asked(bot: Bot, tmp_path: Path, url: str) -> None:
    locator = Locator(channel=1, message=2, attachment=3, url=url).model_dump_json()
    file = Attachment(id="3", name="t.csv", size_bytes=1, locator=locator)
    with pytest.raises(BadData, match="does not lie with Discord"):
        await bot.adapter.fetch(file, tmp_path / "t.csv", limit_bytes=1000)
