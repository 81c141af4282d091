"""The settings of the bot's process. The only module of `bot` that reads the environment (and `.env`)."""

import contextlib
import logging
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from dotenv import dotenv_values
from platformdirs import user_data_dir
from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from agent.domain.models import MODEL_KEYS, keys_of
from agent.domain.policy import Grants, SecondPerson, grants_of
from agent.domain.prices import Prices, prices_of
from agent.domain.runs import DEFAULT_ENGINE

PREFIX = "TRAINYARD_"
MOST_HOURS = 87_600  # ten years
DATABASES = frozenset({"sqlite", "sqlite+pysqlite", "postgresql+psycopg"})


def _is_address(url: str, *schemes: str, host: bool = True) -> bool:
    """Whether it has one of the schemes and a port only as a number; by default it has to name a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and (bool(parts.hostname) or not host) and parts.port != 0
    except ValueError:
        return False


def _redis(url: str) -> str:
    socket = url.startswith(("unix://", "redis+socket://"))
    if not url or socket or ("://" in url and _is_address(url, "redis", "rediss", host=False)):
        return url
    raise ValueError(
        "This is no address of a Redis. Write redis://:password@host:6379/0 (rediss:// with TLS, unix:///path for a "
        "socket; signs such as / and # of a password as %2F and %23), or leave it out for an embedded server."
    )


def _database(url: str) -> str:
    from sqlalchemy import make_url  # noqa: PLC0415 - a tenth of a second that only those pay who set it
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    with contextlib.suppress(ArgumentError, ValueError):
        if not url or make_url(url).drivername in DATABASES:
            return url
    raise ValueError(
        "This is no address of a database. Write postgresql+psycopg://user:password@host:5432/name, or leave it out "
        "for SQLite in the home."
    )


def _level(name: str) -> str:
    if name.upper() in logging.getLevelNamesMapping():
        return name.upper()
    raise ValueError("This is no level of a log. Levels: DEBUG, INFO, WARNING, ERROR.")


def _guilds(text: str) -> str:
    if all(re.fullmatch(r"\d{1,20}", part, re.ASCII) for part in _listed(text)):
        return text
    raise ValueError(
        "Ids of Discord servers are numbers, with commas between them. Turn on Discord's Developer Mode, right-click "
        "the server and choose Copy Server ID."
    )


def _web(url: str) -> str:
    if _is_address(url, "http", "https"):
        return url
    raise ValueError("This is no address. It begins with https:// or http:// and names a host, or is left out.")


def _socket(url: str) -> str:
    if _is_address(url, "ws", "wss"):
        return url
    raise ValueError("This is no address. It begins with wss:// or ws:// and names a host, or is left out.")


def _who(text: str) -> str:
    grants_of(text)  # raises
    return text


def _prices(text: str) -> str:
    prices_of(text)  # raises
    return text


def _keys(keys: SecretStr) -> SecretStr:
    keys_of(keys.get_secret_value())  # raises
    return keys


Who = Annotated[str, AfterValidator(_who)]
Web = Annotated[str, AfterValidator(_web)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Settings(BaseSettings):
    """`TRAINYARD_<FIELD>` sets `<field>`; tokens have the names that the platforms' own documents use.

    An empty variable counts as none.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_file=".env", env_ignore_empty=True, frozen=True, extra="ignore"
    )

    home: Path = Field(default_factory=lambda: Path(user_data_dir("trainyard")))
    redis_url: Annotated[str, AfterValidator(_redis)] = ""  # empty: an embedded server, a child of the bot
    database_url: Annotated[str, AfterValidator(_database)] = ""  # empty: SQLite in the home
    blobs: Literal["folder", "redis"] = "folder"
    engines: str = DEFAULT_ENGINE  # where runs may go, comma-separated; the first is the usual one
    models: str = ""  # LiteLLM names, comma-separated, asked in this order; `name@url` for an OpenAI-compatible server
    model_keys: Annotated[SecretStr, AfterValidator(_keys)] = SecretStr("")  # `url=key` of such servers
    mcp: Path | None = None  # a file of MCP servers, whose tools models get; see `bot.mcp.config`
    runs: Literal["channel", "workspace"] = "channel"  # who sees a run: people of its channel, or of the workspace
    ask: Who = "*"  # who may talk to the bot, as `agent.domain.policy.grants_of` reads it
    launch: Who = ""  # who may decide about what they asked for themselves; empty: who may ask
    approvers: Who = ""  # who may decide for others
    admins: Who = ""  # who may set budgets
    second_person: SecondPerson = SecondPerson.NEVER  # what somebody else than who asked has to decide
    quorum: int = Field(1, ge=1, le=20)  # how many people have to approve what costs
    prices: Annotated[str, AfterValidator(_prices)] = ""  # of an hour on our hosts, as `prices_of` reads them
    approval_hours: Finite = Field(24.0, gt=0, le=MOST_HOURS)
    answer_s: Finite = Field(300.0, gt=0, le=86_400)  # for one answer of a language model, from its first word
    context_tokens: int = Field(100_000, ge=8_000)  # that a model reads whose own window LiteLLM does not know
    turn_steps: int = Field(100, ge=1)  # calls of a model in one turn; then people are asked whether it goes on
    turn_tokens: int = Field(5_000_000, ge=1)
    turn_usd: Finite = Field(5.0, gt=0)
    turn_minutes: Finite = Field(60.0, gt=0)
    first_token_s: Finite = Field(120.0, gt=0, le=86_400)  # to its first word or thought
    gap_s: Finite = Field(60.0, gt=0, le=86_400)  # between two of them
    model_patience_s: Finite = Field(30.0, ge=0, le=3600)  # from when all models failed until the rules answer
    tick_s: Finite = Field(2.0, gt=0)
    card_pace_s: Finite = Field(1.0, gt=0)
    monitor: bool = True  # watch live runs and give advice in their threads
    slack_edit_gap_s: Finite = Field(15.0, ge=0)
    discord_edit_gap_s: Finite = Field(15.0, ge=0)
    log_level: Annotated[str, AfterValidator(_level)] = "INFO"

    slack_bot_token: SecretStr | None = Field(None, validation_alias="SLACK_BOT_TOKEN")
    slack_app_token: SecretStr | None = Field(None, validation_alias="SLACK_APP_TOKEN")
    slack_signing_secret: SecretStr | None = Field(None, validation_alias="SLACK_SIGNING_SECRET")
    slack_http_port: int | None = Field(None, ge=0, le=65535, validation_alias="SLACK_HTTP_PORT")
    slack_http_host: str = Field("127.0.0.1", validation_alias="SLACK_HTTP_HOST")
    slack_api_url: Web | None = Field(None, validation_alias="SLACK_API_URL")
    discord_token: SecretStr | None = Field(None, validation_alias="DISCORD_TOKEN")
    discord_message_content: bool = Field(True, validation_alias="DISCORD_MESSAGE_CONTENT")
    discord_guilds: Annotated[str, AfterValidator(_guilds)] = Field("", validation_alias="DISCORD_GUILDS")
    discord_api_url: Web | None = Field(None, validation_alias="DISCORD_API_URL")
    discord_gateway_url: Annotated[str, AfterValidator(_socket)] | None = Field(
        None, validation_alias="DISCORD_GATEWAY_URL"
    )

    @property
    def database(self) -> str:
        """The database's address."""
        return self.database_url or f"sqlite:///{self.home / 'trainyard.db'}"

    @property
    def model_names(self) -> tuple[str, ...]:
        """The chain of models."""
        return _listed(self.models)

    @property
    def silence_s(self) -> float:
        """The longest wait for a sign of the language-model process, whose own limits have the better words."""
        return max(self.first_token_s, self.gap_s, self.model_patience_s) + 10

    @property
    def engine_names(self) -> tuple[str, ...]:
        """The engines, the usual one first."""
        return tuple(dict.fromkeys(_listed(self.engines))) or (DEFAULT_ENGINE,)

    @property
    def grants(self) -> Grants:
        """Who may do what."""
        return Grants(
            ask=grants_of(self.ask),
            launch=grants_of(self.launch or self.ask),
            approve=grants_of(self.approvers),
            admin=grants_of(self.admins),
        )

    @property
    def price_list(self) -> Prices:
        """What an hour on our hosts costs."""
        return prices_of(self.prices)

    @property
    def guild_ids(self) -> tuple[int, ...]:
        """Discord servers that get the slash commands at once."""
        return tuple(int(text) for text in _listed(self.discord_guilds))

    @property
    def approval_lifetime(self) -> timedelta:
        """How long a question stays open."""
        return timedelta(hours=self.approval_hours)


