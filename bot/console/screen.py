"""The interface of a screen for the terminal's adapter; `plain` and `live` implement it."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from agent.domain.content import Content
from bot.console.proposals import Proposals


class Screen(Protocol):
    """Where messages are shown, and where the person's lines come from.

    `is_live` says that what changes stands below what was said, and `left_at_once` that the person left without waiting
    for what is at work.
    """

    is_live: bool
    left_at_once: bool

    def lines(self, proposals: Proposals, interrupt: Callable[[], Awaitable[None]]) -> AsyncGenerator[str]:
        """What the person types, until they leave; `interrupt` ends the answer that is being given."""

    async def show(self, *parts: RenderableType, over: str = "", picture: str = "") -> None:
        """Show a message, in place of the progress of the key `over`; `picture` is the path of its PNG."""

    async def progress(self, key: str, line: Text) -> None:
        """Show how far something is that has a key."""

    async def grow(self, key: str, text: str) -> None:
        """Show more words of an answer."""

    async def settle(self, key: str, content: Content) -> None:
        """End an answer, which is now `content`."""

    def busy(self) -> AbstractContextManager[None]:
        """Show that the bot is at work while a block lasts."""


def unsaid(content: Content, said: str) -> Content:
    """What of an answer people have not read yet, where `said` stands on the screen."""
    text = content.text.strip()
    rest = "" if text in said else text.removeprefix(said.strip()).lstrip()
    return content.model_copy(update={"text": rest})
