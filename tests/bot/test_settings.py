"""Settings that cannot be used are named with what mends them, by the program and its doctor; no value is printed."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError
from rich.console import Console

from agent.domain.inbound import Person, Thread
from agent.domain.models import keys_of
from agent.domain.policy import Right
from bot import cli
from bot.doctor import Line, _limited, _screen, examine, refused
from bot.platforms import edit_gaps_s, needs
from bot.settings import Settings, gateway_environment, worker_environment, wrong
from tests.deploy.test_compose import names_of

Sets = Callable[[str, str], None]
SECRET = "s3cret"


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sets:
    """Sets a variable, in a folder without `.env`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINYARD_HOME", str(tmp_path / "home"))
    return monkeypatch.setenv


WRONG = [
    ("DISCORD_GUILDS", "my-server", "numbers"),
    ("DISCORD_MESSAGE_CONTENT", "maybe", "boolean"),
    ("DISCORD_GATEWAY_URL", "https://discord.com", "wss://"),
    ("SLACK_API_URL", "foo", "https://"),
    ("SLACK_HTTP_PORT", "abc", "integer"),
    ("SLACK_HTTP_PORT", "70000", "65535"),
    ("TRAINYARD_REDIS_URL", "localhost:6379", "redis://"),
    ("TRAINYARD_REDIS_URL", f"redis://:{SECRET}/x@host:6379", "%2F"),
    ("TRAINYARD_REDIS_URL", f"http://:{SECRET}@host:6379", "redis://"),
    ("TRAINYARD_DATABASE_URL", "foo", "postgresql+psycopg://"),
    ("TRAINYARD_DATABASE_URL", f"postgresql+psycopg://me:{SECRET}@host:54x/db", "postgresql+psycopg://"),
    ("TRAINYARD_DATABASE_URL", f"mysql://me:{SECRET}@host/db", "SQLite"),
    ("TRAINYARD_MODEL_KEYS", SECRET, "http://host:port/v1=key"),
    ("TRAINYARD_MODEL_KEYS", f"http://host/v1=k, host/v1={SECRET}", "http://host:port/v1=key"),
    ("TRAINYARD_LOG_LEVEL", "loud", "DEBUG, INFO"),
    ("TRAINYARD_APPROVAL_HOURS", "inf", "finite"),
    ("TRAINYARD_APPROVAL_HOURS", "1e300", "87600"),
    ("TRAINYARD_TICK_S", "nan", "finite"),
]


@pytest.mark.parametrize(("name", "value", "says"), WRONG)
def test_what_cannot_be_used_is_named_with_what_mends_it(sets: Sets, name: str, value: str, says: str) -> None:
    sets(name, value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    (text,) = wrong(caught.value)
    assert text.startswith(f"{name}: ")
    assert says in text
    assert SECRET not in text
    printed = io.StringIO()
    assert refused(caught.value, Console(file=printed, width=300)) == 1
    assert text in printed.getvalue()


@pytest.mark.parametrize("command", ["doctor", "bot"])
def test_a_wrong_setting_ends_no_command_in_a_traceback(
    sets: Sets, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    sets("SLACK_HTTP_PORT", "abc")
    monkeypatch.setattr("sys.argv", ["trainyard", command])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    printed = capsys.readouterr()
    assert "SLACK_HTTP_PORT" in printed.out + printed.err
    assert "TRAINYARD_SLACK_HTTP_PORT" not in printed.out + printed.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRAINYARD_REDIS_URL", "redis://:a%2Fb@10.0.0.5:6379/0"),
        ("TRAINYARD_REDIS_URL", "rediss://[::1]:6380"),
        ("TRAINYARD_REDIS_URL", "unix:///run/redis.sock?db=1"),
        ("TRAINYARD_REDIS_URL", "redis:///0"),
        ("TRAINYARD_DATABASE_URL", "postgresql+psycopg://me:p?w@host/db"),
        ("TRAINYARD_DATABASE_URL", "sqlite+pysqlite:////srv/a.db"),
        ("SLACK_HTTP_PORT", "0"),
        ("TRAINYARD_DATABASE_URL", "sqlite:////srv/a.db"),
        ("TRAINYARD_DATABASE_URL", "postgresql+psycopg://me:a/b#c@host:5432/db?sslmode=require"),
        ("TRAINYARD_DATABASE_URL", "postgresql+psycopg:///db?host=/var/run/postgresql"),
        ("DISCORD_GUILDS", "123456789012345678, 2"),
        ("SLACK_API_URL", "http://127.0.0.1:8080/api/"),
        ("DISCORD_GATEWAY_URL", "ws://127.0.0.1:80"),
        ("TRAINYARD_LOG_LEVEL", "debug"),
    ],
)
def test_what_can_be_used_is_taken(sets: Sets, name: str, value: str) -> None:
    sets(name, value)
    Settings()


