"""What `trainyard bot` prints of its platforms: one that answers is served, another is named with its reason."""

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.platforms.discord_server import DiscordServer
from tests.platforms.slack_server import SlackServer
from tests.system.conftest import HANG_S, TRAINYARD, Yard, opened


async def test_a_platform_counts_as_served_once_it_answered(tmp_path: Path) -> None:
    with opened() as yard:
        lines = await _printed(yard, tmp_path)
    assert sorted(line for line in lines if line.startswith("serving")) == ["serving discord", "serving slack"]
    (refused,) = [line for line in lines if line.startswith("slack is not connected: ")]
    assert refused.endswith("Trying again in 1 s.")
    assert lines.index(refused) < lines.index("serving slack")


async def _printed(yard: Yard, tmp_path: Path) -> list[str]:
    """What a bot says that Slack refuses at first, until it serves both."""
    async with SlackServer(rate_scale=100) as slack, DiscordServer() as discord:
        slack.fail("auth.test", status=503, times=2)
        environment = yard.environment(
            TRAINYARD_DATABASE_URL=f"sqlite:///{tmp_path / 'bot.db'}",
            SLACK_BOT_TOKEN=slack.bot_token,
            SLACK_APP_TOKEN=slack.app_token,
            SLACK_API_URL=slack.url,
            DISCORD_TOKEN=discord.token,
            DISCORD_API_URL=discord.api_base,
            DISCORD_GATEWAY_URL=str(discord.gateway_url),
        )
        printed = tmp_path / "printed"
        with printed.open("wb") as out, (tmp_path / "bot.log").open("wb") as log:
            bot = subprocess.Popen([*TRAINYARD, "bot"], env=environment, stdout=out, stderr=log, start_new_session=True)
        try:
            await until(lambda: bot.poll() is not None or printed.read_text().count("serving") == 2)
        finally:
            bot.terminate()
            await asyncio.to_thread(bot.wait, HANG_S)
    return printed.read_text().splitlines()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG_S):
        while not true():
            await asyncio.sleep(0.05)
