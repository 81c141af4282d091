"""`trainyard replay`: a recorded session in the terminal, event by event, as it was. Nothing is done again."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.text import Text

from agent.conversation.exported import what_became
from agent.domain.content import Card, Content
from agent.domain.errors import BadData, NotFound
from agent.domain.session_events import (
    ApprovalAct,
    ApprovalAsked,
    Asked,
    CardShown,
    Compacted,
    Failed,
    QuestionAsked,
    Recording,
    Replied,
    Resumed,
    SessionEvent,
    Steered,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    Undone,
    recording_of,
)
from agent.storage import sql_stores
from agent.storage.database import reading
from bot.console.paint import harmless, painted
from bot.markdown import without_traps
from bot.settings import Settings

MOST_LISTED = 20
MOST_CHARS = 1_000  # of a tool's arguments and of its result, before the line ends


async def recorded(source: str) -> Recording:
    """The recording of a file, or of a session by its id.

    Raises:
        BadData: the file is no recording.
        NotFound: there is neither such a file nor such a session.
    """
    if await asyncio.to_thread(Path(source).is_file):
        return await asyncio.to_thread(_in_file, Path(source))
    async with reading(Settings().database) as database:
        recording = await sql_stores(database).sessions.recording(source)
    if not recording.events:
        raise NotFound(f"There is no file and no session `{source}`. `trainyard replay` alone lists the sessions.")
    return recording


def _in_file(path: Path) -> Recording:
    try:
        return recording_of(path.read_text(encoding="utf-8-sig").split("\n"))
    except UnicodeDecodeError:
        raise BadData(f"{path} is no text. `export` in a thread makes a recording.") from None


async def listed(console: Console) -> None:
    """Print the newest sessions: id, time, place, first words."""
    async with reading(Settings().database) as database:
        sessions = await sql_stores(database).sessions.recent(MOST_LISTED)
    if not sessions:
        console.print("Nothing was said yet. `trainyard chat` begins a conversation.")
    for session in sessions:
        place = ", ".join(f"{thread.platform}/{thread.channel}" for thread in session.threads)
        line = Text(f"{session.id}  {session.began:%Y-%m-%d %H:%M}  ", no_wrap=True, overflow="ellipsis")
        console.print(Group(line.append(f"{place}  ", style="dim").append(harmless(" ".join(session.asked.split())))))


async def play(recording: Recording, console: Console, *, pace_s: float = 0.0) -> None:
    """Print its events, `pace_s` seconds between two that show something."""
    for number, part in enumerate(part for event in recording.events for part in shown(event)):
        if number and pace_s:
            await asyncio.sleep(pace_s)
        console.print(part)


def shown(event: SessionEvent) -> Iterator[RenderableType]:
    """What a terminal shows of an event: nothing, or one part."""
    match event:
        case Asked() | Steered():
            yield _words(event)
        case Replied(text=text) if text:
            yield Markdown(without_traps(harmless(text)))
        case Failed():
            yield Text(harmless(event.text), style="red")
        case ToolCalled():
            yield _line(f"→ {event.tool} {event.arguments}")
        case ToolAnswered():
            yield _line(f"← {event.text}")
        case CardShown(card=card):
            yield _card(card)
        case QuestionAsked():
            choices = " · ".join(event.choices)
            yield Text(harmless(f"{event.text}\n[{choices}]"), style="bold")
        case ApprovalAsked(card=card) if card is not None:
            yield _card(card)
        case ApprovalAct() | Compacted() | Undone() | Resumed() | TurnEnded() if line := what_became(event):
            yield Text(harmless(line), style="bold" if isinstance(event, ApprovalAct) else "dim italic")


def _words(event: Asked | Steered) -> Text:
    at = f"  {event.at:%Y-%m-%d %H:%M} UTC" if event.at else ""
    line = Text(f"\n› {harmless(event.person)}", style="bold magenta").append(f"{at}\n", style="dim")
    files = "".join(f"\n@{name}" for name in event.files)
    return line.append(harmless(f"{event.text}{files}"), style="not bold default")


def _line(text: str) -> RenderableType:
    """A call or its result, cut at one line; in a group, since a text alone would be wrapped."""
    words = " ".join(harmless(text[:MOST_CHARS]).split())
    return Group(Text(words, style="dim", no_wrap=True, overflow="ellipsis"))


def _card(card: Card) -> RenderableType:
    """The card without its buttons, which do nothing here."""
    return painted(Content(card=card.model_copy(update={"buttons": (), "menus": ()})))
