"""Slack as one of the platforms: its adapter from the settings, and its check."""

from collections.abc import Sequence

from pydantic import SecretStr

from bot.connection import Adapter
from bot.platforms import Line
from bot.settings import Settings

NEEDS = "SLACK_BOT_TOKEN and SLACK_APP_TOKEN"


def edit_gap_s(settings: Settings) -> float:
    """The shortest time between two progress edits of one message."""
    return settings.slack_edit_gap_s


def adapter(settings: Settings) -> Adapter | None:
    """The adapter, None without a token."""
    if settings.slack_bot_token is None:
        return None
    from bot.slack.adapter import SLACK, SlackAdapter  # noqa: PLC0415 - half a second that only Slack's users pay

    return SlackAdapter(
        bot_token=settings.slack_bot_token.get_secret_value(),
        app_token=_opened(settings.slack_app_token),
        signing_secret=_opened(settings.slack_signing_secret),
        http_host=settings.slack_http_host,
        http_port=settings.slack_http_port or 3000,
        api_url=settings.slack_api_url or SLACK,
        memory=settings.home,
    )


async def check(settings: Settings) -> Sequence[Line]:
    """What works and what does not, with what mends it."""
    if settings.slack_bot_token is None:
        return [Line("slack", None, f"not configured ({NEEDS}; `trainyard manifest` helps)")]
    from bot.slack import check as checking  # noqa: PLC0415 - only Slack's users pay for its libraries
    from bot.slack.adapter import SLACK  # noqa: PLC0415

    app = settings.slack_app_token
    findings = await checking.check(
        bot_token=settings.slack_bot_token.get_secret_value(),
        app_token=_opened(app),
        api_url=settings.slack_api_url or SLACK,
    )
    lines = [Line("slack", finding.ok, finding.text, finding.mend) for finding in findings]
    if app is None and settings.slack_signing_secret is None:
        mend = "Set SLACK_APP_TOKEN (Socket Mode) or SLACK_SIGNING_SECRET and SLACK_HTTP_PORT (HTTP)."
        lines.append(Line("slack", False, "There is no way for Slack to reach me.", mend))
    return lines


def _opened(secret: SecretStr | None) -> str | None:
    return secret.get_secret_value() if secret else None
