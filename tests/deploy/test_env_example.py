""".env.example: every setting once, with a line that explains it, and nothing that is no setting."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from bot.settings import Settings
from tests.deploy.files import COMPOSE_FILES, ROOT, interpolated
from tests.deploy.test_compose import names_of
from worker.settings import Settings as HostSettings

EXAMPLE = ROOT / ".env.example"
LINES = EXAMPLE.read_text().splitlines()
ENTRY = re.compile(r"#([A-Z][A-Z0-9_]*)=(.*)")
ENTRIES = {match[1]: match[2] for line in LINES if (match := ENTRY.fullmatch(line))}
# One process of ours tells another; nobody else sets these.
FOR_CHILDREN = {"TRAINYARD_TIER", "TRAINYARD_PARENT", "TRAINYARD_REPORT"}
OF_PROVIDERS = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to stand in, and an environment without our settings."""
    for name in names_of(Settings):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_setting_is_named_and_nothing_else_is():
    of_compose = {name for path in COMPOSE_FILES for name in interpolated(path)}

    of_hosts = names_of(HostSettings) - FOR_CHILDREN

    assert set(ENTRIES) == names_of(Settings) | of_hosts | OF_PROVIDERS | of_compose


def test_every_setting_stands_once_below_a_comment():
    names = [match[1] for line in LINES if (match := ENTRY.fullmatch(line))]

    assert len(names) == len(set(names))
    for before, line in pairwise(LINES):
        assert before.startswith("# ") or not ENTRY.fullmatch(line), line
    assert all(not line or line.startswith("#") for line in LINES)


def test_as_it_stands_it_changes_nothing(bare):
    (bare / ".env").write_text(EXAMPLE.read_text())

    assert Settings() == Settings(_env_file=None)


def test_what_it_says_of_a_hosts_defaults_is_true(bare, monkeypatch):
    for name in names_of(HostSettings):
        monkeypatch.delenv(name, raising=False)
    default = HostSettings()
    for name in names_of(HostSettings) - FOR_CHILDREN:
        monkeypatch.setenv(name, ENTRIES[name])
    of_this_host = {"home", "redis_url", "host_id", "public_key"}

    shown = HostSettings()

    assert shown.model_dump(exclude=of_this_host) == default.model_dump(exclude=of_this_host)


def test_every_value_is_one_that_the_setting_takes(bare):
    (bare / ".env").write_text("".join(f"{name}={value}\n" for name, value in ENTRIES.items()))

    settings = Settings()

    assert settings.slack_http_port == 3000
    assert settings.model_names == ("anthropic/claude-sonnet-4-5", "openai/gpt-5")


def test_what_it_says_of_defaults_is_true(bare):
    (bare / ".env").write_text("".join(f"{name}={value}\n" for name, value in ENTRIES.items()))
    shown, default = Settings(), Settings(_env_file=None)

    for name in (
        "blobs", "ask", "launch", "approvers", "admins", "approval_hours", "answer_s", "tick_s", "card_pace_s",
        "slack_edit_gap_s",
        "discord_edit_gap_s", "log_level", "monitor", "slack_http_host", "discord_message_content", "discord_guilds",
    ):  # fmt: skip
        assert getattr(shown, name) == getattr(default, name), name


def test_no_value_looks_like_a_real_secret():
    assert not re.search(r"xox[bp]-\d|xapp-\d|sk-[a-z0-9]|[A-Za-z0-9_-]{40,}", EXAMPLE.read_text())
