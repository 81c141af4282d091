"""A view of a log: run, level, search words and place, and how it travels in a button. Pure.

A button's subject may hold only letters, digits, `.`, `_` and `-`, and has to stay short (`agent.domain.content`), so
the words are written in URL-safe base64. A view whose words are too long for that has no buttons.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.domain.content import Button
from agent.domain.errors import BadRequest
from agent.domain.ids import is_run_id
from agent.tools.training.scripts import SHOWN_WIDTH

Level = Literal["error", "warning"]
_LETTERS: dict[str | None, str] = {None: "a", "error": "e", "warning": "w"}
_LEVELS: dict[str, Level | None] = {"a": None, "e": "error", "w": "warning"}
SUBJECT_CHARS = 90  # with the version, the action and two colons still under 100
PARTS = 4
LED_IN = 40  # letters that are shown before the words that were searched for
_BEFORE = re.compile(r"-?|\d{1,19}", re.ASCII)
MOST_BEFORE = 2**63 - 1  # what a database takes


@dataclass(frozen=True, slots=True)
class LogView:
    """What is looked at; `before` is the cursor of the page, None for the newest."""

    run: str
    level: Level | None = None
    search: str = ""
    before: int | None = None

    def subject(self) -> str:
        """The view as a button carries it."""
        words = base64.urlsafe_b64encode(self.search.encode()).decode().rstrip("=")
        return f"{self.run}.{_LETTERS[self.level]}.{'-' if self.before is None else self.before}.{words}".rstrip(".")

    def button(self, label: str) -> Button:
        """A button that leads to this view."""
        return Button(action="logs", subject=self.subject(), label=label)


def view_of(subject: str) -> LogView | None:
    """The view that a button carried; None where it is no such subject (a bare run id is the newest page)."""
    run, *rest = subject.split(".")
    if not is_run_id(run) or len(rest) >= PARTS:
        return None
    level, before, words = (*rest, "", "", "")[:3]
    if (level and level not in _LEVELS) or not _BEFORE.fullmatch(before):
        return None
    if before.isdigit() and int(before) > MOST_BEFORE:
        return None
    try:
        search = base64.b64decode(words + "=" * (-len(words) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return LogView(run, _LEVELS.get(level), search, int(before) if before.isdigit() else None)


def view_in(words: Sequence[str]) -> LogView:
    """The view in the words of a command, after its run id: `level=error`, `older` and words to search for.

    Raises:
        BadRequest: a level that there is none of.
    """
    level: Level | None = None
    search: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if name.lower() == "level" and equals:
            if value.lower() not in {"error", "warning", "all"}:
                raise BadRequest(f"`{value}` is not a level of a log. Levels: error, warning, all.")
            level = {"error": "error", "warning": "warning"}.get(value.lower())  # type: ignore[assignment]
        elif word.lower() in {"errors", "warnings"} and len(words) == 1:
            level = "error" if word.lower() == "errors" else "warning"
        else:
            search.append(word)
    return LogView("", level, " ".join(search))


def buttons(view: LogView, *, older: int | None, newer: LogView | None) -> tuple[Button, ...]:
    """The buttons to other pages and levels; none where the search words do not fit in a button."""
    wanted: list[tuple[str, LogView]] = []
    if older is not None:
        wanted.append(("Older", replace(view, before=older)))
    if newer is not None:
        wanted.append(("Newer", newer))
    if view.level != "error":
        wanted.append(("Errors", LogView(view.run, "error")))
    if view.level or view.search:
        wanted.append(("Whole log", LogView(view.run)))
    subjects = {at.subject(): (label, at) for label, at in reversed(wanted)}
    shown = [at.button(label) for label, at in reversed(subjects.values())]
    return tuple(shown) if all(len(button.subject) <= SUBJECT_CHARS for button in shown) else ()


def shortened(line: str, search: str = "") -> str:
    """A line as a card shows it: a long one from its beginning, or around the words that were searched for."""
    if len(line) <= SHOWN_WIDTH:
        return line
    found = line.lower().find(search.lower())
    if found + len(search) < SHOWN_WIDTH:
        return line[: SHOWN_WIDTH - 1] + "…"
    begin = min(found - LED_IN, len(line) - SHOWN_WIDTH + 1)
    end = begin + SHOWN_WIDTH - 2
    return f"…{line[begin:]}" if end >= len(line) - 1 else f"…{line[begin:end]}…"
