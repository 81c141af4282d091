"""The live screen on a real pseudo terminal: what is typed, proposed, remembered and interrupted."""

import asyncio
import base64
import contextlib
import fcntl
import io
import os
import struct
import termios
import threading
import tty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from rich.console import Console

from agent.domain.content import END_ANSWER, Content
from agent.domain.inbound import Clicked, Inbound, Said
from bot.console.adapter import ConsoleAdapter
from bot.console.images import InlineImage, Protocol
from bot.console.live import LiveScreen

CTRL_C, CTRL_D, UP, TAB, ENTER = "\x03", "\x04", "\x1b[A", "\t", "\r"
LIMIT_S = 30.0


class Terminal:
    """A terminal of 80 columns with a person before it, and a chat adapter behind."""

    def __init__(self, folder: Path, keyboard) -> None:
        self.master, slave = os.openpty()
        tty.setraw(slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
        self._file = os.fdopen(slave, "w")
        self.keyboard = keyboard
        self._shown = b""
        self.came: list[Inbound] = []
        console = Console(file=self._file, force_terminal=True, width=80)
        self.screen = LiveScreen(folder / "typed", console=console, keyboard=keyboard)
        self.adapter = ConsoleAdapter(thread_id="main", person="ann", files=folder / "files", screen=self.screen)
        self.running: asyncio.Task[None] | None = None
        threading.Thread(target=self._read, daemon=True).start()  # the kernel holds 4 KB for who does not read

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(self.master, 65_536):
                self._shown += part

    async def accept(self, inbound: Inbound) -> bool:
        self.came.append(inbound)
        return True

    @property
    def shown(self) -> str:
        """Everything that was written to it, with its control sequences."""
        return self._shown.decode(errors="replace")

    async def until(self, true) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not true():
                await asyncio.sleep(0.01)

    def types(self, keys: str) -> None:
        self.keyboard.send_text(keys)

    @property
    def typed(self) -> str:
        """The line as it stands, of which only what changed is drawn."""
        return self.screen._prompt.default_buffer.text

    def acts(self) -> list[object]:
        return [inbound.act for inbound in self.came]

    def close(self) -> None:
        self._file.close()  # the reader of the other end sees that


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Terminal]:
    with create_pipe_input() as keyboard:
        terminal = Terminal(folder, keyboard)
        terminal.running = asyncio.create_task(terminal.adapter.run(terminal.accept))
        await terminal.until(lambda: "Tab completes" in terminal.shown)
        try:
            yield terminal
        finally:
            terminal.running.cancel()
            await asyncio.gather(terminal.running, return_exceptions=True)
            terminal.close()


async def test_a_line_is_sent_and_recalled_after_a_restart_without_its_secret(tmp_path: Path) -> None:
    async with opened(tmp_path) as terminal:
        terminal.types(f"my token is hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345{ENTER}status{ENTER}")
        await terminal.until(lambda: len(terminal.came) == 2)
        terminal.types(CTRL_D)
        await terminal.until(lambda: terminal.running is not None and terminal.running.done())
    assert "hf_AbC" not in (tmp_path / "typed").read_text()
    assert (tmp_path / "typed").stat().st_mode & 0o077 == 0
    async with opened(tmp_path) as terminal:
        terminal.types(UP + ENTER)
        await terminal.until(lambda: bool(terminal.came))
        assert terminal.acts() == [Said(text="status")]


async def test_tab_completes_commands_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text("a\n1\n")
    async with opened(tmp_path) as terminal:
        terminal.types(f"experim{TAB}")
        await terminal.until(lambda: terminal.typed == "experiments")
        terminal.types(ENTER)
        await terminal.until(lambda: terminal.acts() == [Said(text="experiments")])
        terminal.types(f"train on @vis{TAB}")
        await terminal.until(lambda: terminal.typed == "train on @visits.csv")
        terminal.types(ENTER)
        await terminal.until(lambda: len(terminal.came) == 2)
        act = terminal.came[-1].act
        assert isinstance(act, Said)
        assert [file.name for file in act.attachments] == ["visits.csv"]


async def test_what_is_shown_leaves_the_line_that_is_being_typed(tmp_path: Path) -> None:
    async with opened(tmp_path) as terminal:
        terminal.types("half a sen")
        await terminal.until(lambda: "half a sen" in terminal.shown)
        await terminal.adapter.post(terminal.adapter.thread, Content(text="A card came between."), key="k")
        await terminal.until(lambda: terminal.shown.rfind("half a sen") > terminal.shown.find("A card came between."))
        terminal.types(f"tence{ENTER}")
        await terminal.until(lambda: terminal.acts() == [Said(text="half a sentence")])


async def test_ctrl_c_ends_the_answer_and_a_second_one_leaves(tmp_path: Path) -> None:
    async with opened(tmp_path) as terminal, terminal.adapter.busy(terminal.adapter.thread, None):
        await terminal.until(lambda: "Ctrl-C interrupts" in terminal.shown)
        terminal.types(CTRL_C)
        await terminal.until(lambda: bool(terminal.came))
        assert terminal.acts() == [Clicked(action=END_ANSWER.action, subject=END_ANSWER.subject)]
        assert terminal.running is not None
        assert not terminal.running.done()
        terminal.types(CTRL_C)
        await terminal.until(terminal.running.done)
        assert terminal.screen.left_at_once
        assert len(terminal.came) == 1


async def test_an_answer_grows_and_is_there_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as terminal:
        stream = await terminal.adapter.stream(terminal.adapter.thread, key="k")
        await stream.append("The first block.\n\nThe second")
        await terminal.until(lambda: "The first block." in terminal.shown)
        await stream.append(" block ends.")
        await stream.finish(Content(text="The first block.\n\nThe second block ends."))
        await terminal.until(lambda: "The second block ends." in terminal.shown)
        assert terminal.shown.count("The first block.") == 1


@pytest.mark.parametrize(
    ("protocol", "mark", "before"), [("kitty", "\x1b_G", ";"), ("iterm", "\x1b]1337;File=inline=1", ":")]
)
def test_a_picture_reaches_a_terminal_that_can_show_it_whole(
    tmp_path: Path, protocol: Protocol, mark: str, before: str
) -> None:
    chart, written = tmp_path / "chart.png", io.StringIO()
    chart.write_bytes(b"\x89PNG" + bytes(range(256)) * 40)
    console = Console(file=written, force_terminal=True, width=40)
    console.print(InlineImage(chart, protocol))
    parts = written.getvalue().split(mark)[1:]
    sent = "".join(part.split("\x1b\\")[0].split("\x07")[0].partition(before)[2] for part in parts)
    assert base64.b64decode(sent) == chart.read_bytes()
    assert "40" in parts[0].partition(before)[0], "no wider than the terminal"
    console.print(InlineImage(tmp_path / "gone.png", protocol))
    assert written.getvalue().count(mark) == len(parts)
