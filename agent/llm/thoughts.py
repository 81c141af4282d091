"""Takes thoughts out of an answer that a server did not tell apart: `<think>…</think>` before the words.

Part of the gateway. Servers that know their model send thoughts as `reasoning_content`; others leave them in the text,
some without the first tag, which their prompt holds.
"""

import re

_OPENING = ("<think>", "<thinking>")
_THOUGHTS = re.compile(r"\s*<think(?:ing)?>.*?(?:</think(?:ing)?>\s*|\Z)", re.DOTALL)
_CLOSING = re.compile(r"</think(?:ing)?>\s*")


def without_thoughts(text: str) -> str:
    """The words of a whole answer; what ends in its thoughts has none."""
    while found := _THOUGHTS.match(text):
        text = text[found.end() :]
    *_, words = _CLOSING.split(text)
    return words


class WordsAsTheyCome:
    """The same piece by piece: nothing of thoughts that are marked at their beginning."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._held = ""
        self._is_said = False

    def take(self, piece: str) -> str:
        """What of the answer can be shown now."""
        if self._is_said:
            return piece
        self._held += piece
        begun = self._held.lstrip()
        if not begun or any(tag.startswith(begun) for tag in _OPENING):
            return ""  # it may become a tag
        words = without_thoughts(self._held) if begun.startswith(_OPENING) else self._held
        self._is_said = bool(words.strip()) and not any(tag.startswith(words.lstrip()) for tag in _OPENING)
        return words if self._is_said else ""
