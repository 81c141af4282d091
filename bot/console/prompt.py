"""The prompt of a live screen: history over restarts, proposals on Tab, and where its words go. Knows no adapter."""

from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import TextIO, cast

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output.vt100 import Vt100_Output
from rich.console import Console

from agent.domain.redaction import without_secrets
from bot.console.paint import harmless
from bot.console.proposals import Proposals


def prompt_of(
    console: Console, history: Path, *, keyboard: Input | None, ctrl_c: Callable[[KeyPressEvent], None]
) -> PromptSession[str]:
    """A prompt in the console's terminal, with its lines in the file `history`."""
    output = Vt100_Output.from_pty(cast("TextIO", console.file))  # of which a console says less
    output.enable_cpr = False  # not every terminal answers, and nothing here needs to know where the cursor is
    keys = KeyBindings()
    keys.add("c-c")(ctrl_c)
    return PromptSession(
        history=RedactedHistory(history),
        auto_suggest=AutoSuggestFromHistory(),
        complete_while_typing=False,
        key_bindings=keys,
        input=keyboard or create_input(),
        output=output,
    )


class RedactedHistory(FileHistory):
    """Lines of earlier days in a file that only its owner reads, without the secrets that were typed."""

    def __init__(self, path: Path) -> None:
        """The file is made where there is none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        super().__init__(path)

    def append_string(self, string: str) -> None:
        """Keep a line."""
        super().append_string(without_secrets(string)[0])


class ProposalCompleter(Completer):
    """Shows proposals when Tab is pressed."""

    def __init__(self, proposals: Proposals) -> None:
        """`proposals` are asked anew each time."""
        self._proposals = proposals

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """None: they have to be waited for."""
        del document, complete_event
        return iter(())

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """What may follow what stands before the cursor."""
        del complete_event
        for one in await self._proposals.of(document.text_before_cursor):
            yield Completion(one.text, start_position=-one.replaces, display_meta=harmless(one.about))
