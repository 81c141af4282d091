"""The settings of the bot's process. The only module of `bot` that reads the environment (and `.env`)."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Literal

from dotenv import dotenv_values
from platformdirs import user_data_dir
from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """`TRAINYARD_<FIELD>` sets `<field>`; tokens have the names that the platforms' own documents use."""

    model_config = SettingsConfigDict(env_prefix="TRAINYARD_", env_file=".env", frozen=True, extra="ignore")

    home: Path = Field(default_factory=lambda: Path(user_data_dir("trainyard")))
    redis_url: str = ""  # empty: an embedded server, a child of the bot
    database_url: str = ""  # empty: SQLite in the home
    blobs: Literal["folder", "redis"] = "folder"
    models: str = ""  # LiteLLM names, comma-separated, asked in this order; `name@url` for an OpenAI-compatible server
    approvers: str = ""  # ids of people who may decide for others, comma-separated
    approval_hours: float = Field(24.0, gt=0)
    tick_s: float = Field(2.0, gt=0)
    card_pace_s: float = Field(1.0, gt=0)
    monitor: bool = True  # watch live runs and give advice in their threads
    slack_edit_gap_s: float = Field(15.0, ge=0)
    discord_edit_gap_s: float = Field(15.0, ge=0)
    log_level: str = "INFO"

    slack_bot_token: SecretStr | None = Field(None, validation_alias="SLACK_BOT_TOKEN")
    slack_app_token: SecretStr | None = Field(None, validation_alias="SLACK_APP_TOKEN")
    slack_signing_secret: SecretStr | None = Field(None, validation_alias="SLACK_SIGNING_SECRET")
    slack_http_port: int | None = Field(None, validation_alias="SLACK_HTTP_PORT")
    slack_http_host: str = Field("127.0.0.1", validation_alias="SLACK_HTTP_HOST")
    slack_api_url: str | None = Field(None, validation_alias="SLACK_API_URL")
    discord_token: SecretStr | None = Field(None, validation_alias="DISCORD_TOKEN")
    discord_message_content: bool = Field(True, validation_alias="DISCORD_MESSAGE_CONTENT")
    discord_guilds: str = Field("", validation_alias="DISCORD_GUILDS")
    discord_api_url: str | None = Field(None, validation_alias="DISCORD_API_URL")
    discord_gateway_url: str | None = Field(None, validation_alias="DISCORD_GATEWAY_URL")

    @property
    def database(self) -> str:
        """The database's address."""
        return self.database_url or f"sqlite:///{self.home / 'trainyard.db'}"

    @property
    def model_names(self) -> tuple[str, ...]:
        """The chain of models."""
        return _listed(self.models)

    @property
    def approver_ids(self) -> frozenset[str]:
        """People who may decide for others."""
        return frozenset(_listed(self.approvers))

    @property
    def guild_ids(self) -> tuple[int, ...]:
        """Discord servers that get the slash commands at once."""
        return tuple(int(text) for text in _listed(self.discord_guilds))

    @property
    def approval_lifetime(self) -> timedelta:
        """How long a question stays open."""
        return timedelta(hours=self.approval_hours)

    @property
    def edit_gap_s(self) -> dict[str, float]:
        """The shortest time between two progress edits of one message."""
        return {"slack": self.slack_edit_gap_s, "discord": self.discord_edit_gap_s, "console": 1.0}


def child_environment(**extra: str) -> dict[str, str]:
    """The environment of a process that we start: ours, what `.env` adds to it, and `extra`."""
    from_file = {name: value for name, value in dotenv_values(".env").items() if value is not None}
    return from_file | dict(os.environ) | extra


def gateway_environment() -> dict[str, str]:
    """The environment of the language-model process: everything but the chat platforms' tokens."""
    return {name: value for name, value in child_environment().items() if not name.startswith(("SLACK_", "DISCORD_"))}


def worker_environment(home: Path, redis_url: str, blobs: str) -> dict[str, str]:
    """The environment of a worker on this host: no chat tokens, no model keys, no database."""
    kept = {"PATH", "LANG", "LC_ALL", "TZ", "HOME", "USER", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH"}
    clean = {name: value for name, value in child_environment().items() if name in kept}
    scaled = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("TRAINYARD_") and name not in {"TRAINYARD_DATABASE_URL", "TRAINYARD_MODELS"}
    }
    own = {"TRAINYARD_HOME": str(home), "TRAINYARD_REDIS_URL": redis_url, "TRAINYARD_BLOBS": blobs}
    return clean | scaled | own


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
