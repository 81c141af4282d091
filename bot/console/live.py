"""A screen with a live region: below what was said stands what still changes, and below that what is being typed.

Whatever is shown goes above them, so the line that is being typed stays whole. Used by `trainyard chat` where both
ends are a terminal; nothing else loads prompt_toolkit.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console, RenderableType
from rich.markdown import Markdown
from rich.text import Text

from agent.domain.content import Content
from bot.console.images import InlineImage, Protocol
from bot.console.paint import harmless, painted
from bot.console.prompt import ProposalCompleter, prompt_of
from bot.console.proposals import Proposals
from bot.console.screen import unsaid
from bot.console.spinner import EVERY_S, FRAMES
from bot.markdown import without_traps

MARK = ("bold fg:ansimagenta", "› ")
HINTS = "Tab completes · ↑ recalls · @path attaches · Ctrl-D leaves"
AGAIN_S = 2.0  # within which a second Ctrl-C leaves
SIGN_S = 1.0  # within which a request that takes longer has shown that it is worked on
LONG_AGO_S = -60.0
MOST_PROGRESS = 4  # lines
_NEXT_BLOCK = re.compile(r"\n[ \t]*\n+(?=\S)")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)


@dataclass(slots=True)
class Growing:
    """An answer that is being given; its first `printed` characters stand above for good."""

    said: str = ""
    printed: int = 0

    @property
    def rest(self) -> str:
        """What still changes."""
        return self.said[self.printed :]

    def whole_blocks(self) -> int:
        """How many characters of the rest are blocks of markdown that nothing can change any more."""
        ends = [found.end() for found in _NEXT_BLOCK.finditer(self.rest)]
        return next((end for end in reversed(ends) if len(_FENCE.findall(self.rest[:end])) % 2 == 0), 0)


class LiveScreen:
    """One terminal."""

    is_live = True

    def __init__(
        self, history: Path, *, console: Console, keyboard: Input | None = None, images: Protocol = ""
    ) -> None:
        """`history` is the file of what was typed; without a `keyboard` it is standard input.

        `images` is how the terminal takes pictures; empty where it takes none.
        """
        self.left_at_once = False
        self._images: Protocol = images
        self._console = console
        self._prompt = prompt_of(console, history, keyboard=keyboard, ctrl_c=self._ctrl_c)
        self._interrupt: Callable[[], Awaitable[None]] | None = None
        self._interrupting: asyncio.Future[None] | None = None  # kept, or it could be collected before its end
        self._answers: dict[str, Growing] = {}
        self._progress: dict[str, Text] = {}
        self._works = 0
        self._began_s = self._asked_s = self._interrupted_s = LONG_AGO_S

    async def lines(self, proposals: Proposals, interrupt: Callable[[], Awaitable[None]]) -> AsyncGenerator[str, None]:
        """What is typed, until Ctrl-D, or a Ctrl-C that has nothing to interrupt."""
        self._interrupt = interrupt
        with patch_stdout(raw=True):  # for whoever else prints
            while (line := await self._line(ProposalCompleter(proposals))) is not None:
                self._asked_s = _now_s()
                yield line

    async def _line(self, completer: ProposalCompleter) -> str | None:
        try:
            return await self._prompt.prompt_async(
                self._message,
                completer=completer,
                placeholder=[("fg:ansibrightblack", HINTS)],
                handle_sigint=False,  # the program's own handler would be gone afterwards
                set_exception_handler=False,
            )
        except EOFError:
            return None

    async def show(self, *parts: RenderableType, over: str = "", picture: str = "") -> None:
        """Print it above the live region."""
        image = (InlineImage(Path(picture), self._images),) if picture and self._images else ()

        def draw() -> None:
            self._progress.pop(over, None)
            for part in (*parts, *image):
                self._console.print(part)

        await self._drawn(draw)

    async def progress(self, key: str, line: Text) -> None:
        """Keep one line in the live region up to date."""
        self._progress[key] = line
        self._prompt.app.invalidate()

    async def grow(self, key: str, text: str) -> None:
        """Print blocks of it that are whole; the last one stands in the live region."""
        answer = self._answers.setdefault(key, Growing())
        answer.said += harmless(text)
        if count := answer.whole_blocks():

            def draw() -> None:
                self._print_markdown(answer.rest[:count])
                answer.printed += count

            await self._drawn(draw)
        self._prompt.app.invalidate()

    async def settle(self, key: str, content: Content) -> None:
        """Print what is not printed yet."""

        def draw() -> None:
            answer = self._answers.pop(key, Growing())
            rest = unsaid(content, answer.said[: answer.printed])
            if rest != Content():
                self._console.print("", painted(rest), sep="\n")

        await self._drawn(draw)

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Turn a spinner in the live region."""
        if not self._works:
            self._began_s = _now_s()
        self._works += 1
        turning = asyncio.create_task(self._turn())
        try:
            yield
        finally:
            turning.cancel()
            self._works -= 1
            self._prompt.app.invalidate()

    async def _turn(self) -> None:
        while True:
            self._prompt.app.invalidate()
            await asyncio.sleep(EVERY_S)

    async def _drawn(self, draw: Callable[[], None]) -> None:
        """Draw above the live region, whose change is part of it."""
        await asyncio.shield(run_in_terminal(draw))  # one that were cancelled would hold up all that follow

    def _print_markdown(self, text: str) -> None:
        self._console.print("", Markdown(without_traps(text)), sep="\n")

    def _message(self) -> StyleAndTextTuples:
        """The live region and the mark before what is typed; of a line that was sent off, the mark alone."""
        if self._prompt.app.is_done:
            return [MARK]
        size = self._prompt.output.get_size()
        width = size.columns - 1  # a full line would wrap
        lines = self._lines_of(
            *(Markdown(without_traps(answer.rest), hyperlinks=False) for answer in self._answers.values()), width=width
        )[-size.rows // 2 :]
        lines += self._lines_of(*list(self._progress.values())[-MOST_PROGRESS:], *self._work(), width=width)
        return [*to_formatted_text(ANSI("".join(f"{line}\n" for line in lines))), MARK]

    def _lines_of(self, *parts: RenderableType, width: int) -> list[str]:
        with self._console.capture() as captured:
            for part in parts:
                self._console.print(part, width=width)
        return captured.get().splitlines()

    def _work(self) -> list[Text]:
        """What is at work, and how to end it."""
        if not self._works:
            return []
        frame = FRAMES[int(_now_s() / EVERY_S) % len(FRAMES)]
        keys = "Ctrl-C again leaves" if self._was_interrupted() else "Ctrl-C interrupts"
        line = Text(f"{frame} working… {_now_s() - self._began_s:.0f} s", no_wrap=True, overflow="ellipsis")
        return [line.append(f" · {keys}", style="dim")]

    def _was_interrupted(self) -> bool:
        return _now_s() - self._interrupted_s < AGAIN_S

    def _is_at_work(self) -> bool:
        return bool(self._works or self._answers) or _now_s() - self._asked_s < SIGN_S

    def _ctrl_c(self, event: KeyPressEvent) -> None:
        """End the answer that is being given; else clear the line; else, or when it is pressed again, leave."""
        typed = event.current_buffer
        if self._interrupt is not None and self._is_at_work() and not self._was_interrupted():
            self._interrupted_s = _now_s()
            self._interrupting = asyncio.ensure_future(self._interrupt())
        elif typed.text and not self._was_interrupted():
            typed.reset()
        else:
            self.left_at_once = True
            event.app.exit(exception=EOFError())


def _now_s() -> float:
    return asyncio.get_running_loop().time()
