"""Discord as one of the platforms: its adapter from the settings, and its check."""

from collections.abc import Sequence

from bot.connection import Adapter
from bot.platforms import Line
from bot.settings import Settings

NEEDS = "DISCORD_TOKEN"


def edit_gap_s(settings: Settings) -> float:
    """The shortest time between two progress edits of one message."""
    return settings.discord_edit_gap_s


def adapter(settings: Settings) -> Adapter | None:
    """The adapter, None without a token."""
    if settings.discord_token is None:
        return None
    from bot.discord.adapter import DiscordAdapter  # noqa: PLC0415 - only Discord's users pay for its library

    return DiscordAdapter(
        settings.discord_token.get_secret_value(),
        message_content=settings.discord_message_content,
        guild_ids=settings.guild_ids,
        api_base=settings.discord_api_url,
        gateway_url=settings.discord_gateway_url,
    )


async def check(settings: Settings) -> Sequence[Line]:
    """What works and what does not, with what mends it."""
    if settings.discord_token is None:
        return [Line("discord", None, f"not configured ({NEEDS})")]
    from bot.discord import check as checking  # noqa: PLC0415 - likewise

    findings = await checking.check(
        settings.discord_token.get_secret_value(),
        message_content=settings.discord_message_content,
        guild_ids=settings.guild_ids,
        api_base=settings.discord_api_url,
    )
    return [Line("discord", finding.ok, finding.text, finding.mend) for finding in findings]
