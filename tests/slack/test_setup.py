"""The app's description, and the check of how it was installed."""

import json

from typer.testing import CliRunner

from bot.cli import app
from bot.slack.check import check
from bot.slack.manifest import BOT_SCOPES, NEEDED_SCOPES, manifest
from tests.slack.conftest import listening


async def test_a_start_warns_of_nothing(server, inbox, monkeypatch, caplog):
    """Bolt looks for tokens in the environment too."""
    monkeypatch.setenv("SLACK_BOT_TOKEN", server.bot_token)

    async with listening(server, inbox):
        server.user("alice").mention("status")
        await server.wait_for(lambda: inbox.stored)

    assert [record.getMessage() for record in caplog.records if record.levelname not in {"DEBUG", "INFO"}] == []


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
    printed = CliRunner().invoke(app, ["manifest"])

    assert json.loads(printed.stdout) == manifest()
    assert set(NEEDED_SCOPES) <= set(BOT_SCOPES)