def test_an_empty_variable_counts_as_none(sets: Sets) -> None:
    for name in ("SLACK_HTTP_PORT", "TRAINYARD_LOG_LEVEL", "SLACK_BOT_TOKEN", "SLACK_API_URL", "TRAINYARD_MONITOR"):
        sets(name, "")
    settings = Settings()
    assert (settings.slack_http_port, settings.log_level, settings.slack_bot_token) == (None, "INFO", None)


def test_the_process_of_the_language_models_gets_their_keys_and_no_setting_of_the_bot(sets: Sets) -> None:
    for name in ("OPENAI_API_KEY", "SLACK_BOT_TOKEN", "discord_token", "TRAINYARD_DATABASE_URL"):
        sets(name, SECRET)
    sets("trainyard_model_keys", f"http://host/v1={SECRET}")
    given = gateway_environment()
    assert [name for name, value in given.items() if SECRET in value and name.isupper()] == [
        "OPENAI_API_KEY",
        "TRAINYARD_MODEL_KEYS",
    ]
    assert "PATH" in given


def test_the_keys_of_model_servers_are_shown_to_nobody_and_given_to_no_worker(sets: Sets, tmp_path: Path) -> None:
    sets("TRAINYARD_MODEL_KEYS", f"http://host:1/v1/=one, https://me@host/v1={SECRET}==")
    settings = Settings()
    assert keys_of(settings.model_keys.get_secret_value()) == {
        "http://host:1/v1": "one",
        "https://me@host/v1": f"{SECRET}==",
    }
    assert SECRET not in repr(settings)
    assert "TRAINYARD_MODEL_KEYS" not in worker_environment(tmp_path, "redis://host", "folder")


def test_each_platform_says_what_it_needs_and_how_often_it_is_edited(sets: Sets) -> None:
    sets("TRAINYARD_SLACK_EDIT_GAP_S", "7")
    assert edit_gaps_s(Settings()) == {"slack": 7.0, "discord": 15.0, "console": 1.0}
    assert {name for part in needs().split(", or ") for name in part.split(" and ")} <= names_of(Settings)


def test_the_doctor_prints_what_it_says() -> None:
    lines = [
        Line("redis", False, "No server.", "pip install 'trainyard[embedded]'"),
        Line("home", True, "/srv/[/x]"),
        Line("[bold]", None, "[red]"),
    ]
    printed = io.StringIO()
    Console(file=printed, width=100).print(_screen(lines))
    for text in ("pip install 'trainyard[embedded]'", "/srv/[/x]", "[bold]", "[red]"):
        assert text in printed.getvalue()


async def test_a_check_that_breaks_is_a_failed_line(sets: Sets) -> None:
    async def _broken(_settings: Settings) -> list[Line]:
        raise ValueError(SECRET)

    (line,) = await _limited(_broken, Settings())
    assert (line.name, line.ok) == ("broken", False)
    assert "ValueError" in line.text
    assert SECRET not in line.text


async def test_the_doctor_looks_at_what_is_not_configured(sets: Sets) -> None:
    printed = io.StringIO()
    await examine(Settings(), Console(file=printed, width=200))
    assert "not configured (DISCORD_TOKEN)" in printed.getvalue()


def test_who_may_not_ask_may_not_launch_unless_that_is_said(sets: Sets) -> None:
    sets("TRAINYARD_ASK", "U-bob")
    thread = Thread(platform="slack", tenant="T1", channel="C1", thread_id="1")
    alice, bob = (Person(platform="slack", tenant="T1", id=f"U-{name}", name=name) for name in ("alice", "bob"))
    assert Settings().grants.of(alice, thread, ()) == frozenset()
    assert Settings().grants.of(bob, thread, ()) == {Right.ASK, Right.LAUNCH}
    sets("TRAINYARD_LAUNCH", "U-alice")
    assert Settings().grants.of(alice, thread, ()) == {Right.ASK, Right.LAUNCH}
    assert Settings().grants.of(bob, thread, ()) == {Right.ASK}
