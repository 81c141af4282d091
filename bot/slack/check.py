"""Finds out whether the Slack app is set up as it must be, and says how to mend what is not.

Used by `trainyard doctor`.
"""

from dataclasses import dataclass

import aiohttp

from agent.domain.errors import AppError
from bot.slack.adapter import SLACK
from bot.slack.api import SlackApi
from bot.slack.errors import code_of
from bot.slack.manifest import BOT_SCOPES, NEEDED_SCOPES

OPEN_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at; `mend` says what to do when it is not `ok`."""

    ok: bool
    text: str
    mend: str = ""


async def check(*, bot_token: str, app_token: str | None = None, api_url: str = SLACK) -> list[Finding]:
    """Token, scopes, and whether Socket Mode really opens a socket. Changes nothing, and never raises.

    What Slack delivers to that socket in its short life comes again to the bot's own.
    """
    bot = SlackApi(token=bot_token, base_url=api_url)
    app = SlackApi(token=app_token, base_url=api_url) if app_token else None
    try:
        findings = await _token(bot)
        if app is not None:
            findings.append(await _socket(app))
        return findings
    finally:
        await bot.close()
        if app is not None:
            await app.close()


async def _token(api: SlackApi) -> list[Finding]:
    try:
        answer, scopes = await api.identity()
    except AppError as error:
        mend = "Put the bot token (xoxb-…) of OAuth & Permissions into the settings."
        return [Finding(False, f"Slack does not know the bot token: {error.text}", mend)]
    who = f"Slack knows me as @{answer.get('user')} in {answer.get('team')}."
    return [Finding(True, who), *_scopes(scopes)]


def _scopes(scopes: frozenset[str]) -> list[Finding]:
    again = "Add them under OAuth & Permissions and install the app again."
    needed = [scope for scope in NEEDED_SCOPES if scope not in scopes]
    if needed:
        return [Finding(False, f"The app lacks scopes: {', '.join(needed)}.", again)]
    wanted = [scope for scope in BOT_SCOPES if scope not in scopes]
    if wanted:
        return [Finding(True, f"The app works; some threads and features need {', '.join(wanted)}.", again)]
    return [Finding(True, "The app has all scopes.")]


async def _socket(api: SlackApi) -> Finding:
    mend = "Create an app-level token (xapp-…) with connections:write under Basic Information, and turn Socket Mode on."
    try:
        answer = await api.call("apps.connections.open")
        timeout = aiohttp.ClientWSTimeout(ws_close=OPEN_TIMEOUT_S)
        async with api.session.ws_connect(answer["url"], timeout=timeout) as socket:
            hello = await socket.receive_json(timeout=OPEN_TIMEOUT_S)
    except AppError as error:
        return Finding(False, f"Slack refuses the app token: {code_of(error) or error.text}.", mend)
    except (aiohttp.ClientError, TimeoutError, TypeError) as error:
        reason = f"Slack's socket does not open: {type(error).__name__}."
        return Finding(False, reason, "Let this host reach wss://*.slack.com on port 443.")
    return Finding(hello.get("type") == "hello", "Socket Mode works.")
