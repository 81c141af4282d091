"""What is remembered of conversations: what came in, turns and their messages, summaries, sessions."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from agent.domain.content import Content
from agent.domain.datasets import DatasetRef
from agent.domain.inbound import Inbound, Person, Thread
from agent.domain.models import Preference
from agent.domain.session_events import Recording
from agent.ports import ModelMessage


class InboxState(StrEnum):
    """Whether an act was handled."""

    NEW = "new"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class InboxItem:
    """A stored act that waits to be handled."""

    id: int
    inbound: Inbound


class TurnState(StrEnum):
    """How far a turn is; a paused one waits for people, and one that was taken back is read by nobody."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    UNDONE = "undone"


class TurnKind(StrEnum):
    """What began a turn: words of a person, a command (which needs no model), or the monitor, so that nobody asked."""

    ASKED = "asked"
    COMMANDED = "commanded"
    NOTICED = "noticed"


@dataclass(frozen=True, slots=True)
class Turn:
    """One act of a person until its answer. `thread` is where the answer goes."""

    id: str
    session_id: str
    inbox_id: int
    thread: Thread
    person: Person
    state: TurnState = TurnState.RUNNING
    kind: TurnKind = TurnKind.ASKED


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a model reads of a session instead of its messages, by their ids.

    Of those up to `upto` it reads the `summary`, but for what people said in the turn at work; results of tools up to
    `cleared` are put away. `made_after` is the newest message when it was made.
    """

    upto: int = 0
    cleared: int = 0
    made_after: int = 0
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """What a model is told of a session: its messages, oldest first, and its files, newest first.

    The messages are all those of the newest turn, and of earlier ones those that no summary stands for.
    """

    history: Sequence[ModelMessage]
    files: Sequence[DatasetRef]
    compaction: Compaction = Compaction()
    preference: Preference = field(default_factory=Preference)


class Inbox(Protocol):
    """What came in, stored before it is acknowledged."""

    async def add(self, inbound: Inbound) -> InboxItem | None:
        """Store it; None when it or its twin is there already, unless this very event was stored and not handled."""

    async def get(self, item_id: int) -> Inbound | None:
        """What was stored, unless it was forgotten or this bot cannot read it."""

    async def done(self, item_id: int) -> None:
        """It was handled."""

    async def forget(self, item_id: int) -> None:
        """It was none of the bot's: only that it came is remembered, not what it said."""

    async def last(self, platform: str) -> datetime | None:
        """When people last did something there, as far as it reached the bot."""

    async def waiting(self) -> Sequence[InboxItem]:
        """What was stored and not handled, oldest first; not what this bot cannot read."""


class Conversations(Protocol):
    """Sessions, their turns, messages and files."""

    async def session_of(self, thread: Thread, *, create: bool) -> str | None:
        """The session bound to a thread."""

    async def threads(self, platform: str, *, since: datetime) -> Sequence[Thread]:
        """The threads with a session in which somebody did something since then."""

    async def people(self, platform: str, tenant: str) -> Sequence[Person]:
        """Who began a turn in this workspace, by each name that they had then."""

    async def begin_turn(self, turn: Turn, asked: ModelMessage) -> tuple[Turn, Context] | None:
        """Store a new turn with the person's words; None when this inbox item has a turn already.

        A turn without a session gets the thread's, which is made if there is none. The context ends in `asked`.
        """

    async def turn_of_item(self, inbox_id: int) -> Turn | None:
        """The turn that an inbox item started."""

    async def turn(self, turn_id: str) -> Turn:
        """A turn by id. Raises `NotFound`."""

    async def resume_turn(self, turn: Turn) -> Context | None:
        """What a turn goes on with, itself last; None where it has ended."""

    async def history(self, session_id: str) -> Sequence[ModelMessage]:
        """All messages of a session, turn by turn, the turn with the newest one last."""

    async def context(self, session_id: str) -> Context:
        """`history` and `files` at once."""

    async def append(self, turn: Turn, messages: Sequence[ModelMessage]) -> Sequence[ModelMessage]:
        """Add messages to a running turn; the same with their ids."""

    async def steer(self, turn: Turn, item_id: int, said: ModelMessage) -> ModelMessage:
        """Take an inbox item's words into a running turn: the message and the item's end, in one transaction."""

    async def compact(self, session_id: str, made: Compaction, *, thread: Thread, text: str, key: str = "") -> None:
        """What models read of a session from now on, and a line in the thread that says so, in one transaction.

        `key` is that of the line in the outbox, where it has one of its own.
        """

    async def whole_text(self, session_id: str, message_id: int) -> str | None:
        """The whole text of a message, also where a model got a part.

        None where this session has no such message, or its turn was undone.
        """

    async def end_turn(
        self, turn: Turn, last: ModelMessage, *, key: str, content: Content, ended_by: Sequence[int] = ()
    ) -> int:
        """The answer, the turn's end, its inbox item and its outbox row, in one transaction; that row's version.

        The inbox items by which people ended it are done with it.
        """

    async def running_turns(self) -> Sequence[Turn]:
        """Turns that were cut off, oldest first."""

    async def prefer(self, session_id: str, preference: Preference) -> None:
        """The model and the effort that the people of a session want from the next turn on."""

    async def preference(self, session_id: str) -> Preference:
        """What they want; the usual where there is no such session."""

    async def start_call(self, turn_id: str, call_id: str) -> bool:
        """Mark a call with an effect as begun; False when it was begun before (its outcome is unknown)."""

    async def add_file(self, session_id: str, dataset: DatasetRef, at: datetime) -> None:
        """A data file of this session; a file of the same name is replaced."""

    async def files(self, session_id: str) -> Sequence[DatasetRef]:
        """The files of a session, newest first."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session in a list of them."""

    id: str
    threads: Sequence[Thread]
    began: datetime
    asked: str  # its first words


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What became of a person's words: how many messages these were, and the threads where something is shown anew."""

    messages: int
    threads: Collection[str]


class Sessions(Protocol):
    """Sessions as a whole."""

    async def newest(self, session_id: str) -> tuple[Turn, int] | None:
        """The newest turn and the id of its newest message; None where nothing was said."""

    async def undo(
        self, turn_id: str, *, thread: Thread, key: str, notice: Callable[[Sequence[ModelMessage]], str]
    ) -> None:
        """Take a turn out of what models read, and show what is `notice` of its messages, in one transaction.

        Of a summary that was made within the turn they read the one before it again. Raises `Conflict` while it has not
        ended, and where a summary stands for all of it.
        """

    async def recording(self, session_id: str) -> Recording:
        """Everything that happened; without events where there is no such session."""

    async def recent(self, most: int) -> Sequence[SessionInfo]:
        """The sessions in which something was said last, the newest first."""

    async def threads(self, session_id: str) -> Sequence[Thread]:
        """The threads of a session, or the last one of a session that people left; empty where there is none."""

    async def at(self, address: str, near: Thread) -> str | None:
        """The session of the thread that an address of the same workspace is of.

        One of a message that is in no thread is of its channel's own conversation, as in direct messages.
        """

    async def bind(self, thread: Thread, session_id: str, *, key: str, text: str) -> None:
        """Let a thread go on with a session, and say so there, in one transaction.

        Raises `Conflict` while a turn of the thread has not ended.
        """

    async def forget(self, person: Person) -> Forgotten:
        """Delete what a person said from messages, summaries, posts and handled inbox items, and their name there.

        Reasons of rejections and answers to questions count as messages.
        """
