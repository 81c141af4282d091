"""What is remembered of questions to people and their decisions, and what a thread's facts are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from agent.domain.approvals import Allowance, Approval, ApprovalState
from agent.domain.audit import AuditEntry, Verified
from agent.domain.content import Content
from agent.domain.inbound import Person, Thread
from agent.domain.questions import Question
from agent.domain.runs import Run
from agent.ports import ModelMessage, ToolCall
from agent.stores.conversations import InboxItem, Turn


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
    """What a thread may start without asking."""

    async def of(self, thread: Thread) -> Sequence[Allowance]:
        """Those of a thread, the oldest first."""

    async def put(self, new: Allowance) -> None:
        """Store it in place of the one for the same tool, whose runs count for it then."""

    async def end(self, thread: Thread) -> None:
        """Nothing is approved by itself in this thread any more."""

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
    """What runs, waits and was refused in a thread.

    `runs` are the newest 8 and up to 12 older ones that are not over, the newest first, each with the thread of its
    card.
    """

    runs: Sequence[tuple[Run, Thread]] = ()
    approvals: Sequence[Approval] = ()
    questions: Sequence[Question] = ()
    refused: Sequence[Refused] = ()


class ThreadFacts(Protocol):
    """What is so in a thread, in one read."""

    async def now(self, session_id: str, thread: Thread) -> ThreadNow:
        """The runs of a session, its pending approvals, and the open questions of a thread, the oldest first.

        Also the 3 that were refused last in the session, the oldest first; not before a fresh start, nor in a turn
        that was undone.
        """

    async def answered(self, turn: Turn, said: ModelMessage, *, read_only: bool) -> tuple[ModelMessage, ThreadNow]:
        """Add a tool's result to a running turn; the same with its id, and what is so then, in one transaction.

        One that is `read_only` need not outlive a loss of power: its call is made anew.
        """
