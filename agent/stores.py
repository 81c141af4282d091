"""What the brain remembers, as Protocols. Each method is one transaction; `agent.storage` implements them in SQL.

What is remembered of runs is in `agent.run_store`, and its names can be had from here.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from agent.domain.approvals import Allowance, Approval, ApprovalState
from agent.domain.audit import AuditEntry, Verified
from agent.domain.budgets import Budget, Scope, Unit, Used
from agent.domain.content import Content
from agent.domain.datasets import DatasetRef
from agent.domain.inbound import Inbound, Person, Thread
from agent.domain.models import Preference
from agent.domain.questions import Question
from agent.domain.runs import Run
from agent.domain.session_events import Recording
from agent.ports import MessageRef, ModelMessage, ToolCall, Whisper
from agent.run_store import START, Applied, Ending, Lease, LogPage, LogQuery, Note, Place, Runs, Script, Verdict

__all__ = [
    "START",
    "Applied",
    "Approvals",
    "AuditLog",
    "Compaction",
    "Context",
    "Conversations",
    "Ending",
    "Inbox",
    "InboxItem",
    "InboxState",
    "Lease",
    "LogPage",
    "LogQuery",
    "ModelCall",
    "ModelUsage",
    "Note",
    "Outbox",
    "Place",
    "Post",
    "PostState",
    "Questions",
    "Runs",
    "Script",
    "SessionInfo",
    "Sessions",
    "Spent",
    "Stores",
    "Turn",
    "TurnKind",
    "TurnState",
    "Verdict",
]


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
        """What was stored, unless it was forgotten."""

    async def done(self, item_id: int) -> None:
        """It was handled."""

    async def forget(self, item_id: int) -> None:
        """It was none of the bot's: only that it came is remembered, not what it said."""

    async def last(self, platform: str) -> datetime | None:
        """When people last did something there, as far as it reached the bot."""

    async def waiting(self) -> Sequence[InboxItem]:
        """What was stored and not handled, oldest first."""


