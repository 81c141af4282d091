"""What an LLM is tuned on: conversations with an answer, which files write as pairs, as chats or as preferences.

- a prompt and an answer: columns `prompt` and `completion` (or instruction, question; response, output, answer), or any
  other two; a third column `input` or `context` goes below the prompt
- chats: a column `messages` with a JSON list of `{"role": …, "content": …}`; every answer in it is learned
- preferences: `prompt`, `chosen` and `rejected`, or two chats that differ in their end, also as `Human: … Assistant: …`
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from worker.recipes.common.columns import describe, text_column
from worker.recipes.common.table import BadData, Table
from worker.recipes.language.chat import BELOW, Message, asked, text_of, with_below

_PROMPTS = ("prompt", "instruction", "question", "query")
_ANSWERS = ("completion", "response", "output", "answer", "answers")
_CHATS = ("messages", "conversations", "conversation", "chat")
_SPEAKERS = re.compile(r"\n\n(Human|Assistant):")
_CHOSEN, _REJECTED = "chosen", "rejected"
_ROLES = {
    "system": "system", "developer": "system", "user": "user", "human": "user", "assistant": "assistant",
    "gpt": "assistant", "model": "assistant", "bot": "assistant", "tool": "tool", "function": "tool",
    "observation": "tool", "function_call": "assistant",
}  # fmt: skip
FEWEST = 20
_MOST_EMPTY = 0.1


@dataclass(frozen=True)
class Example:
    """A conversation, the answer to it, the worse one where there are two, and the row that it comes from."""

    prompt: list[Message]
    answer: str
    worse: str
    row: int

    def written(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def read_example(text: str) -> Example:
    """What `written` wrote."""
    return Example(**json.loads(text))


def answer_column(table: Table, *, asked_for: bool) -> str | None:
    """The column with the answers, by the names that such files have."""
    names = {name.lower(): name for name in table.names}
    for chat in _CHATS:
        if chat in names and _is_chat(table.columns[names[chat]][0]):
            return names[chat]
    if _CHOSEN in names and _REJECTED in names:
        return names[_CHOSEN]
    prompts, answers = [n for n in _PROMPTS if n in names], [n for n in _ANSWERS if n in names]
    if prompts and answers:
        return names[answers[0]]
    return table.names[-1] if asked_for and len(table.names) > 1 else None


def prompt_column(table: Table, target: str) -> str | None:
    """The column with the prompts; the target itself where it holds whole chats; None where there is none."""
    names = {name.lower(): name for name in table.names if name != target}
    named = next((names[name] for name in _PROMPTS if name in names), None)
    if named is None and _is_chat(table.columns[target][0]):
        return target
    columns = [describe(table, name) for name in table.names if name.lower() != _REJECTED]
    return named or text_column(columns, leave_out=target, asked=True)


def further_columns(table: Table) -> list[str]:
    """The columns beside prompts and answers that are read."""
    return [name for name in table.names if name.lower() in {*BELOW, _REJECTED}]


def examples_of(table: Table, target: str, prompts: str | None) -> list[Example]:
    """What can be learned from each row, in their order. Raises: BadData with the line.

    A few rows without a prompt or an answer are left out.
    """
    names = {name.lower(): name for name in table.names}
    worse = names.get(_REJECTED) if target.lower() == _CHOSEN else None
    below = next((names[name] for name in BELOW if name in names and names[name] not in {target, prompts}), None)
    if prompts is None:
        raise BadData(f"There is no column with prompts beside “{target}”. The columns are: {', '.join(table.names)}.")
    found: list[Example] = []
    for row, line in enumerate(table.lines):
        where = f"Line {line}"
        answer, said = table.columns[target][row], table.columns[prompts][row].strip()
        before = [] if prompts == target else _messages(said, where) if _is_chat(said) else asked(said)
        other = table.columns[worse][row].strip() if worse else ""
        if _is_chat(answer):
            found += _turns(before, answer, other, row, where)
            continue
        whole = with_below(said, table.columns[below][row] if below else "")
        if not said or not answer.strip() or (worse and other in {"", answer.strip()}):
            continue
        found.append(Example(before if whole == said else asked(whole), answer.strip(), other, row))
    empty = _empty(table, found)
    if len(empty) > _MOST_EMPTY * table.rows:
        what = "no prompt, no answer or two equal ones" if worse else "no prompt or no answer"
        raise BadData(
            f"Line {empty[0]} has {what}, as {len(empty):,} of {table.rows:,} rows. Fill them in or remove the rows."
        )
    if len({example.row for example in found}) < FEWEST:
        raise BadData(f"There are only {len(table.lines)} rows; at least {FEWEST} are needed to train and to measure.")
    return found


def left_out(table: Table, examples: Sequence[Example]) -> list[str]:
    """The sentence on rows that nothing is learned from."""
    empty = _empty(table, examples)
    if not empty:
        return []
    lines = ", ".join(map(str, empty[:5])) + (" and more" if len(empty) > 5 else "")
    what = "row without a prompt or an answer is" if len(empty) == 1 else "rows without a prompt or an answer are"
    return [f"{len(empty):,} {what} left out (line {lines})."]


def _empty(table: Table, examples: Sequence[Example]) -> list[int]:
    """The lines of which there is no example."""
    used = {example.row for example in examples}
    return [line for row, line in enumerate(table.lines) if row not in used]


def together(examples: Sequence[Example]) -> list[Hashable]:
    """What examples stay on one side of a split with: those of one row, and those of equal prompts."""
    first: dict[str, int] = {}
    row_of: dict[int, int] = {}
    for example in examples:
        row_of.setdefault(example.row, first.setdefault(json.dumps(example.prompt), example.row))
    return [row_of[example.row] for example in examples]


def _is_chat(cell: str) -> bool:
    return cell.lstrip().startswith(("[{", "Human:"))


def _turns(before: list[Message], cell: str, worse: str, row: int, where: str) -> list[Example]:
    """An example for each answer of a chat; of two chats that differ in their last answer, one for that.

    `before` is the prompt, where the chat has only what follows it.
    """
    messages = _messages(cell, where)
    if len(messages) == 1:
        messages = [*before, *messages]
    if worse:
        other = _messages(worse, where)[-1]["content"] if _is_chat(worse) else worse
        same = messages[-1]["content"].strip() == other.strip()
        return [] if same else [Example(messages[:-1], messages[-1]["content"], other, row)]
    answers = [at for at, said in enumerate(messages) if said["role"] == "assistant" and said["content"].strip() and at]
    return [Example(messages[:at], messages[at]["content"], "", row) for at in answers]


def _message(found: dict[str, Any]) -> tuple[str, str | None]:
    """Who says what; a call of a tool says what it calls."""
    said = found.get("content", found.get("value"))
    calls = found.get("tool_calls")
    if not said and calls:
        said = json.dumps([call.get("function", call) for call in calls if isinstance(call, dict)], ensure_ascii=False)
    return str(found.get("role", found.get("from"))), text_of(said)


def _transcript(cell: str) -> list[dict[str, str]]:
    """The messages of a chat that is written as a text, with who says what in front."""
    _, *parts = _SPEAKERS.split(f"\n\n{cell.strip()}")
    turns = zip(parts[::2], parts[1::2], strict=True)
    return [{"role": speaker.lower(), "content": said.strip()} for speaker, said in turns]


def _messages(cell: str, where: str) -> list[Message]:
    try:
        found: Any = _transcript(cell) if cell.lstrip().startswith("Human:") else json.loads(cell)
    except ValueError as error:
        raise BadData(f"{where}: a chat must be a JSON list of messages ({error}).") from error
    messages = [_message(m) for m in found if isinstance(m, dict)]
    odd = next((role for role, _ in messages if role not in _ROLES), None)
    empty = any(said is None for _, said in messages)
    if not messages or len(messages) < len(found) or odd is not None or empty:
        but = f", not of “{odd}”" if odd else ", and one has no text" if empty else ""
        raise BadData(f'{where}: a message is {{"role": "user" or "assistant" or "system", "content": "a text"}}{but}.')
    return [{"role": _ROLES[role], "content": str(said)} for role, said in messages]
