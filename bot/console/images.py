"""Pictures within a terminal, for those that draw them: the protocols of kitty and of iTerm2.

Sources: sw.kovidgoyal.net/kitty/graphics-protocol, iterm2.com/documentation-images.html, 2026-11.
"""

import base64
from pathlib import Path
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import ControlType, Segment

Protocol = Literal["", "kitty", "iterm"]
COLUMNS = 72
_CHUNK = 4096  # of base64, the most in one sequence of kitty's


class InlineImage:
    """A PNG that rich prints as it is."""

    def __init__(self, path: Path, protocol: Protocol) -> None:
        """`protocol` is what the terminal speaks; the file is read when it is printed."""
        self._path = path
        self._protocol = protocol

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One control segment, which counts for no width, and the end of its line; nothing where the file is gone."""
        if not self._path.is_file():
            return
        data, columns = base64.b64encode(self._path.read_bytes()).decode(), min(COLUMNS, options.max_width)
        text = _kitty(data, columns) if self._protocol == "kitty" else _iterm(data, columns)
        yield Segment(text, control=[(ControlType.HOME,)])  # any code: rich cuts what has none to the width
        yield Segment.line()


def _kitty(data: str, columns: int) -> str:
    parts = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    heads = [f"a=T,f=100,c={columns},", *[""] * (len(parts) - 1)]
    more = [*[1] * (len(parts) - 1), 0]
    return "".join(
        f"\x1b_G{head}m={goes_on};{part}\x1b\\" for head, goes_on, part in zip(heads, more, parts, strict=True)
    )


def _iterm(data: str, columns: int) -> str:
    return f"\x1b]1337;File=inline=1;width={columns};preserveAspectRatio=1:{data}\x07"