class Conversations(Protocol):
    """Sessions, their turns, messages and files."""

    async def session_of(self, thread: Thread, *, create: bool) -> str | None:
        """The session bound to a thread."""

    async def threads(self, platform: str, *, since: datetime) -> Sequence[Thread]:
        """The threads with a session in which somebody did something since then."""

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
        """The whole text of a message, also where a model got a part; None where this session has no such message."""

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

        Raises `Conflict` while it has not ended.
        """

    async def recording(self, session_id: str) -> Recording:
        """Everything that happened; without events where there is no such session."""

    async def recent(self, most: int) -> Sequence[SessionInfo]:
        """The sessions in which something was said last, the newest first."""

    async def threads(self, session_id: str) -> Sequence[Thread]:
        """The threads of a session; empty where there is no such session."""

    async def at(self, address: str, near: Thread) -> str | None:
        """The session of the thread that an address of the same workspace is of."""

    async def bind(self, thread: Thread, session_id: str, *, key: str, text: str) -> None:
        """Let a thread go on with a session, and say so there, in one transaction."""

    async def forget(self, person: Person) -> Forgotten:
        """Delete what a person said from messages, summaries, cards, words of `undo` and handled inbox items.

        Reasons of rejections and answers to questions count as messages.
        """


class Approvals(Protocol):
    """Questions that wait for a click."""

    async def ask(self, approval: Approval, card: Content) -> bool:
        """Store a question, pause its turn and show its card; False when this call was asked about before.

        It may be approved already, by an allowance.
        """

    async def asked(self, turn_id: str, call_id: str) -> bool:
        """Whether people were asked about a call, whatever became of that."""

    async def get(self, approval_id: str) -> Approval:
        """Raises `NotFound`."""

    async def card(self, approval_id: str) -> Content:
        """What was shown."""

    async def edit(self, edited: Approval, card: Content, *, digest: str, by: InboxItem, at: datetime) -> bool:
        """Compare-and-set from pending with this whole digest: other arguments, and the card that shows them.

        The inbox item that says so ends with it.
        """

    async def decide(  # noqa: PLR0913 - who decided what, when, why, and what that lets start
        self,
        approval_id: str,
        *,
        digest: str,
        state: ApprovalState,
        by: str,
        at: datetime,
        name: str = "",
        reason: str = "",
        lets: Allowance | None = None,
        item_id: int | None = None,
    ) -> Approval | None:
        """Compare-and-set from pending; None when it was decided, has expired or shows another digest.

        `by` is the key of who decides, `name` how people know them, `reason` why they reject it, `lets` what starts
        without asking from then on. The inbox item that says so ends with it.
        """

    async def settle(self, approval: Approval, call: ToolCall, result: str, card: Content, *, at: datetime) -> bool:
        """Consume a decided approval, answer its call and show its card as decided; False when that was done before.

        Cards of its thread that asked about it once more lose their buttons for it.
        """

    async def vote(self, approval_id: str, person: Person, *, digest: str, at: datetime) -> Sequence[str]:
        """Count one person's approval of what this digest shows.

        The names of all who gave theirs, the first one first; none where the question is not open any more, or shows
        something else.
        """

    async def show(self, approval_id: str, card: Content) -> None:
        """Show another card of an open question, which asks the same."""

    async def of_state(self, *states: ApprovalState) -> Sequence[Approval]:
        """All approvals in these states, the oldest first."""


class Allowances(Protocol):
    """What a conversation may start without asking."""

    async def of(self, session_id: str) -> Sequence[Allowance]:
        """Those of a session, the oldest first."""

    async def put(self, new: Allowance) -> None:
        """Store it in place of the one for the same tool."""

    async def end(self, session_id: str) -> None:
        """Nothing of this session is approved by itself any more."""

    async def of_run(self, run_id: str) -> Allowance | None:
        """The one in force that approved a run by itself."""

    async def spent_usd(self, allowance_id: str) -> float:
        """What it has paid for: of runs that are over what they used, of others all that was approved."""


class AuditLog(Protocol):
    """Who asked, decided and did what; an entry of an approval is written in the transaction of what it tells of."""

    async def did(self, person: Person, thread: Thread, subject: str, *, digest: str, at: datetime) -> None:
        """Add an entry about an act that nobody was asked about."""

    async def newest(self, channel: str, *, most: int) -> Sequence[AuditEntry]:
        """The newest entries of a channel (a `Thread.channel_key`), the newest first."""

    async def verified(self) -> Verified:
        """Whether the whole chain is as it was written."""


class Questions(Protocol):
    """Questions that a turn waits for."""

    async def ask(self, question: Question, card: Content) -> bool:
        """Store a question, pause its turn and show its card; False when this call was asked about before."""

    async def get(self, question_id: str) -> Question:
        """Raises `NotFound`."""

    async def open_in(self, thread: Thread) -> Sequence[Question]:
        """The open questions of a thread, the oldest first."""

    async def threads(self) -> Sequence[str]:
        """The keys of the threads with an open question."""

    async def expired(self, now: datetime) -> Sequence[Question]:
        """Open questions that nobody answered in time."""

    async def close(self, question: Question, said: ModelMessage, card: Content, *, item_id: int | None) -> bool:
        """Answer the question's call, let its turn go on, end the inbox item that answered; False when it is closed.

        One transaction.
        """


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that was rejected or that nobody decided in time, as it was answered; `by` stands with a reason alone."""

    tool: str
    state: ApprovalState
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ThreadNow:
    """What runs, waits and was refused in a thread; `runs` are the newest first, each with the thread of its card."""

    runs: Sequence[tuple[Run, Thread]] = ()
    approvals: Sequence[Approval] = ()
    questions: Sequence[Question] = ()
    refused: Sequence[Refused] = ()


class ThreadFacts(Protocol):
    """What is so in a thread, in one read."""

    async def now(self, session_id: str, thread: Thread, *, most_runs: int, most_refused: int) -> ThreadNow:
        """The newest runs of a session, its pending approvals, and the open questions of a thread, the oldest first.

        Also what was refused last in the session, the oldest first; not before a fresh start, nor in an undone turn.
        """


