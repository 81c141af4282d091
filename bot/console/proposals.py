"""What can be proposed in a terminal for what is half typed: commands, options, their values, and files after `@`.

Knows no terminal; `live` shows what it finds.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agent.commands.command import Command
from agent.commands.options import Kind, Option
from agent.commands.registry import COMMANDS, HELP, command_of
from agent.domain.ids import is_run_id
from agent.domain.inbound import Person, Thread
from agent.ports import Complete, HalfTyped

MOST_FILES = 50
OTHER_WORDS = {
    HELP.name: HELP.does,
    "approve": "say yes to the open question",
    "reject": "say no to it",
    "exit": "leave this terminal",
}
_ATTACHED = re.compile(r'(?:^|(?<=\s))@(?:"([^"]*)|([^\s"]*))$')
_TYPED_BEFORE = ("/train", "!train")
_OPEN_KINDS = frozenset({Kind.PAIRS, Kind.ROW, Kind.REST})


@dataclass(frozen=True, slots=True)
class Proposal:
    """`text` may take the place of the last `replaces` characters; `about` says what it is."""

    text: str
    replaces: int
    about: str = ""


class Proposals:
    """Those of one person in one thread."""

    def __init__(self, complete: Complete | None, thread: Thread, person: Person) -> None:
        """`complete` knows the values of options."""
        self._complete = complete
        self._thread = thread
        self._person = person

    async def of(self, before: str) -> Sequence[Proposal]:
        """What may follow or complete `before`, the likeliest first."""
        if (file := _ATTACHED.search(before)) is not None:
            return await asyncio.to_thread(_files, file[1] or file[2] or "", len(before) - file.start())
        *said, typed = re.split(r"\s+", before.lstrip())
        if said and said[0] in _TYPED_BEFORE:
            said = said[1:]
        if not said:
            return _commands(typed)
        command = HELP if said[0].lower() == HELP.name else command_of(said[0])
        if command is not None:
            return await self._options(command, said[1:], typed)
        return await self._values(COMMANDS["status"], "run", typed) if typed.startswith("r-") else ()

    async def _options(self, command: Command, said: Sequence[str], typed: str) -> Sequence[Proposal]:
        options = [option for option in command.all_options if option.kind not in _OPEN_KINDS]
        run = next((word for word in said if is_run_id(word.lower())), "")
        awaiting = next((option for option in options if said and _lead(option) == f"{said[-1]} "), None)
        if awaiting is not None:
            return await self._values(command, awaiting.name, typed, run)
        found: list[Proposal] = []
        for option in options:
            lead = _lead(option)
            if _is_said(option, said):
                continue
            if option.form != lead and not lead.endswith(" ") and typed.startswith(lead):
                found += await self._values(command, option.name, typed[len(lead) :], run)
            elif lead.startswith(typed) and typed != lead:
                found.append(Proposal(lead, len(typed), option.does))
        return tuple(dict.fromkeys(found))

    async def _values(self, command: Command, option: str, typed: str, run: str = "") -> Sequence[Proposal]:
        if self._complete is None:
            return ()
        asked = HalfTyped(self._thread, self._person, command.name, option, typed, run)
        return [
            Proposal(choice.value, len(typed), choice.label.removeprefix(choice.value).strip(" ·"))
            for choice in await self._complete(asked)
        ]


def _lead(option: Option) -> str:
    """What is written before its value, all of it where it takes none: `last=`, `vs `, `log`."""
    return option.form.partition("{}")[0]


def _is_said(option: Option, said: Sequence[str]) -> bool:
    """Whether it stands there and may not be said again."""
    lead = _lead(option)
    if not lead:
        return option.kind is Kind.RUN and not option.many and any(map(option.may_be, said))
    return any(word == lead.strip() or (lead.endswith("=") and word.startswith(lead)) for word in said)


def _commands(typed: str) -> Sequence[Proposal]:
    every = {command.name: command.does for command in COMMANDS.values()} | OTHER_WORDS
    return [Proposal(name, len(typed), does) for name, does in every.items() if name.startswith(typed.lower())]


def _files(typed: str, replaces: int) -> Sequence[Proposal]:
    """Files and folders whose path begins with what was typed; one with a space in it stands in quotes."""
    lead = typed[: typed.rfind("/") + 1]
    place = Path(lead or ".").expanduser()
    return [
        Proposal(f'@"{lead}{found}' if " " in f"{lead}{found}" else f"@{lead}{found}", replaces)
        for found in islice(_names(place, typed[len(lead) :]), MOST_FILES)
    ]


def _names(folder: Path, begin: str) -> Iterator[str]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:  # it is no folder, or not ours to read
        return
    for entry in entries:
        if entry.name.startswith(begin) and (begin or not entry.name.startswith(".")):
            yield f"{entry.name}/" if entry.is_dir() else entry.name
