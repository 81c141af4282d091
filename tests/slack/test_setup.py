"""The app's description, and the check of how it was installed."""

import json

import pytest
from typer.testing import CliRunner

from agent.domain.errors import AppError
from agent.domain.inbound import Person
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


async def test_slack_says_who_is_in_a_user_group_once_a_minute(server, inbox):
    server.scopes |= {"usergroups:read"}
    alice, bob = server.user("alice"), server.user("bob")
    server.groups["S1"] = ["alice"]
    person = Person(platform="slack", tenant=server.team_id, id=alice.id)
    async with listening(server, inbox) as adapter:
        assert await adapter.groups_of(person, frozenset({"S1"})) == {"S1"}
        assert await adapter.groups_of(person.model_copy(update={"id": bob.id}), frozenset({"S1"})) == frozenset()
        assert [method for method, _ in server.calls].count("usergroups.users.list") == 1
        with pytest.raises(AppError, match="no_such_subteam"):
            await adapter.groups_of(person, frozenset({"S2"}))
