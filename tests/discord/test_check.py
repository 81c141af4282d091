"""What the doctor finds, and what it says to do."""

import pytest

from bot.discord.check import check
from tests.platforms.discord_server import DiscordServer


async def test_a_healthy_bot(server: DiscordServer) -> None:
    findings = await check(server.token, guild_ids=(server.guild_id,), api_base=server.api_base)
    assert [finding.ok for finding in findings] == [True, True, True]
    assert findings == await check(server.token, api_base=server.api_base)


async def test_a_bad_token(server: DiscordServer) -> None:
    [finding] = await check("wrong", api_base=server.api_base)
    assert (finding.ok, "token" in finding.text, "Reset Token" in finding.mend) == (False, True, True)


async def test_an_intent_that_is_off(server: DiscordServer) -> None:
    server.world.message_content = False
    _, finding, _ = await check(server.token, api_base=server.api_base)
    assert not finding.ok
    assert "Privileged Gateway Intents" in finding.mend
    _, finding, _ = await check(server.token, message_content=False, api_base=server.api_base)
    assert finding.ok


@pytest.mark.parametrize("unknown", [False, True])
async def test_a_server_that_gives_too_little(server: DiscordServer, unknown: bool) -> None:
    server.forbid("attach_files")
    guild = 42 if unknown else server.guild_id
    *_, finding = await check(server.token, guild_ids=(guild,), api_base=server.api_base)
    assert not finding.ok
    assert "not in server 42" in finding.text if unknown else "“Attach Files”" in finding.text
    assert "oauth2/authorize" in finding.mend
