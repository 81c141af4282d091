"""A screen that only appends lines: for pipes, the demo, and terminals that cannot move their cursor."""

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractContextManager

from rich.console import Console, RenderableType
from rich.text import Text

from agent.domain.content import Content
from bot.console.paint import harmless, painted
from bot.console.proposals import Proposals
from bot.console.screen import unsaid
from bot.console.spinner import Spinner


class PlainScreen:
    """Line by line, in and out."""

    is_live = False
    left_at_once = False

    def __init__(self, console: Console | None = None) -> None:
        """Lines come from standard input."""
        self._console = console or Console()
        self._spinner = Spinner(self._console)
        self._said: dict[str, str] = {}

    async def lines(self, proposals: Proposals, interrupt: Callable[[], Awaitable[None]]) -> AsyncGenerator[str]:
        """Every line of standard input; nothing is proposed, and Ctrl-C ends the program."""
        del proposals, interrupt
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        _listen(lambda line: loop.call_soon_threadsafe(lines.put_nowait, line))
        while (line := await lines.get()) is not None:
            yield line

    async def show(self, *parts: RenderableType, over: str = "", picture: str = "") -> None:
        """Print them."""
        del over, picture  # whose path the card has
        self._spinner.clear()
        for part in parts:
            self._console.print(part)

    async def progress(self, key: str, line: Text) -> None:
        """Print one more line."""
        del key
        await self.show(line)

    async def grow(self, key: str, text: str) -> None:
        """Print more words."""
        self._write(text if key in self._said else f"\n{text}")
        self._said[key] = self._said.get(key, "") + text

    async def settle(self, key: str, content: Content) -> None:
        """End the line, and print what does not stand there yet."""
        self._write("\n")
        rest = unsaid(content, self._said.pop(key, ""))
        if rest != Content():
            self._console.print(painted(rest))

    def busy(self) -> AbstractContextManager[None]:
        """Turn a spinner below what stands there."""
        return self._spinner.turning()

    def _write(self, text: str) -> None:
        """Print without a line break."""
        self._spinner.clear(ended=text.endswith("\n"))
        self._console.print(harmless(text), end="", markup=False, highlight=False)


def _listen(deliver: Callable[[str | None], object]) -> None:
    """Read standard input in a thread that ends with the process; None at its end."""

    def read() -> None:
        for line in sys.stdin:
            deliver(line.rstrip("\n"))
        deliver(None)

    threading.Thread(target=read, name="terminal", daemon=True).start()
