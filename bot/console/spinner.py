"""A spinner on the last line of a terminal, while the bot is at work. Nothing is written where there is no terminal."""

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

FRAMES, WORDS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", " working… "
EVERY_S = 0.1
SAVE, RESTORE, TO_START, ERASE_LINE = "\x1b7", "\x1b8", "\r", "\x1b[K"


class Spinner:
    """Turns in the place of one character, so that what a person types behind it is not overwritten."""

    def __init__(self, console: Console) -> None:
        """`console` is who else writes there; it calls `clear` first."""
        self._console = console
        self._works = 0
        self._turning: asyncio.Task[None] | None = None
        self._drawn = False
        self._within_a_line = False

    @contextmanager
    def turning(self) -> Iterator[None]:
        """Turn while a block lasts."""
        self._works += 1
        if self._turning is None and self._console.is_terminal and not self._console.is_dumb_terminal:
            self._turning = asyncio.create_task(self._turn())
        try:
            yield
        finally:
            self._works -= 1
            if self._turning is not None and not self._works:
                self._turning.cancel()
                self._turning = None
                self.clear(ended=not self._within_a_line)

    def clear(self, *, ended: bool = True) -> None:
        """Make room for words; `ended` is False where more of the same line will follow."""
        if self._drawn:
            self._write(TO_START + ERASE_LINE)
        self._drawn, self._within_a_line = False, not ended

    async def _turn(self) -> None:
        for frame in itertools.cycle(FRAMES):
            if self._drawn:
                self._write(SAVE + TO_START + frame + RESTORE)
            elif not self._within_a_line:
                self._write(frame + WORDS)
                self._drawn = True
            await asyncio.sleep(EVERY_S)

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()