def variable(field: str) -> str:
    """The name of the environment variable that sets a field of `Settings`."""
    return str(Settings.model_fields[field].validation_alias or f"{PREFIX}{field.upper()}")


def terminal_images() -> Literal["", "kitty", "iterm"]:
    """How this terminal takes pictures; within tmux and screen none comes through."""
    program, term = os.environ.get("TERM_PROGRAM", ""), os.environ.get("TERM", "")
    if "TMUX" in os.environ or term.startswith(("screen", "tmux")):
        return ""
    if "KITTY_WINDOW_ID" in os.environ or "kitty" in term or program.lower() in {"ghostty", "wezterm"}:
        return "kitty"
    return "iterm" if program == "iTerm.app" or os.environ.get("LC_TERMINAL") == "iTerm2" else ""


def wrong(error: ValidationError) -> list[str]:
    """A sentence for each setting that cannot be used: its variable and what it takes, never its value."""
    said = []
    for item in error.errors(include_input=False, include_url=False):
        field = str(item["loc"][0])
        name = variable(field) if field in Settings.model_fields else field
        said.append(f"{name}: {item['msg'].removeprefix('Value error, ').rstrip('.')}.")
    return said


def child_environment(**extra: str) -> dict[str, str]:
    """The environment of a process that we start: ours, what `.env` adds to it, and `extra`."""
    from_file = {name: value for name, value in dotenv_values(".env").items() if value is not None}
    return from_file | dict(os.environ) | extra


def gateway_environment() -> dict[str, str]:
    """The environment of the language-model process: the keys of models, no other setting of the bot and platforms."""
    own = tuple({f"{variable(field).partition('_')[0]}_" for field in Settings.model_fields})  # SLACK_ and the others
    return {
        MODEL_KEYS if name.upper() == MODEL_KEYS else name: value
        for name, value in child_environment().items()
        if name.upper() == MODEL_KEYS or not name.upper().startswith(own)
    }


def worker_environment(home: Path, redis_url: str, blobs: str) -> dict[str, str]:
    """The environment of a worker on this host: no chat tokens, no model keys, no database."""
    kept = {"PATH", "LANG", "LC_ALL", "TZ", "HOME", "USER", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH"}
    clean = {name: value for name, value in child_environment().items() if name in kept}
    scaled = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("TRAINYARD_") and name not in {"TRAINYARD_DATABASE_URL", "TRAINYARD_MODELS", MODEL_KEYS}
    }
    own = {"TRAINYARD_HOME": str(home), "TRAINYARD_REDIS_URL": redis_url, "TRAINYARD_BLOBS": blobs}
    return clean | scaled | own


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
