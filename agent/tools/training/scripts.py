"""Changes of a training script: exact replacements, the syntax check, the diff that people see. Pure text work.

Called by the tools that plan a change, before anybody is asked and before anything is stopped.
"""

import ast
import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from agent.cards import counted
from agent.domain.errors import BadRequest
from agent.domain.redaction import marks_in, without_secrets
from agent.tools.tool import Arguments

SHOWN_LINES, SHOWN_CHARS, SHOWN_WIDTH = 40, 1500, 150  # what every platform's card shows without cutting
CONTEXT_LINES = 3
ONLY_SECRETS = "Only values differ that look like secrets; they are not shown."


class Replacement(Arguments):
    """One exact change: `old` must stand in the script exactly once."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff; `shown` is what fits on a card, `cut` the lines that do not."""

    text: str
    added: int
    removed: int
    shown: tuple[str, ...]
    cut: int

    @property
    def counts(self) -> str:
        """`3 lines added, 1 removed`."""
        return f"{counted(self.added, 'line')} added, {self.removed:,} removed"


def replaced(script: str, changes: Sequence[Replacement]) -> str:
    """The script with every change made, one after the other.

    Raises:
        BadRequest: an `old` text is empty, missing, or stands there more than once.
    """
    for change in changes:
        found = script.count(change.old) if change.old else 0
        if found != 1:
            first = change.old.strip().partition("\n")[0][:80]
            what = f"stands {found} times in the script" if found else "does not stand in the script"
            what += ", whose secrets are not shown" if marks_in(change.old) else ""
            raise BadRequest(
                f"The text to replace, `{first}`, {what}. Give text that stands there once, with its indentation."
            )
        script = script.replace(change.old, change.new)
    return script


def check(script: str, *, name: str = "train.py") -> None:
    """Raises `BadRequest` with line and text where this is no Python program."""
    try:
        compile(ast.parse(script, filename=name), name, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = without_secrets((error.text or "").strip())[0]
        where = f"line {error.lineno}" if error.lineno else "the end"
        raise BadRequest(
            f"The new {name} is not valid Python, so nothing was changed or stopped: {error.msg} in {where}"
            + (f", `{line[:120]}`." if line else ".")
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:  # NUL bytes; nesting that no parser takes
        raise BadRequest(
            f"The new {name} cannot be read as Python ({error}), so nothing was changed or stopped."
        ) from None


def refuse_marks(before: str, after: str) -> None:
    """Raises `BadRequest` where a new script has a mark in place of a secret that it was read without."""
    if marks_in(after) > marks_in(before):
        raise BadRequest(
            "The new script has `[secret: …]` in place of a value that is not shown, so it could not run. Replace "
            "other lines, or let it read the value from its environment."
        )


def warned_of(kinds: Sequence[str]) -> str:
    """The line of a card about a program that holds secrets."""
    return f"It holds what looks like a secret ({', '.join(kinds)}): it runs with it, and nobody is shown it."


def shown_of(text: str) -> Diff:
    """A whole program, as much of it as fits on a card."""
    body = without_secrets(text)[0].splitlines()
    shown = _fitting(body)
    return Diff(text, len(body), 0, shown, _cut(body, shown))


def diff_of(before: str, after: str, *, name: str = "train.py") -> Diff:
    """What changes, as a unified diff with three lines of context, without secrets."""
    old, new = (without_secrets(text)[0].splitlines() for text in (before, after))
    lines = [*difflib.unified_diff(old, new, f"{name} (now)", f"{name} (new)", lineterm="", n=CONTEXT_LINES)]
    body = lines[2:] or [ONLY_SECRETS]
    shown = _fitting(body)
    return Diff(
        "\n".join(lines) + "\n",
        sum(line.startswith("+") for line in body),
        sum(line.startswith("-") for line in body),
        shown,
        _cut(body, shown),
    )


def _fitting(body: Sequence[str]) -> tuple[str, ...]:
    """The first lines, as much of each as fits on a card."""
    shown: list[str] = []
    used = 0
    for line in body:
        kept = line if len(line) <= SHOWN_WIDTH else line[: SHOWN_WIDTH - 1] + "…"
        used += len(kept) + 1
        if len(shown) == SHOWN_LINES or used > SHOWN_CHARS:
            break
        shown.append(kept)
    return tuple(shown)


def _cut(body: Sequence[str], shown: Sequence[str]) -> int:
    """How many lines are not shown whole."""
    whole = all(len(line) <= SHOWN_WIDTH for line in body[: len(shown)])
    return len(body) - len(shown) or (0 if whole else 1)