class PostState(StrEnum):
    """Whether a post is on its platform. Of `begun` (an answer that grows) and `sending` that is not known.

    What was `new` when a bot stopped is `sending` for the next one.
    """

    NEW = "new"
    BEGUN = "begun"
    SENDING = "sending"
    SENT = "sent"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Post:
    """A message that the bot keeps up to date: what should be shown and what is."""

    id: int
    key: str
    thread: Thread
    content: Content
    version: int
    shown: int
    state: PostState
    ref: MessageRef | None
    whisper: Whisper | None
    urgent: bool

    @staticmethod
    def new(key: str, thread: Thread, content: Content) -> "Post":
        """An urgent message as it has just been stored for the first time."""
        return Post(0, key, thread, content, 1, 0, PostState.NEW, None, None, urgent=True)


class Outbox(Protocol):
    """Messages to show, each under a key of its own."""

    async def put(self, key: str, thread: Thread, content: Content, *, whisper: Whisper | None, urgent: bool) -> int:
        """Make `content` what should be shown under `key`; its version. Equal content changes nothing."""

    async def due(self, thread_key: str) -> Sequence[Post]:
        """Posts of a thread whose shown version is old, oldest post first."""

    async def left(self) -> Sequence[str]:
        """Threads with posts that a stopped bot left; what was never shown may have been sent by it."""

    async def begin(self, key: str, thread: Thread) -> bool:
        """An answer that is not stored yet is about to grow; False when its key is known."""

    async def sending(self, key: str) -> None:
        """Sending a stored message failed, and it may have been posted."""

    async def sent(self, key: str, ref: MessageRef, *, shown: int | None) -> None:
        """It stands at `ref`, showing `shown` (None: not a stored version yet)."""

    async def dead(self, key: str, *, version: int) -> None:
        """This version can never be shown; a newer one is not meant."""

    async def get(self, key: str) -> Post | None:
        """The post of a key."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One answer of a language model, and what it cost; `usd` is None where nobody knows the price.

    The `turn` of what a command asks has no id, and no session outside of a thread.
    """

    turn: Turn
    model: str
    tokens_in: int
    tokens_out: int
    usd: float | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls of language models used. `usd` is the sum of the known prices; `unpriced` calls have none."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    unpriced: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        """Both together."""
        return Spent(
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.usd + other.usd,
            self.unpriced + other.unpriced,
        )


class ModelUsage(Protocol):
    """What language models cost: one row a call, by turn, session, person and channel.

    The sums of a month are those with `since=agent.clock.month_began(now)`; filters that are left out hold for all.
    """

    async def add(self, call: ModelCall) -> None:
        """Store it; its session, person and channel are those of its turn."""

    async def spent(
        self, *, session_id: str = "", person: str = "", channel: str = "", since: datetime | None = None
    ) -> Spent:
        """The sum. `person` is a `Person.key`, `channel` a `Thread.channel_key`."""

    async def by_model(
        self, *, session_id: str = "", person: str = "", channel: str = "", since: datetime | None = None
    ) -> Mapping[str, Spent]:
        """The same by the model's name, the one with most tokens first."""


class Budgets(Protocol):
    """Budgets, and what was used of them."""

    async def all(self) -> Sequence[Budget]:
        """Every budget."""

    async def set(self, new: Budget) -> None:
        """Store it in place of the one before."""

    async def remove(self, scope: Scope, key: str, unit: Unit) -> None:
        """Take it away."""

    async def used(self, scope: Scope, key: str, since: datetime | None) -> Used:
        """What language models and runs used since then, with what is approved for runs that are not over."""


@dataclass(frozen=True, slots=True)
class Stores:
    """All that the brain remembers."""

    inbox: Inbox
    conversations: Conversations
    sessions: Sessions
    approvals: Approvals
    allowances: Allowances
    questions: Questions
    runs: Runs
    outbox: Outbox
    usage: ModelUsage
    budgets: Budgets
    facts: ThreadFacts
    audit: AuditLog
