"""The thoughts that models of one's own write into their answers as `<think>…</think>`. Pure; part of the gateway."""

import re

_BEGINS = ("<think>", "<thinking>")
_END = re.compile(r"</think(?:ing)?>")
_LONGEST_END = len("</thinking>")
# Where the server's template has said the beginning. One that stands in the answer is an example.
_UNOPENED = re.compile(r"(?:(?!<think).)*?</think(?:ing)?>[ \t]*\n\s*", re.DOTALL)


class Thoughts:
    """Takes thoughts off the beginning of an answer that comes in pieces."""

    def __init__(self, *, begun: bool = False) -> None:
        """Nothing has come yet; `begun` says that the server's template says the beginning of thoughts."""
        self._held = ""
        self._thinks, self._spoke = begun, False

    def add(self, piece: str) -> str:
        """What of the answer's words is known to be no thought with this piece."""
        if self._spoke:
            return piece
        self._held += piece
        while self._opened() and self._closed():
            pass
        if self._thinks or any(begin.startswith(self._held) for begin in _BEGINS):
            return ""
        self._spoke = True
        return self._held

    @property
    def unfinished(self) -> bool:
        """Whether no end of thoughts has come yet."""
        return self._thinks

    def _opened(self) -> bool:
        if not self._thinks:
            self._held = self._held.lstrip()
            begin = next(filter(self._held.startswith, _BEGINS), "")
            self._held = self._held.removeprefix(begin)
            self._thinks = bool(begin)
        return self._thinks

    def _closed(self) -> bool:
        end = _END.search(self._held)
        self._held = self._held[end.end() :] if end else self._held[-_LONGEST_END:]
        self._thinks = end is None
        return not self._thinks


def without_unopened(text: str) -> str:
    """A whole answer without thoughts that end and never began."""
    found = _UNOPENED.match(text)
    return text[found.end() :] if found else text
