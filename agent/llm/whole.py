"""One streamed answer, put together from its chunks. Part of the gateway.

LiteLLM's own builder drops calls without an id, which some servers send.
"""

from collections.abc import Collection, Sequence
from typing import Any

from agent.domain.ids import new_ulid
from agent.llm.repair import Prose, arguments_of, calls_in, is_whole, name_of
from agent.llm.thoughts import Thoughts, without_unopened

TOO_LONG = "length"  # the finish reason of an answer that was ended at the model's limit


class Whole:
    """What has come so far."""

    def __init__(self, *, thinks: bool = False) -> None:
        """Nothing yet; `thinks` says that the model's earlier answers had thoughts that ended and never began."""
        self.chunks: list[Any] = []
        self.finish = ""
        self._text: list[str] = []
        self._all: list[str] = []
        self._thinks = thinks
        self._thoughts, self._prose = Thoughts(begun=thinks), Prose()
        self._calls: list[list[str]] = []  # id, name, arguments
        self._at: dict[int, list[str]] = {}

    @property
    def text(self) -> str:
        """The words, without thoughts; all of them where thoughts that were taken for granted did not end."""
        words = self._all if self._thinks and self._thoughts.unfinished else self._text
        return without_unopened("".join(words))

    @property
    def thinks(self) -> bool:
        """Whether its thoughts ended and never began."""
        return without_unopened(all_of_it := "".join(self._all)) != all_of_it

    @property
    def is_empty(self) -> bool:
        """Whether there are neither words nor calls."""
        return not self._calls and not self.text.strip()

    def add(self, chunk: Any) -> tuple[str, bool]:
        """Take a chunk; what may be shown with it, and whether it has anything at all (a keep-alive has not)."""
        self.chunks.append(chunk)
        if not chunk.choices:
            return "", True
        choice = chunk.choices[0]
        self.finish = choice.finish_reason or self.finish
        parts = getattr(choice.delta, "tool_calls", None) or ()
        for part in parts:
            self._add_call(part.index or 0, part.id or "", part.function)
        text = getattr(choice.delta, "content", None)
        text = text if isinstance(text, str) else ""
        moves = bool(text or parts or self.finish or getattr(choice.delta, "reasoning_content", None))
        self._all.append(text)
        text = self._thoughts.add(text)
        self._text.append(text)
        return self._prose.add(text), moves

    def _add_call(self, index: int, call_id: str, function: Any) -> None:
        call = self._at.get(index)
        if call is None or _is_another(call, call_id, function):
            call = self._at[index] = ["", "", ""]
            self._calls.append(call)
        call[0] = call[0] or call_id
        call[1] = call[1] or function.name or ""
        call[2] += function.arguments or ""

    def said(self, tools: Collection[str]) -> tuple[str, list[list[str]]]:
        """The words and the calls in order, each with an id of its own; `tools` may be called in words too."""
        text, calls = self.text, self._calls
        if not calls:
            text, written = calls_in(text, tools)
            calls = [["", *call] for call in written]
        elif self.finish == TOO_LONG:
            calls[-1][2] = calls[-1][2] or "{"  # it was cut before its arguments, so that nobody carries it out
        seen: set[str] = set()
        for call in calls:
            if not call[0] or call[0] in seen:
                call[0] = f"call-{new_ulid()}"
            seen.add(call[0])
            call[1] = name_of(call[1], tools)
            call[2] = arguments_of(call[2]) if call[2] else ""
        return text, calls


def _is_another(call: Sequence[str], call_id: str, function: Any) -> bool:
    """Whether this part begins a call after one of the same index: servers of one's own number them all 0."""
    if call_id and call[0]:
        return call_id != call[0]
    begins = function.name and function.arguments and is_whole(call[2])
    return bool(begins) and [function.name, function.arguments] != call[1:]
