"""The chat platforms, found by name: `bot/<name>/platform.py` makes an adapter from the settings and checks it.

Each says what it needs and how often it is edited, and has `adapter(settings)`, None where the platform is not
configured, and `check(settings)`, what the doctor says of it. A new platform is a folder and a name here. Nothing of a
platform is loaded before it is asked for.
"""

import importlib
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from bot.connection import Adapter
from bot.settings import Settings

PLATFORMS = ("slack", "discord")
CONSOLE_EDIT_GAP_S = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that the doctor looked at. `ok` is None for what is not configured and need not be."""

    name: str
    ok: bool | None
    text: str
    mend: str = ""


class ChatPlatform(Protocol):
    """The module `bot/<name>/platform.py`. `NEEDS` names the variables without which it is not configured, in words."""

    NEEDS: str

    def edit_gap_s(self, settings: Settings) -> float:
        """The shortest time between two progress edits of one message."""

    def adapter(self, settings: Settings) -> Adapter | None:
        """The adapter, None where its tokens are not set."""

    def check(self, settings: Settings) -> Awaitable[Sequence[Line]]:
        """What works and what does not, with what mends it."""


def platform(name: str) -> ChatPlatform:
    """The platform of this name."""
    return cast("ChatPlatform", importlib.import_module(f"bot.{name}.platform"))


def configured(settings: Settings) -> list[Adapter]:
    """The adapters of the platforms whose tokens are set."""
    made = (platform(name).adapter(settings) for name in PLATFORMS)
    return [adapter for adapter in made if adapter is not None]


def edit_gaps_s(settings: Settings) -> dict[str, float]:
    """The shortest time between two progress edits of one message, by platform; the terminal is one too."""
    return {name: platform(name).edit_gap_s(settings) for name in PLATFORMS} | {"console": CONSOLE_EDIT_GAP_S}


def needs() -> str:
    """What configures a platform, in words."""
    return ", or ".join(platform(name).NEEDS for name in PLATFORMS)
