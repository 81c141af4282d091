"""What happens in a session, as a closed union: what people say, what the agent does, and how each ends.

A recording is made of what is stored (`agent.storage.session_events`) and is never kept beside it. `export` gives one,
`trainyard replay` shows one. As lines of JSON it begins with a header, which has the version of this union.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from agent.domain.content import Card
from agent.domain.errors import BadData
from agent.domain.value import Value

VERSION = 3
COMMAND_KEY = "command:{}"  # of the answer to a command without a turn, by the inbox item that it answers
ERROR_KEY = "error:{}"  # of what could not be done, by the inbox item or the turn that it is about
ACT_KEY = "act:{}"  # of what a command over the whole session says in the thread, by its inbox item
TOOL_CARD_KEY = "card:{}:{}"  # of the card that a tool shows, by turn, and by call or the name that the tool gives it


def quoted(text: str) -> str:
    """How a turn that is taken back is called: by its first words."""
    return f"“{text[:100]}”"


class Event(Value):
    """What all have: the turn (empty for a command that made none), and the time where one is stored, in UTC."""

    turn: str
    at: datetime | None = None


class Asked(Event):
    """A turn begins: with somebody's words, with a command, or with what the monitor noticed."""

    kind: Literal["asked"] = "asked"
    by: Literal["words", "command", "monitor"] = "words"
    person: str
    text: str
    files: tuple[str, ...] = ()


class Steered(Event):
    """Somebody says something to a turn that is at work."""

    kind: Literal["steered"] = "steered"
    person: str
    text: str
    files: tuple[str, ...] = ()


class Replied(Event):
    """A reply of a model, or of the bot where `model` is empty; `tokens`, `cost_usd` and `seconds` are what it took."""

    kind: Literal["replied"] = "replied"
    text: str
    model: str = ""
    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0


class Interrupted(Event):
    """Somebody ended the reply before; what was said of it stands there."""

    kind: Literal["interrupted"] = "interrupted"
    person: str = ""


class Failed(Event):
    """What was asked for before could not be done; the text says why. A turn ends with it."""

    kind: Literal["failed"] = "failed"
    text: str


class ToolCalled(Event):
    """A call, its arguments as the JSON that the model wrote."""

    kind: Literal["tool_called"] = "tool_called"
    call: str
    tool: str
    arguments: str


class ToolAnswered(Event):
    """What a call gave, as the model reads it; the whole has `chars` characters."""

    kind: Literal["tool_answered"] = "tool_answered"
    call: str
    tool: str
    text: str
    chars: int


class CardShown(Event):
    """A card of a tool, as it is shown last."""

    kind: Literal["card_shown"] = "card_shown"
    card: Card


class QuestionAsked(Event):
    """The turn waits for an answer to this; the answer is what the call gave."""

    kind: Literal["question_asked"] = "question_asked"
    call: str
    text: str
    choices: tuple[str, ...] = ()


class ApprovalAsked(Event):
    """The turn waits for people to approve what the card shows."""

    kind: Literal["approval_asked"] = "approval_asked"
    approval: str
    tool: str
    card: Card | None = None


class ApprovalAct(Event):
    """What people did about an approval, or that nobody did in time (`expired`); `always`: its like starts unasked."""

    kind: Literal["approval_act"] = "approval_act"
    approval: str
    act: Literal["changed", "voted", "approved", "always", "rejected", "expired"]
    person: str = ""
    reason: str = ""


class Compacted(Event):
    """From here on models read the summary in place of what was said; an empty one is a fresh start.

    `person` asked for it; empty where the conversation was getting too long.
    """

    kind: Literal["compacted"] = "compacted"
    summary: str
    person: str = ""


class Undone(Event):
    """Somebody took this turn back; `text` says what of it stays done."""

    kind: Literal["undone"] = "undone"
    person: str
    text: str


class Resumed(Event):
    """Somebody has a thread go on with this session, or has it read from its beginning again, as `text` says."""

    kind: Literal["resumed"] = "resumed"
    person: str
    text: str


class TurnEnded(Event):
    """How far a turn has come: to its end, to a wait for people, or it was taken back."""

    kind: Literal["turn_ended"] = "turn_ended"
    state: Literal["done", "paused", "undone", "running"]


SessionEvent = Annotated[
    Asked
    | Steered
    | Replied
    | Interrupted
    | Failed
    | ToolCalled
    | ToolAnswered
    | CardShown
    | QuestionAsked
    | ApprovalAsked
    | ApprovalAct
    | Compacted
    | Undone
    | Resumed
    | TurnEnded,
    Field(discriminator="kind"),
]
_EVENT: TypeAdapter[SessionEvent] = TypeAdapter(SessionEvent, config=ConfigDict(defer_build=True))


class Recording(Value):
    """A session from its beginning, in the order in which it happened."""

    session: str
    events: tuple[SessionEvent, ...]

    def lines(self) -> Iterator[str]:
        """The header, and a line of JSON an event."""
        yield json.dumps({"kind": "session", "version": VERSION, "session": self.session})
        yield from (json.dumps(_portable(event), ensure_ascii=False) for event in self.events)


def recording_of(lines: Iterable[str]) -> Recording:
    """What `Recording.lines` gave. Raises `BadData`: it is something else, or of a newer version; says which line."""
    events: list[SessionEvent] = []
    header: dict[str, object] = {}
    for number, line in enumerate(lines, 1):
        if not header:
            header = _header(line)
        elif line.strip():
            try:
                events.append(_EVENT.validate_json(line))
            except ValidationError as error:
                why = error.errors(include_url=False)[0]["msg"]
                raise BadData(f"Line {number} is no event of a session ({why}). Export the session again.") from None
    if not header:
        raise BadData("The file is empty; a recording begins with a line about its session.")
    return Recording(session=str(header.get("session", "")), events=tuple(events))


def _portable(event: SessionEvent) -> dict[str, Any]:
    """An event as JSON, without what it leaves unsaid; of a picture the name stays, not its place on this machine."""
    fields = {"kind": event.kind, **event.model_dump(mode="json", exclude_defaults=True)}
    if picture := fields.get("card", {}).get("picture"):
        picture["path"] = PurePath(picture["path"]).name
    return fields


def _header(line: str) -> dict[str, object]:
    try:
        header = json.loads(line)
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("kind") != "session":
        raise BadData("This is no recording: its first line is not about a session. `export` in a thread makes one.")
    if header.get("version") not in range(1, VERSION + 1):
        raise BadData(
            f"This recording has version {header.get('version')}, and this Trainyard reads up to version {VERSION}. "
            "Replay it with the Trainyard that made it."
        )
    return header
