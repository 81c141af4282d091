"""The app's description, and the check of how it was installed."""

import json
import subprocess
import sys

from bot.slack.check import check
from bot.slack.manifest import BOT_SCOPES, NEEDED_SCOPES, manifest


async def test_a_well_installed_app_passes(server):
    server.scopes |= set(BOT_SCOPES)

    findings = await check(bot_token=server.bot_token, app_token=server.app_token, api_url=server.url)

    assert [finding.ok for finding in findings] == [True, True, True]
    assert "@trainyard in Home" in findings[0].text


async def test_what_is_missing_is_named_with_its_remedy(server):
    server.scopes -= {"files:write"}
    findings = await check(bot_token=server.bot_token, app_token="xapp-wrong", api_url=server.url)

    assert [finding.ok for finding in findings] == [True, False, False]
    assert "files:write" in findings[1].text
    assert "connections:write" in findings[2].mend


async def test_a_wrong_token_is_a_finding_and_no_crash(server):
    findings = await check(bot_token="xoxb-wrong", api_url=server.url)

    assert [finding.ok for finding in findings] == [False]


def test_the_manifest_is_printed_as_json():
    printed = subprocess.run([sys.executable, "-m", "bot.slack.manifest"], capture_output=True, check=True, text=True)

    assert json.loads(printed.stdout) == manifest()
    assert set(NEEDED_SCOPES) <= set(BOT_SCOPES)


def test_without_socket_mode_every_request_has_its_address():
    described = manifest("/ml", socket_mode=False, url="https://bot.example/slack/events")

    assert described["features"]["slash_commands"][0]["url"] == "https://bot.example/slack/events"
    assert described["settings"]["event_subscriptions"]["request_url"] == "https://bot.example/slack/events"
    assert described["settings"]["interactivity"]["request_url"] == "https://bot.example/slack/events"
